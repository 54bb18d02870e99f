//! Where queues lie.

use core::future::Future;
use core::time::Duration;

use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, TakeOutcome, WaitingJob,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// A place where queues lie, by name. Each operation is one step that nothing comes between; all
/// do what [`crate::Model`] does.
pub trait Backend: Send + Sync {
    /// Adds a job.
    fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> impl Future<Output = Result<OfferOutcome, Error>> + Send;

    /// Adds jobs, each in turn as if it came alone: one after the other unless one step does all.
    fn offer_all(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        jobs: &[Job],
    ) -> impl Future<Output = Result<Vec<OfferOutcome>, Error>> + Send {
        async move {
            let mut offered = Vec::with_capacity(jobs.len());
            for job in jobs {
                offered.push(self.offer(queue, settings, job).await?);
            }
            Ok(offered)
        }
    }

    /// Takes at most so many jobs for this worker.
    fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> impl Future<Output = Result<TakeOutcome, Error>> + Send;

    /// These are done; how many of them there were.
    fn ack(&self, queue: &str, ids: &[JobId]) -> impl Future<Output = Result<u64, Error>> + Send;

    /// This delivery failed.
    fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> impl Future<Output = Result<NackOutcome, Error>> + Send;

    /// The visibility timeout begins anew; false when it is held no more.
    fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Given back as if it had not been delivered; false when it is held no more.
    fn release(
        &self,
        queue: &str,
        tag: DeliveryTag,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// How it is offered to and worked on.
    fn settings(&self, queue: &str) -> impl Future<Output = Result<Settings, Error>> + Send;

    /// Changes that, where something is said.
    fn change(
        &self,
        queue: &str,
        settings: &Settings,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Pauses it, or lets it go on: paused, nothing is taken. False when there is none.
    fn pause(
        &self,
        queue: &str,
        is_paused: bool,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Removes the queue with all that is in it; false when there was none.
    fn remove(&self, queue: &str) -> impl Future<Output = Result<bool, Error>> + Send;

    /// The names of all queues that somebody has offered to or worked on, in order.
    fn names(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send;

    /// What there is and what there was.
    fn stats(&self, queue: &str) -> impl Future<Output = Result<Stats, Error>> + Send;

    /// The first of those that wait.
    fn waiting(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<WaitingJob>, Error>> + Send;

    /// Those that were delivered and are not done, by when they come back.
    fn in_flight(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<InFlightJob>, Error>> + Send;

    /// The oldest jobs that were done and are kept.
    fn done_jobs(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<DoneJob>, Error>> + Send;

    /// The oldest dead jobs.
    fn dead_letters(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;

    /// Removes a dead job and gives it.
    fn take_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> impl Future<Output = Result<Option<DeadLetter>, Error>> + Send;

    /// The same, and forgets what it was accepted once under.
    fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> impl Future<Output = Result<Option<DeadLetter>, Error>> + Send;

    /// Waits until something may have been offered, and no longer than this.
    fn wait(&self, queue: &str, max: Duration) -> impl Future<Output = ()> + Send;
}

/// How often it is looked whether there is something, where nobody says so.
#[cfg(any(feature = "redis", feature = "sqlite"))]
const POLL: Duration = Duration::from_millis(20);

/// Waits until it is time to look again, and no longer than this.
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) async fn poll(max: Duration) {
    tokio::time::sleep(max.min(POLL)).await;
}
