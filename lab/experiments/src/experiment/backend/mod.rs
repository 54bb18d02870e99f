//! A backend behind the limits: servers that take a while for each request.
//!
//! The limits are the real ones over a memory store, with a clock that is set to the time of each
//! event. An attempt under limits with slots acquires a hold, and releases it when its work is
//! done. At one moment requests are done first, since that gives slots back; then retries are
//! decided, then first attempts.

mod case;
mod file;
pub(super) mod findings;
mod measure;
mod results;
mod servers;
mod slots;

use std::time::Instant;

use tollgate::{Limiter, ManualClock, Time};

use self::measure::BackendMeasures;
use self::servers::{Job, Servers};
use self::slots::Slots;
use super::case_run::{BATCH, CaseRun, Timings};
use super::measure::Attempt;
use super::results::CaseResult;
use super::run::Run;
use super::{Case, Experiment};
use crate::error::Error;
use tollgate_logs::decide::{Decider, Verdict, ask, new_store};

pub use self::case::{Backend, SlowPhase};
pub(super) use self::file::RawBackend;
pub use self::results::{BackendBucket, BackendResult, SlowResult};
pub(super) use self::servers::JOB_BYTES;

/// Runs a case in front of a backend. `progress` receives the time, the attempts and the time
/// spent.
pub(super) fn run(
    experiment: &Experiment,
    case: &Case,
    setting: &Backend,
    decider: &mut impl Decider,
    progress: impl FnMut(u64, u64, Timings),
) -> Result<CaseRun, Error> {
    let mut at_work = BackendRun::new(experiment, case, setting)?;
    let ended = at_work.all(decider, progress);
    let (attempts, took) = (at_work.attempts, at_work.took);
    Ok(CaseRun { result: at_work.finish(), attempts, took, ended })
}

/// The run of a case.
struct BackendRun<'e> {
    experiment: &'e Experiment,
    case: &'e Case,
    setting: &'e Backend,
    run: Run<'e>,
    clock: ManualClock,
    /// `None` without limits: then everything is admitted.
    limiter: Option<Limiter>,
    servers: Servers<'e>,
    slots: Slots,
    now_us: u64,
    measures: BackendMeasures,
    attempts: u64,
    took: Timings,
}

impl<'e> BackendRun<'e> {
    fn new(
        experiment: &'e Experiment,
        case: &'e Case,
        setting: &'e Backend,
    ) -> Result<Self, Error> {
        let clock = ManualClock::at_micros(experiment.start_us);
        let limits = case.parts.first().map(|first| first.limits.clone());
        Ok(Self {
            experiment,
            case,
            setting,
            run: Run::new(experiment, case, BATCH)?,
            limiter: limits.map(|limits| Limiter::new(limits, new_store(&clock))),
            clock,
            servers: Servers::new(setting),
            slots: Slots::new(&case.parts),
            now_us: 0,
            measures: BackendMeasures::new(experiment, setting),
            attempts: 0,
            took: Timings::default(),
        })
    }

    /// Processes events in order of time, up to the end of the experiment. Requests that are in
    /// flight then stay so.
    fn all(
        &mut self,
        decider: &mut impl Decider,
        mut progress: impl FnMut(u64, u64, Timings),
    ) -> Result<(), Error> {
        let mut since = 0;
        loop {
            if since % BATCH == 0 {
                self.look_at_store();
                progress(self.now_us, self.attempts, self.took);
                decider.go_on()?;
            }
            since += 1;
            let start = Instant::now();
            let due = self.run.peek()?;
            self.took.making += start.elapsed();
            let next = due.into_iter().chain(self.servers.next()).min();
            let Some(now_us) = next.filter(|next| *next < self.experiment.duration_us) else {
                break;
            };
            self.set(now_us);
            self.finish_due()?;
            if due == Some(now_us)
                && let Some(attempt) = self.run.pop()?
            {
                self.decide(&attempt)?;
            }
        }
        self.set(self.experiment.duration_us);
        self.look_at_store();
        progress(self.now_us, self.attempts, self.took);
        Ok(())
    }

    /// Sets the current time.
    fn set(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.measures.pass(now_us, &self.servers);
        self.clock.set(Time::from_micros(self.store_us()));
        self.slots.end(self.store_us());
    }

    /// The current time of the store.
    fn store_us(&self) -> u64 {
        self.experiment.start_us.saturating_add(self.now_us)
    }

    /// The memory of the store, and time for it to forget.
    fn look_at_store(&mut self) {
        let Some(limiter) = &self.limiter else { return };
        limiter.store().sweep_some();
        let held = (limiter.store().bytes(), limiter.store().subjects());
        self.run.measures.held(Some(held));
    }

    /// Requests that are done give their slots back.
    fn finish_due(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        while let Some(job) = self.servers.done(self.now_us) {
            self.measures.done(self.now_us, self.now_us - job.came_us);
            let (Some(limiter), Some(hold)) = (&self.limiter, job.hold) else { continue };
            // A hold that is not open any more has ended by itself.
            self.measures.overran(u64::from(!limiter.release(&hold).now()?));
            self.slots.release(hold.end.as_micros(), hold.id);
        }
        self.took.deciding += start.elapsed();
        Ok(())
    }

    /// Decides an attempt; an admitted one goes to the backend.
    fn decide(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let now_us = self.now_us;
        let start = Instant::now();
        let mut digits = itoa::Buffer::new();
        let client = digits.format(attempt.client);
        let (verdict, hold) = match (&self.limiter, ask(&self.case.parts, client)) {
            (Some(limiter), Some(ask)) if self.slots.has_some() => {
                let holding = limiter.hold(ask.acquire()).now()?;
                (Verdict::from_decision(&holding.decision), holding.hold.map(Box::new))
            }
            (Some(limiter), Some(ask)) => {
                (Verdict::from_decision(&limiter.check(ask).now()?), None)
            }
            _ => (Verdict::new(true, None), None),
        };
        if let Some(hold) = &hold {
            self.slots.place(hold.end.as_micros(), hold.id, attempt.client);
        }
        if verdict.is_admitted {
            self.servers.come(Job { came_us: now_us, hold });
        }
        let decided = Instant::now();
        self.took.deciding += decided - start;
        self.attempts += 1;
        self.run.count(attempt, verdict, now_us);
        self.took.measuring += decided.elapsed();
        Ok(())
    }

    fn finish(mut self) -> CaseResult {
        let end = Time::from_micros(self.store_us());
        let is_over = |job: &&Job| job.hold.as_ref().is_some_and(|hold| hold.end <= end);
        let over = self.servers.jobs().filter(is_over).count() as u64;
        self.measures.overran(over);
        let backend = self.measures.finish(self.now_us, self.setting, &self.servers);
        let mut result = CaseResult { backend: Some(backend), ..self.run.finish(self.case) };
        self.slots.report(&mut result);
        result
    }
}

#[cfg(test)]
mod tests;
