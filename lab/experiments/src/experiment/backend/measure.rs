//! The measures of a backend, event by event, in bounded memory.

use super::case::Backend;
use super::results::{BackendBucket, BackendResult, SlowResult};
use super::servers::Servers;
use crate::experiment::Experiment;
use crate::experiment::durations::Durations;
use crate::experiment::level::Level;

/// The measures of one backend. Times are in microseconds from the start.
pub(super) struct BackendMeasures {
    bucket_us: u64,
    buckets: Vec<BackendBucket>,
    in_flight: Level,
    latency: Durations,
    /// The bucket of the newest request that was done, and the latencies in it.
    place: usize,
    recent: Durations,
    since_us: u64,
    slow_until_us: Option<u64>,
    recovered_us: Option<u64>,
    done: u64,
    overran: u64,
}

impl BackendMeasures {
    pub(super) fn new(experiment: &Experiment, setting: &Backend) -> Self {
        let buckets = experiment.duration_us.div_ceil(experiment.bucket_us).max(1);
        let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
        Self {
            bucket_us: experiment.bucket_us,
            buckets: vec![BackendBucket::default(); buckets],
            in_flight: Level::new(experiment),
            latency: Durations::new(),
            place: 0,
            recent: Durations::new(),
            since_us: 0,
            slow_until_us: setting.slow_until(),
            recovered_us: None,
            done: 0,
            overran: 0,
        }
    }

    /// Advances the time to that of the next event, with the state until then.
    pub(super) fn pass(&mut self, now_us: u64, servers: &Servers<'_>) {
        self.in_flight.set(servers.in_flight());
        self.in_flight.pass(now_us);
        let since_us = core::mem::replace(&mut self.since_us, now_us);
        if let (Some(until_us), None) = (self.slow_until_us, self.recovered_us)
            && now_us > since_us.max(until_us)
            && servers.waiting() == 0
        {
            self.recovered_us = Some(since_us.saturating_sub(until_us));
        }
    }

    /// Counts a request that is done.
    pub(super) fn done(&mut self, now_us: u64, latency_us: u64) {
        let place = usize::try_from(now_us / self.bucket_us).unwrap_or(usize::MAX);
        if place != self.place {
            self.close();
            self.place = place;
        }
        self.done += 1;
        self.latency.add(latency_us);
        self.recent.add(latency_us);
    }

    /// Counts holds that ended while their work went on.
    pub(super) fn overran(&mut self, holds: u64) {
        self.overran += holds;
    }

    /// Ends the bucket of the newest request.
    fn close(&mut self) {
        let recent = core::mem::replace(&mut self.recent, Durations::new());
        if let Some(bucket) = self.buckets.get_mut(self.place) {
            bucket.done = recent.number();
            bucket.p50_us = recent.at(500);
            bucket.p99_us = recent.at(990);
        }
    }

    /// The results, when the time has reached `now_us`.
    pub(super) fn finish(
        mut self,
        now_us: u64,
        setting: &Backend,
        servers: &Servers<'_>,
    ) -> BackendResult {
        self.pass(now_us, servers);
        self.close();
        for (bucket, in_flight) in self.buckets.iter_mut().zip(self.in_flight.highest()) {
            bucket.in_flight = *in_flight;
        }
        let slow = setting.slow.iter().map(|phase| SlowResult {
            from_us: phase.from_us,
            until_us: phase.until_us,
            work_us: phase.work_us,
        });
        BackendResult {
            servers: setting.servers,
            work_us: setting.work_us,
            slow: slow.collect(),
            done: self.done,
            left: servers.in_flight(),
            in_flight_mean: self.in_flight.mean(now_us),
            in_flight_max: self.in_flight.most(),
            latency_us: self.latency.read(),
            recovered_us: self.recovered_us,
            overran: self.overran,
            buckets: self.buckets,
        }
    }
}
