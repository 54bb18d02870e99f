//! The oracle, vectors, invariants and store conformance kit of Tollgate.

pub mod conformance;
pub mod oracle;
pub mod vectors;
