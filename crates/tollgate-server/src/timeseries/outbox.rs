//! Where the recorder leaves its counts: it never waits, and what does not fit is lost and counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tollgate_policy::Outcome;
use tollgate_redis::timeseries::{Sample, Series, TimeSeriesError, label};

use super::tally::{Lost, Tally};
use super::transitions::{Health, Transitions};

/// The end of the queue that the recorder has. Once it is dropped, the writer ends with what waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    // Before `_alive`, so dropped before it: who sees that one end finds the queue closed.
    queue: mpsc::Sender<Count>,
    _alive: oneshot::Sender<()>,
    retention: Duration,
    /// As many as the recorder has.
    series: BTreeMap<Name, Arc<Series>>,
    tally: Arc<Tally>,
    transitions: Transitions,
}

/// Policy, limit, outcome.
type Name = (String, String, &'static str);

/// How many of a series came in a second.
#[derive(Clone, Debug)]
pub(super) struct Count {
    series: Arc<Series>,
    at_s: u64,
    value: u64,
}

impl Count {
    pub(super) fn sample(&self) -> Sample<'_> {
        let Self { series, at_s, value } = self;
        Sample { series, at_ms: at_s.saturating_mul(1_000), value: *value }
    }
}

impl Outbox {
    pub(super) fn new(
        queue: mpsc::Sender<Count>,
        alive: oneshot::Sender<()>,
        retention: Duration,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            queue,
            _alive: alive,
            retention,
            series: BTreeMap::new(),
            tally,
            transitions: Transitions::healthy(),
        }
    }

    /// So many in this second.
    pub(crate) fn put(
        &mut self,
        (policy, limit): (&str, &str),
        outcome: Outcome,
        at_s: u64,
        value: u64,
    ) {
        let Ok(series) = self.series(policy, limit, outcome) else {
            // As the server would, if it were asked.
            self.tally.add_queued();
            return self.tally.add_lost(Lost::Refused, 1);
        };
        let health = match self.queue.try_send(Count { series, at_s, value }) {
            Ok(()) => {
                self.tally.add_queued();
                Health::Good
            }
            Err(_) => {
                self.tally.add_lost(Lost::Full, 1);
                Health::Bad
            }
        };
        if self.transitions.is_new(health, Instant::now()) {
            let most = self.queue.max_capacity();
            match health {
                Health::Bad => tracing::warn!(
                    target: "tollgate",
                    "{most} counts wait for the time series on Redis: further ones are lost"
                ),
                Health::Good => tracing::info!(
                    target: "tollgate",
                    "there is room again for counts that wait for the time series on Redis"
                ),
            }
        }
    }

    fn series(
        &mut self,
        policy: &str,
        limit: &str,
        outcome: Outcome,
    ) -> Result<Arc<Series>, TimeSeriesError> {
        let name = (policy.to_owned(), limit.to_owned(), outcome.name());
        if let Some(series) = self.series.get(&name) {
            return Ok(Arc::clone(series));
        }
        let series = Arc::new(series_of(policy, limit, outcome, self.retention)?);
        self.series.insert(name, Arc::clone(&series));
        Ok(series)
    }
}

/// The series of a limit and an outcome.
fn series_of(
    policy: &str,
    limit: &str,
    outcome: Outcome,
    retention: Duration,
) -> Result<Series, TimeSeriesError> {
    let data = if outcome.admits() { "hits" } else { "denials" };
    let mut labels = vec![("data", data.to_owned())];
    // Inline limits have none, and a label is not empty.
    if !policy.is_empty() {
        labels.push(("policy", label(policy)));
    }
    labels.extend([("limit", label(limit)), ("outcome", outcome.name().to_owned())]);
    // Neither name has a `:` in it, so no two limits have one key.
    Series::new(format!("serve:{policy}:{limit}:{}", outcome.name()), retention, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_what_was_let_through() {
        let told = |policy, limit, outcome| {
            let series = series_of(policy, limit, outcome, Duration::ZERO).unwrap();
            let labels = series.labels().iter().map(|(name, value)| format!("{name}={value}"));
            format!("{} {}", series.key(), labels.collect::<Vec<String>>().join(" "))
        };
        assert_eq!(
            told("login", "gcra/1m", Outcome::Allowed),
            "serve:login:gcra/1m:allowed data=hits policy=login limit=gcra/1m outcome=allowed"
        );
        assert_eq!(
            told("", "inline", Outcome::Withheld),
            "serve::inline:withheld data=denials limit=inline outcome=withheld"
        );
        let longest = "x".repeat(64);
        for outcome in Outcome::ALL {
            let told = told(&longest, "IGNORE", outcome);
            let data = if outcome.admits() { "data=hits" } else { "data=denials" };
            assert!(told.contains(data) && told.contains("limit=IGNORE_"), "{told}");
        }
    }
}
