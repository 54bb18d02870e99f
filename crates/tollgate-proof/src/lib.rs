//! The oracle, vectors, invariants and store conformance kit of Tollgate.

pub mod conformance;
pub mod oracle;
#[cfg(feature = "redis")]
pub mod redis;
pub mod vectors;
