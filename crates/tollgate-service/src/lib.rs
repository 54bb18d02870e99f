//! Tollgate as a service: one process that answers rate-limit checks from HTTP clients and from
//! reverse proxies.
//!
//! ```
//! use tollgate_policy::{Format, Gate, Policies};
//! use tollgate_service::{Options, Server};
//! use tollgate_stores::AnyStore;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
//!             limits = [{ subject = \"ip\", limit = \"10/s\" }]";
//! let policies = Policies::parse(text, Format::Toml)?;
//! let gate = Gate::new(policies, AnyStore::open("memory://").await?)?;
//!
//! let options = Options::new(vec!["127.0.0.1:0".parse()?]);
//! let server = Server::start(gate, options).await?;
//! println!("POST http://{}/v1/check", server.addresses()[0]);
//! server.end().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`Server`] binds its addresses, serves requests, and stops without dropping a request.
//! - [`Options`] holds every setting of `tollgate serve`.
//! - [`Metrics`] holds the service's counters, for `/metrics` and for programs.
//!
//! `docs/server.md` describes every endpoint.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod api;
mod assembly;
mod auth_options;
mod check_log;
mod clock;
mod console;
mod denials;
mod envoy;
mod envoy_files;
mod fullness;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(not(feature = "grpc"))]
#[path = "no_grpc.rs"]
mod grpc;
mod guesses;
mod http;
mod listen;
mod metrics;
mod operations;
mod options;
mod queues;
mod recorder;
mod reload;
#[cfg(feature = "resp")]
mod resp;
mod secret;
mod server;
mod service;
mod settings;
pub mod snapshot;
mod start_error;
mod thresholds;
mod timeseries;
mod tls;
mod top;
mod topology;
mod traces;
mod wire;

pub use auth_options::{AuthOptions, Forwarded};
pub use check_log::CheckLog;
pub use denials::{Denials, Subjects};
pub use envoy::{EnvoyOptions, EnvoyRules, XdsOptions, XdsTls};
pub use envoy_files::EnvoyFiles;
pub use fullness::Fullness;
pub use listen::{Address, AddressError, Bounds, Closed};
pub use metrics::Metrics;
#[doc(hidden)]
pub use operations::Operation;
pub use options::Options;
pub use queues::Queues;
pub use reload::ReloadError;
#[cfg(feature = "resp")]
pub use resp::{RespUser, Role};
pub use server::{Server, Stopping};
pub use service::CallerLimits;
pub use start_error::StartError;
pub use thresholds::{MIN_SECRET_BYTES, Posted, Webhook, WebhookClient};
pub use timeseries::TimeSeriesOptions;
pub use tls::{Tls, TlsError, TlsProtocol};
pub use tollgate_stores::AnyStore;
pub use traces::Traces;
