//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

#[allow(dead_code)] // what is not used yet is for the store
pub(crate) mod client;
pub mod compose;
pub mod doctor;
pub mod fault;
mod key;
pub mod options;
mod script;
mod state;

pub use fault::Fault;
pub use key::{Keys, PREFIX};
pub use options::Options;
pub use script::Script;
pub use state::{decode, encode, log_entries};
