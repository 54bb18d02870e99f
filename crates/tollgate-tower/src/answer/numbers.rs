//! The numbers of a decision in headers: rounded, and never more than the limit admits.

use core::time::Duration;

use tollgate::{Decision, Report, Verdict};

use super::rate::Rate;

const SECOND_US: u64 = 1_000_000;

/// The numbers of the binding limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    /// `r`: the remaining units.
    pub(super) remaining: u64,
    /// `t`, in microseconds.
    wait_us: u64,
    /// The store's time at the decision, in microseconds since the Unix epoch.
    at_us: u64,
}

impl Numbers {
    #[inline]
    pub(super) fn new(decision: &Decision<'_>, rate: Option<Rate>, report: &Report<'_>) -> Self {
        let remaining = report.remaining();
        let at_us = decision.at().as_micros();
        if let Verdict::NotYet(wait) = decision.verdict() {
            return Self::from_refusal(wait, rate, remaining, at_us);
        }
        let reset_us = micros(report.reset_after());
        // `t` is at least the time that `r` takes at the rate. A bucket that is nearly full is full
        // in almost no time, so `r/t` could be any rate.
        let least_us = rate.map_or(0, |rate| rate.us_of(remaining));
        Self { remaining, wait_us: reset_us.max(least_us), at_us }
    }

    #[cold]
    fn from_refusal(wait: Duration, rate: Option<Rate>, remaining: u64, at_us: u64) -> Self {
        // `t` equals `Retry-After`, so `r` is cut to what is replenished until then.
        let wait_us = retry_seconds(wait).saturating_mul(SECOND_US);
        let most = rate.map_or(u64::MAX, |rate| rate.units_in(wait_us));
        Self { remaining: remaining.min(most), wait_us, at_us }
    }

    /// `t` in seconds, rounded up.
    pub(super) fn seconds(self) -> u64 {
        self.wait_us.div_ceil(SECOND_US)
    }

    /// `t` as a point in time: seconds since 1970 (the Unix epoch), rounded up.
    pub(super) fn epoch_seconds(self) -> u64 {
        self.at_us.saturating_add(self.wait_us).div_ceil(SECOND_US)
    }
}

/// Avoids `as_micros`, whose 128-bit arithmetic takes longer.
#[inline]
fn micros(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(SECOND_US);
    whole.saturating_add(duration.subsec_micros().into())
}

/// The value of `Retry-After`: seconds, rounded up, at least 1. 0 would mean *retry now*.
#[must_use]
pub fn retry_seconds(wait: Duration) -> u64 {
    let whole = wait.as_secs();
    if wait.subsec_nanos() == 0 { whole.max(1) } else { whole.saturating_add(1) }
}
