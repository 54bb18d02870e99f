//! The decisions of a replay on Redis: the same script for each event, by the event's own time.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;
use tollgate::{Ask, Limiter, ManualClock, StoreError, Time};
use tollgate_lab::replay::{Case, Decider};
use tollgate_lab::{Error, Event};
use tollgate_redis::{Options, RedisStore};

use crate::store;

use super::stop::Stop;

/// How long one answer may take. A replay has nobody waiting at a door.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Events that are under way at one time: enough to fill a round trip.
const WINDOW: usize = 256;

/// Decides on a Redis, each case under keys of its own.
pub(super) struct OnRedis {
    options: Options,
    runtime: Runtime,
    run: String,
    cases: usize,
    current: Option<Current>,
    stop: Stop,
}

/// The case at work.
struct Current {
    limiter: Limiter<RedisStore>,
    clock: ManualClock,
    /// Loads of scripts at its begin.
    loads: u64,
}

impl OnRedis {
    pub(super) fn new(options: Options, stop: Stop) -> Result<Self> {
        // Events of one connection are decided in the order in which they are sent.
        let options = options.connections(1);
        // A seed of the standard library is random enough to tell two replays apart.
        let run = format!("replay-{:016x}", RandomState::new().hash_one(std::process::id()));
        Ok(Self { options, runtime: store::runtime()?, run, cases: 0, current: None, stop })
    }

    /// Removes what the case at work has written.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        let Some(Current { limiter, .. }) = self.current.take() else { return Ok(()) };
        let store = limiter.store();
        self.runtime.block_on(store.clear_run()).map_err(|error| {
            let prefix = store.keys().prefix();
            let what = format!(
                "the keys of this replay could not be removed: those that begin with `{prefix}:` \
                 go by themselves within an hour"
            );
            StoreError::transient(what).because(error)
        })
    }
}

impl Decider for OnRedis {
    fn begin(&mut self, case: &Case) -> Result<(), Error> {
        self.clear()?;
        self.cases += 1;
        let clock = ManualClock::at_micros(0);
        let run = format!("{}-{}", self.run, self.cases);
        let builder = RedisStore::builder(self.options.clone()).run(&run, clock.clone());
        let store = self.runtime.block_on(async {
            let store = builder.connect().await?;
            if store.count_keys().await? > 0 {
                return Err(StoreError::permanent(format!(
                    "there are keys that begin with `{}:`, which would be counted as this \
                     replay's: start it again, for another name",
                    store.keys().prefix()
                )));
            }
            // While the script is loaded, nothing is on its way that could change places.
            store.prepare(&case.limits).await?;
            Ok(store)
        })?;
        let loads = store.loads();
        self.current =
            Some(Current { limiter: Limiter::new(case.limits.clone(), store), clock, loads });
        Ok(())
    }

    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<bool>) -> Result<(), Error> {
        let Some(current) = &self.current else { return Ok(()) };
        let stop = &self.stop;
        // Without the budget that tokio gives a task: when it is spent, a question would not be
        // sent when it is polled first, and the next could overtake it.
        let deciding = tokio::task::unconstrained(current.decide(events, verdicts, stop));
        self.runtime.block_on(deciding)
    }
}

impl Current {
    /// Asks for every event, in order, without waiting for the answer before the next is sent.
    async fn decide(
        &self,
        events: &[Event],
        verdicts: &mut Vec<bool>,
        stop: &Stop,
    ) -> Result<(), Error> {
        let mut window: VecDeque<Answer<_>> = VecDeque::with_capacity(WINDOW);
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
            // Its first poll reads the clock and hands the question to the connection, which
            // sends in the order in which it is handed them.
            self.clock.set(Time::from_micros(event.at_us));
            let polled = poll_fn(|context| Poll::Ready(verdict.as_mut().poll(context))).await;
            window.push_back(match polled {
                Poll::Pending => Answer::Coming(verdict),
                Poll::Ready(verdict) => Answer::There(verdict),
            });
        }
        // Also when it stops: what is on its way would be written after everything was removed.
        for answer in window {
            verdicts.push(answer.verdict().await?);
        }
        if stop.is_asked() {
            return Err(Error::Stopped);
        }
        if self.limiter.store().loads() != self.loads {
            // Those that were on their way came after others that were sent later.
            return Err(StoreError::transient(
                "Redis has forgotten the script during the replay (SCRIPT FLUSH, or a restart), \
                 so the order of events is not sure: start it again",
            )
            .into());
        }
        Ok(())
    }

    async fn ask(&self, event: Event) -> Result<bool, Error> {
        let ask = Ask::new(event.client.index().to_string());
        Ok(self.limiter.check(ask).await?.is_allowed())
    }
}

/// The answer to a question that was sent.
enum Answer<F> {
    Coming(Pin<Box<F>>),
    There(Result<bool, Error>),
}

impl<F: Future<Output = Result<bool, Error>>> Answer<F> {
    async fn verdict(self) -> Result<bool, Error> {
        match self {
            Self::Coming(answer) => answer.await,
            Self::There(answer) => answer,
        }
    }
}
