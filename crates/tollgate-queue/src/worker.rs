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
use crate::job::{Held, JobId, MAX_BATCH, MAX_PUT_OFF, TakenJob};
use crate::model::Afterwards;
use crate::queue::{Consumer, MAX_WHY_BYTES};
use crate::settings::Working;

/// How long nothing is looked at, where nothing says that there is something.
const IDLE: Duration = Duration::from_millis(500);

/// How many jobs a worker does at once at most.
const MAX_CONCURRENCY: usize = 10_000;

/// How long a worker waits after a fault that may pass: this the first time, then twice as long.
const FAULT_PAUSE: Duration = Duration::from_millis(100);
const MAX_FAULT_PAUSE: Duration = Duration::from_secs(5);

/// How long a worker waits that could not begin a job.
const NOT_BEGUN_PAUSE: Duration = Duration::from_secs(1);

/// Why a job was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    why: String,
    after: Option<Duration>,
    is_begun: bool,
}

impl Failure {
    /// For this reason, which a dead job is kept with.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), after: None, is_begun: true }
    }

    /// It was not begun, for a reason that is the worker's and not the job's, as a program that
    /// cannot be started: it is given back as if it had not been delivered, and the worker waits a
    /// little before it takes more.
    pub fn not_begun(why: impl Into<String>) -> Self {
        Self { is_begun: false, ..Self::new(why) }
    }

    /// It is to be tried again after so long, and not when the worker's pauses say.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after: Some(after), ..self }
    }
}

/// What a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Ran {
    /// Jobs that were done.
    pub done: u64,
    /// Deliveries that failed and come back.
    pub again: u64,
    /// Jobs that failed for the last time.
    pub dead: u64,
    /// Deliveries that somebody else has by now: they took longer than they may, or the queue was
    /// away.
    pub lost: u64,
    /// Jobs that were taken and given back.
    pub released: u64,
    /// Jobs that were over and could not be said to be so before the grace had passed: they come
    /// back, done or not.
    pub unsaid: u64,
}

/// Works on a queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{Failure, Job, MemoryQueues, Offering, Queue, Worker, Working};
///
/// let mail = Queue::new(MemoryQueues::new(), "mail")?;
/// for to in ["ann", "bob"] {
///     mail.offering(Offering::new(10))?.offer(&Job::new().field("to", to)).await?;
/// }
/// let worker = Worker::new(mail.working(Working::new())?, "worker-1").max_jobs(2);
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
    pause: Duration,
    max_pause: Duration,
    grace: Duration,
    until_empty: bool,
    on_notice: Option<OnNotice>,
}

/// What a worker tells of itself while it works.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'n> {
    /// A fault that may pass is waited for. It is told once, until [`Notice::Back`].
    Fault(&'n Error),
    /// What was waited for answers again, so long after it was told.
    Back(Duration),
    /// The queue was removed ([`crate::Queue::remove`]): the worker waits until somebody makes it
    /// again.
    Removed,
    /// How the queue is worked on was changed ([`crate::Queue::change`]): this is how it is now,
    /// and the worker follows.
    Changed(&'n Working),
    /// The queue is paused ([`crate::Queue::pause`]): the worker waits until it goes on.
    Paused,
    /// The queue goes on.
    Resumed,
    /// Something that is no job lay among the jobs. It is a dead job now, under this id.
    Foreign {
        /// Its id.
        id: JobId,
        /// What is wrong with it.
        why: &'n str,
    },
}

/// Whom that is told to.
type OnNotice = Arc<dyn Fn(Notice<'_>) + Send + Sync>;

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
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(600),
            grace: Duration::from_secs(10),
            until_empty: false,
            on_notice: None,
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
        let Self { concurrency, batch, pause, max_pause, .. } = self;
        if *concurrency == 0 || *concurrency > MAX_CONCURRENCY {
            let what = format!("{concurrency} jobs at once: 1 to {MAX_CONCURRENCY}");
            return Err(Error::invalid(what));
        }
        if *batch == 0 || *batch > MAX_BATCH {
            let what = format!("{batch} jobs taken at once: 1 to {MAX_BATCH}");
            return Err(Error::invalid(what));
        }
        if pause > max_pause || *max_pause > MAX_PUT_OFF {
            let what = format!(
                "pauses of {pause:?} to {max_pause:?}: the first is no longer than the longest, \
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
    pub fn on_notice(self, tell: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        Self { on_notice: Some(Arc::new(tell)), ..self }
    }

    fn tell(&self, notice: Notice<'_>) {
        if let Some(tell) = &self.on_notice {
            tell(notice);
        }
    }

    /// How long a job that failed is put off: so long the first time, twice as long the next, and
    /// never longer than `most` (1 s and 10 min); each by chance shorter by up to half, so that
    /// jobs that failed together do not come back together.
    #[must_use]
    pub fn pause(self, first: Duration, most: Duration) -> Self {
        Self { pause: first, max_pause: most, ..self }
    }

    /// Works until `stop` is ready, or as many jobs as may be are over: what is in hand then is
    /// finished, and what was only taken is given back.
    ///
    /// Faults that may pass are waited for, and jobs that were done meanwhile are said to be so
    /// when they have. When how the queue is worked on is changed meanwhile, the worker follows.
    ///
    /// # Errors
    /// A setting that is not as it may be; the queue was made with another [`Working`]; a fault
    /// that does not pass: what was in hand is finished first.
    pub async fn run<F, R>(&self, handle: F, stop: impl Future<Output = ()>) -> Result<Ran, Error>
    where
        F: Fn(TakenJob) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.check()?;
        let mut at_work = AtWork {
            worker: self,
            consumer: self.consumer.clone(),
            has_agreed: false,
            refused: None,
            in_vain: false,
            ready: VecDeque::new(),
            hand: JoinSet::new(),
            held: HashMap::new(),
            done: Vec::new(),
            failed: Vec::new(),
            begun: 0,
            ran: Ran::default(),
            pause: FAULT_PAUSE,
            not_before: Instant::now(),
            next_beat: Instant::now(),
            is_empty: false,
            is_paused: false,
            is_absent: None,
            lost: None,
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
struct AtWork<'w, B> {
    worker: &'w Worker<B>,
    /// With the settings that the queue has now.
    consumer: Consumer<B>,
    /// Whether these settings were the queue's once: then others are a change.
    has_agreed: bool,
    /// Why a question was refused, where the queue has other settings now: they are followed before
    /// anything else is asked.
    refused: Option<Error>,
    /// The settings that were followed last were those that had been refused.
    in_vain: bool,
    /// Taken and not begun.
    ready: VecDeque<TakenJob>,
    hand: JoinSet<Result<(), Failure>>,
    held: HashMap<Id, Held>,
    /// Over, and to be said so.
    done: Vec<JobId>,
    failed: Vec<(Held, Failure)>,
    begun: u64,
    ran: Ran,
    /// How long to wait after the next fault.
    pause: Duration,
    /// Nothing is asked before, after a fault.
    not_before: Instant,
    /// When the visibility timeouts begin anew.
    next_beat: Instant,
    /// Nothing was there when it was looked last.
    is_empty: bool,
    /// The queue was paused when it was asked last.
    is_paused: bool,
    /// Nobody had made it when it was asked last, or it was removed; none before it was asked.
    is_absent: Option<bool>,
    /// Since when nothing answers.
    lost: Option<Instant>,
}

impl<B: Backend> AtWork<'_, B> {
    async fn run<F, R>(&mut self, handle: F, stop: impl Future<Output = ()>) -> Result<Ran, Error>
    where
        F: Fn(TakenJob) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut stop = pin!(stop);
        let mut stopped: Option<Instant> = None;
        self.next_beat = Instant::now() + self.beat();
        // Since when nothing is in hand any more, at the end.
        let mut quiet: Option<Instant> = None;
        // When there may be something to take.
        let mut look = Instant::now();
        loop {
            while let Some(over) = self.hand.try_join_next_with_id() {
                self.over(over);
            }
            if stopped.is_some() && self.hand.is_empty() && quiet.is_none() {
                quiet = Some(Instant::now());
                // What became of the last is said once, whatever went wrong before.
                self.not_before = Instant::now();
            }
            let may_ask = Instant::now() >= self.not_before;
            if may_ask && let Some(refused) = self.refused.take() {
                self.follow(refused).await?;
            }
            if may_ask {
                self.say().await?;
            }
            if Instant::now() >= self.next_beat {
                self.extend().await?;
            }
            if self.begun >= self.worker.max_jobs || (self.worker.until_empty && self.is_empty) {
                stopped.get_or_insert_with(Instant::now);
            }
            if stopped.is_some() {
                self.release().await?;
                let unsaid = self.done.len() + self.failed.len();
                let is_late = |since: Instant| since.elapsed() >= self.worker.grace;
                if self.hand.is_empty() && (unsaid == 0 || quiet.is_some_and(is_late)) {
                    self.ran.unsaid += unsaid as u64;
                    return Ok(self.ran);
                }
            }
            while stopped.is_none()
                && self.hand.len() < self.worker.concurrency
                && self.begun < self.worker.max_jobs
                && let Some(job) = self.ready.pop_front()
            {
                self.begin(&handle, job);
            }
            let wants_more = stopped.is_none()
                && self.ready.is_empty()
                && self.hand.len() < self.worker.concurrency
                && self.begun < self.worker.max_jobs;
            if wants_more && may_ask && Instant::now() >= look {
                look = Instant::now() + self.take().await?;
                if !self.ready.is_empty() {
                    continue;
                }
            }
            let has_unsaid = !self.done.is_empty() || !self.failed.is_empty();
            let after_fault = self.not_before.max(Instant::now());
            let consumer = &self.consumer;
            tokio::select! {
                () = &mut stop, if stopped.is_none() => stopped = Some(Instant::now()),
                Some(over) = self.hand.join_next_with_id() => self.over(over),
                () = sleep_until(self.next_beat) => {}
                () = sleep_until(after_fault), if has_unsaid => {}
                () = consumer.wait(IDLE), if wants_more && may_ask => look = Instant::now(),
                () = sleep_until(look.max(after_fault)), if wants_more => {}
            }
        }
    }

    /// Runs the function on a job. What panics before it is a future is a failure as well.
    fn begin<F, R>(&mut self, handle: &F, job: TakenJob)
    where
        F: Fn(TakenJob) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.begun += 1;
        let held = job.held();
        match catch_unwind(AssertUnwindSafe(|| handle(job))) {
            Ok(work) => {
                let task = self.hand.spawn(work);
                self.held.insert(task.id(), held);
            }
            Err(_) => self.failed.push((held, Failure::new("it panicked"))),
        }
    }

    /// How often the visibility timeouts begin anew: in the third part of one, so that a time that
    /// comes late is not too late.
    fn beat(&self) -> Duration {
        self.consumer.settings().has() / 3
    }

    /// Finishes what is in hand, and says once more what is over: after a fault that does not pass,
    /// which is told already, so that others are not.
    async fn finish(&mut self) {
        while !self.hand.is_empty() {
            tokio::select! {
                Some(over) = self.hand.join_next_with_id() => self.over(over),
                () = sleep_until(self.next_beat) => drop(self.extend().await),
            }
        }
        drop(self.say().await);
        drop(self.release().await);
    }

    /// A job is over, well or not.
    fn over(&mut self, over: Result<(Id, Result<(), Failure>), JoinError>) {
        let (id, ended) = match over {
            Ok((id, ended)) => (id, ended),
            Err(error) => (error.id(), Err(Failure::new(format!("it ended: {error}")))),
        };
        let Some(held) = self.held.remove(&id) else { return };
        match ended {
            Ok(()) => self.done.push(held.id),
            Err(failure) => self.failed.push((held, failure)),
        }
    }

    /// Says what is over; what cannot be said now is kept for later.
    async fn say(&mut self) -> Result<(), Error> {
        let consumer = self.consumer.clone();
        if !self.done.is_empty() {
            let said = consumer.done(&self.done).await;
            if let Some(done) = self.went(said)? {
                self.ran.done += done;
                self.ran.lost += self.done.len() as u64 - done;
                self.done.clear();
            }
        }
        while let Some((held, failure)) = self.failed.last() {
            if !failure.is_begun {
                let released = consumer.release(*held).await;
                match self.went(released)? {
                    Some(true) => self.ran.released += 1,
                    Some(false) => self.ran.lost += 1,
                    None => break,
                }
                self.failed.pop();
                self.not_before = Instant::now() + NOT_BEGUN_PAUSE;
                continue;
            }
            let after = failure
                .after
                .unwrap_or_else(|| held.pause(self.worker.pause, self.worker.max_pause));
            let said = consumer.again(*held, after.min(MAX_PUT_OFF), cut(&failure.why)).await;
            match self.went(said)? {
                Some(Afterwards::Again) => self.ran.again += 1,
                Some(Afterwards::Dead) => self.ran.dead += 1,
                Some(Afterwards::Lost) => self.ran.lost += 1,
                None => break,
            }
            self.failed.pop();
        }
        Ok(())
    }

    /// Takes jobs; after how long to look again where there were none.
    async fn take(&mut self) -> Result<Duration, Error> {
        let worker = self.worker;
        let free = worker.concurrency - self.hand.len();
        let left = usize::try_from(worker.max_jobs - self.begun).unwrap_or(usize::MAX);
        let most = worker.batch.max(free).min(left);
        let taken = self.consumer.take(&worker.name, most).await;
        let Some(taken) = self.went(taken)? else { return Ok(Duration::ZERO) };
        (self.has_agreed, self.in_vain) = (true, false);
        for (id, why) in &taken.foreign {
            worker.tell(Notice::Foreign { id: *id, why });
            self.ran.dead += 1;
        }
        // What is in hand here is out, too: then there is something that may come back.
        self.is_empty =
            taken.jobs.is_empty() && taken.next.is_none() && !taken.paused && self.is_quiet();
        if self.is_absent.replace(taken.absent) == Some(false) && taken.absent {
            worker.tell(Notice::Removed);
        }
        if self.is_paused != taken.paused {
            self.is_paused = taken.paused;
            worker.tell(if taken.paused { Notice::Paused } else { Notice::Resumed });
        }
        self.ready.extend(taken.jobs);
        Ok(taken.next.unwrap_or(IDLE).min(IDLE))
    }

    /// Whether nothing is in hand, and nothing is left to be said.
    fn is_quiet(&self) -> bool {
        self.hand.is_empty() && self.done.is_empty() && self.failed.is_empty()
    }

    /// Begins the visibility timeout of all that is held anew.
    async fn extend(&mut self) -> Result<(), Error> {
        let held: Vec<Held> =
            self.held.values().copied().chain(self.ready.iter().map(TakenJob::held)).collect();
        self.next_beat = Instant::now() + self.beat();
        for held in held {
            let extended = self.consumer.extend(held).await;
            match self.went(extended)? {
                Some(true) => {}
                // Somebody else has it by now: who did not begin it should not.
                Some(false) => {
                    let before = self.ready.len();
                    self.ready.retain(|job| job.held() != held);
                    self.ran.lost += (before - self.ready.len()) as u64;
                }
                // The others would wait for nothing; all of them soon, and not in a third.
                None => {
                    self.next_beat = self.not_before;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives back what was not begun.
    async fn release(&mut self) -> Result<(), Error> {
        while let Some(job) = self.ready.pop_front() {
            let released = self.consumer.release(job.held()).await;
            match self.went(released)? {
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
    async fn follow(&mut self, refused: Error) -> Result<(), Error> {
        let settings = match self.consumer.queue().settings().await {
            // It lies in another form: that is nothing to be followed.
            Err(error @ Error::Settings { .. }) => return Err(error),
            settings => self.went(settings)?,
        };
        let Some(settings) = settings else {
            self.refused = Some(refused);
            return Ok(());
        };
        let Some(working) = settings.working else { return Ok(()) };
        if working == *self.consumer.settings() {
            // It was changed back meanwhile. Refused once more, it is no change that is refused.
            if core::mem::replace(&mut self.in_vain, true) {
                return Err(refused);
            }
            return Ok(());
        }
        self.in_vain = false;
        self.worker.tell(Notice::Changed(&working));
        self.consumer = self.consumer.queue().working(working)?;
        // What is taken from now on comes back after the timeout of now.
        self.next_beat = self.next_beat.min(Instant::now() + self.beat());
        Ok(())
    }

    /// What came of a question: none for a fault that may pass, or when the settings have changed.
    fn went<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        let is_away = result.as_ref().is_err_and(Error::is_transient);
        if let Some(since) = self.lost.take_if(|_| !is_away) {
            self.worker.tell(Notice::Back(since.elapsed()));
        }
        match result {
            Ok(answer) => {
                self.pause = FAULT_PAUSE;
                Ok(Some(answer))
            }
            // Several may be refused before the change is followed: what failed, what is held, and
            // the next take.
            Err(error @ Error::Settings { .. }) if self.has_agreed => {
                self.refused = Some(error);
                Ok(None)
            }
            Err(error) if error.is_transient() => {
                if self.lost.is_none() {
                    self.lost = Some(Instant::now());
                    self.worker.tell(Notice::Fault(&error));
                }
                self.not_before = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(MAX_FAULT_PAUSE);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// As much of a reason as is kept.
fn cut(why: &str) -> &str {
    let end = (0..=why.len().min(MAX_WHY_BYTES)).rev().find(|end| why.is_char_boundary(*end));
    why.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
