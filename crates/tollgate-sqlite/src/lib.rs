//! The embedded durable store: SQLite, for several processes of one machine.
//!
//! ```
//! use tollgate::Limiter;
//! use tollgate_sqlite::SqliteStore;
//!
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}/counts.db", folder.path().display());
//! # futures_executor::block_on(async {
//! // `url` is `sqlite:///var/lib/counts.db`, or a path.
//! let limiter = Limiter::new("1/h via gcra".parse()?, SqliteStore::open(&url)?);
//! assert!(limiter.check("user:42").await?.is_allowed());
//!
//! // Another process opens the same file, and shares the counts.
//! let other = Limiter::new("1/h via gcra".parse()?, SqliteStore::open(&url)?);
//! assert!(!other.check("user:42").await?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`SqliteStore`] is the store, for [`tollgate::Limiter`] and for gates. Each check is one
//!   transaction, exact across processes. A decision that was returned survives `kill -9`.
//! - [`Options`] is how to open it; a URL is read by [`Options::from_url`].
//! - [`Sync`] decides which charges survive a loss of power.
//!
//! The file keeps the identity and the text of each set of limits that was ever used, some 100
//! bytes each: other processes know a set by its number. All else is deleted when it has expired,
//! except the events of a damaged state that was reset, which look like others.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod amounts;
mod codec;
mod context;
mod extension;
mod fault;
mod holds;
mod line;
mod log;
mod notices;
mod open;
mod operations;
mod options;
mod requests;
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
