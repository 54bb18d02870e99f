//! The measures of a queue, event by event, in bounded memory.

use tollgate_queue::{Counts, Stats};

use super::case::QueueCase;
use crate::experiment::Experiment;
use crate::experiment::durations::Durations;
use crate::experiment::level::Level;
use crate::experiment::measure::rounded;
use crate::experiment::results::{QueueBucket, QueueResult};

/// The measures of one queue. Times are in microseconds from the start.
pub(super) struct QueueMeasures {
    bucket_us: u64,
    buckets: Vec<QueueBucket>,
    /// The start of the steady state.
    steady_us: u64,
    depth: Level,
    waits: Durations,
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
            depth: Level::new(experiment),
            waits: Durations::new(),
            accepted: 0,
            refused: 0,
            done: 0,
        }
    }

    /// Advances the time. A depth of zero duration, as of a job that is taken when it is accepted,
    /// does not count.
    pub(super) fn pass(&mut self, now_us: u64) {
        self.depth.pass(now_us);
    }

    /// Sets the current depth.
    pub(super) fn depth(&mut self, depth: u64) {
        self.depth.set(depth);
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
    pub(super) fn finish(mut self, now_us: u64, setting: &QueueCase, stats: &Stats) -> QueueResult {
        let seconds = now_us.saturating_sub(self.steady_us) as f64 / 1e6;
        let a_second = |count: u64| (seconds > 0.0).then(|| rounded(count as f64 / seconds));
        for (bucket, depth) in self.buckets.iter_mut().zip(self.depth.highest()) {
            bucket.depth = *depth;
        }
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
            depth_mean: self.depth.mean(now_us),
            depth_max: self.depth.most(),
            waited_us: self.waits.read(),
            buckets: self.buckets,
        }
    }
}
