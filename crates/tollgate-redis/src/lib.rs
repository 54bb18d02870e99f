//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

pub mod compose;
pub mod doctor;
mod key;
mod script;
mod state;

pub use key::{Keys, PREFIX};
pub use script::Script;
pub use state::{decode, encode, log_entries};
