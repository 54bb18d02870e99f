//! The run of a worker: it takes jobs, runs the function on each, and reports the outcomes.

use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::{Failure, RunSummary, Worker, WorkerEvent};
use crate::backend::Backend;
use crate::error::Error;
use crate::job::{Delivery, DeliveryTag, JobId, MAX_DELAY};
use crate::outcome::NackOutcome;
use crate::queue::{Consumer, MAX_REASON_BYTES};

/// The pause between looks at the queue when no signal announces new jobs.
const IDLE: Duration = Duration::from_millis(500);

/// The pause after a transient fault; it doubles with each further one.
const FAULT_BACKOFF: Duration = Duration::from_millis(100);
const MAX_FAULT_BACKOFF: Duration = Duration::from_secs(5);

/// The pause of a worker that could not start a job.
const NOT_STARTED_PAUSE: Duration = Duration::from_secs(1);

impl<B: Backend> Worker<B> {
    /// Runs until `stop` is ready, or the maximum of jobs is finished. Running jobs are then
    /// finished, and taken jobs that were not started are released.
    ///
    /// The worker waits for transient faults, and then reports the jobs finished meanwhile. When
    /// the settings for workers change, it adopts them.
    ///
    /// # Errors
    /// A setting is out of range; the queue was created with other [`crate::ConsumerSettings`]; or
    /// a permanent fault occurred, after which running jobs were finished first.
    pub async fn run<F, R>(
        &self,
        handle: F,
        stop: impl Future<Output = ()>,
    ) -> Result<RunSummary, Error>
    where
        F: Fn(Delivery) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.check()?;
        let mut at_work = Run {
            worker: self,
            consumer: self.consumer.clone(),
            settings_matched: false,
            mismatch: None,
            is_refused_again: false,
            ready: VecDeque::new(),
            tasks: JoinSet::new(),
            tags: HashMap::new(),
            done: Vec::new(),
            failed: Vec::new(),
            started: 0,
            ran: RunSummary::default(),
            backoff: FAULT_BACKOFF,
            not_before: Instant::now(),
            next_heartbeat: Instant::now(),
            is_empty: false,
            is_paused: false,
            is_absent: None,
            unreachable_since: None,
        };
        match at_work.run(handle, stop).await {
            Ok(ran) => Ok(ran),
            Err(error) => {
                at_work.finish().await;
                Err(error)
            }
        }
    }
}

/// A worker in its run.
struct Run<'w, B> {
    worker: &'w Worker<B>,
    /// With the current settings of the queue.
    consumer: Consumer<B>,
    /// Whether these settings have ever matched the queue's: only then is a mismatch a change.
    settings_matched: bool,
    /// The error of a call that was refused because the queue's settings have changed. They are
    /// adopted before the next call.
    mismatch: Option<Error>,
    /// The last adopted settings were those that had been refused.
    is_refused_again: bool,
    /// Taken, but not started.
    ready: VecDeque<Delivery>,
    tasks: JoinSet<Result<(), Failure>>,
    tags: HashMap<Id, DeliveryTag>,
    /// Done, but not reported yet.
    done: Vec<JobId>,
    failed: Vec<(DeliveryTag, Failure)>,
    started: u64,
    ran: RunSummary,
    /// The pause after the next fault.
    backoff: Duration,
    /// No call is made before this time, after a fault.
    not_before: Instant,
    /// When the visibility timeouts are extended next.
    next_heartbeat: Instant,
    /// The last take found nothing.
    is_empty: bool,
    /// The queue was paused at the last call.
    is_paused: bool,
    /// Whether the queue did not exist at the last call; `None` before the first call.
    is_absent: Option<bool>,
    /// Since when the queue does not answer.
    unreachable_since: Option<Instant>,
}

impl<B: Backend> Run<'_, B> {
    async fn run<F, R>(
        &mut self,
        handle: F,
        stop: impl Future<Output = ()>,
    ) -> Result<RunSummary, Error>
    where
        F: Fn(Delivery) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut stop = pin!(stop);
        let mut stopped: Option<Instant> = None;
        self.next_heartbeat = Instant::now() + self.heartbeat();
        // Since when no job is running, at the end of the run.
        let mut idle_since: Option<Instant> = None;
        // When to look for jobs next.
        let mut look = Instant::now();
        loop {
            while let Some(finished) = self.tasks.try_join_next_with_id() {
                self.finished(finished);
            }
            if stopped.is_some() && self.tasks.is_empty() && idle_since.is_none() {
                idle_since = Some(Instant::now());
                // The last outcomes are reported once, whatever failed before.
                self.not_before = Instant::now();
            }
            let may_ask = Instant::now() >= self.not_before;
            if may_ask && let Some(mismatch) = self.mismatch.take() {
                self.reload_settings(mismatch).await?;
            }
            if may_ask {
                self.report().await?;
            }
            if Instant::now() >= self.next_heartbeat {
                self.extend().await?;
            }
            if self.started >= self.worker.max_jobs || (self.worker.until_empty && self.is_empty) {
                stopped.get_or_insert_with(Instant::now);
            }
            if stopped.is_some() {
                self.release().await?;
                let unreported = self.done.len() + self.failed.len();
                let is_late = |since: Instant| since.elapsed() >= self.worker.grace;
                if self.tasks.is_empty() && (unreported == 0 || idle_since.is_some_and(is_late)) {
                    self.ran.unreported += unreported as u64;
                    return Ok(self.ran);
                }
            }
            while stopped.is_none()
                && self.tasks.len() < self.worker.concurrency
                && self.started < self.worker.max_jobs
                && let Some(job) = self.ready.pop_front()
            {
                self.start(&handle, job);
            }
            let wants_more = stopped.is_none()
                && self.ready.is_empty()
                && self.tasks.len() < self.worker.concurrency
                && self.started < self.worker.max_jobs;
            if wants_more && may_ask && Instant::now() >= look {
                look = Instant::now() + self.take().await?;
                if !self.ready.is_empty() {
                    continue;
                }
            }
            let has_unreported = !self.done.is_empty() || !self.failed.is_empty();
            let after_fault = self.not_before.max(Instant::now());
            let consumer = &self.consumer;
            tokio::select! {
                () = &mut stop, if stopped.is_none() => stopped = Some(Instant::now()),
                Some(finished) = self.tasks.join_next_with_id() => self.finished(finished),
                () = sleep_until(self.next_heartbeat) => {}
                () = sleep_until(after_fault), if has_unreported => {}
                () = consumer.wait(IDLE), if wants_more && may_ask => look = Instant::now(),
                () = sleep_until(look.max(after_fault)), if wants_more => {}
            }
        }
    }

    /// Runs the function on a job. A panic before it returns a future is a failure, too.
    fn start<F, R>(&mut self, handle: &F, job: Delivery)
    where
        F: Fn(Delivery) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.started += 1;
        let tag = job.tag();
        match catch_unwind(AssertUnwindSafe(|| handle(job))) {
            Ok(work) => {
                let task = self.tasks.spawn(work);
                self.tags.insert(task.id(), tag);
            }
            Err(_) => self.failed.push((tag, Failure::new("it panicked"))),
        }
    }

    /// How often the visibility timeouts are extended: each third of a timeout, so that a delayed
    /// call is still in time.
    fn heartbeat(&self) -> Duration {
        self.consumer.settings().visibility_timeout() / 3
    }

    /// Finishes running jobs and reports outcomes once more after a permanent fault. That fault is
    /// reported already, so later ones are not.
    async fn finish(&mut self) {
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(finished) = self.tasks.join_next_with_id() => self.finished(finished),
                () = sleep_until(self.next_heartbeat) => drop(self.extend().await),
            }
        }
        drop(self.report().await);
        drop(self.release().await);
    }

    /// Handles a finished job, done or failed.
    fn finished(&mut self, finished: Result<(Id, Result<(), Failure>), JoinError>) {
        let (id, ended) = match finished {
            Ok((id, ended)) => (id, ended),
            Err(error) => (error.id(), Err(Failure::new(format!("it ended: {error}")))),
        };
        let Some(tag) = self.tags.remove(&id) else { return };
        match ended {
            Ok(()) => self.done.push(tag.id),
            Err(failure) => self.failed.push((tag, failure)),
        }
    }

    /// Reports outcomes; those that cannot be reported now are kept.
    async fn report(&mut self) -> Result<(), Error> {
        let consumer = self.consumer.clone();
        if !self.done.is_empty() {
            let said = consumer.ack(&self.done).await;
            if let Some(done) = self.checked(said)? {
                self.ran.done += done;
                self.ran.lost += self.done.len() as u64 - done;
                self.done.clear();
            }
        }
        while let Some((tag, failure)) = self.failed.last() {
            if !failure.is_started {
                let released = consumer.release(*tag).await;
                match self.checked(released)? {
                    Some(true) => self.ran.released += 1,
                    Some(false) => self.ran.lost += 1,
                    None => break,
                }
                self.failed.pop();
                self.not_before = Instant::now() + NOT_STARTED_PAUSE;
                continue;
            }
            let after = failure
                .after
                .unwrap_or_else(|| tag.backoff(self.worker.backoff, self.worker.max_backoff));
            let said = consumer.nack(*tag, after.min(MAX_DELAY), truncated(&failure.reason)).await;
            match self.checked(said)? {
                Some(NackOutcome::Requeued) => self.ran.requeued += 1,
                Some(NackOutcome::DeadLettered) => self.ran.dead += 1,
                Some(NackOutcome::Lost) => self.ran.lost += 1,
                None => break,
            }
            self.failed.pop();
        }
        Ok(())
    }

    /// Takes jobs. Returns the time to the next look if there were none.
    async fn take(&mut self) -> Result<Duration, Error> {
        let worker = self.worker;
        let free = worker.concurrency - self.tasks.len();
        let left = usize::try_from(worker.max_jobs - self.started).unwrap_or(usize::MAX);
        let max = worker.batch.max(free).min(left);
        let taken = self.consumer.take(&worker.name, max).await;
        let Some(taken) = self.checked(taken)? else { return Ok(Duration::ZERO) };
        (self.settings_matched, self.is_refused_again) = (true, false);
        for (id, reason) in &taken.foreign {
            worker.emit(WorkerEvent::Foreign { id: *id, reason });
            self.ran.dead += 1;
        }
        // Jobs held here are in flight, too, so that the queue is not empty.
        self.is_empty =
            taken.jobs.is_empty() && taken.next.is_none() && !taken.paused && self.is_idle();
        if self.is_absent.replace(taken.absent) == Some(false) && taken.absent {
            worker.emit(WorkerEvent::Removed);
        }
        if self.is_paused != taken.paused {
            self.is_paused = taken.paused;
            worker.emit(if taken.paused { WorkerEvent::Paused } else { WorkerEvent::Resumed });
        }
        self.ready.extend(taken.jobs);
        Ok(taken.next.unwrap_or(IDLE).min(IDLE))
    }

    /// Whether no job is running, and no outcome is left to report.
    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.done.is_empty() && self.failed.is_empty()
    }

    /// Extends the visibility timeouts of all held jobs.
    async fn extend(&mut self) -> Result<(), Error> {
        let tag: Vec<DeliveryTag> =
            self.tags.values().copied().chain(self.ready.iter().map(Delivery::tag)).collect();
        self.next_heartbeat = Instant::now() + self.heartbeat();
        for tag in tag {
            let extended = self.consumer.extend(tag).await;
            match self.checked(extended)? {
                Some(true) => {}
                // Another worker has the job by now, so a job not started here must not start.
                Some(false) => {
                    let before = self.ready.len();
                    self.ready.retain(|job| job.tag() != tag);
                    self.ran.lost += (before - self.ready.len()) as u64;
                }
                // The other calls would fail, too. Retry all of them soon, instead of after a third
                // of a timeout.
                None => {
                    self.next_heartbeat = self.not_before;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Releases jobs that were not started.
    async fn release(&mut self) -> Result<(), Error> {
        while let Some(job) = self.ready.pop_front() {
            let released = self.consumer.release(job.tag()).await;
            match self.checked(released)? {
                Some(true) => self.ran.released += 1,
                Some(false) => self.ran.lost += 1,
                // They are redelivered when their visibility timeouts pass; each further call would
                // use up its whole deadline.
                None => {
                    self.ready.clear();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adopts the queue's current settings after a call was refused.
    async fn reload_settings(&mut self, mismatch: Error) -> Result<(), Error> {
        let settings = match self.consumer.queue().settings().await {
            // The queue's layout differs: that cannot be adopted.
            Err(error @ Error::Settings { .. }) => return Err(error),
            settings => self.checked(settings)?,
        };
        let Some(settings) = settings else {
            self.mismatch = Some(mismatch);
            return Ok(());
        };
        let Some(settings) = settings.consumer else { return Ok(()) };
        if settings == *self.consumer.settings() {
            // The settings were changed back meanwhile. If they are refused again, the cause is not
            // a change.
            if core::mem::replace(&mut self.is_refused_again, true) {
                return Err(mismatch);
            }
            return Ok(());
        }
        self.is_refused_again = false;
        self.worker.emit(WorkerEvent::Changed(&settings));
        self.consumer = self.consumer.queue().consumer(settings)?;
        // Jobs taken from now on have the new visibility timeout.
        self.next_heartbeat = self.next_heartbeat.min(Instant::now() + self.heartbeat());
        Ok(())
    }

    /// The result of a call; `None` for a transient fault, or after a change of settings.
    fn checked<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        let is_away = result.as_ref().is_err_and(Error::is_transient);
        if let Some(since) = self.unreachable_since.take_if(|_| !is_away) {
            self.worker.emit(WorkerEvent::Recovered(since.elapsed()));
        }
        match result {
            Ok(answer) => {
                self.backoff = FAULT_BACKOFF;
                Ok(Some(answer))
            }
            // Several calls may be refused before the change is adopted: reports, extensions, and
            // the next take.
            Err(error @ Error::Settings { .. }) if self.settings_matched => {
                self.mismatch = Some(error);
                Ok(None)
            }
            Err(error) if error.is_transient() => {
                if self.unreachable_since.is_none() {
                    self.unreachable_since = Some(Instant::now());
                    self.worker.emit(WorkerEvent::Fault(&error));
                }
                self.not_before = Instant::now() + self.backoff;
                self.backoff = (self.backoff * 2).min(MAX_FAULT_BACKOFF);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The part of a reason that is stored.
fn truncated(reason: &str) -> &str {
    let end =
        (0..=reason.len().min(MAX_REASON_BYTES)).rev().find(|end| reason.is_char_boundary(*end));
    reason.get(..end.unwrap_or(0)).unwrap_or_default()
}
