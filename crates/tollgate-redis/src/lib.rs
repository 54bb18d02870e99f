//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

pub mod doctor;
pub mod script;
