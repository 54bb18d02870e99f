//! A queue by its name, its producers and its consumers.

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

/// A queue somewhere. Cheap to clone.
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
    /// The queue of this name, which need not be there yet.
    ///
    /// # Errors
    /// A name that is empty, longer than 128 bytes, or has something else in it than letters,
    /// digits and `._:-`.
    pub fn new(backend: B, name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(Error::invalid(format!(
                "`{}` is no name of a queue: 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_`, `:` \
                 and `-`",
                name.chars()
                    .take(MAX_NAME_BYTES)
                    .flat_map(char::escape_default)
                    .collect::<String>()
            )));
        }
        Ok(Self(Arc::new(Named { name, backend })))
    }

    /// Where it lies.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.0.backend
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// For those who offer.
    ///
    /// # Errors
    /// A setting that is not as it may be.
    pub fn producer(&self, settings: ProducerSettings) -> Result<Producer<B>, Error> {
        settings.check()?;
        Ok(Producer { queue: self.clone(), settings })
    }

    /// For those who work.
    ///
    /// # Errors
    /// A setting that is not as it may be.
    pub fn consumer(&self, settings: ConsumerSettings) -> Result<Consumer<B>, Error> {
        settings.check()?;
        Ok(Consumer { queue: self.clone(), settings })
    }

    /// How it is offered to and worked on, where somebody has said so.
    ///
    /// # Errors
    /// Where it lies could not answer.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.0.backend.settings(&self.0.name).await
    }

    /// Changes how it is offered to or worked on. Who has said something else before is refused
    /// from then on. Jobs that are out come back when they would have; those that wait beyond a
    /// lower bound stay.
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
    /// A setting that is not as it may be; where it lies could not answer.
    pub async fn change(&self, settings: impl Into<Settings>) -> Result<(), Error> {
        let settings = settings.into();
        settings.check()?;
        self.0.backend.change(&self.0.name, &settings).await
    }

    /// Pauses it: nothing is taken until [`Queue::resume`], whoever works on it and whenever these
    /// were started. Offers are accepted up to the bound, and what is in hand is finished. False
    /// when nobody has offered to it or worked on it.
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
    /// Where it lies could not answer.
    pub async fn pause(&self) -> Result<bool, Error> {
        self.0.backend.pause(&self.0.name, true).await
    }

    /// Lets a paused queue go on. False when nobody has offered to it or worked on it.
    ///
    /// # Errors
    /// Where it lies could not answer.
    pub async fn resume(&self) -> Result<bool, Error> {
        self.0.backend.pause(&self.0.name, false).await
    }

    /// Removes the queue with all that is in it: what waits, what is in hand, the dead, its
    /// settings and totals; false when there was none. The next who offers makes it anew. The count
    /// of its rate stays. On a Redis the ids of [`crate::Job::dedup_id`] lie there until their time
    /// has passed, and mean nothing to a queue that is made later.
    ///
    /// # Errors
    /// Where it lies could not answer.
    pub async fn remove(&self) -> Result<bool, Error> {
        self.0.backend.remove(&self.0.name).await
    }

    /// What there is and what there was.
    ///
    /// # Errors
    /// Where it lies could not answer.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.0.backend.stats(&self.0.name).await
    }

    /// The jobs that wait, the first first, at most 1,000: looked at, and not taken.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn waiting(&self, max: usize) -> Result<Vec<WaitingJob>, Error> {
        self.0.backend.waiting(&self.0.name, max).await
    }

    /// The jobs that were delivered and are not done, in hand or to come back, at most 1,000: first
    /// that which comes back first. They are looked at, and not taken.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn in_flight(&self, max: usize) -> Result<Vec<InFlightJob>, Error> {
        self.0.backend.in_flight(&self.0.name, max).await
    }

    /// The jobs that were done and are kept, as many as [`ConsumerSettings::keep_done`] says, the
    /// oldest first, at most 1,000.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn done_jobs(&self, max: usize) -> Result<Vec<DoneJob>, Error> {
        self.0.backend.done_jobs(&self.0.name, max).await
    }

    /// The dead jobs that are kept, the oldest first, at most 1,000.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn dead_letters(&self, max: usize) -> Result<Vec<DeadLetter>, Error> {
        self.0.backend.dead_letters(&self.0.name, max).await
    }

    /// Removes a dead job and gives it; none when it is not there. To do one again, look at
    /// [`Queue::dead_letters`], offer [`DeadLetter::job`], and then remove it: an answer that is
    /// lost would take the job with it.
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn take_dead_letter(&self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        self.0.backend.take_dead_letter(&self.0.name, id).await
    }

    /// Removes a dead job for good and gives it; none when it is not there. What it was accepted
    /// once under ([`crate::Job::dedup_id`]) is forgotten with it, so that the same may be offered
    /// again. One that died before this version was used has none.
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
    /// Whether the queue was made with this [`ProducerSettings`], or not at all yet: for who would
    /// rather know at the start.
    ///
    /// # Errors
    /// It was made with another; where it lies could not answer.
    pub async fn check_settings(&self) -> Result<(), Error> {
        let made = self.queue.settings().await?.producer;
        made.map_or(Ok(()), |made| check_same(self.queue.name(), &made, &self.settings))
    }

    /// Adds a job, unless as many wait as may. Being full is an answer, and no error.
    ///
    /// # Errors
    /// The job is too large or has names that it may not have; the queue was made with another
    /// [`ProducerSettings`]; where it lies could not answer: then the job is not in, unless the
    /// error is ambiguous ([`tollgate::StoreError::is_ambiguous`]).
    pub async fn offer(&self, job: &Job) -> Result<OfferOutcome, Error> {
        job.check()?;
        let Named { name, backend } = &*self.queue.0;
        backend.offer(name, &self.settings, job).await
    }

    /// Offers jobs, at most 1,000, each in turn as if it came alone: what became of each. On a
    /// Redis this is one call, in one step, and takes far less of the server than as many offers.
    ///
    /// # Errors
    /// As [`Producer::offer`], and more than 1,000. When it is ambiguous, all or some may be in;
    /// when one is not as a job may be, none is.
    pub async fn offer_all(&self, jobs: &[Job]) -> Result<Vec<OfferOutcome>, Error> {
        if jobs.len() > MAX_BATCH {
            let what = format!("{} jobs offered at once: at most {MAX_BATCH}", jobs.len());
            return Err(Error::invalid(what));
        }
        for job in jobs {
            job.check()?;
        }
        let Named { name, backend } = &*self.queue.0;
        backend.offer_all(name, &self.settings, jobs).await
    }
}

/// Takes jobs from a queue, and says what became of them.
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

    /// How the queue is worked on.
    #[must_use]
    pub fn settings(&self) -> &ConsumerSettings {
        &self.settings
    }

    /// Takes at most so many jobs: 1 or more, of which at most 1,000 come at once. Each comes back
    /// when its visibility timeout has passed before it was done, given up or extended.
    ///
    /// # Errors
    /// The queue was made with another [`ConsumerSettings`]; where it lies could not answer: then
    /// jobs may be out that nobody has, which come back.
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

    /// These are done, and never delivered again; how many of them there were still.
    ///
    /// # Errors
    /// Where the queue lies could not answer.
    pub async fn ack(&self, ids: &[JobId]) -> Result<u64, Error> {
        let Named { name, backend } = &*self.queue.0;
        let mut done = 0;
        for ids in ids.chunks(MAX_BATCH) {
            done += backend.ack(name, ids).await?;
        }
        Ok(done)
    }

    /// This delivery failed of `why` (at most 1,024 bytes): the job comes back after so long (at
    /// most 366 days), or is dead when it has had its deliveries.
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

    /// Begins the visibility timeout anew. False: somebody else has the job, or it is gone.
    ///
    /// # Errors
    /// As [`Consumer::take`].
    pub async fn extend(&self, tag: DeliveryTag) -> Result<bool, Error> {
        let Named { name, backend } = &*self.queue.0;
        backend.extend(name, &self.settings, tag).await
    }

    /// Gives back a job that was not begun: as if it had not been delivered this time.
    ///
    /// # Errors
    /// As [`Consumer::ack`].
    pub async fn release(&self, tag: DeliveryTag) -> Result<bool, Error> {
        let Named { name, backend } = &*self.queue.0;
        backend.release(name, tag).await
    }

    /// Waits until something may have been offered, and no longer than this.
    pub async fn wait(&self, max: Duration) {
        let Named { name, backend } = &*self.queue.0;
        backend.wait(name, max).await;
    }
}
