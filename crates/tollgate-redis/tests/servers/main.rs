//! The store and the doctor on real servers, clusters and sentinels. They are one program: most of
//! it is the compiled client of Redis, which would be compiled for each again.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may unwrap: its panic is its verdict

mod across;
mod batches;
mod calendars;
mod cluster;
mod common;
mod doctor;
mod doctor_topologies;
mod faults;
mod formats;
mod from_a_script;
mod half_moved;
mod kit;
mod live;
/// The engine over states that are kept as a store does: the scripts' comparison has it too.
#[allow(dead_code)] // it uses the rest
#[path = "../../../../proof/kit/tests/lua/model.rs"]
mod model;
mod names_across;
mod prefix;
mod requests;
mod rights;
mod sentinel;
mod shard;
mod tls;
mod traps;
