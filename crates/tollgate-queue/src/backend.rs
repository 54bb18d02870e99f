//! The interface of a store of queues.

use core::future::Future;
use core::time::Duration;

use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, TakeOutcome, WaitingJob,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// A store of queues, by name. Each operation is atomic; all stores behave like [`crate::Model`].
pub trait Backend: Send + Sync {
    /// Adds a job.
    fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> impl Future<Output = Result<OfferOutcome, Error>> + Send;

    /// Adds jobs, each in turn as if alone. The default offers them one after the other; a store
    /// may do all in one step.
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

    /// Takes at most `max` jobs for this worker.
    fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> impl Future<Output = Result<TakeOutcome, Error>> + Send;

    /// Acknowledges jobs as done, and returns how many of them existed.
    fn ack(&self, queue: &str, ids: &[JobId]) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Reports that this delivery failed.
    fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> impl Future<Output = Result<NackOutcome, Error>> + Send;

    /// Restarts the visibility timeout; false when the delivery is no longer held.
    fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Returns the job as if it had not been delivered; false when the delivery is no longer held.
    fn release(
        &self,
        queue: &str,
        tag: DeliveryTag,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// The settings for producers and workers.
    fn settings(&self, queue: &str) -> impl Future<Output = Result<Settings, Error>> + Send;

    /// Changes the settings that are given.
    fn change(
        &self,
        queue: &str,
        settings: &Settings,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Pauses or resumes the queue; a paused queue delivers nothing. False when it does not exist.
    fn pause(
        &self,
        queue: &str,
        is_paused: bool,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Removes the queue with all of its jobs; false when it does not exist.
    fn remove(&self, queue: &str) -> impl Future<Output = Result<bool, Error>> + Send;

    /// The names of all queues that have settings, in order.
    fn names(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send;

    /// The current numbers and the totals.
    fn stats(&self, queue: &str) -> impl Future<Output = Result<Stats, Error>> + Send;

    /// The next waiting jobs.
    fn waiting(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<WaitingJob>, Error>> + Send;

    /// The jobs in flight, in the order of their redelivery.
    fn in_flight(
        &self,
        queue: &str,
        max: usize,
    ) -> impl Future<Output = Result<Vec<InFlightJob>, Error>> + Send;

    /// The oldest done jobs that are kept.
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

    /// Removes a dead job and returns it.
    fn take_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> impl Future<Output = Result<Option<DeadLetter>, Error>> + Send;

    /// The same, and forgets its deduplication id.
    fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> impl Future<Output = Result<Option<DeadLetter>, Error>> + Send;

    /// Waits at most `max` until a job may have been offered.
    fn wait(&self, queue: &str, max: Duration) -> impl Future<Output = ()> + Send;
}

/// The polling interval where no signal announces new jobs.
#[cfg(any(feature = "redis", feature = "sqlite"))]
const POLL: Duration = Duration::from_millis(20);

/// Waits until the next poll, at most `max`.
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) async fn poll(max: Duration) {
    tokio::time::sleep(max.min(POLL)).await;
}
