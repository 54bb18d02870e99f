//! Runs experiments in simulated time.

use std::time::Instant;

use super::case_run::{BATCH, CaseRun, Timings};
use super::measure::Attempt;
use super::results::Results;
use super::run::Run;
use super::{Case, Experiment, QueueOpener, QueuesInMemory, backend, nodes, queue};
use crate::error::Error;
use tollgate_logs::decide::Decider;
use tollgate_logs::event::{ClientId, Event};

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The current case, an index into [`Experiment::cases`].
    pub case: usize,
    /// The number of cases.
    pub cases: usize,
    /// The microseconds of the experiment that have passed in the current case.
    pub at_us: u64,
    /// The duration of the experiment in microseconds.
    pub duration_us: u64,
    /// The attempts decided so far, in all cases.
    pub attempts: u64,
    /// The time spent so far to generate requests, to decide them, and to measure.
    pub took: Timings,
}

/// Runs every case over its traffic in simulated time, as [`run_with`] does, with queues in memory.
///
/// # Errors
/// As [`run_with`].
pub fn run(
    experiment: &Experiment,
    decider: &mut impl Decider,
    progress: impl FnMut(Progress),
) -> Result<Results, Error> {
    run_with(experiment, decider, &mut QueuesInMemory, progress)
}

/// Runs every case over its traffic in simulated time, and measures what is admitted. A case with
/// nodes or in front of a backend runs in memory, whatever decides the others.
///
/// `progress` is called every few thousand attempts and at the end of each case.
///
/// Memory: the units admitted in the last window of each limit, a few bytes for each client and for
/// each request that waits for a retry, and the store's own. It does not grow with the number of
/// attempts.
///
/// # Errors
/// A log cannot be read again, or the decider fails. A decider that was
/// [stopped](tollgate_logs::Error::Stopped) is not an error: the results so far are returned,
/// marked as incomplete.
pub fn run_with(
    experiment: &Experiment,
    decider: &mut impl Decider,
    queues: &mut dyn QueueOpener,
    mut progress: impl FnMut(Progress),
) -> Result<Results, Error> {
    let mut results = Results::new(experiment);
    let (mut attempts, mut took) = (0, Timings::default());
    for (place, case) in experiment.cases.iter().enumerate() {
        let progress = |now: u64, run_attempts, run_took| {
            progress(Progress {
                case: place,
                cases: experiment.cases.len(),
                at_us: now.min(experiment.duration_us),
                duration_us: experiment.duration_us,
                attempts: attempts + run_attempts,
                took: took + run_took,
            });
        };
        let ran = match (&case.queue, &case.nodes, &experiment.backend) {
            (Some(setting), ..) => {
                queue::run(experiment, case, setting, (decider, queues), progress)?
            }
            (_, Some(setting), _) => nodes::run(experiment, case, setting, decider, progress)?,
            (.., Some(setting)) => backend::run(experiment, case, setting, decider, progress)?,
            (None, None, None) => {
                decider.begin(&case.parts)?;
                let mut at_work = SimulatedRun::new(experiment, case)?;
                let ended = at_work.all(decider, progress);
                let (attempts, took) = (at_work.attempts, at_work.took);
                CaseRun { result: at_work.run.finish(case), attempts, took, ended }
            }
        };
        match ran.ended {
            Ok(()) => {}
            Err(Error::Log(tollgate_logs::Error::Stopped)) => results.complete = false,
            Err(error) => return Err(error),
        }
        attempts += ran.attempts;
        took = took + ran.took;
        results.cases.push(ran.result);
        if !results.complete {
            break;
        }
    }
    results.conclude(experiment);
    Ok(results)
}

/// A case in simulated time.
struct SimulatedRun<'e> {
    experiment: &'e Experiment,
    run: Run<'e>,
    /// How many attempts are decided between two readings of the store's size.
    batch: usize,
    attempts: u64,
    took: Timings,
}

/// The readings of the store's size in a small case, which would otherwise be read at its end.
const READINGS: u64 = 128;

impl<'e> SimulatedRun<'e> {
    fn new(experiment: &'e Experiment, case: &Case) -> Result<Self, Error> {
        let each = experiment.size_of(case).requests / READINGS;
        let batch = usize::try_from(each).unwrap_or(BATCH).clamp(16, BATCH);
        let run = Run::new(experiment, case, batch)?;
        Ok(Self { experiment, run, batch, attempts: 0, took: Timings::default() })
    }

    fn all(
        &mut self,
        decider: &mut impl Decider,
        mut progress: impl FnMut(u64, u64, Timings),
    ) -> Result<(), Error> {
        let (mut asks, mut verdicts) = (Vec::new(), Vec::new());
        let mut batch = Vec::new();
        let mut since = 0;
        loop {
            let start = Instant::now();
            self.take(&mut batch)?;
            self.took.making += start.elapsed();
            let Some(last) = batch.last().copied() else { break };
            asks.clear();
            verdicts.clear();
            let start = self.experiment.start_us;
            asks.extend(batch.iter().map(|attempt: &Attempt| {
                Event::new(start.saturating_add(attempt.at_us), ClientId::new(attempt.client))
                    .with_cost(attempt.cost)
            }));
            let start = Instant::now();
            let answered = decider.decide(&asks, &mut verdicts);
            let decided = Instant::now();
            self.took.deciding += decided - start;
            if answered.is_err() {
                progress(last.at_us, self.attempts, self.took);
            }
            answered?;
            for (attempt, verdict) in batch.iter().zip(&verdicts) {
                self.attempts += 1;
                self.run.count(attempt, *verdict, attempt.at_us);
            }
            self.took.measuring += decided.elapsed();
            since += batch.len();
            if since >= self.batch {
                since = 0;
                self.run.measures.held(decider.held());
                progress(last.at_us, self.attempts, self.took);
            }
        }
        self.run.measures.held(decider.held());
        progress(self.experiment.duration_us, self.attempts, self.took);
        Ok(())
    }

    /// The next attempts that can be decided together; empty at the end.
    fn take(&mut self, batch: &mut Vec<Attempt>) -> Result<(), Error> {
        batch.clear();
        if self.run.is_open {
            return self.run.pop_all(batch);
        }
        batch.extend(self.run.pop()?);
        Ok(())
    }
}
