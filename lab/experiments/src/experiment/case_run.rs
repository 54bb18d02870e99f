//! The outcome of a case, and the time that it took.

use std::time::Duration;

use super::results::CaseResult;
use crate::error::Error;

/// How many requests are generated before they are decided.
pub(super) const BATCH: usize = 8_192;

/// Where this machine's time was spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Generating requests.
    pub making: Duration,
    /// Deciding attempts.
    pub deciding: Duration,
    /// Measuring the outcomes.
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

/// The outcome of a case.
pub(super) struct CaseRun {
    pub(super) result: CaseResult,
    pub(super) attempts: u64,
    pub(super) took: Timings,
    /// An error if the case did not run to its end.
    pub(super) ended: Result<(), Error>,
}
