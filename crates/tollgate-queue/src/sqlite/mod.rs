//! Queues in a SQLite file that the processes of one machine share.
//!
//! Each operation is one transaction of the file that also stores counts. A rate is charged in the
//! transaction that takes jobs, so that neither happens without the other. An answered operation
//! survives the death of every process ([`tollgate_sqlite::Sync`] describes what a power loss may
//! undo).

mod inspect;
mod offer;
mod rows;
mod settle;
mod take;

use core::time::Duration;

use rows::{MIGRATIONS, QueueTx};
use tollgate_sqlite::{Access, Options, SqliteStore, Transaction};

use crate::backend::{Backend, poll};
use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, MAX_BATCH, TakeOutcome, WaitingJob,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// Queues in one file. Cheap to clone: clones share the queues, as do other processes that open the
/// file.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{Job, ProducerSettings, Queue, SqliteQueues};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("queues.db");
/// let queues = SqliteQueues::open(path.to_str().expect("a path in UTF-8"))?;
/// let mail = Queue::new(queues, "mail")?;
/// mail.producer(ProducerSettings::new(10))?.offer(&Job::new().field("to", "ann")).await?;
/// assert_eq!(mail.stats().await?.waiting, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteQueues(SqliteStore);

impl SqliteQueues {
    /// Opens `sqlite://PATH[?sync=full][&deadline=5s]`, or a path such as `./counts.db`. The file
    /// is created if it does not exist; its directory must exist. The file may also contain counts.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open(url_or_path: &str) -> Result<Self, Error> {
        Self::open_with(Options::from_url(url_or_path)?)
    }

    /// Opens the file of `options`.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(options: Options) -> Result<Self, Error> {
        let store = SqliteStore::open_with(options)?;
        store.migrate_extension("queue", MIGRATIONS)?;
        Ok(Self(store))
    }

    /// Changes a queue in one transaction; creates it if it does not exist.
    async fn with_queue<T: Send + 'static>(
        &self,
        queue: &str,
        work: impl FnOnce(&mut QueueTx<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| {
            let queue_tx = match QueueTx::find(tx, &name)? {
                Some(queue_tx) => queue_tx,
                None => QueueTx::make(tx, &name)?,
            };
            run_and_save(queue_tx, work)
        };
        self.0.transaction(Access::Write, work).await
    }

    /// The same for an existing queue; `absent` if it does not exist. Workers do not create a
    /// queue, so that one removed under them stays removed.
    async fn with_existing<T: Send + 'static>(
        &self,
        queue: &str,
        absent: T,
        work: impl FnOnce(&mut QueueTx<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| match QueueTx::find(tx, &name)? {
            Some(queue_tx) if queue_tx.is_made() => run_and_save(queue_tx, work),
            _ => Ok(absent),
        };
        self.0.transaction(Access::Write, work).await
    }

    /// Reads an existing queue in one transaction, without creating it.
    async fn inspect<T: Default + Send + 'static>(
        &self,
        access: Access,
        queue: &str,
        work: impl FnOnce(&QueueTx<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| match QueueTx::find(tx, &name)? {
            Some(queue_tx) => work(&queue_tx),
            None => Ok(T::default()),
        };
        self.0.transaction(access, work).await
    }
}

/// Runs an operation on a queue, and saves what it changed.
fn run_and_save<T>(
    mut queue_tx: QueueTx<'_, '_>,
    work: impl FnOnce(&mut QueueTx<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let before = queue_tx.row.clone();
    let answer = work(&mut queue_tx)?;
    queue_tx.save(&before)?;
    Ok(answer)
}

// The trait's methods have one lifetime, but a transaction must accept any.
#[allow(clippy::redundant_closure_for_method_calls)]
impl Backend for SqliteQueues {
    async fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        let (settings, job) = (settings.clone(), job.clone());
        self.with_queue(queue, move |queue_tx| queue_tx.offer(&settings, &job)).await
    }

    async fn offer_all(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        jobs: &[Job],
    ) -> Result<Vec<OfferOutcome>, Error> {
        let (settings, jobs) = (settings.clone(), jobs.to_vec());
        let offer = move |queue_tx: &mut QueueTx<'_, '_>| {
            jobs.iter().map(|job| queue_tx.offer(&settings, job)).collect::<Result<Vec<_>, _>>()
        };
        self.with_queue(queue, offer).await
    }

    async fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        let (settings, worker) = (settings.clone(), worker.to_owned());
        let take = move |queue_tx: &mut QueueTx<'_, '_>| queue_tx.take(&settings, &worker, max);
        let absent = TakeOutcome { absent: true, ..TakeOutcome::default() };
        self.with_existing(queue, absent, take).await
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        let ids = ids.to_vec();
        self.with_existing(queue, 0, move |queue_tx| queue_tx.ack(&ids)).await
    }

    async fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        let (settings, reason) = (settings.clone(), reason.to_owned());
        let again =
            move |queue_tx: &mut QueueTx<'_, '_>| queue_tx.nack(&settings, tag, after, &reason);
        self.with_existing(queue, NackOutcome::Lost, again).await
    }

    async fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        let settings = settings.clone();
        self.with_existing(queue, false, move |queue_tx| queue_tx.extend(&settings, tag)).await
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        self.with_existing(queue, false, move |queue_tx| queue_tx.release(tag)).await
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        self.inspect(Access::Read, queue, |queue_tx| queue_tx.settings()).await
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let settings = settings.clone();
        self.with_queue(queue, move |queue_tx| queue_tx.change(&settings)).await
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let pause = move |queue_tx: &mut QueueTx<'_, '_>| {
            queue_tx.row.totals.paused = is_paused;
            Ok(true)
        };
        self.with_existing(queue, false, pause).await
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        self.inspect(Access::Write, queue, |queue_tx| queue_tx.remove_all()).await
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        self.0.transaction(Access::Read, rows::names).await
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        self.inspect(Access::Read, queue, |queue_tx| queue_tx.stats()).await
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        let max = max.min(MAX_BATCH);
        self.inspect(Access::Read, queue, move |queue_tx| queue_tx.waiting(max)).await
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        let max = max.min(MAX_BATCH);
        self.inspect(Access::Read, queue, move |queue_tx| queue_tx.in_flight(max)).await
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        let max = max.min(MAX_BATCH);
        self.inspect(Access::Read, queue, move |queue_tx| queue_tx.done_jobs(max)).await
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        let max = max.min(MAX_BATCH);
        let dead = move |queue_tx: &QueueTx<'_, '_>| {
            let dead =
                queue_tx.dead_letters("ORDER BY id LIMIT ?2", (queue_tx.row.id, max as i64))?;
            Ok(dead.into_iter().map(|(_, dead)| dead).collect())
        };
        self.inspect(Access::Read, queue, dead).await
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        self.with_existing(queue, None, move |queue_tx| queue_tx.take_dead_letter(id)).await
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        self.with_existing(queue, None, move |queue_tx| queue_tx.forget_dead_letter(id)).await
    }

    async fn wait(&self, _queue: &str, max: Duration) {
        poll(max).await;
    }
}
