//! The embedded durable store of Tollgate: SQLite, several processes, crash-safe.
//!
//! [`SqliteStore`] is a [`tollgate::Store`] in one file. Every check is one transaction: exact
//! across processes, and what was answered survives `kill -9`. See [`Sync`] for power losses.
//!
//! A set's identity and full form are written into the file once and stay there, some 100 bytes
//! for each set of limits that was ever used: other processes know it by its number, and would
//! count under a number that means nothing. Everything else goes when it has expired, but for the
//! events of a damaged state that was reset: nobody knows which they were.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod codec;
mod context;
mod extension;
mod fault;
mod log;
mod notices;
mod open;
mod operations;
mod options;
mod session;
mod state;
mod store;
mod sweep;
mod wait;

pub use extension::Transaction;
pub use options::{DEFAULT_DEADLINE, Options, Sync};
pub use rusqlite;
pub use session::Access;
pub use store::SqliteStore;
