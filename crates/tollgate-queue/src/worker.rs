//! The loop of who works: takes jobs, runs a function on each, says what became of them.

use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{Held, JobId, MAX_BATCH, TakenJob};
use crate::model::Afterwards;
use crate::queue::Consumer;

/// How long nothing is looked at, where nothing says that there is something.
const IDLE: Duration = Duration::from_millis(500);

/// How long a worker waits after a fault that may pass: this the first time, then twice as long.
const FAULT_PAUSE: Duration = Duration::from_millis(100);
const MAX_FAULT_PAUSE: Duration = Duration::from_secs(5);

/// Why a job was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    why: String,
    after: Option<Duration>,
}

impl Failure {
    /// For this reason, which a dead job is kept with.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), after: None }
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
}

/// Works on a queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{Failure, Job, MemoryQueues, Offering, Queue, Worker, Working};
///
/// let mail = Queue::new(MemoryQueues::new(), "mail")?;
/// for to in ["ann", "bob"] {
///     mail.offering(Offering::new(10)?).offer(&Job::new().field("to", to)).await?;
/// }
/// let worker = Worker::new(mail.working(Working::new()), "worker-1").max_jobs(2);
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
#[derive(Clone, Debug)]
pub struct Worker<B> {
    consumer: Consumer<B>,
    name: String,
    concurrency: usize,
    batch: usize,
    max_jobs: u64,
    pause: Duration,
    max_pause: Duration,
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
        }
    }

    /// How many jobs it does at once (1).
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency: concurrency.clamp(1, 10_000), ..self }
    }

    /// How many jobs it takes at once (1, at most 1,000): more are fewer questions, and wait for it
    /// meanwhile instead of for others.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        Self { batch: batch.clamp(1, MAX_BATCH), ..self }
    }

    /// After how many deliveries it ends.
    #[must_use]
    pub fn max_jobs(self, max_jobs: u64) -> Self {
        Self { max_jobs, ..self }
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
    /// when they have.
    ///
    /// # Errors
    /// A fault that does not pass; what was in hand is finished first.
    pub async fn run<F, R>(&self, handle: F, stop: impl Future<Output = ()>) -> Result<Ran, Error>
    where
        F: Fn(TakenJob) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut at_work = AtWork {
            worker: self,
            ready: VecDeque::new(),
            hand: JoinSet::new(),
            held: HashMap::new(),
            done: Vec::new(),
            failed: Vec::new(),
            begun: 0,
            ran: Ran::default(),
            pause: FAULT_PAUSE,
        };
        match at_work.run(handle, stop).await {
            Ok(ran) => Ok(ran),
            Err(error) => {
                at_work.finish().await;
                Err(error)
            }
        }
    }

    /// How long a job is put off that has had so many deliveries.
    fn put_off(&self, held: Held) -> Duration {
        let doubled = 1_u32.checked_shl(held.delivery.saturating_sub(1)).unwrap_or(u32::MAX);
        let longest = self.pause.saturating_mul(doubled).min(self.max_pause);
        // Any number that others do not draw will do.
        let chance = RandomState::new().hash_one(held) % 1_000;
        longest / 2 + longest.mul_f64(chance as f64 / 2_000.0)
    }
}

/// A worker at work.
struct AtWork<'w, B> {
    worker: &'w Worker<B>,
    /// Taken and not begun.
    ready: VecDeque<TakenJob>,
    hand: JoinSet<Result<(), Failure>>,
    held: HashMap<Id, Held>,
    /// Over, and to be said so.
    done: Vec<JobId>,
    failed: Vec<(Held, Failure)>,
    begun: u64,
    ran: Ran,
    pause: Duration,
}

impl<B: Backend> AtWork<'_, B> {
    async fn run<F, R>(&mut self, handle: F, stop: impl Future<Output = ()>) -> Result<Ran, Error>
    where
        F: Fn(TakenJob) -> R,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut stop = pin!(stop);
        let mut is_stopping = false;
        // The third part: one that comes late is not too late.
        let beat = self.worker.consumer.settings().has() / 3;
        let mut next_beat = Instant::now() + beat;
        // When there may be something to take.
        let mut look = Instant::now();
        loop {
            while let Some(over) = self.hand.try_join_next_with_id() {
                self.over(over);
            }
            self.say().await?;
            if Instant::now() >= next_beat {
                self.extend().await?;
                next_beat = Instant::now() + beat;
            }
            is_stopping |= self.begun >= self.worker.max_jobs;
            if is_stopping {
                self.give_back().await?;
                if self.hand.is_empty() && self.done.is_empty() && self.failed.is_empty() {
                    return Ok(self.ran);
                }
            }
            while !is_stopping
                && self.hand.len() < self.worker.concurrency
                && self.begun < self.worker.max_jobs
                && let Some(job) = self.ready.pop_front()
            {
                self.begun += 1;
                let held = job.held();
                let task = self.hand.spawn(handle(job));
                self.held.insert(task.id(), held);
            }
            let wants_more = !is_stopping
                && self.ready.is_empty()
                && self.hand.len() < self.worker.concurrency
                && self.begun < self.worker.max_jobs;
            if wants_more && Instant::now() >= look {
                let next = self.take().await?;
                look = Instant::now() + next;
                if !self.ready.is_empty() {
                    continue;
                }
            }
            let has_unsaid = !self.done.is_empty() || !self.failed.is_empty();
            let consumer = &self.worker.consumer;
            tokio::select! {
                () = &mut stop, if !is_stopping => is_stopping = true,
                Some(over) = self.hand.join_next_with_id() => self.over(over),
                () = sleep_until(next_beat) => {}
                () = sleep(self.pause), if has_unsaid => {}
                () = consumer.wait(IDLE), if wants_more => look = Instant::now(),
                () = sleep_until(look), if wants_more => {}
            }
        }
    }

    /// Waits for what is in hand, and says it once more: after a fault that does not pass.
    async fn finish(&mut self) {
        while let Some(over) = self.hand.join_next_with_id().await {
            self.over(over);
        }
        // It has been told what is wrong already.
        let _ = self.say().await;
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
        let consumer = &self.worker.consumer;
        if !self.done.is_empty() {
            let said = consumer.done(&self.done).await;
            if let Some(done) = self.went(said)? {
                self.ran.done += done;
                self.ran.lost += self.done.len() as u64 - done;
                self.done.clear();
            }
        }
        while let Some((held, failure)) = self.failed.pop() {
            let after = failure.after.unwrap_or_else(|| self.worker.put_off(held));
            let said = consumer.again(held, after, &failure.why).await;
            match self.went(said) {
                Ok(Some(Afterwards::Again)) => self.ran.again += 1,
                Ok(Some(Afterwards::Dead)) => self.ran.dead += 1,
                Ok(Some(Afterwards::Lost)) => self.ran.lost += 1,
                Ok(None) => {
                    self.failed.push((held, failure));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes jobs; after how long to look again where there were none.
    async fn take(&mut self) -> Result<Duration, Error> {
        let worker = self.worker;
        let free = worker.concurrency - self.hand.len();
        let left = usize::try_from(worker.max_jobs - self.begun).unwrap_or(usize::MAX);
        let most = worker.batch.max(free).min(left);
        let taken = worker.consumer.take(&worker.name, most).await;
        match self.went(taken)? {
            None => Ok(self.pause),
            Some(taken) => {
                self.ready.extend(taken.jobs);
                Ok(taken.next.unwrap_or(IDLE).min(IDLE))
            }
        }
    }

    /// Begins the visibility timeout of all that is held anew.
    async fn extend(&mut self) -> Result<(), Error> {
        let held: Vec<Held> =
            self.held.values().copied().chain(self.ready.iter().map(TakenJob::held)).collect();
        for held in held {
            let extended = self.worker.consumer.extend(held).await;
            // Somebody else has it by now: who did not begin it should not.
            if self.went(extended)? == Some(false) {
                self.ready.retain(|job| job.held() != held);
            }
        }
        Ok(())
    }

    /// Gives back what was not begun.
    async fn give_back(&mut self) -> Result<(), Error> {
        while let Some(job) = self.ready.pop_front() {
            let released = self.worker.consumer.release(job.held()).await;
            match self.went(released)? {
                Some(true) => self.ran.released += 1,
                Some(false) => self.ran.lost += 1,
                // It comes back by itself when its visibility timeout has passed.
                None => {}
            }
        }
        Ok(())
    }

    /// What came of a question: none for a fault that may pass.
    fn went<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(answer) => {
                self.pause = FAULT_PAUSE;
                Ok(Some(answer))
            }
            Err(error) if error.is_transient() => {
                self.pause = (self.pause * 2).min(MAX_FAULT_PAUSE);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
