//! Queues wherever they lie: for programs that are told where when they start.

use core::time::Duration;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, OutJob, Taken, WaitingJob};
use crate::memory::MemoryQueues;
use crate::model::{Afterwards, Offered, Stats};
use crate::settings::{Offering, Settings, Working};

/// Queues in one of the places there are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyQueues {
    /// In this process.
    Memory(MemoryQueues),
    /// In a file.
    #[cfg(feature = "sqlite")]
    Sqlite(crate::SqliteQueues),
    /// On Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(crate::RedisQueues),
}

/// The same of the one there is.
macro_rules! of {
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
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        of!(self, it => it.offer(queue, offering, job).await)
    }

    async fn offer_all(
        &self,
        queue: &str,
        offering: &Offering,
        jobs: &[Job],
    ) -> Result<Vec<Offered>, Error> {
        of!(self, it => it.offer_all(queue, offering, jobs).await)
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        of!(self, it => it.take(queue, working, worker, most).await)
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        of!(self, it => it.done(queue, ids).await)
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        of!(self, it => it.again(queue, working, held, after, why).await)
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        of!(self, it => it.extend(queue, working, held).await)
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        of!(self, it => it.release(queue, held).await)
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        of!(self, it => it.settings(queue).await)
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        of!(self, it => it.change(queue, settings).await)
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        of!(self, it => it.pause(queue, is_paused).await)
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        of!(self, it => it.remove(queue).await)
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        of!(self, it => it.names().await)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        of!(self, it => it.stats(queue).await)
    }

    async fn waiting(&self, queue: &str, most: usize) -> Result<Vec<WaitingJob>, Error> {
        of!(self, it => it.waiting(queue, most).await)
    }

    async fn in_hand(&self, queue: &str, most: usize) -> Result<Vec<OutJob>, Error> {
        of!(self, it => it.in_hand(queue, most).await)
    }

    async fn done_jobs(&self, queue: &str, most: usize) -> Result<Vec<DoneJob>, Error> {
        of!(self, it => it.done_jobs(queue, most).await)
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        of!(self, it => it.dead(queue, most).await)
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        of!(self, it => it.take_dead(queue, id).await)
    }

    async fn forget_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        of!(self, it => it.forget_dead(queue, id).await)
    }

    async fn wait(&self, queue: &str, most: Duration) {
        of!(self, it => it.wait(queue, most).await);
    }
}
