//! The recorder's end of the queue. It never blocks; counts that do not fit are lost, and counted
//! as such.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tollgate_policy::Outcome;
use tollgate_redis::timeseries::{Sample, Series, TimeSeriesError, label};

use super::tally::{Lost, Tally};
use super::transitions::{Health, Transitions};

/// The recorder's end of the queue. Dropping it makes the writer send what is queued, and end.
#[derive(Debug)]
pub(crate) struct Outbox {
    // Declared before `_alive`, so dropped first: a writer that sees `_alive` end finds the queue
    // closed.
    queue: mpsc::Sender<Count>,
    _alive: oneshot::Sender<()>,
    retention: Duration,
    /// At most as many as the recorder has.
    series: BTreeMap<Name, Arc<Series>>,
    tally: Arc<Tally>,
    transitions: Transitions,
}

/// The policy, the limit and the outcome.
type Name = (String, String, &'static str);

/// The increase of a series in one second.
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

    /// Queues the increase of this second.
    pub(crate) fn put(
        &mut self,
        (policy, limit): (&str, &str),
        outcome: Outcome,
        at_s: u64,
        value: u64,
    ) {
        let Ok(series) = self.series(policy, limit, outcome) else {
            // The server would refuse this series, too.
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
    // Inline limits have no policy, and a label must not be empty.
    if !policy.is_empty() {
        labels.push(("policy", label(policy)));
    }
    labels.extend([("limit", label(limit)), ("outcome", outcome.name().to_owned())]);
    // Neither name contains a `:`, so different limits have different keys.
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
