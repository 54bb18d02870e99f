//! A worker at work: takes jobs, runs the function on each, and reports what became of them.

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

/// How long nothing is looked at, where nothing says that there is something.
const IDLE: Duration = Duration::from_millis(500);

/// How long a worker waits after a fault that may pass: this the first time, then twice as long.
const FAULT_BACKOFF: Duration = Duration::from_millis(100);
const MAX_FAULT_BACKOFF: Duration = Duration::from_secs(5);

/// How long a worker waits that could not begin a job.
const NOT_STARTED_PAUSE: Duration = Duration::from_secs(1);

impl<B: Backend> Worker<B> {
    /// Works until `stop` is ready, or as many jobs as may be are over: what is in hand then is
    /// finished, and what was only taken is given back.
    ///
    /// Faults that may pass are waited for, and jobs that were done meanwhile are said to be so
    /// when they have. When how the queue is worked on is changed meanwhile, the worker follows.
    ///
    /// # Errors
    /// A setting that is not as it may be; the queue was made with another
    /// [`crate::ConsumerSettings`]; a fault that does not pass: what was in hand is finished first.
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

/// A worker at work.
struct Run<'w, B> {
    worker: &'w Worker<B>,
    /// With the settings that the queue has now.
    consumer: Consumer<B>,
    /// Whether these settings were the queue's once: then others are a change.
    settings_matched: bool,
    /// Why a question was refused, where the queue has other settings now: they are followed before
    /// anything else is asked.
    mismatch: Option<Error>,
    /// The settings that were followed last were those that had been refused.
    is_refused_again: bool,
    /// Taken and not begun.
    ready: VecDeque<Delivery>,
    tasks: JoinSet<Result<(), Failure>>,
    tags: HashMap<Id, DeliveryTag>,
    /// Over, and to be said so.
    done: Vec<JobId>,
    failed: Vec<(DeliveryTag, Failure)>,
    started: u64,
    ran: RunSummary,
    /// How long to wait after the next fault.
    backoff: Duration,
    /// Nothing is asked before, after a fault.
    not_before: Instant,
    /// When the visibility timeouts begin anew.
    next_heartbeat: Instant,
    /// Nothing was there when it was looked last.
    is_empty: bool,
    /// The queue was paused when it was asked last.
    is_paused: bool,
    /// Nobody had made it when it was asked last, or it was removed; none before it was asked.
    is_absent: Option<bool>,
    /// Since when nothing answers.
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
        // Since when nothing is in hand any more, at the end.
        let mut idle_since: Option<Instant> = None;
        // When there may be something to take.
        let mut look = Instant::now();
        loop {
            while let Some(finished) = self.tasks.try_join_next_with_id() {
                self.finished(finished);
            }
            if stopped.is_some() && self.tasks.is_empty() && idle_since.is_none() {
                idle_since = Some(Instant::now());
                // What became of the last is said once, whatever went wrong before.
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

    /// Runs the function on a job. What panics before it is a future is a failure as well.
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

    /// How often the visibility timeouts begin anew: in the third part of one, so that a time that
    /// comes late is not too late.
    fn heartbeat(&self) -> Duration {
        self.consumer.settings().visibility_timeout() / 3
    }

    /// Finishes what is in hand, and says once more what is over: after a fault that does not pass,
    /// which is told already, so that others are not.
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

    /// A job is over, well or not.
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

    /// Says what is over; what cannot be said now is kept for later.
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

    /// Takes jobs; after how long to look again where there were none.
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
        // What is in hand here is out, too: then there is something that may come back.
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

    /// Whether nothing is in hand, and nothing is left to be said.
    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.done.is_empty() && self.failed.is_empty()
    }

    /// Begins the visibility timeout of all that is held anew.
    async fn extend(&mut self) -> Result<(), Error> {
        let tag: Vec<DeliveryTag> =
            self.tags.values().copied().chain(self.ready.iter().map(Delivery::tag)).collect();
        self.next_heartbeat = Instant::now() + self.heartbeat();
        for tag in tag {
            let extended = self.consumer.extend(tag).await;
            match self.checked(extended)? {
                Some(true) => {}
                // Somebody else has it by now: who did not begin it should not.
                Some(false) => {
                    let before = self.ready.len();
                    self.ready.retain(|job| job.tag() != tag);
                    self.ran.lost += (before - self.ready.len()) as u64;
                }
                // The others would wait for nothing; all of them soon, and not in a third.
                None => {
                    self.next_heartbeat = self.not_before;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives back what was not begun.
    async fn release(&mut self) -> Result<(), Error> {
        while let Some(job) = self.ready.pop_front() {
            let released = self.consumer.release(job.tag()).await;
            match self.checked(released)? {
                Some(true) => self.ran.released += 1,
                Some(false) => self.ran.lost += 1,
                // They come back by themselves when their visibility timeout has passed; to ask
                // for each would take its whole deadline.
                None => {
                    self.ready.clear();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Works as the queue says now, after a question was refused.
    async fn reload_settings(&mut self, mismatch: Error) -> Result<(), Error> {
        let settings = match self.consumer.queue().settings().await {
            // It lies in another form: that is nothing to be followed.
            Err(error @ Error::Settings { .. }) => return Err(error),
            settings => self.checked(settings)?,
        };
        let Some(settings) = settings else {
            self.mismatch = Some(mismatch);
            return Ok(());
        };
        let Some(settings) = settings.consumer else { return Ok(()) };
        if settings == *self.consumer.settings() {
            // It was changed back meanwhile. Refused once more, it is no change that is refused.
            if core::mem::replace(&mut self.is_refused_again, true) {
                return Err(mismatch);
            }
            return Ok(());
        }
        self.is_refused_again = false;
        self.worker.emit(WorkerEvent::Changed(&settings));
        self.consumer = self.consumer.queue().consumer(settings)?;
        // What is taken from now on comes back after the timeout of now.
        self.next_heartbeat = self.next_heartbeat.min(Instant::now() + self.heartbeat());
        Ok(())
    }

    /// What came of a question: none for a fault that may pass, or when the settings have changed.
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
            // Several may be refused before the change is followed: what failed, what is held, and
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

/// As much of a reason as is kept.
fn truncated(reason: &str) -> &str {
    let end =
        (0..=reason.len().min(MAX_REASON_BYTES)).rev().find(|end| reason.is_char_boundary(*end));
    reason.get(..end.unwrap_or(0)).unwrap_or_default()
}
