//! Counts of decisions over time, per limit and outcome, in buckets; and the durations of decisions
//! in the last minute.
//!
//! The metrics already count decisions. Once a second the recorder reads these counters and adds
//! the increase to its series. So recording adds no cost to a decision, and counts are lost only
//! when the process ends.

mod series;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tollgate_policy::{Authority, Counters, Outcome};

use crate::clock::since_epoch;
use crate::metrics::{DurationCounts, Metrics, OTHER};
use crate::queues::{Queues, Reception};
use crate::timeseries::{Counted, Outbox};
use series::{Series, reach_s, step_of};

/// The most series, of 23 KB each. Later limits share one series for each outcome.
const MAX_SERIES: usize = 256;

/// How many seconds of durations are kept.
pub(crate) const DURATION_SECONDS: usize = 60;

/// The limit of decisions that no limit took part in: no policy applied, a ban, a failure rule.
const NO_LIMIT: &str = "none";

/// Records the increases of a service's counters. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Metrics,
    queues: Queues,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The previous value of each counter.
    before: BTreeMap<Key, u64>,
    series: BTreeMap<Key, Series>,
    /// The counters of durations at the ends of the last seconds, the oldest first.
    durations: VecDeque<DurationCounts>,
    /// The queue to Redis time series, if any.
    outbox: Option<Outbox>,
    /// The previous number of offers to each queue.
    offers_before: BTreeMap<(String, &'static str), u64>,
}

/// The events that a series counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    /// Empty for inline limits.
    policy: String,
    limit: String,
    outcome: &'static str,
    /// Whether the policy was in shadow.
    is_shadow: bool,
}

impl Key {
    fn new(policy: &str, limit: &str, outcome: Outcome, is_shadow: bool) -> Self {
        let (policy, limit) = (policy.to_owned(), limit.to_owned());
        Self { policy, limit, outcome: outcome.name(), is_shadow }
    }

    /// The series for all policies without a series.
    fn other(outcome: Outcome, is_shadow: bool) -> Self {
        Self::new(OTHER, OTHER, outcome, is_shadow)
    }
}

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
    /// Whether requests of this outcome go on.
    admits: bool,
    /// Whether the policy was in shadow, so that the outcome is hypothetical.
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
    /// One count for each bucket.
    counts: Vec<u32>,
}

/// The counts of one series by minute and in the last seconds, for the console.
#[derive(Debug)]
pub(crate) struct Recent {
    /// `None` for inline limits, and where no limit took part.
    pub(crate) policy: Option<String>,
    pub(crate) limit: String,
    pub(crate) outcome: &'static str,
    pub(crate) is_shadow: bool,
    /// One count for each minute; the last minute is not over.
    pub(crate) minutes: Vec<u32>,
    /// The count in the last complete seconds.
    pub(crate) now: u64,
}

/// Whether requests of this outcome go on.
pub(crate) fn admits(outcome: &str) -> bool {
    let found = Outcome::ALL.into_iter().find(|known| known.name() == outcome);
    found.is_some_and(Outcome::admits)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives a reference
fn is_false(value: &bool) -> bool {
    !value
}

impl Recorder {
    pub(crate) fn new(metrics: Metrics, queues: Queues, outbox: Option<Outbox>) -> Self {
        let state = Mutex::new(State { outbox, ..State::default() });
        Self(Arc::new(Inner { metrics, queues, state }))
    }

    /// Reads the counters and adds their increase to this second.
    fn read(&self, at_s: u64) {
        let mut state = self.0.state.lock();
        let durations = self.0.metrics.durations();
        if state.durations.len() > DURATION_SECONDS {
            state.durations.pop_front();
        }
        state.durations.push_back(durations);
        let _ = self.0.metrics.each_limit(|policy, limit, counters| {
            state.add(policy, limit, counters, at_s);
            Ok::<(), core::convert::Infallible>(())
        });
        state.add("", NO_LIMIT, self.0.metrics.without_limit(), at_s);
        state.offers(&self.0.queues, at_s);
    }

    /// The counts of the last `last_s` seconds up to `now_s`.
    pub(crate) fn last(&self, last_s: u64, now_s: u64) -> Recorded {
        let last_s = last_s.clamp(1, reach_s());
        let step_s = step_of(last_s);
        let buckets = usize::try_from(last_s.div_ceil(step_s)).unwrap_or(usize::MAX);
        let newest = now_s.saturating_sub(1) / step_s;
        let first = (newest + 1).saturating_sub(buckets as u64);
        let state = self.0.state.lock();
        let series = state.series.iter().map(|(key, series)| OneRecorded {
            policy: (!key.policy.is_empty()).then(|| key.policy.clone()),
            limit: key.limit.clone(),
            outcome: key.outcome,
            admits: admits(key.outcome),
            shadow: key.is_shadow,
            counts: series.counts(step_s, first, buckets),
        });
        let series = series.filter(|one| one.counts.iter().any(|count| *count > 0)).collect();
        Recorded { from_s: first * step_s, step_s, buckets, series }
    }

    /// The counts of the last `minutes` minutes, the current one included, and of the last
    /// `seconds` complete seconds. Also the time in seconds at which the first minute began.
    pub(crate) fn recent(&self, minutes: usize, seconds: usize, now_s: u64) -> (u64, Vec<Recent>) {
        let newest = now_s.saturating_sub(1);
        let first_minute = (newest / 60 + 1).saturating_sub(minutes as u64);
        let first_second = (newest + 1).saturating_sub(seconds as u64);
        let state = self.0.state.lock();
        let recent = state.series.iter().map(|(key, series)| Recent {
            policy: (!key.policy.is_empty()).then(|| key.policy.clone()),
            limit: key.limit.clone(),
            outcome: key.outcome,
            is_shadow: key.is_shadow,
            minutes: series.counts(60, first_minute, minutes),
            now: series.counts(1, first_second, seconds).into_iter().map(u64::from).sum(),
        });
        let recent = recent.filter(|one| one.minutes.iter().any(|count| *count > 0)).collect();
        (first_minute * 60, recent)
    }

    /// The durations of the decisions in the last [`DURATION_SECONDS`], and less just after the
    /// start.
    pub(crate) fn durations(&self) -> DurationCounts {
        let now = self.0.metrics.durations();
        let state = self.0.state.lock();
        // The first one is read before the first second has ended, when nothing was counted.
        let is_full = state.durations.len() > DURATION_SECONDS;
        match state.durations.front().filter(|_| is_full) {
            Some(before) => now.since(before),
            None => now,
        }
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

impl State {
    /// Adds the increase of these counters to this second.
    fn add(&mut self, policy: &str, limit: &str, counters: &Counters, at_s: u64) {
        for outcome in Outcome::ALL {
            let all = counters.total(outcome);
            if all == 0 {
                continue;
            }
            let in_shadow = counters.get(outcome, Authority::Shadow);
            for (is_shadow, total) in [(false, all.saturating_sub(in_shadow)), (true, in_shadow)] {
                let key = Key::new(policy, limit, outcome, is_shadow);
                let was = match total {
                    0 => continue,
                    _ => self.before.insert(key.clone(), total).unwrap_or(0),
                };
                if total <= was {
                    continue;
                }
                let has_room = self.series.len() < MAX_SERIES || self.series.contains_key(&key);
                let key = if has_room { key } else { Key::other(outcome, is_shadow) };
                let came = total - was;
                if let Some(outbox) = self.outbox.as_mut().filter(|_| limit != NO_LIMIT) {
                    let (policy, limit) = (&key.policy, &key.limit);
                    outbox.put(&Counted::Limit { policy, limit, outcome }, at_s, came);
                }
                self.series.entry(key).or_insert_with(Series::new).add(at_s, came);
            }
        }
    }
}

impl State {
    /// Sends the offers that came to queues in this second. Only time series have them.
    fn offers(&mut self, queues: &Queues, at_s: u64) {
        let Some(outbox) = &mut self.outbox else { return };
        for (name, queue) in queues.iter() {
            // Offers that are known or failed got neither through nor a refusal.
            for outcome in [Reception::Accepted, Reception::Refused] {
                let total = queue.count(outcome);
                let before = self.offers_before.insert((name.to_owned(), outcome.name()), total);
                let came = total.saturating_sub(before.unwrap_or(0));
                if came > 0 {
                    outbox.put(&Counted::Queue { name, outcome }, at_s, came);
                }
            }
        }
    }
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
        let (gate, recorder) = (gate(&metrics), Recorder::new(metrics, Queues::default(), None));
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
        let (gate, recorder) = (gate(&metrics), Recorder::new(metrics, Queues::default(), None));
        for units in 1..=500 {
            let limits: LimitSet = format!("{units}/h via gcra").parse().unwrap();
            let ask = tollgate::Ask::new("user:1").under(&limits);
            let answer = gate.inline().check(ask, Terms::new(OnFailure::Deny)).await;
            assert!(answer.unwrap().is_allowed());
        }
        recorder.read(1_700_006_400);
        let recorded = recorder.last(60, 1_700_006_401);
        assert!(recorded.series.len() <= 2, "{recorded:?}");
        let sum: u32 = recorded.series.iter().flat_map(|one| &one.counts).sum();
        assert_eq!(sum, 500);
    }
}
