//! Whole scripts beside the engine, in process.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // tests may

pub(crate) mod cases;
pub(crate) mod fake;
pub(crate) mod histories;
pub(crate) mod holding;
pub(crate) mod model;
pub(crate) mod mutants;

/// How many cases a test runs: as many as are usual, or as the environment says.
pub(crate) fn cases_of(usual: u64) -> u64 {
    let text = std::env::var("TOLLGATE_TEST_CASES").ok();
    text.map_or(usual, |text| text.parse().expect("TOLLGATE_TEST_CASES is a whole number"))
}
