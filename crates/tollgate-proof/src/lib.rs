//! The oracle, vectors, invariants and store conformance kit of Tollgate.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod conformance;
pub mod oracle;
#[cfg(feature = "redis")]
pub mod redis;
pub mod vectors;
