//! The numbers of a decision as headers show them: rounded, and never more than the limit gives.

use core::time::Duration;

use tollgate::{Decision, Report, Verdict};

use super::header_template::Item;

const SECOND_US: u64 = 1_000_000;

/// What is shown of the limit that binds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    /// `r`.
    pub(super) remaining: u64,
    /// What `t` says, in microseconds.
    wait_us: u64,
    /// The store's time.
    at_us: u64,
}

impl Numbers {
    #[inline]
    pub(super) fn new(decision: &Decision<'_>, item: &Item, report: &Report<'_>) -> Self {
        let (rate, remaining) = (item.rate, report.remaining());
        let at_us = decision.at().as_micros();
        if let Verdict::NotYet(wait) = decision.verdict() {
            return Self::from_refusal(wait, item, remaining, at_us);
        }
        let reset_us = micros(report.reset_after());
        // A bucket that is nearly full is full in no time: `r/t` would be any rate.
        let least_us = rate.map_or(0, |rate| rate.us_of(remaining));
        Self { remaining, wait_us: reset_us.max(least_us), at_us }
    }

    #[cold]
    fn from_refusal(wait: Duration, item: &Item, remaining: u64, at_us: u64) -> Self {
        // `t` is `Retry-After`; so `r` is cut to what comes back until then.
        let wait_us = retry_seconds(wait).saturating_mul(SECOND_US);
        let most = item.rate.map_or(u64::MAX, |rate| rate.units_in(wait_us));
        Self { remaining: remaining.min(most), wait_us, at_us }
    }

    /// `t`.
    pub(super) fn seconds(self) -> u64 {
        self.wait_us.div_ceil(SECOND_US)
    }

    /// `t` as a time: seconds since 1970.
    pub(super) fn epoch_seconds(self) -> u64 {
        self.at_us.saturating_add(self.wait_us).div_ceil(SECOND_US)
    }
}

/// Not by `as_micros`, whose 128 bits take longer.
#[inline]
fn micros(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(SECOND_US);
    whole.saturating_add(duration.subsec_micros().into())
}

/// `Retry-After`: seconds, rounded up, at least 1. 0 would say *come back now*.
#[must_use]
pub fn retry_seconds(wait: Duration) -> u64 {
    let whole = wait.as_secs();
    if wait.subsec_nanos() == 0 { whole.max(1) } else { whole.saturating_add(1) }
}
