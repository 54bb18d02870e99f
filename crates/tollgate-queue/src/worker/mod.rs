//! A worker of a queue: its settings, its events, and the summary of its run.

mod run;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{JobId, MAX_BATCH, MAX_DELAY};
use crate::queue::Consumer;
use crate::settings::ConsumerSettings;

/// The maximum number of jobs that a worker runs concurrently.
const MAX_CONCURRENCY: usize = 10_000;

/// Why a job failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    reason: String,
    after: Option<Duration>,
    is_started: bool,
}

impl Failure {
    /// A failure with this reason, which is stored with a dead job.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after: None, is_started: true }
    }

    /// The job was not started for a reason of the worker, not of the job, for example a program
    /// that cannot be started. The job is released as if it had not been delivered, and the worker
    /// pauses before it takes more.
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self { is_started: false, ..Self::new(reason) }
    }

    /// Retries the job after this delay, instead of the worker's back-off.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self { after: Some(after), ..self }
    }
}

/// The summary of a worker's run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// Jobs that were done.
    pub done: u64,
    /// Deliveries that failed and are retried.
    pub requeued: u64,
    /// Jobs that failed for the last time.
    pub dead: u64,
    /// Deliveries that another worker has by now: they took too long, or the queue was unavailable.
    pub lost: u64,
    /// Jobs that were taken and released.
    pub released: u64,
    /// Finished jobs whose outcome could not be reported before the grace period ended. They are
    /// delivered again, even if they were done.
    pub unreported: u64,
}

/// Runs the jobs of a queue.
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

/// A report of a worker about itself while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'n> {
    /// A transient fault, which the worker waits for. It is reported once, until
    /// [`WorkerEvent::Recovered`].
    Fault(&'n Error),
    /// The queue answers again, this long after the fault was reported.
    Recovered(Duration),
    /// The queue was removed ([`crate::Queue::remove`]): the worker waits until it is created
    /// again.
    Removed,
    /// The settings for workers were changed ([`crate::Queue::change`]) to these, and the worker
    /// adopts them.
    Changed(&'n ConsumerSettings),
    /// The queue is paused ([`crate::Queue::pause`]): the worker waits until it is resumed.
    Paused,
    /// The queue was resumed.
    Resumed,
    /// An entry of the queue was not a valid job. It is now a dead job with this id.
    Foreign {
        /// Its id.
        id: JobId,
        /// The problem with it.
        reason: &'n str,
    },
}

/// The receiver of the events.
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
    /// A worker with this name, which runs one job at a time.
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

    /// How many jobs it runs concurrently (1 by default, up to 10,000).
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// How many jobs one request takes (1 by default, up to 1,000). A larger batch needs fewer
    /// calls, but its jobs wait for this worker instead of others. The answer contains all of them,
    /// so the store's deadline must be long enough for it.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// How long the worker retries, at the end of its run, to report the outcomes of the last jobs
    /// (10 s by default).
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    fn check(&self) -> Result<(), Error> {
        let Self { concurrency, batch, backoff, max_backoff, .. } = self;
        if *concurrency == 0 || *concurrency > MAX_CONCURRENCY {
            let what = format!("{concurrency} concurrent jobs: 1 to {MAX_CONCURRENCY}");
            return Err(Error::invalid(what));
        }
        if *batch == 0 || *batch > MAX_BATCH {
            let what = format!("{batch} jobs in one take: 1 to {MAX_BATCH}");
            return Err(Error::invalid(what));
        }
        if backoff > max_backoff || *max_backoff > MAX_DELAY {
            let what = format!(
                "pauses of {backoff:?} to {max_backoff:?}: the first is at most the longest, and \
                 that at most 366 days"
            );
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// Ends the run after this many deliveries.
    #[must_use]
    pub fn max_jobs(self, max_jobs: u64) -> Self {
        Self { max_jobs, ..self }
    }

    /// Whether the run ends when no job waits and none awaits redelivery, whichever worker holds it
    /// (false by default).
    #[must_use]
    pub fn until_empty(self, until_empty: bool) -> Self {
        Self { until_empty, ..self }
    }

    /// Sets the receiver of the worker's events.
    #[must_use]
    pub fn on_event(self, emit: impl Fn(WorkerEvent<'_>) + Send + Sync + 'static) -> Self {
        Self { on_event: Some(Arc::new(emit)), ..self }
    }

    fn emit(&self, event: WorkerEvent<'_>) {
        if let Some(emit) = &self.on_event {
            emit(event);
        }
    }

    /// The delay of a failed job: `first` after its first failure, doubled with each further one,
    /// at most `max` (1 s and 10 min by default). It is randomly shortened by up to half, so that
    /// jobs that failed together are not retried together.
    #[must_use]
    pub fn backoff(self, first: Duration, max: Duration) -> Self {
        Self { backoff: first, max_backoff: max, ..self }
    }
}

#[cfg(test)]
mod tests;
