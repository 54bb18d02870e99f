//! Tollgate before HTTP services: who a client is, and what the answers say.
//!
//! [`TollgateLayer`] puts limits before a tower service (`docs/middleware.md`). Its parts can be
//! used alone: [`identity`] finds whose count a request belongs to (`docs/identity.md`), [`answer`]
//! writes what was decided into headers and bodies (`docs/headers.md`). Both are pure functions
//! over the types of the crate `http`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the README of the whole compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfAll;

/// The examples of the page on limits in code compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/code.md")]
struct LimitsInCode;

pub mod answer;
pub mod identity;
mod layer;

pub use layer::{
    AnyBody, AnyBodyFuture, AnyBodyLayer, Builder, Charges, Limited, LimitedFuture,
    Misconfiguration, RETRY_WHEN_UNAVAILABLE, Refused, RequestHead, RequestLimits,
    RequestLimitsLayer, ResponseBody, ResponseFuture, ResponseHead, Share, Tollgate, TollgateLayer,
};
