//! The distribution of durations.

use hdrhistogram::Histogram;

use super::measure::rounded;
use super::results::Latency;

/// A histogram of durations.
pub(super) struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    /// The longest duration that is recorded exactly: an hour.
    const MAX_US: u64 = 3_600_000_000;

    pub(super) fn new() -> Self {
        Self::up_to(Self::MAX_US)
    }

    /// A histogram that records durations up to `max_us`, which is at least 2.
    pub(super) fn up_to(max_us: u64) -> Self {
        #[allow(clippy::expect_used)] // such bounds are possible, and the test below makes one
        Self(Histogram::new_with_bounds(1, max_us, 3).expect("bounds that are possible"))
    }

    pub(super) fn add(&mut self, us: u64) {
        self.0.saturating_record(us);
    }

    pub(super) fn read(&self) -> Option<Latency> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Latency {
            mean: rounded(self.0.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.0.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_read_to_three_digits() {
        let mut spread = LatencyHistogram::new();
        assert_eq!(spread.read(), None);
        (1..=1_000).for_each(|us| spread.add(us));
        let read = spread.read().unwrap();
        assert_eq!((read.p50, read.p90, read.p99), (500, 900, 990));
        assert!((read.mean - 500.5).abs() < 1.0, "{read:?}");
        spread.add(u64::MAX);
        assert!(spread.read().unwrap().max >= LatencyHistogram::MAX_US);
    }
}
