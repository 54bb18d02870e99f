//! Who works on a queue: its settings, what it tells, and what it did.

mod run;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{JobId, MAX_BATCH, MAX_DELAY};
use crate::queue::Consumer;
use crate::settings::ConsumerSettings;

/// How many jobs a worker does at once at most.
const MAX_CONCURRENCY: usize = 10_000;

/// Why a job was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    reason: String,
    after: Option<Duration>,
    is_started: bool,
}

impl Failure {
    /// For this reason, which a dead job is kept with.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after: None, is_started: true }
    }

    /// It was not begun, for a reason that is the worker's and not the job's, as a program that
    /// cannot be started: it is given back as if it had not been delivered, and the worker waits a
    /// little before it takes more.
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self { is_started: false, ..Self::new(reason) }
    }

    /// It is to be tried again after so long, and not when the worker's pauses say.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self { after: Some(after), ..self }
    }
}

/// What a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// Jobs that were done.
    pub done: u64,
    /// Deliveries that failed and come back.
    pub requeued: u64,
    /// Jobs that failed for the last time.
    pub dead: u64,
    /// Deliveries that somebody else has by now: they took longer than they may, or the queue was
    /// away.
    pub lost: u64,
    /// Jobs that were taken and given back.
    pub released: u64,
    /// Jobs that were over and could not be said to be so before the grace had passed: they come
    /// back, done or not.
    pub unreported: u64,
}

/// Works on a queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{
///     ConsumerSettings, Failure, Job, MemoryQueues, ProducerSettings, Queue, Worker,
/// };
///
/// let mail = Queue::new(MemoryQueues::new(), "mail")?;
/// for to in ["ann", "bob"] {
///     mail.producer(ProducerSettings::new(10))?.offer(&Job::new().field("to", to)).await?;
/// }
/// let worker = Worker::new(mail.consumer(ConsumerSettings::new())?, "worker-1").max_jobs(2);
/// let ran = worker
///     .run(
///         |job| async move {
///             println!("{:?}", job.text("to"));
///             Ok::<(), Failure>(())
///         },
///         std::future::pending(),
///     )
///     .await?;
/// assert_eq!(ran.done, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Worker<B> {
    consumer: Consumer<B>,
    name: String,
    concurrency: usize,
    batch: usize,
    max_jobs: u64,
    backoff: Duration,
    max_backoff: Duration,
    grace: Duration,
    until_empty: bool,
    on_event: Option<OnEvent>,
}

/// What a worker tells of itself while it works.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'n> {
    /// A fault that may pass is waited for. It is told once, until [`WorkerEvent::Recovered`].
    Fault(&'n Error),
    /// What was waited for answers again, so long after it was told.
    Recovered(Duration),
    /// The queue was removed ([`crate::Queue::remove`]): the worker waits until somebody makes it
    /// again.
    Removed,
    /// How the queue is worked on was changed ([`crate::Queue::change`]): this is how it is now,
    /// and the worker follows.
    Changed(&'n ConsumerSettings),
    /// The queue is paused ([`crate::Queue::pause`]): the worker waits until it goes on.
    Paused,
    /// The queue goes on.
    Resumed,
    /// Something that is no job lay among the jobs. It is a dead job now, under this id.
    Foreign {
        /// Its id.
        id: JobId,
        /// What is wrong with it.
        reason: &'n str,
    },
}

/// Whom that is told to.
type OnEvent = Arc<dyn Fn(WorkerEvent<'_>) + Send + Sync>;

impl<B: fmt::Debug> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("consumer", &self.consumer)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Worker<B> {
    /// A worker of this name, which does one job at a time.
    pub fn new(consumer: Consumer<B>, name: impl Into<String>) -> Self {
        Self {
            consumer,
            name: name.into(),
            concurrency: 1,
            batch: 1,
            max_jobs: u64::MAX,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(600),
            grace: Duration::from_secs(10),
            until_empty: false,
            on_event: None,
        }
    }

    /// How many jobs it does at once (1; up to 10,000).
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// How many jobs it takes at once (1; up to 1,000): more are fewer questions, and wait for it
    /// meanwhile instead of for others. The answer has all of them in it, and the deadline of the
    /// place where they lie must be long enough for that.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// How long it is tried at the end to say what became of the last jobs, where that fails
    /// (10 s).
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    fn check(&self) -> Result<(), Error> {
        let Self { concurrency, batch, backoff, max_backoff, .. } = self;
        if *concurrency == 0 || *concurrency > MAX_CONCURRENCY {
            let what = format!("{concurrency} jobs at once: 1 to {MAX_CONCURRENCY}");
            return Err(Error::invalid(what));
        }
        if *batch == 0 || *batch > MAX_BATCH {
            let what = format!("{batch} jobs taken at once: 1 to {MAX_BATCH}");
            return Err(Error::invalid(what));
        }
        if backoff > max_backoff || *max_backoff > MAX_DELAY {
            let what = format!(
                "pauses of {backoff:?} to {max_backoff:?}: the first is no longer than the longest, \
                 which is at most 366 days"
            );
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// After how many deliveries it ends.
    #[must_use]
    pub fn max_jobs(self, max_jobs: u64) -> Self {
        Self { max_jobs, ..self }
    }

    /// Whether it ends when nothing waits and nothing is to come back, whoever has it (no).
    #[must_use]
    pub fn until_empty(self, until_empty: bool) -> Self {
        Self { until_empty, ..self }
    }

    /// Whom it is told to what a worker waits for and what it finds, as it happens.
    #[must_use]
    pub fn on_event(self, emit: impl Fn(WorkerEvent<'_>) + Send + Sync + 'static) -> Self {
        Self { on_event: Some(Arc::new(emit)), ..self }
    }

    fn emit(&self, event: WorkerEvent<'_>) {
        if let Some(emit) = &self.on_event {
            emit(event);
        }
    }

    /// How long a job that failed is put off: so long the first time, twice as long the next, and
    /// never longer than `most` (1 s and 10 min); each by chance shorter by up to half, so that
    /// jobs that failed together do not come back together.
    #[must_use]
    pub fn backoff(self, first: Duration, max: Duration) -> Self {
        Self { backoff: first, max_backoff: max, ..self }
    }
}

#[cfg(test)]
mod tests;
