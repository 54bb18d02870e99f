//! Models of Tollgate over its own code, checked to the end by `stateright`: every order of events
//! in a small world, until no state is left that was not looked at.
//!
//! `docs/proof.md` has the table, and `docs/redis-assumptions.md` what is taken for granted.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bans;
mod denials;
mod exhaust;
mod failover;
mod holds;
mod lease_state;
mod leases;
mod past;
mod queue;
mod receipts;
mod requests;
mod shares;
pub mod show;
mod slots;
mod worlds;

pub use exhaust::{Found, Kept};
pub use worlds::{MODELS, check};
