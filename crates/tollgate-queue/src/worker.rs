//! The loop of who works: takes jobs, runs a function on each, says what became of them.

use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{Delivery, DeliveryTag, JobId, MAX_BATCH, MAX_DELAY};
use crate::model::NackOutcome;
use crate::queue::{Consumer, MAX_REASON_BYTES};
use crate::settings::ConsumerSettings;

/// How long nothing is looked at, where nothing says that there is something.
const IDLE: Duration = Duration::from_millis(500);

/// How many jobs a worker does at once at most.
const MAX_CONCURRENCY: usize = 10_000;

/// How long a worker waits after a fault that may pass: this the first time, then twice as long.
const FAULT_BACKOFF: Duration = Duration::from_millis(100);
const MAX_FAULT_BACKOFF: Duration = Duration::from_secs(5);

/// How long a worker waits that could not begin a job.
const NOT_STARTED_PAUSE: Duration = Duration::from_secs(1);

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

    /// Works until `stop` is ready, or as many jobs as may be are over: what is in hand then is
    /// finished, and what was only taken is given back.
    ///
    /// Faults that may pass are waited for, and jobs that were done meanwhile are said to be so
    /// when they have. When how the queue is worked on is changed meanwhile, the worker follows.
    ///
    /// # Errors
    /// A setting that is not as it may be; the queue was made with another [`ConsumerSettings`]; a
    /// fault that does not pass: what was in hand is finished first.
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

#[cfg(test)]
mod tests;
