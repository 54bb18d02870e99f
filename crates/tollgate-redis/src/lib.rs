//! The Redis and Valkey store of Tollgate: the strategies in Lua, one round trip.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bell;
mod caller;
pub(crate) mod client;
pub mod compose;
pub mod doctor;
pub mod fault;
mod key;
mod notices;
pub mod options;
#[doc(hidden)]
pub mod race;
mod script;
mod state;
mod store;
pub mod timeseries;
pub mod usage;

pub use bell::Bell;
pub use caller::{Caller, Word};
pub use client::{BreakerState, MOST as MOST_IN_A_CALL};
pub use fault::Fault;
pub use key::{Keys, PREFIX};
pub use options::Options;
pub use script::Script;
pub use state::{decode, encode, log_entries};
pub use store::{Builder, DEFAULT_REMEMBER, RedisStore};
