//! Queues in the memory of this process.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tollgate::{Ask, Clock, LimitSet, Limiter, MemoryStore, MonotonicClock};

use crate::backend::Backend;
use crate::error::Error;
use crate::grant::Grant;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, MAX_BATCH, TakeOutcome, WaitingJob,
};
use crate::model::Model;
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// Queues in the memory of this process. Cheap to clone: clones share the queues.
#[derive(Clone, Debug)]
pub struct MemoryQueues(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    rates: MemoryStore,
    queues: Mutex<HashMap<String, Arc<QueueEntry>>>,
}

#[derive(Debug, Default)]
struct QueueEntry {
    model: Mutex<Model>,
    notify: Notify,
}

impl Default for MemoryQueues {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryQueues {
    /// A store without queues.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::new())
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(clock: impl Clock + Clone + 'static) -> Self {
        let rates = MemoryStore::builder().clock(clock.clone()).build();
        Self(Arc::new(Shared { clock: Arc::new(clock), rates, queues: Mutex::default() }))
    }

    fn entry(&self, name: &str) -> Arc<QueueEntry> {
        let mut queues = self.0.queues.lock();
        match queues.get(name) {
            Some(entry) => Arc::clone(entry),
            None => Arc::clone(queues.entry(name.to_owned()).or_default()),
        }
    }

    fn now_us(&self) -> u64 {
        self.0.clock.now().as_micros()
    }

    /// How many of `there` jobs the rate limits of a queue admit.
    fn grant(&self, queue: &str, limits: &LimitSet, there: usize) -> Result<Grant, Error> {
        let limiter = Limiter::new(limits.clone(), self.0.rates.clone());
        let subject = format!("queue:{queue}");
        Grant::from_rate(there, |cost| {
            let decision = limiter.check(Ask::new(&*subject).cost(cost).partial()).now()?;
            Ok((decision.granted(), decision.retry_after()))
        })
    }
}

impl Backend for MemoryQueues {
    async fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        let entry = self.entry(queue);
        let offered = entry.model.lock().offer(self.now_us(), queue, settings, job)?;
        if matches!(offered, OfferOutcome::Accepted { .. }) {
            entry.notify.notify_one();
        }
        Ok(offered)
    }

    async fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        _worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        let entry = self.entry(queue);
        let grant = |there| match settings.limits() {
            None => Ok(Grant { jobs: there, next: None }),
            Some(limits) => self.grant(queue, limits, there),
        };
        let mut model = entry.model.lock();
        let taken = model.take(self.now_us(), queue, settings, max, grant)?;
        if !taken.jobs.is_empty() && model.has_waiting() {
            // Several offers wake one waiter, which wakes the next. A worker that received nothing,
            // for example because of a rate, does not, or waiters would wake each other needlessly.
            entry.notify.notify_one();
        }
        Ok(taken)
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        Ok(self.entry(queue).model.lock().ack(self.now_us(), ids))
    }

    async fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        self.entry(queue).model.lock().nack(self.now_us(), queue, settings, tag, after, reason)
    }

    async fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        self.entry(queue).model.lock().extend(self.now_us(), queue, settings, tag)
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        let entry = self.entry(queue);
        let released = entry.model.lock().release(self.now_us(), tag);
        if released {
            entry.notify.notify_one();
        }
        Ok(released)
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        Ok(self.entry(queue).model.lock().settings())
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        self.entry(queue).model.lock().change(settings);
        Ok(())
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let entry = self.entry(queue);
        let is_made = entry.model.lock().pause(is_paused);
        if !is_paused {
            entry.notify.notify_one();
        }
        Ok(is_made)
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        let entry = self.entry(queue);
        let was = std::mem::take(&mut *entry.model.lock());
        Ok(was.settings() != Settings::default())
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let queues = self.0.queues.lock();
        let made =
            queues.iter().filter(|(_, entry)| entry.model.lock().settings() != Settings::default());
        let mut names: Vec<String> = made.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        Ok(self.entry(queue).model.lock().stats(self.now_us()))
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        Ok(self.entry(queue).model.lock().waiting(self.now_us(), max.min(MAX_BATCH)))
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        Ok(self.entry(queue).model.lock().in_flight(self.now_us(), max.min(MAX_BATCH)))
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        Ok(self.entry(queue).model.lock().done_jobs(max.min(MAX_BATCH)))
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        Ok(self.entry(queue).model.lock().dead_letters(max.min(MAX_BATCH)))
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        Ok(self.entry(queue).model.lock().take_dead_letter(id))
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        Ok(self.entry(queue).model.lock().forget_dead_letter(id))
    }

    async fn wait(&self, queue: &str, max: Duration) {
        let entry = self.entry(queue);
        let _ = tokio::time::timeout(max, entry.notify.notified()).await;
    }
}
