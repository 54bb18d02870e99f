//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

#[allow(dead_code)] // what is not used yet is for the store
pub(crate) mod client;
pub mod fault;
pub mod options;
pub mod script;

pub use fault::Fault;
pub use options::Options;
