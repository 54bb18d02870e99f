//! What became of a case, and what it took.

use std::time::Duration;

use super::results::CaseResult;
use crate::error::Error;

/// How many requests are made before they are decided.
pub(super) const BATCH: usize = 8_192;

/// Where the time of this machine went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Making requests.
    pub making: Duration,
    /// Deciding attempts.
    pub deciding: Duration,
    /// Counting what became of them.
    pub measuring: Duration,
}

impl core::ops::Add for Timings {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            making: self.making + other.making,
            deciding: self.deciding + other.deciding,
            measuring: self.measuring + other.measuring,
        }
    }
}

/// What became of a case.
pub(super) struct CaseRun {
    pub(super) result: CaseResult,
    pub(super) attempts: u64,
    pub(super) took: Timings,
    /// An error where it was not run to its end.
    pub(super) ended: Result<(), Error>,
}
