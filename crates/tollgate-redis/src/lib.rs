//! The Redis and Valkey store: counts that several machines share, one call for each check.
//!
//! ```no_run
//! use tollgate::Limiter;
//! use tollgate_redis::RedisStore;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = RedisStore::connect("redis://127.0.0.1:6379?deadline=20ms").await?;
//! let limiter = Limiter::new("10/s, 240/h via gcra".parse()?, store);
//!
//! match limiter.check("user:42").await {
//!     Ok(decision) if decision.is_allowed() => println!("{} remain", decision.remaining()),
//!     Ok(decision) => println!("retry in {:?}", decision.retry_after()),
//!     // By the deadline there is a decision or an error.
//!     Err(error) => println!("not counted: {error}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`RedisStore`] is the store, for [`tollgate::Limiter`] and for gates. Clones share their
//!   connections.
//! - [`Options`] is how to connect: address, user, TLS, number of connections, deadline. A URL is
//!   read by [`Options::from_url`].
//! - [`Fault`] is why a call failed, and whether it may have charged.
//!
//! Beside them, [`doctor`] reports whether a server is fit to hold counts, [`compose`] makes the
//! scripts for programs in other languages, and [`timeseries`] records counts over time.
//! `docs/redis.md` describes keys, deadlines and faults.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bare;
mod client;
mod command_reply;
pub mod compose;
pub mod doctor;
pub mod event_loop;
pub mod fault;
mod key;
mod node;
mod notices;
pub mod options;
#[doc(hidden)]
pub mod race;
mod script;
mod script_client;
mod slots;
mod state;
mod store;
mod subscription;
pub mod timeseries;
mod unlink;
pub mod usage;

pub use bare::BareConnections;
pub use client::{Takeover, Topology};
pub use fault::{Fault, may_connect_later};
pub use key::{KeyPrefix, Keys, PREFIX};
pub use node::{BreakerState, MAX_BATCHED as MAX_BATCHED_CHECKS};
pub use options::Options;
pub use script::Script;
pub use script_client::{ScriptClient, ScriptReply, SharedScript};
pub use state::{decode, encode, log_entries};
pub use store::{Builder, RedisStore};
pub use subscription::Subscription;
pub use unlink::unlink_count;
