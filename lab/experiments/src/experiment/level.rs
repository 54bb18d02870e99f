//! A number that changes over time, such as the depth of a queue: its mean, and the maximum of each
//! bucket.

use super::Experiment;
use super::measure::rounded;

/// A number over time. Times are in microseconds from the start.
pub(super) struct Level {
    bucket_us: u64,
    /// The current number, and since when.
    now: u64,
    since_us: u64,
    /// The integral over microseconds.
    area: u128,
    most: u64,
    highest: Vec<u64>,
}

impl Level {
    /// Zero, from the start.
    pub(super) fn new(experiment: &Experiment) -> Self {
        let buckets = experiment.duration_us.div_ceil(experiment.bucket_us).max(1);
        let highest = vec![0; usize::try_from(buckets).unwrap_or(usize::MAX)];
        let bucket_us = experiment.bucket_us;
        Self { bucket_us, now: 0, since_us: 0, area: 0, most: 0, highest }
    }

    /// Advances the time. A number of zero duration, as of a job that is taken when it is accepted,
    /// does not count.
    pub(super) fn pass(&mut self, now_us: u64) {
        if now_us <= self.since_us {
            return;
        }
        let place = |us: u64| usize::try_from(us / self.bucket_us).unwrap_or(usize::MAX);
        let (first, last) = (place(self.since_us), place(now_us - 1));
        let last = last.min(self.highest.len() - 1);
        for highest in self.highest.get_mut(first..=last).unwrap_or_default() {
            *highest = self.now.max(*highest);
        }
        self.area += u128::from(self.now) * u128::from(now_us - self.since_us);
        self.most = self.most.max(self.now);
        self.since_us = now_us;
    }

    /// Sets the current number.
    pub(super) fn set(&mut self, now: u64) {
        self.now = now;
    }

    /// The highest number that lasted.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// The same of each bucket.
    pub(super) fn highest(&self) -> &[u64] {
        &self.highest
    }

    /// The mean over the time until now; `None` for no time.
    pub(super) fn mean(&self, now_us: u64) -> Option<f64> {
        (now_us > 0).then(|| rounded(self.area as f64 / now_us as f64))
    }
}
