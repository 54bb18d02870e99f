//! Tollgate as a service: one process that clients ask over HTTP, and proxies before their pages.
//!
//! [`Server`] binds, serves and ends; what is asked where is in `docs/server.md`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod api;
mod denials;
mod fullness;
pub mod json;
mod listen;
mod metrics;
mod queues;
mod recorder;
mod reload;
mod server;
mod service;
pub mod snapshot;
mod timeseries;
mod tls;
mod traces;

pub use api::{AuthOptions, Forwarded};
pub use denials::{Denials, Subjects};
pub use fullness::Fullness;
pub use listen::{Address, AddressError, Bounds, Closed};
pub use metrics::Metrics;
pub use queues::Queues;
pub use reload::ReloadError;
pub use server::{Options, Server, StartError, Stopping};
pub use service::CallerLimits;
pub use timeseries::TimeSeriesOptions;
pub use tls::{Tls, TlsError};
pub use tollgate_stores::AnyStore;
pub use traces::Traces;
