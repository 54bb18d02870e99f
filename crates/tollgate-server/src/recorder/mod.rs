//! Counts of decisions over time, per limit and outcome, in buckets.
//!
//! The metrics already count decisions. Once a second the recorder reads these counters and adds
//! the increase to its series. So recording adds no cost to a decision, and counts are lost only
//! when the process ends.

mod series;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tollgate_policy::Outcome;

use crate::metrics::{Metrics, OTHER};
use crate::timeseries::Outbox;
use series::{Series, reach_s, step_of};

/// The most series, of 23 KB each. Later limits share one series for each outcome.
const MAX_SERIES: usize = 256;

/// Records the increases of a service's counters. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The previous value of each counter.
    before: BTreeMap<Key, u64>,
    series: BTreeMap<Key, Series>,
    /// The queue to Redis time series, if any.
    outbox: Option<Outbox>,
}

/// The policy, the limit and the outcome.
type Key = (String, String, &'static str);

/// The series of a time range, which ends with the last complete second.
#[derive(Debug, Serialize)]
pub(crate) struct Recorded {
    /// The start of the first bucket, in seconds since the Unix epoch.
    from_s: u64,
    /// The length of a bucket in seconds.
    step_s: u64,
    buckets: usize,
    series: Vec<OneRecorded>,
}

#[derive(Debug, Serialize)]
struct OneRecorded {
    /// `None` for inline limits.
    policy: Option<String>,
    limit: String,
    outcome: &'static str,
    /// One count for each bucket.
    counts: Vec<u32>,
}

impl Recorder {
    pub(crate) fn new(metrics: Metrics, outbox: Option<Outbox>) -> Self {
        let state = Mutex::new(State { outbox, ..State::default() });
        Self(Arc::new(Inner { metrics, state }))
    }

    /// Reads the counters and adds their increase to this second.
    fn read(&self, at_s: u64) {
        let mut state = self.0.state.lock();
        let State { before, series, outbox } = &mut *state;
        let _ = self.0.metrics.each_limit(|policy, limit, counters| {
            for outcome in Outcome::ALL {
                let total = counters.total(outcome);
                if total == 0 {
                    continue;
                }
                let key = (policy.to_owned(), limit.to_owned(), outcome.name());
                let was = before.insert(key.clone(), total).unwrap_or(0);
                if total <= was {
                    continue;
                }
                let other = (OTHER.to_owned(), OTHER.to_owned(), outcome.name());
                let has_room = series.len() < MAX_SERIES || series.contains_key(&key);
                let key = if has_room { key } else { other };
                let came = total - was;
                if let Some(outbox) = outbox {
                    outbox.put((&key.0, &key.1), outcome, at_s, came);
                }
                series.entry(key).or_insert_with(Series::new).add(at_s, came);
            }
            Ok::<(), core::convert::Infallible>(())
        });
    }

    /// The counts of the last `last_s` seconds up to `now_s`.
    pub(crate) fn last(&self, last_s: u64, now_s: u64) -> Recorded {
        let last_s = last_s.clamp(1, reach_s());
        let step_s = step_of(last_s);
        let buckets = usize::try_from(last_s.div_ceil(step_s)).unwrap_or(usize::MAX);
        let newest = now_s.saturating_sub(1) / step_s;
        let first = (newest + 1).saturating_sub(buckets as u64);
        let state = self.0.state.lock();
        let series = state.series.iter().map(|((policy, limit, outcome), series)| OneRecorded {
            policy: (!policy.is_empty()).then(|| policy.clone()),
            limit: limit.clone(),
            outcome,
            counts: series.counts(step_s, first, buckets),
        });
        let series = series.filter(|one| one.counts.iter().any(|count| *count > 0)).collect();
        Recorded { from_s: first * step_s, step_s, buckets, series }
    }

    /// Reads the counters for the last time. Time series receive no later counts.
    pub(crate) fn end(&self) {
        self.read(since_epoch().as_secs());
        self.0.state.lock().outbox = None;
    }

    /// Reads the counters at the end of each second, until it is dropped.
    pub(crate) async fn follow(self) {
        loop {
            let now = since_epoch();
            let rest = Duration::from_secs(1) - Duration::from_nanos(u64::from(now.subsec_nanos()));
            tokio::time::sleep(rest).await;
            self.read(since_epoch().as_secs().saturating_sub(1));
        }
    }
}

/// The time since the Unix epoch, by this machine's clock.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tollgate::{LimitSet, MemoryStore};
    use tollgate_policy::{Format, Gate, OnFailure, Policies, Terms};

    use super::*;
    use tollgate_stores::AnyStore;

    fn gate(metrics: &Metrics) -> Gate<AnyStore> {
        let policies = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                        limits = [{ subject = \"ip\", limit = \"2/h\" }]\n";
        let policies = Policies::parse(policies, Format::Toml).unwrap();
        metrics.gate(policies, AnyStore::Memory(MemoryStore::new())).unwrap()
    }

    #[tokio::test]
    async fn what_came_in_a_second_is_in_its_bucket() {
        let metrics = Metrics::new();
        let (gate, recorder) = (gate(&metrics), Recorder::new(metrics, None));
        let ask = || async { drop(gate.check(&[("ip", "192.0.2.7")]).await) };
        let now = 1_700_006_400;
        recorder.read(now);
        assert!(recorder.last(60, now + 1).series.is_empty());
        ask().await;
        recorder.read(now + 1);
        recorder.read(now + 2);
        for _ in 0..4 {
            ask().await;
        }
        recorder.read(now + 3);
        let recorded = recorder.last(5, now + 4);
        assert_eq!((recorded.from_s, recorded.step_s, recorded.buckets), (now - 1, 1, 5));
        let told: Vec<_> = recorded
            .series
            .iter()
            .map(|one| (one.policy.as_deref(), &*one.limit, one.outcome, &one.counts[..]))
            .collect();
        let limit = "sliding_log/1h";
        assert_eq!(
            told,
            [
                (Some("login"), limit, "allowed", &[0, 0, 1, 0, 1][..]),
                (Some("login"), limit, "denied", &[0, 0, 0, 0, 3])
            ]
        );
        let hours = recorder.last(30 * 86_400, now + 4);
        assert_eq!((hours.step_s, hours.buckets), (3_600, 720));
        assert_eq!(hours.series[1].counts.iter().sum::<u32>(), 3);
        assert_eq!(recorder.last(u64::MAX, now).buckets, 720, "no more than there is");
        assert_eq!(recorder.last(0, now).buckets, 1);
    }

    #[tokio::test]
    async fn limits_of_callers_are_one_series() {
        let metrics = Metrics::new();
        let (gate, recorder) = (gate(&metrics), Recorder::new(metrics, None));
        for units in 1..=500 {
            let limits: LimitSet = format!("{units}/h via gcra").parse().unwrap();
            let ask = tollgate::Ask::new("user:1").under(&limits);
            let answer = gate.check_limits(ask, Terms::new(OnFailure::Deny)).await;
            assert!(answer.unwrap().is_allowed());
        }
        recorder.read(1_700_006_400);
        let recorded = recorder.last(60, 1_700_006_401);
        assert!(recorded.series.len() <= 2, "{recorded:?}");
        let sum: u32 = recorded.series.iter().flat_map(|one| &one.counts).sum();
        assert_eq!(sum, 500);
    }
}
