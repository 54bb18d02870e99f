//! A store that is chosen when a program starts: memory for development, Redis for production, one
//! type in the code.
//!
//! ```
//! use tollgate::{LimitSet, Limiter};
//! use tollgate_stores::AnyStore;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // In production it is `redis://redis.internal`.
//!     let url = std::env::var("COUNTS").unwrap_or_else(|_| "memory://".to_owned());
//!     let limits: LimitSet = "10/s burst 20 via token_bucket".parse()?;
//!     let limiter: Limiter<AnyStore> = Limiter::new(limits, AnyStore::open(&url).await?);
//!
//!     let decision = limiter.check("user:42").await?;
//!     if decision.is_allowed() {
//!         println!("come in: {} more may follow", decision.remaining());
//!     } else {
//!         println!("ask again in {:?}", decision.retry_after());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # URLs
//!
//! | URL | store |
//! | --- | --- |
//! | `memory://` | in this process; its counts end with it |
//! | `sqlite://PATH`, or a path as `./counts.db` | in a file that processes of one machine share |
//! | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]` | on Redis or Valkey |
//! | `rediss://...` | the same over TLS |
//! | `unix:///PATH`, `redis+unix:///PATH` | the same over a socket of this machine |
//! | `redis+cluster://HOST[:PORT],...` | on a Redis Cluster, found by some of its nodes |
//! | `redis+sentinel://HOST[:PORT],.../NAME` | on the primary that sentinels know by this name |
//!
//! Options follow `?`, as in `sqlite://counts.db?sync=full` or `redis://HOST?deadline=20ms`. The
//! pages of the types that read them list all: `tollgate_sqlite::Options::from_url` and
//! `tollgate_redis::Options::from_url`.
//!
//! # The types to know
//!
//! - [`AnyStore`] is the store, for [`tollgate::Limiter`] and for gates.
//! - [`StoreUrl`] is a URL that was read and not opened yet, with the options of its store. It is
//!   for programs that change them.
//! - [`Figures`] has the figures of a store, for metrics.
//! - [`Kind`] is which kind of store a URL means, for programs that take only some.
//!
//! # Features
//!
//! `redis` and `sqlite` are on by default. Each one left out saves its crates, and a URL of its
//! store is then an error that names the feature.

#![cfg_attr(test, allow(clippy::unwrap_used))]

/// The example of the README compiles.
#[cfg(all(doctest, feature = "redis", feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod any;
mod figures;
mod kind;
mod url;

pub use any::AnyStore;
pub use figures::Figures;
pub use kind::{Kind, UnknownKind, scheme};
#[cfg(feature = "redis")]
pub use tollgate_redis::{BreakerState, Topology};
pub use url::StoreUrl;
