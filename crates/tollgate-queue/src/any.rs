//! Queues in any store: for programs that choose the store at startup.

use core::time::Duration;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, TakeOutcome, WaitingJob,
};
use crate::memory::MemoryQueues;
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// Queues in one of the available stores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyQueues {
    /// In the memory of this process.
    Memory(MemoryQueues),
    /// In a SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(crate::SqliteQueues),
    /// In Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(crate::RedisQueues),
}

/// Calls the method of the selected store.
macro_rules! dispatch {
    ($any:expr, $queues:ident => $ask:expr) => {
        match $any {
            AnyQueues::Memory($queues) => $ask,
            #[cfg(feature = "sqlite")]
            AnyQueues::Sqlite($queues) => $ask,
            #[cfg(feature = "redis")]
            AnyQueues::Redis($queues) => $ask,
        }
    };
}

impl Backend for AnyQueues {
    async fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        dispatch!(self, it => it.offer(queue, settings, job).await)
    }

    async fn offer_all(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        jobs: &[Job],
    ) -> Result<Vec<OfferOutcome>, Error> {
        dispatch!(self, it => it.offer_all(queue, settings, jobs).await)
    }

    async fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        dispatch!(self, it => it.take(queue, settings, worker, max).await)
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        dispatch!(self, it => it.ack(queue, ids).await)
    }

    async fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        dispatch!(self, it => it.nack(queue, settings, tag, after, reason).await)
    }

    async fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        dispatch!(self, it => it.extend(queue, settings, tag).await)
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        dispatch!(self, it => it.release(queue, tag).await)
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        dispatch!(self, it => it.settings(queue).await)
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        dispatch!(self, it => it.change(queue, settings).await)
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        dispatch!(self, it => it.pause(queue, is_paused).await)
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        dispatch!(self, it => it.remove(queue).await)
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        dispatch!(self, it => it.names().await)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        dispatch!(self, it => it.stats(queue).await)
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        dispatch!(self, it => it.waiting(queue, max).await)
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        dispatch!(self, it => it.in_flight(queue, max).await)
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        dispatch!(self, it => it.done_jobs(queue, max).await)
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        dispatch!(self, it => it.dead_letters(queue, max).await)
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        dispatch!(self, it => it.take_dead_letter(queue, id).await)
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        dispatch!(self, it => it.forget_dead_letter(queue, id).await)
    }

    async fn wait(&self, queue: &str, max: Duration) {
        dispatch!(self, it => it.wait(queue, max).await);
    }
}
