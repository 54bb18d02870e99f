//! The embedded durable store of Tollgate: SQLite, several processes, crash-safe.
//!
//! [`SqliteStore`] is a [`tollgate::Store`] in one file. Every check is one transaction, so it is
//! exact across processes, and an answered check survives `kill -9`. See [`Sync`] for power losses.
//!
//! The identity and full form of a set are written into the file once and never removed, some 100
//! bytes for each set of limits. Other processes refer to a set by its number, and must never find
//! a number without its set. All other rows are deleted when they have expired. The exception are
//! the events of a damaged state that was reset, since nothing identifies them.

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
