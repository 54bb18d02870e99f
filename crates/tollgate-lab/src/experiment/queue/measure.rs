//! The measures of a queue, event by event, in bounded memory.

use std::collections::BTreeMap;

use tollgate_queue::{Counts, Stats};

use super::case::QueueCase;
use crate::experiment::Experiment;
use crate::experiment::measure::rounded;
use crate::experiment::results::{Latency, QueueBucket, QueueResult};

/// The most distinct waiting times that are counted exactly.
const DIFFERENT: usize = 65_536;

/// The measures of one queue. Times are in microseconds from the start.
pub(super) struct QueueMeasures {
    bucket_us: u64,
    buckets: Vec<QueueBucket>,
    /// The start of the steady state.
    steady_us: u64,
    /// The current depth, and since when.
    depth: u64,
    since_us: u64,
    /// The integral of the depth over microseconds.
    area: u128,
    most: u64,
    waits: Waits,
    accepted: u64,
    refused: u64,
    done: u64,
}

impl QueueMeasures {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let buckets = experiment.duration_us.div_ceil(experiment.bucket_us).max(1);
        let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
        Self {
            bucket_us: experiment.bucket_us,
            buckets: vec![QueueBucket::default(); buckets],
            steady_us: experiment.duration_us / 2,
            depth: 0,
            since_us: 0,
            area: 0,
            most: 0,
            waits: Waits::new(),
            accepted: 0,
            refused: 0,
            done: 0,
        }
    }

    /// Advances the time. A depth of zero duration, as of a job that is taken when it is accepted,
    /// does not count.
    pub(super) fn pass(&mut self, now_us: u64) {
        if now_us <= self.since_us {
            return;
        }
        let place = |us: u64| usize::try_from(us / self.bucket_us).unwrap_or(usize::MAX);
        let (first, last) = (place(self.since_us), place(now_us - 1));
        let last = last.min(self.buckets.len() - 1);
        for bucket in self.buckets.get_mut(first..=last).unwrap_or_default() {
            bucket.depth = bucket.depth.max(self.depth);
        }
        self.area += u128::from(self.depth) * u128::from(now_us - self.since_us);
        self.most = self.most.max(self.depth);
        self.since_us = now_us;
    }

    /// Sets the current depth.
    pub(super) fn depth(&mut self, depth: u64) {
        self.depth = depth;
    }

    pub(super) fn offered(&mut self, now_us: u64, is_accepted: bool) {
        if now_us >= self.steady_us {
            self.accepted += u64::from(is_accepted);
            self.refused += u64::from(!is_accepted);
        }
    }

    /// Counts a delivered job with its wait since acceptance.
    pub(super) fn delivered(&mut self, now_us: u64, waited_us: u64) {
        self.waits.add(waited_us);
        if let Some(bucket) = self.bucket(now_us) {
            bucket.delivered += 1;
            bucket.waited_us = bucket.waited_us.max(waited_us);
        }
    }

    pub(super) fn done(&mut self, now_us: u64, jobs: u64) {
        if now_us >= self.steady_us {
            self.done += jobs;
        }
        if let Some(bucket) = self.bucket(now_us) {
            bucket.done += jobs;
        }
    }

    fn bucket(&mut self, now_us: u64) -> Option<&mut QueueBucket> {
        self.buckets.get_mut(usize::try_from(now_us / self.bucket_us).ok()?)
    }

    /// The results, when the time has reached `now_us`.
    pub(super) fn finish(self, now_us: u64, setting: &QueueCase, stats: &Stats) -> QueueResult {
        let seconds = now_us.saturating_sub(self.steady_us) as f64 / 1e6;
        let a_second = |count: u64| (seconds > 0.0).then(|| rounded(count as f64 / seconds));
        let mean = || rounded(self.area as f64 / now_us as f64);
        QueueResult {
            bound: setting.bound,
            counts: if setting.counts == Counts::All { "all" } else { "waiting" }.to_owned(),
            workers: setting.workers,
            work_us: setting.work_us,
            rate: setting.rate.as_ref().map(|rate| {
                let limits = rate.limits().iter().map(ToString::to_string);
                limits.collect::<Vec<_>>().join(", ")
            }),
            accepted: stats.accepted,
            refused: stats.refused,
            delivered: stats.delivered,
            done: stats.done,
            left: stats.waiting + stats.in_flight,
            steady_from_us: self.steady_us,
            accepted_per_s: a_second(self.accepted),
            refused_per_s: a_second(self.refused),
            done_per_s: a_second(self.done),
            depth_mean: (now_us > 0).then(mean),
            depth_max: self.most,
            waited_us: self.waits.read(),
            buckets: self.buckets,
        }
    }
}

/// How long jobs waited: exactly, while there are few distinct times; then rounded up, by at most
/// some ten thousandths of the longest.
struct Waits {
    step_us: u64,
    /// The number of jobs for each number of steps waited.
    counts: BTreeMap<u64, u64>,
    number: u64,
    sum_us: u128,
    longest_us: u64,
}

impl Waits {
    fn new() -> Self {
        Self { step_us: 1, counts: BTreeMap::new(), number: 0, sum_us: 0, longest_us: 0 }
    }

    fn add(&mut self, us: u64) {
        *self.counts.entry(us.div_ceil(self.step_us)).or_default() += 1;
        self.number += 1;
        self.sum_us += u128::from(us);
        self.longest_us = self.longest_us.max(us);
        while self.counts.len() > DIFFERENT {
            self.step_us = self.step_us.saturating_mul(2);
            let mut coarser = BTreeMap::new();
            for (steps, count) in &self.counts {
                *coarser.entry(steps.div_ceil(2)).or_default() += count;
            }
            self.counts = coarser;
        }
    }

    /// The wait that `of_1000` of 1,000 jobs did not exceed.
    fn at(&self, of_1000: u64) -> u64 {
        let wanted = (u128::from(self.number) * u128::from(of_1000)).div_ceil(1_000);
        let mut below = 0_u128;
        let found = self.counts.iter().find(|(_, count)| {
            below += u128::from(**count);
            below >= wanted
        });
        let us = found.map_or(0, |(steps, _)| steps.saturating_mul(self.step_us));
        us.min(self.longest_us)
    }

    fn read(&self) -> Option<Latency> {
        (self.number > 0).then(|| Latency {
            mean: rounded(self.sum_us as f64 / self.number as f64),
            p50: self.at(500),
            p90: self.at(900),
            p99: self.at(990),
            p99_9: self.at(999),
            max: self.longest_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_exact_until_there_are_too_many_different_ones() {
        let mut waits = Waits::new();
        assert_eq!(waits.read(), None);
        (1..=1_000).for_each(|ms| waits.add(ms * 1_000));
        let read = waits.read().unwrap();
        assert_eq!((read.p50, read.p90, read.p99), (500_000, 900_000, 990_000));
        assert_eq!((read.p99_9, read.max), (999_000, 1_000_000));
        assert!((read.mean - 500_500.0).abs() < 1e-9, "{read:?}");
        let mut waits = Waits::new();
        (1..=999_999).for_each(|us| waits.add(us));
        assert!(waits.counts.len() <= DIFFERENT);
        let read = waits.read().unwrap();
        // Rounded up, and by no more than that.
        assert!((500_000..=500_032).contains(&read.p50), "{read:?}");
        assert!((990_000..=990_032).contains(&read.p99), "{read:?}");
        assert_eq!((read.max, waits.at(1_000)), (999_999, 999_999), "the longest is exact");
    }
}
