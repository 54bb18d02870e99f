//! A queue in place of limits: each attempt is an offer, and workers take one job after the other.
//!
//! The queue is a real one, with a clock that is set to the time of each event. At one moment
//! workers finish first, since that makes room; then retries are offered, then first attempts.
//! After each of these every idle worker takes a job, the worker with the lowest number first.

mod case;
mod file;
mod handles;
mod live;
mod measure;

use core::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::time::Instant;

use tollgate::{ManualClock, Time};
use tollgate_queue::{Counts, Job, JobId, OfferOutcome};

use self::measure::QueueMeasures;
use super::case_run::{BATCH, CaseRun, Timings};
use super::measure::Attempt;
use super::results::CaseResult;
use super::run::Run;
use super::{Case, Experiment};
use crate::error::Error;
use tollgate_logs::decide::{Decider, Verdict};

pub use case::QueueCase;
pub(super) use file::RawQueue;
pub use handles::{QueueHandles, QueueOpener, QueuesInMemory, SimulatedQueue};
pub(super) use live::LiveQueue;

/// Runs a case with a queue. `progress` receives the time, the attempts and the time spent.
pub(super) fn run(
    experiment: &Experiment,
    case: &Case,
    setting: &QueueCase,
    (decider, queues): (&mut impl Decider, &mut dyn QueueOpener),
    progress: impl FnMut(u64, u64, Timings),
) -> Result<CaseRun, Error> {
    let clock = ManualClock::at_micros(experiment.start_us);
    let queue = queues.open(setting, &clock)?;
    let mut at_work = QueueRun::new(experiment, case, setting, (queue, clock))?;
    let ended = at_work.all(decider, progress);
    let (attempts, took) = (at_work.attempts, at_work.took);
    Ok(CaseRun { result: at_work.finish(case)?, attempts, took, ended })
}

/// The run of a case.
struct QueueRun<'e, 'q> {
    experiment: &'e Experiment,
    setting: &'e QueueCase,
    run: Run<'e>,
    clock: ManualClock,
    queue: Box<dyn SimulatedQueue + 'q>,
    job: Job,
    names: Vec<String>,
    /// When each busy worker finishes, in microseconds from the start.
    busy: BinaryHeap<Reverse<(u64, usize, JobId)>>,
    idle: BTreeSet<usize>,
    /// When the rate admits the next job, while it delays one.
    wake_us: Option<u64>,
    /// When each waiting job was accepted.
    accepted: HashMap<JobId, u64>,
    now_us: u64,
    measures: QueueMeasures,
    attempts: u64,
    took: Timings,
}

impl<'e, 'q> QueueRun<'e, 'q> {
    fn new(
        experiment: &'e Experiment,
        case: &Case,
        setting: &'e QueueCase,
        (queue, clock): (Box<dyn SimulatedQueue + 'q>, ManualClock),
    ) -> Result<Self, Error> {
        let workers = setting.workers as usize;
        Ok(Self {
            experiment,
            setting,
            run: Run::new(experiment, case, BATCH)?,
            clock,
            queue,
            job: Job::new(),
            names: (1..=workers).map(|number| format!("worker-{number}")).collect(),
            busy: BinaryHeap::new(),
            idle: (0..workers).collect(),
            wake_us: None,
            accepted: HashMap::new(),
            now_us: 0,
            measures: QueueMeasures::new(experiment),
            attempts: 0,
            took: Timings::default(),
        })
    }

    /// Processes events in order of time, up to the end of the experiment. Jobs that wait or run
    /// then stay so.
    fn all(
        &mut self,
        decider: &mut impl Decider,
        mut progress: impl FnMut(u64, u64, Timings),
    ) -> Result<(), Error> {
        let mut since = 0;
        loop {
            if since % BATCH == 0 {
                progress(self.now_us, self.attempts, self.took);
                decider.go_on()?;
            }
            since += 1;
            let start = Instant::now();
            let due = self.run.peek()?;
            self.took.making += start.elapsed();
            let done = self.busy.peek().map(|Reverse((until, ..))| *until);
            let next = due.into_iter().chain(done).chain(self.wake_us).min();
            let Some(now_us) = next.filter(|next| *next < self.experiment.duration_us) else {
                break;
            };
            self.set(now_us);
            self.work()?;
            if due == Some(now_us)
                && let Some(attempt) = self.run.pop()?
            {
                self.offer(&attempt)?;
            }
        }
        self.now_us = self.experiment.duration_us;
        progress(self.now_us, self.attempts, self.took);
        Ok(())
    }

    /// Sets the current time.
    fn set(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.measures.pass(now_us);
        self.clock.set(Time::from_micros(self.experiment.start_us.saturating_add(now_us)));
    }

    /// Finishes the jobs that are due; then all idle workers take one.
    fn work(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let now_us = self.now_us;
        while let Some(Reverse((until_us, worker, id))) = self.busy.peek().copied() {
            if until_us > now_us {
                break;
            }
            self.busy.pop();
            self.idle.insert(worker);
            let done = self.queue.ack(id)?;
            self.measures.done(now_us, done);
        }
        self.take()?;
        self.took.deciding += start.elapsed();
        Ok(())
    }

    /// All idle workers take a job, until none is available.
    fn take(&mut self) -> Result<(), Error> {
        self.wake_us = None;
        let now_us = self.now_us;
        while let Some(worker) = self.idle.first().copied()
            && !self.accepted.is_empty()
        {
            let Some(name) = self.names.get(worker) else { break };
            let mut taken = self.queue.take(name)?;
            let Some(job) = taken.jobs.pop() else {
                // Rounded up, and never the same moment again, which would cause an endless loop.
                let after = taken.next.map(|next| next.as_nanos().div_ceil(1_000).max(1));
                let after = after.map(|us| u64::try_from(us).unwrap_or(u64::MAX));
                self.wake_us = after.map(|us| now_us.saturating_add(us));
                break;
            };
            self.idle.remove(&worker);
            self.busy.push(Reverse((now_us.saturating_add(self.setting.work_us), worker, job.id)));
            if let Some(at_us) = self.accepted.remove(&job.id) {
                self.measures.delivered(now_us, now_us - at_us);
                self.run.measures.deliver(self.experiment.start_us.saturating_add(now_us));
            }
        }
        self.depth()
    }

    /// Reads the current depth from the queue.
    fn depth(&mut self) -> Result<(), Error> {
        let stats = self.queue.stats()?;
        let out = if self.setting.counts == Counts::All { stats.in_flight } else { 0 };
        self.measures.depth(stats.waiting + out);
        Ok(())
    }

    /// Offers an attempt to the queue.
    fn offer(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let now_us = self.now_us;
        let start = Instant::now();
        let offered = self.queue.offer(&self.job)?;
        let verdict = match offered {
            OfferOutcome::Accepted { id, .. } => {
                self.accepted.insert(id, now_us);
                self.take()?;
                Verdict::new(true, None)
            }
            OfferOutcome::Full { retry_after, .. } => {
                let after = retry_after.and_then(|it| u64::try_from(it.as_micros()).ok());
                Verdict::new(false, after)
            }
            // No job here has a deduplication id.
            _ => Verdict::new(false, None),
        };
        let decided = Instant::now();
        self.took.deciding += decided - start;
        self.attempts += 1;
        self.measures.offered(now_us, verdict.is_admitted);
        self.run.count(attempt, verdict, now_us);
        self.took.measuring += decided.elapsed();
        Ok(())
    }

    fn finish(mut self, case: &Case) -> Result<CaseResult, Error> {
        self.measures.pass(self.now_us);
        let stats = self.queue.stats()?;
        let queue = self.measures.finish(self.now_us, self.setting, &stats);
        Ok(CaseResult { queue: Some(queue), ..self.run.finish(case) })
    }
}

#[cfg(test)]
mod tests;
