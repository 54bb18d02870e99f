//! The Redis and Valkey store of Tollgate: strategies as Lua scripts, one round trip per check.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
mod script_client;
mod state;
mod store;
mod subscription;
pub mod timeseries;
pub mod usage;

pub use client::{BreakerState, MAX_BATCHED as MAX_BATCHED_CHECKS};
pub use fault::Fault;
pub use key::{Keys, PREFIX};
pub use options::Options;
pub use script::Script;
pub use script_client::{ScriptClient, ScriptReply};
pub use state::{decode, encode, log_entries};
pub use store::{Builder, DEFAULT_REMEMBER, RedisStore};
pub use subscription::Subscription;
