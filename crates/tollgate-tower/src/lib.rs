//! Rate limiting for HTTP services: a tower layer, the identification of clients, and rate limit
//! headers.
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use http::{Request, Response, StatusCode};
//! use tollgate_tower::TollgateLayer;
//! use tower::{Layer, Service, ServiceExt, service_fn};
//!
//! # futures_executor::block_on(async {
//! // Two requests an hour for each client, by the address of its connection.
//! let layer = TollgateLayer::per_client("2/h")?;
//! let mut service = layer.layer(service_fn(async |_: Request<()>| {
//!     Ok::<_, std::convert::Infallible>(Response::new(bytes::Bytes::from("hello")))
//! }));
//! for status in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
//!     let mut request = Request::new(());
//!     // What a server does; with the feature `axum`, what axum does.
//!     request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 7], 4711)));
//!     let response = service.ready().await?.call(request).await?;
//!     assert_eq!(response.status(), status);
//!     assert!(response.headers().contains_key("ratelimit"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`TollgateLayer`] limits the requests to a service: [`TollgateLayer::per_client`] with limits
//!   in code, [`TollgateLayer::builder`] with policies (`docs/middleware.md`).
//! - [`TollgateLayer::holding`] makes a layer that takes slots (`20 at once`) for the time of a
//!   request (`docs/holds.md`).
//! - [`identity::Identity`] determines the client that a request is counted for, by an address, an
//!   API key or a header (`docs/identity.md`).
//! - `WaitingLayer` (feature `waiting`) is for clients: each request waits for its turn.
//! - [`answer::Answers`] converts decisions to headers and refusals (`docs/headers.md`).
//!
//! [`identity`] and [`answer`] are pure functions over the types of the crate `http`, and can be
//! used without the layer.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the workspace README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfAll;

/// The examples of the page on limits in code compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/code.md")]
struct LimitsInCode;

/// The examples of the page on calling others compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/calling.md")]
struct CallingPage;

/// The examples of the page on holds compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/holds.md")]
struct HoldsPage;

pub mod answer;
pub mod identity;
mod layer;
#[cfg(feature = "waiting")]
mod waiting;

#[cfg(feature = "waiting")]
pub use waiting::{WaitingClient, WaitingError, WaitingFuture, WaitingLayer};

pub use layer::header_templates;
pub use layer::{
    AnyBody, AnyBodyFuture, AnyBodyLayer, Builder, Charges, HoldingBody, HoldingFuture,
    HoldingLayer, HoldingTollgate, Holds, Misconfiguration, RETRY_WHEN_UNAVAILABLE, Refused,
    RequestHead, ResponseBody, ResponseFuture, ResponseHead, Share, Spent, ToItsEnd, Tollgate,
    TollgateLayer, UnixPeer, response,
};
