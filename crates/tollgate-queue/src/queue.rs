//! A queue by its name, with its producers and consumers.

use core::time::Duration;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, MAX_BATCH, MAX_DELAY, TakeOutcome,
    WaitingJob,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings, check_same};
use crate::stats::Stats;

/// The longest reason of a failure, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 1_024;

/// The longest name of a queue or a worker, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A queue in some store. Cheap to clone.
#[derive(Debug)]
pub struct Queue<B>(Arc<Named<B>>);

#[derive(Debug)]
struct Named<B> {
    name: String,
    backend: B,
}

impl<B> Clone for Queue<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Backend> Queue<B> {
    /// The queue with this name, which need not exist yet.
    ///
    /// # Errors
    /// The name is empty, longer than 128 bytes, or contains a character other than letters, digits
    /// and `._:-`.
    pub fn new(backend: B, name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(Error::invalid(format!(
                "`{}` is not the name of a queue: 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_`, \
                 `:` \
                 and `-`",
                name.chars()
                    .take(MAX_NAME_BYTES)
                    .flat_map(char::escape_default)
                    .collect::<String>()
            )));
        }
        Ok(Self(Arc::new(Named { name, backend })))
    }

    /// The store of the queue.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.0.backend
    }

    /// The queue's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A handle that offers jobs.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn producer(&self, settings: ProducerSettings) -> Result<Producer<B>, Error> {
        settings.check()?;
        Ok(Producer { queue: self.clone(), settings })
    }

    /// A handle that takes jobs and settles them.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn consumer(&self, settings: ConsumerSettings) -> Result<Consumer<B>, Error> {
        settings.check()?;
        Ok(Consumer { queue: self.clone(), settings })
    }

    /// The settings of the queue, as far as they were set.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.0.backend.settings(&self.0.name).await
    }

    /// Changes the settings of the queue. Producers and consumers with the previous settings are
    /// refused from then on. The visibility timeouts of delivered jobs stay the same, and waiting
    /// jobs beyond a lower bound stay in the queue.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use tollgate_queue::{Job, MemoryQueues, ProducerSettings, Queue};
    /// let mail = Queue::new(MemoryQueues::new(), "mail")?;
    /// mail.producer(ProducerSettings::new(1))?.offer(&Job::new()).await?;
    /// mail.change(ProducerSettings::new(2)).await?;
    /// mail.producer(ProducerSettings::new(2))?.offer(&Job::new()).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A setting is out of range, or the store could not answer.
    pub async fn change(&self, settings: impl Into<Settings>) -> Result<(), Error> {
        let settings = settings.into();
        settings.check()?;
        self.0.backend.change(&self.0.name, &settings).await
    }

    /// Pauses the queue: no worker, new or old, receives jobs until [`Queue::resume`]. Offers are
    /// still accepted up to the bound, and delivered jobs can be finished. Returns false when the
    /// queue does not exist.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use tollgate_queue::{ConsumerSettings, Job, MemoryQueues, ProducerSettings, Queue};
    /// let mail = Queue::new(MemoryQueues::new(), "mail")?;
    /// mail.producer(ProducerSettings::new(1))?.offer(&Job::new()).await?;
    /// mail.pause().await?;
    /// let worker = mail.consumer(ConsumerSettings::new())?;
    /// assert!(worker.take("w", 1).await?.paused);
    /// mail.resume().await?;
    /// assert_eq!(worker.take("w", 1).await?.jobs.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn pause(&self) -> Result<bool, Error> {
        self.0.backend.pause(&self.0.name, true).await
    }

    /// Resumes a paused queue. Returns false when the queue does not exist.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn resume(&self) -> Result<bool, Error> {
        self.0.backend.pause(&self.0.name, false).await
    }

    /// Removes the queue with its waiting, delivered and dead jobs, its settings and its totals.
    /// Returns false when it did not exist. The next offer creates a new queue. The count of its
    /// rate limit stays. On Redis the ids of [`crate::Job::dedup_id`] stay until they expire, but
    /// do not affect a new queue.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn remove(&self) -> Result<bool, Error> {
        self.0.backend.remove(&self.0.name).await
    }

    /// The current numbers and the totals of the queue.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.0.backend.stats(&self.0.name).await
    }

    /// Lists the waiting jobs without taking them, the next one first, at most 1,000.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn waiting(&self, max: usize) -> Result<Vec<WaitingJob>, Error> {
        self.0.backend.waiting(&self.0.name, max).await
    }

    /// Lists the jobs that were delivered and are not done, without taking them, at most 1,000.
    /// They are ordered by the time of their redelivery.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn in_flight(&self, max: usize) -> Result<Vec<InFlightJob>, Error> {
        self.0.backend.in_flight(&self.0.name, max).await
    }

    /// Lists the done jobs that are kept ([`ConsumerSettings::keep_done`]), the oldest first, at
    /// most 1,000.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn done_jobs(&self, max: usize) -> Result<Vec<DoneJob>, Error> {
        self.0.backend.done_jobs(&self.0.name, max).await
    }

    /// Lists the dead jobs that are kept, the oldest first, at most 1,000.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn dead_letters(&self, max: usize) -> Result<Vec<DeadLetter>, Error> {
        self.0.backend.dead_letters(&self.0.name, max).await
    }

    /// Removes a dead job and returns it; `None` when it does not exist. To retry a job, first read
    /// it with [`Queue::dead_letters`], offer [`DeadLetter::job`], and then remove it. Otherwise
    /// the job would be lost together with a lost answer.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn take_dead_letter(&self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        self.0.backend.take_dead_letter(&self.0.name, id).await
    }

    /// Removes a dead job for good and returns it; `None` when it does not exist. Its deduplication
    /// id ([`crate::Job::dedup_id`]) is forgotten, too, so that the same job may be offered again.
    /// A job that died under an earlier version has no stored id.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn forget_dead_letter(&self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        self.0.backend.forget_dead_letter(&self.0.name, id).await
    }
}

/// Offers jobs to a queue.
#[derive(Debug)]
pub struct Producer<B> {
    queue: Queue<B>,
    settings: ProducerSettings,
}

impl<B> Clone for Producer<B> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), settings: self.settings.clone() }
    }
}

impl<B: Backend> Producer<B> {
    /// Checks that the queue has these [`ProducerSettings`] or does not exist yet, so that a
    /// program can detect a mismatch at startup.
    ///
    /// # Errors
    /// The queue has other settings, or the store could not answer.
    pub async fn check_settings(&self) -> Result<(), Error> {
        let made = self.queue.settings().await?.producer;
        made.map_or(Ok(()), |made| check_same(self.queue.name(), &made, &self.settings))
    }

    /// Adds a job unless the queue is full. A full queue is a regular outcome, not an error.
    ///
    /// # Errors
    /// The job is too large or has an invalid name; the queue has other [`ProducerSettings`]; or
    /// the store could not answer. In the last case the job was not added, unless the error is
    /// ambiguous ([`tollgate::StoreError::is_ambiguous`]).
    pub async fn offer(&self, job: &Job) -> Result<OfferOutcome, Error> {
        job.check()?;
        let Named { name, backend } = &*self.queue.0;
        backend.offer(name, &self.settings, job).await
    }

    /// Offers at most 1,000 jobs, each in turn as if alone, and returns each outcome. On Redis this
    /// is one atomic call, which costs the server far less than separate offers.
    ///
    /// # Errors
    /// As [`Producer::offer`], and more than 1,000 jobs. If the error is ambiguous, some or all
    /// jobs may have been added. If a job is invalid, none is added.
    pub async fn offer_all(&self, jobs: &[Job]) -> Result<Vec<OfferOutcome>, Error> {
        if jobs.len() > MAX_BATCH {
            let what = format!("{} jobs in one offer: at most {MAX_BATCH}", jobs.len());
            return Err(Error::invalid(what));
        }
        for job in jobs {
            job.check()?;
        }
        let Named { name, backend } = &*self.queue.0;
        backend.offer_all(name, &self.settings, jobs).await
    }
}

/// Takes jobs from a queue, and settles them.
#[derive(Debug)]
pub struct Consumer<B> {
    queue: Queue<B>,
    settings: ConsumerSettings,
}

impl<B> Clone for Consumer<B> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), settings: self.settings.clone() }
    }
}

impl<B: Backend> Consumer<B> {
    /// The queue.
    pub(crate) fn queue(&self) -> &Queue<B> {
        &self.queue
    }

    /// The settings for workers.
    #[must_use]
    pub fn settings(&self) -> &ConsumerSettings {
        &self.settings
    }

    /// Takes up to `max` jobs, at least 1; at most 1,000 are returned in one call. A job is
    /// delivered again when its visibility timeout passes before it is done, failed or extended.
    /// When the future is dropped, jobs may be taken all the same: they come back after it, too.
    ///
    /// # Errors
    /// The queue has other [`ConsumerSettings`], or the store could not answer. In the latter case
    /// jobs may have been taken; they are delivered again after their timeout.
    pub async fn take(&self, worker: &str, max: usize) -> Result<TakeOutcome, Error> {
        if max == 0 || worker.is_empty() || worker.len() > MAX_NAME_BYTES {
            let what = format!(
                "at most {max} jobs for a worker whose name has {} bytes: 1 and more, for a name \
                 of 1 to {MAX_NAME_BYTES}",
                worker.len()
            );
            return Err(Error::invalid(what));
        }
        let Named { name, backend } = &*self.queue.0;
        backend.take(name, &self.settings, worker, max.min(MAX_BATCH)).await
    }

    /// Acknowledges jobs as done, so that they are never delivered again. Returns how many of them
    /// still existed.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn ack(&self, ids: &[JobId]) -> Result<u64, Error> {
        let Named { name, backend } = &*self.queue.0;
        let mut done = 0;
        for ids in ids.chunks(MAX_BATCH) {
            done += backend.ack(name, ids).await?;
        }
        Ok(done)
    }

    /// Reports a failed delivery with its reason (at most 1,024 bytes). The job is delivered again
    /// after the delay (at most 366 days), or is dead after its last permitted delivery.
    ///
    /// # Errors
    /// As [`Consumer::take`].
    pub async fn nack(
        &self,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        let Named { name, backend } = &*self.queue.0;
        backend.nack(name, &self.settings, tag, after.min(MAX_DELAY), reason).await
    }

    /// Restarts the visibility timeout. Returns false when another worker has the job, or it no
    /// longer exists.
    ///
    /// # Errors
    /// As [`Consumer::take`].
    pub async fn extend(&self, tag: DeliveryTag) -> Result<bool, Error> {
        let Named { name, backend } = &*self.queue.0;
        backend.extend(name, &self.settings, tag).await
    }

    /// Returns a job that was not started to the queue, as if it had not been delivered this time.
    ///
    /// # Errors
    /// As [`Consumer::ack`].
    pub async fn release(&self, tag: DeliveryTag) -> Result<bool, Error> {
        let Named { name, backend } = &*self.queue.0;
        backend.release(name, tag).await
    }

    /// Waits at most `max` until a job may have been offered.
    pub async fn wait(&self, max: Duration) {
        let Named { name, backend } = &*self.queue.0;
        backend.wait(name, max).await;
    }
}
