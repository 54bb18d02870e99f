//! Decides events of the lab on Redis: with the production scripts, by each event's own time.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::runtime::Runtime;
use tollgate::{LimitSet, Limiter, ManualClock, StoreError, Time};
use tollgate_logs::decide::ask;
use tollgate_logs::{Decider, Error, Event, EventUnit, InMemory, PerLimits, Verdict};
use tollgate_redis::{Builder, Options, RedisStore};
use tollgate_stores::{Kind, StoreUrl, scheme};

use crate::input::shown;
use crate::stop::Stop;
use crate::store;

/// The timeout of one answer: no production request waits for a replay.
const PATIENCE: Duration = Duration::from_secs(10);

/// The events in flight at one time: enough to fill a round trip.
const WINDOW: usize = 256;

/// The Redis server that decides `what`; `None` to decide in memory.
pub(crate) fn redis(url: &str, what: &str) -> Result<Option<Options>> {
    match (Kind::from_url(url), scheme(url)) {
        (Ok(Kind::Memory), _) if StoreUrl::parse(url).is_ok() => Ok(None),
        (Ok(Kind::Redis), _) => Ok(Some(Options::from_url(url)?.deadline_or(PATIENCE))),
        // Quote only the scheme: the rest may contain a password.
        (_, Some(scheme)) => bail!("`{}://` is not a store of {what}: {}", shown(scheme), STORES),
        (_, None) => bail!("the store has no scheme: {STORES}"),
    }
}

/// The valid stores.
const STORES: &str = "leave `--store` out to count in memory, which is exact and leaves your \
                      counts \
                      alone, or name a Redis, e.g. `redis://127.0.0.1:6379`";

/// A name for the keys of one run.
pub(crate) fn run_name(of: &str) -> String {
    // The random seed of the standard library suffices to distinguish two runs.
    format!("{of}-{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Decides on Redis. Each case has separate keys. The memory store decides as well, and both must
/// agree.
pub(crate) struct RedisDecider {
    options: Options,
    runtime: Runtime,
    run: String,
    cases: usize,
    current: Option<CurrentCase>,
    memory: InMemory,
    stop: Stop,
}

/// How often the store repeated calls so far: after loading a script, or one by one after a refused
/// batch.
fn disturbances(store: &RedisStore) -> u64 {
    store.loads() + store.refusals()
}

/// The current case.
struct CurrentCase {
    limiter: Limiter<RedisStore>,
    clock: ManualClock,
    parts: Vec<PerLimits>,
    /// The unit of the costs under these parts.
    unit: EventUnit,
    /// The disturbances of the store at the start of the case.
    before: u64,
}

impl RedisDecider {
    pub(crate) fn new(options: Options, stop: Stop) -> Result<Self> {
        // One connection decides events in the order in which they are sent.
        let options = options.connections(1);
        let run = run_name("replay");
        Ok(Self {
            options,
            runtime: store::runtime()?,
            run,
            cases: 0,
            current: None,
            memory: InMemory::default(),
            stop,
        })
    }

    /// Removes the keys of the current case.
    pub(crate) fn clear(&mut self) -> Result<(), StoreError> {
        let Some(CurrentCase { limiter, .. }) = self.current.take() else { return Ok(()) };
        self.runtime.block_on(clear(limiter.store()))
    }
}

/// Connects a store for a run, whose keys must be unused.
pub(crate) async fn open_run(builder: Builder) -> Result<RedisStore, StoreError> {
    let store = builder.connect().await?;
    if store.count_keys().await? > 0 {
        return Err(StoreError::permanent(format!(
            "there are keys that begin with `{}:`, which would be counted as this run's: start it \
             again, for another name",
            store.keys().prefix()
        )));
    }
    Ok(store)
}

/// Removes the keys of a run.
pub(crate) async fn clear(store: &RedisStore) -> Result<(), StoreError> {
    store.clear_run().await.map_err(|error| {
        let prefix = store.keys().prefix();
        let what = format!(
            "the keys of this run could not be removed: those that begin with `{prefix}:` go by \
             themselves within an hour, or when their windows have passed"
        );
        StoreError::transient(what).because(error)
    })
}

impl Decider for RedisDecider {
    fn begin(&mut self, parts: &[PerLimits]) -> Result<(), Error> {
        self.memory.begin(parts)?;
        let Some(first) = parts.first() else { return Ok(()) };
        let all: Vec<&LimitSet> = parts.iter().map(|part| &part.limits).collect();
        self.clear()?;
        self.cases += 1;
        let clock = ManualClock::at_micros(0);
        let run = format!("{}-{}", self.run, self.cases);
        let builder = RedisStore::builder(self.options.clone()).run(&run, clock.clone());
        let store = self.runtime.block_on(open_run(builder))?;
        // Load the scripts while no question is in flight that could be reordered.
        self.runtime.block_on(store.prepare(&all))?;
        let (before, parts) = (disturbances(&store), parts.to_vec());
        let unit = EventUnit::of(all)?;
        let limiter = Limiter::new(first.limits.clone(), store);
        self.current = Some(CurrentCase { limiter, clock, parts, unit, before });
        Ok(())
    }

    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        let before = verdicts.len();
        let Some(current) = &self.current else { return Ok(()) };
        let stop = &self.stop;
        // Without tokio's cooperative budget: once it is spent, a question would not be sent at its
        // first poll, and the next could overtake it.
        let deciding = tokio::task::unconstrained(current.decide(events, verdicts, stop));
        self.runtime.block_on(deciding)?;
        let mut expected = Vec::with_capacity(events.len());
        self.memory.decide(events, &mut expected)?;
        let found = verdicts.get(before..).unwrap_or_default();
        let both = || events.iter().zip(found.iter().zip(&expected));
        match both().find(|(_, (found, expected))| found != expected) {
            None => Ok(()),
            Some((event, (found, expected))) => Err(StoreError::permanent(format!(
                "Redis and memory do not say the same of client {} at {} us: {found:?} and \
                 {expected:?}; this is a fault of Tollgate, or somebody else writes its keys",
                event.client.index(),
                event.at_us
            ))
            .into()),
        }
    }

    fn held(&self) -> Option<(usize, usize)> {
        // The size in memory, so that a run has the same measures on every store.
        self.memory.held()
    }
}

impl CurrentCase {
    /// Sends a question for every event in order, without waiting for the previous answer.
    async fn decide(
        &self,
        events: &[Event],
        verdicts: &mut Vec<Verdict>,
        stop: &Stop,
    ) -> Result<(), Error> {
        let mut window: VecDeque<PendingVerdict<_>> = VecDeque::with_capacity(WINDOW);
        for event in events {
            if stop.is_asked() {
                break;
            }
            if window.len() == WINDOW
                && let Some(first) = window.pop_front()
            {
                verdicts.push(first.verdict().await?);
            }
            let mut verdict = Box::pin(self.ask(*event));
            // The first poll reads the clock and passes the question to the connection, which
            // preserves the order.
            self.clock.set(Time::from_micros(event.at_us));
            let polled = poll_fn(|context| Poll::Ready(verdict.as_mut().poll(context))).await;
            window.push_back(match polled {
                Poll::Pending => PendingVerdict::Waiting(verdict),
                Poll::Ready(verdict) => PendingVerdict::Ready(verdict),
            });
        }
        // Also after a stop: otherwise questions in flight would write after the removal of the
        // keys.
        for answer in window {
            verdicts.push(answer.verdict().await?);
        }
        if stop.is_asked() {
            return Err(Error::Stopped);
        }
        if disturbances(self.limiter.store()) != self.before {
            // The repeated calls arrived after others that were sent later.
            return Err(StoreError::transient(
                "Redis has forgotten the script during the run (SCRIPT FLUSH, or a restart), or \
                 takes no call about several clients (a cluster, rights to some keys), so the \
                 order of events is not sure: start it again",
            )
            .into());
        }
        Ok(())
    }

    async fn ask(&self, event: Event) -> Result<Verdict, Error> {
        let client = event.client.index().to_string();
        let Some(ask) = ask(&self.parts, &client) else { return Err(Error::Stopped) };
        let ask = ask.cost(self.unit.cost(event.cost));
        Ok(Verdict::from_decision(&self.limiter.check(ask).await?))
    }
}

/// The pending verdict of a question that was sent.
enum PendingVerdict<F> {
    Waiting(Pin<Box<F>>),
    Ready(Result<Verdict, Error>),
}

impl<F: Future<Output = Result<Verdict, Error>>> PendingVerdict<F> {
    async fn verdict(self) -> Result<Verdict, Error> {
        match self {
            Self::Waiting(answer) => answer.await,
            Self::Ready(answer) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_memory_or_a_redis() {
        assert!(redis("memory://", "a run").unwrap().is_none());
        assert!(redis("unix:///x", "a run").unwrap().is_some());
        let deadline = |url| format!("{:?}", redis(url, "a run").unwrap().unwrap());
        assert!(deadline("redis://x").contains("deadline: 10s"));
        for url in ["sqlite:///x.db", "memory://x", "http://x:secret@y", "x.db", ""] {
            let error = redis(url, "a run").unwrap_err().to_string();
            assert!(error.contains("leave `--store` out") && !error.contains("secret"), "{error}");
        }
    }
}
