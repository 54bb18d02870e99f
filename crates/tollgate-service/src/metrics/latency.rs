//! The durations of decisions, in a histogram that threads update without a lock.
//!
//! The histogram of `prometheus-client` takes a lock around a search, on which every decision of
//! every thread would wait.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// The upper bounds of the buckets in nanoseconds: 1, 2 and 5 of each power of ten from 1 µs to 5
/// s. The memory store answers near the lower end, a store close to its deadline near the upper
/// one.
const ENDS_NS: [u64; 21] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

/// Durations, counted by bucket; the last bucket has no upper bound.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: [AtomicU64; ENDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; ENDS_NS.len() + 1],
            sum_ns: AtomicU64::new(0),
        }
    }
}

/// The number of answers in each bucket, to subtract an earlier number from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts([u64; ENDS_NS.len() + 1]);

impl Counts {
    /// The difference to an earlier snapshot.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut came = self.clone();
        for (count, was) in came.0.iter_mut().zip(&before.0) {
            *count = count.saturating_sub(*was);
        }
        came
    }

    /// The number of answers.
    pub(crate) fn answers(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The duration that `percent` of the answers do not exceed, rounded up to the end of its
    /// bucket. `None` without answers, and above the last end.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = self.answers().saturating_mul(percent).div_ceil(100);
        let mut below = 0;
        let mut ends = self.0.iter().zip(ENDS_NS).skip_while(|(count, _)| {
            below += **count;
            below < rank
        });
        ends.next().filter(|_| rank > 0).map(|(_, end)| Duration::from_nanos(end))
    }
}

/// A snapshot of the histogram.
#[derive(Debug)]
pub(super) struct Counted {
    /// The upper bound of each bucket in seconds, and its own count (not cumulative).
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum_seconds: f64,
}

impl Latency {
    /// Counts as many answers of this duration each.
    #[inline]
    pub(crate) fn add(&self, duration: Duration, answers: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let place = ENDS_NS.partition_point(|end| *end < nanos);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(answers, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(nanos.wrapping_mul(answers), Ordering::Relaxed);
    }

    /// The number of answers in each bucket until now.
    pub(super) fn counts(&self) -> Counts {
        Counts(core::array::from_fn(|place| {
            self.buckets.get(place).map_or(0, |bucket| bucket.load(Ordering::Relaxed))
        }))
    }

    /// Takes a snapshot. Its total is the sum of its buckets, so that the two agree while other
    /// threads count.
    pub(super) fn counted(&self) -> Counted {
        let ends = ENDS_NS.iter().map(|end| Duration::from_nanos(*end).as_secs_f64());
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = ends.chain([f64::INFINITY]).zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum_seconds = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        Counted { buckets, count, sum_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_that_it_does_not_exceed() {
        let latency = Latency::default();
        let nanos = [0, 999, 1_000, 1_001, 49_999, 50_000, 50_001, 5_000_000_000, 5_000_000_001];
        for nanos in nanos {
            latency.add(Duration::from_nanos(nanos), 1);
        }
        let seen = latency.counted();
        let filled: Vec<(f64, u64)> =
            seen.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
        let inf = f64::INFINITY;
        assert_eq!(filled, [(1e-6, 3), (2e-6, 1), (5e-5, 2), (1e-4, 1), (5.0, 1), (inf, 1)]);
        assert_eq!((seen.count, seen.buckets.len()), (9, 22));
        let sum = Duration::from_nanos(nanos.iter().sum()).as_secs_f64();
        assert!((seen.sum_seconds - sum).abs() < 1e-9);
    }

    #[test]
    fn a_percentile_is_the_end_of_its_bucket() {
        let latency = Latency::default();
        assert_eq!(latency.counts().percentile(99), None);
        for micros in [1, 1, 1, 3, 40] {
            latency.add(Duration::from_micros(micros), 1);
        }
        let before = latency.counts();
        let told = [50, 60, 61, 80, 81, 100].map(|percent| before.percentile(percent));
        let [fast, mid, slow] = [1, 5, 50].map(|micros| Some(Duration::from_micros(micros)));
        assert_eq!(told, [fast, fast, mid, mid, slow, slow]);
        latency.add(Duration::from_secs(9), 2);
        let came = latency.counts().since(&before);
        assert_eq!((came.answers(), came.percentile(50)), (2, None), "above the last end");
    }
}
