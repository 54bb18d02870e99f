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
use crate::queues::Reception;

/// The recorder's end of the queue. Dropping it makes the writer send what is queued, and end.
#[derive(Debug)]
pub(crate) struct Outbox {
    // Declared before `_alive`, so dropped first: a writer that sees `_alive` end finds the queue
    // closed.
    queue: mpsc::Sender<Count>,
    _alive: oneshot::Sender<()>,
    retention: Duration,
    /// By key: at most as many as the recorder has, and some for each queue.
    series: BTreeMap<String, Arc<Series>>,
    tally: Arc<Tally>,
    transitions: Transitions,
}

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
    pub(crate) fn put(&mut self, counted: &Counted<'_>, at_s: u64, value: u64) {
        let Ok(series) = self.series(counted) else {
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

    fn series(&mut self, counted: &Counted<'_>) -> Result<Arc<Series>, TimeSeriesError> {
        let key = counted.key();
        if let Some(series) = self.series.get(&key) {
            return Ok(Arc::clone(series));
        }
        let series = Series::new(&*key, self.retention, counted.labels())?;
        let series = Arc::new(series);
        self.series.insert(key, Arc::clone(&series));
        Ok(series)
    }
}

/// The events that a series counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted<'a> {
    /// Decisions by a limit. Inline limits have no policy.
    Limit { policy: &'a str, limit: &'a str, outcome: Outcome },
    /// Offers to a queue.
    Queue { name: &'a str, outcome: Reception },
}

impl Counted<'_> {
    /// The key. No name contains a `:`, so that different events have different keys: a policy is
    /// not empty, and inline limits have another name than `queue`.
    fn key(&self) -> String {
        match self {
            Self::Limit { policy, limit, outcome } => {
                format!("serve:{policy}:{limit}:{}", outcome.name())
            }
            Self::Queue { name, outcome } => format!("serve::queue:{name}:{}", outcome.name()),
        }
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        let data = |is_hit| ("data", if is_hit { "hits" } else { "denials" }.to_owned());
        match self {
            Self::Limit { policy, limit, outcome } => {
                let mut labels = vec![data(outcome.admits())];
                // Inline limits have no policy, and a label must not be empty.
                if !policy.is_empty() {
                    labels.push(("policy", label(policy)));
                }
                labels.extend([("limit", label(limit)), ("outcome", outcome.name().to_owned())]);
                labels
            }
            Self::Queue { name, outcome } => vec![
                data(*outcome == Reception::Accepted),
                ("queue", label(name)),
                ("outcome", outcome.name().to_owned()),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_what_was_let_through() {
        let shown = |counted: Counted<'_>| {
            let series = Series::new(counted.key(), Duration::ZERO, counted.labels()).unwrap();
            let labels = series.labels().iter().map(|(name, value)| format!("{name}={value}"));
            format!("{} {}", series.key(), labels.collect::<Vec<String>>().join(" "))
        };
        let told = |policy, limit, outcome| shown(Counted::Limit { policy, limit, outcome });
        let of_queue = |outcome| shown(Counted::Queue { name: "mail", outcome });
        assert_eq!(
            of_queue(Reception::Accepted),
            "serve::queue:mail:accepted data=hits queue=mail outcome=accepted"
        );
        assert_eq!(
            of_queue(Reception::Refused),
            "serve::queue:mail:refused data=denials queue=mail outcome=refused"
        );
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
