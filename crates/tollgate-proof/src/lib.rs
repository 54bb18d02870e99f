//! The oracle, vectors, invariants and store conformance kit of Tollgate.

pub mod oracle;
pub mod vectors;
