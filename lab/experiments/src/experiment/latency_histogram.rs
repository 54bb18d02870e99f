//! The distribution of durations.

use hdrhistogram::Histogram;

use super::measure::rounded;
use super::results::Latency;

/// A histogram of durations, whose mean and maximum are exact.
pub(super) struct LatencyHistogram {
    histogram: Histogram<u64>,
    sum_us: u128,
    max_us: u64,
}

impl LatencyHistogram {
    /// The longest duration that is recorded exactly: an hour.
    const MAX_US: u64 = 3_600_000_000;

    pub(super) fn new() -> Self {
        Self::up_to(Self::MAX_US)
    }

    /// A histogram that records durations up to `max_us`, which is at least 2.
    pub(super) fn up_to(max_us: u64) -> Self {
        #[allow(clippy::expect_used)] // such bounds are possible, and the test below makes one
        let histogram = Histogram::new_with_bounds(1, max_us, 3).expect("bounds that are possible");
        Self { histogram, sum_us: 0, max_us: 0 }
    }

    pub(super) fn add(&mut self, us: u64) {
        self.histogram.saturating_record(us);
        self.sum_us += u128::from(us);
        self.max_us = self.max_us.max(us);
    }

    /// The distribution. A percentile is the upper end of its bucket, which three digits tell
    /// apart, and at most the maximum.
    pub(super) fn read(&self) -> Option<Latency> {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_us);
        (!self.histogram.is_empty()).then(|| Latency {
            mean: rounded(self.sum_us as f64 / self.histogram.len() as f64),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max_us,
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
        assert_eq!(read.mean, 500.5);
        spread.add(u64::MAX);
        assert_eq!(spread.read().unwrap().max, u64::MAX);
    }

    /// The waits of `5/10s`, `100/h` and a Redis that took 200 ms were shown longer than they were.
    #[test]
    fn no_figure_is_above_the_longest_duration() {
        for longest in [10_000_000, 3_600_000_000, 200_000, 1_000_003] {
            let mut spread = LatencyHistogram::new();
            (0..100).for_each(|_| spread.add(longest));
            let read = spread.read().unwrap();
            assert_eq!((read.p50, read.p99_9, read.max), (longest, longest, longest));
            assert_eq!(read.mean, longest as f64);
        }
    }
}
