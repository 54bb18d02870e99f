//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

pub mod fault;
pub mod options;
pub mod script;

pub use fault::Fault;
pub use options::Options;
