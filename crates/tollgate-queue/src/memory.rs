//! Queues in this process.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tollgate::{Ask, Clock, LimitSet, Limiter, MemoryStore, MonotonicClock};

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, MAX_BATCH, OutJob, Taken, WaitingJob};
use crate::model::{Afterwards, Granted, Model, Offered, Stats};
use crate::settings::{Offering, Settings, Working};

/// Queues in the memory of this process. Cheap to clone; clones are the same queues.
#[derive(Clone, Debug)]
pub struct MemoryQueues(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    rates: MemoryStore,
    queues: Mutex<HashMap<String, Arc<One>>>,
}

#[derive(Debug, Default)]
struct One {
    model: Mutex<Model>,
    offered: Notify,
}

impl Default for MemoryQueues {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryQueues {
    /// No queues yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::new())
    }

    /// The same by another clock.
    #[must_use]
    pub fn with_clock(clock: impl Clock + Clone + 'static) -> Self {
        let rates = MemoryStore::builder().clock(clock.clone()).build();
        Self(Arc::new(Shared { clock: Arc::new(clock), rates, queues: Mutex::default() }))
    }

    fn one(&self, name: &str) -> Arc<One> {
        let mut queues = self.0.queues.lock();
        match queues.get(name) {
            Some(one) => Arc::clone(one),
            None => Arc::clone(queues.entry(name.to_owned()).or_default()),
        }
    }

    fn now_us(&self) -> u64 {
        self.0.clock.now().as_micros()
    }

    /// How many of `there` the limits of a queue let through.
    fn grant(&self, queue: &str, limits: &LimitSet, there: usize) -> Result<Granted, Error> {
        let limiter = Limiter::new(limits.clone(), self.0.rates.clone());
        let subject = format!("queue:{queue}");
        Granted::of(there, |cost| {
            let decision = limiter.check_now(Ask::new(&*subject).cost(cost).partial())?;
            Ok((decision.granted(), decision.retry_after()))
        })
    }
}

impl Backend for MemoryQueues {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        let one = self.one(queue);
        let offered = one.model.lock().offer(self.now_us(), queue, offering, job)?;
        if matches!(offered, Offered::Accepted { .. }) {
            one.offered.notify_one();
        }
        Ok(offered)
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        _worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        let one = self.one(queue);
        let grant = |there| match working.limits() {
            None => Ok(Granted { jobs: there, next: None }),
            Some(limits) => self.grant(queue, limits, there),
        };
        let mut model = one.model.lock();
        let taken = model.take(self.now_us(), queue, working, most, grant)?;
        if !taken.jobs.is_empty() && model.has_waiting() {
            // Several offers wake one: it wakes the next. Not one that got nothing, as under a
            // rate, or they would wake each other for nothing.
            one.offered.notify_one();
        }
        Ok(taken)
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        Ok(self.one(queue).model.lock().done(self.now_us(), ids))
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        self.one(queue).model.lock().again(self.now_us(), queue, working, held, after, why)
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        self.one(queue).model.lock().extend(self.now_us(), queue, working, held)
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        let one = self.one(queue);
        let released = one.model.lock().release(self.now_us(), held);
        if released {
            one.offered.notify_one();
        }
        Ok(released)
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        Ok(self.one(queue).model.lock().settings())
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        self.one(queue).model.lock().change(settings);
        Ok(())
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let one = self.one(queue);
        let is_made = one.model.lock().pause(is_paused);
        if !is_paused {
            one.offered.notify_one();
        }
        Ok(is_made)
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        let one = self.one(queue);
        let was = std::mem::take(&mut *one.model.lock());
        Ok(was.settings() != Settings::default())
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let queues = self.0.queues.lock();
        let made =
            queues.iter().filter(|(_, one)| one.model.lock().settings() != Settings::default());
        let mut names: Vec<String> = made.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        Ok(self.one(queue).model.lock().stats(self.now_us()))
    }

    async fn waiting(&self, queue: &str, most: usize) -> Result<Vec<WaitingJob>, Error> {
        Ok(self.one(queue).model.lock().waiting(self.now_us(), most.min(MAX_BATCH)))
    }

    async fn in_hand(&self, queue: &str, most: usize) -> Result<Vec<OutJob>, Error> {
        Ok(self.one(queue).model.lock().in_hand(self.now_us(), most.min(MAX_BATCH)))
    }

    async fn done_jobs(&self, queue: &str, most: usize) -> Result<Vec<DoneJob>, Error> {
        Ok(self.one(queue).model.lock().done_jobs(most.min(MAX_BATCH)))
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        Ok(self.one(queue).model.lock().dead(most.min(MAX_BATCH)))
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        Ok(self.one(queue).model.lock().take_dead(id))
    }

    async fn forget_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        Ok(self.one(queue).model.lock().forget_dead(id))
    }

    async fn wait(&self, queue: &str, most: Duration) {
        let one = self.one(queue);
        let _ = tokio::time::timeout(most, one.offered.notified()).await;
    }
}
