//! Whole scripts beside the engine, in process.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // tests may

pub(crate) mod cases;
pub(crate) mod fake;
pub(crate) mod histories;
pub(crate) mod model;
pub(crate) mod mutants;
