//! Nodes in front of one store, each with separate leases, denials and shares.
//!
//! Nodes are the real ones, and so is the store, which is in memory. Only the way between them is
//! simulated: each way takes a random time, nodes are cut off, and their clocks are fast or slow.
//! An attempt reaches a node at its time, and is decided where units are spent: on the node, or at
//! the store.

mod case;
mod file;
pub(super) mod findings;
mod node;
mod remote;
mod simulated_time;
pub(super) mod tally;

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use remote::{NodeClock, Remote};
use simulated_time::{Ended, SimulatedTime, Tasks};
use tally::Tally;
use tollgate::{Limiter, ManualClock, MemoryStore};
use tollgate_lease::Leased;
use tollgate_policy::Authority;

use super::case_run::{BATCH, CaseRun, Timings};
use super::decision_order::DecisionOrder;
use super::measure::{Attempt, AttemptOutcome};
use super::results::CaseResult;
use super::run::Run;
use super::{Case, Experiment};
use crate::error::Error;
use tollgate_logs::decide::{Decider, PerLimits, ask, new_store};
use tollgate_logs::split_mix::SplitMix64;

pub(super) use case::NodeFacts;
pub use case::{Away, NodesCase, Spread};
pub(super) use file::RawNodes;
pub use node::{Node, NodeAnswer};

/// How often a node returns units that nobody spent, as the service does.
const RETURNS_US: u64 = 1_000_000;

/// The bound of a node's own counts, as in the service.
const SHARE_BYTES: usize = 64 << 20;

/// Runs a case with nodes. `progress` receives the time, the attempts and the time spent.
pub(super) fn run(
    experiment: &Experiment,
    case: &Case,
    setting: &NodesCase,
    decider: &mut impl Decider,
    progress: impl FnMut(u64, u64, Timings),
) -> Result<CaseRun, Error> {
    let mut at_work = NodesRun::new(experiment, case, setting)?;
    let ended = at_work.all(decider, progress);
    let (attempts, took) = (at_work.attempts, at_work.took);
    Ok(CaseRun { result: at_work.finish(case), attempts, took, ended })
}

/// The end of a task.
enum Done {
    /// An attempt, with its number in the order of decisions.
    Answered(Attempt, u64, Result<NodeAnswer, tollgate::Error>),
    /// A node has returned what it did not spend.
    Returned,
}

/// The run of a case.
struct NodesRun<'e> {
    experiment: &'e Experiment,
    setting: &'e NodesCase,
    run: Run<'e>,
    time: SimulatedTime,
    store: MemoryStore,
    nodes: Vec<Arc<Node<Remote>>>,
    questions: Arc<AtomicU64>,
    parts: Arc<[PerLimits]>,
    /// One count without nodes, for comparison.
    alone: Option<Limiter>,
    tasks: Tasks<Done>,
    order: DecisionOrder,
    tally: Tally,
    admitted_alone: u64,
    attempts: u64,
    took: Timings,
    /// The time of measures since decisions were timed last.
    measured: Duration,
}

impl<'e> NodesRun<'e> {
    fn new(experiment: &'e Experiment, case: &Case, setting: &'e NodesCase) -> Result<Self, Error> {
        let clock = ManualClock::at_micros(experiment.start_us);
        let time = SimulatedTime::new(clock.clone());
        let store = new_store(&clock);
        let questions = Arc::default();
        let mut chance = SplitMix64::new(experiment.seed ^ 0x6e6f_6465);
        let node = |node| {
            let remote = Remote {
                time: time.clone(),
                store: store.clone(),
                round_trip_us: setting.round_trip_us,
                deadline_us: setting.deadline_us,
                away: setting
                    .away_of(node)
                    .map(|(from, until)| (experiment.at(from), experiment.at(until)))
                    .collect(),
                chance: Mutex::new(SplitMix64::new(chance.next())),
                questions: Arc::clone(&questions),
            };
            let clock = || NodeClock {
                time: time.clone(),
                start_us: experiment.start_us,
                error_ppm: setting.clock_error_of(node),
            };
            // With fixed seeds, so that a run is the same each time.
            let leased = Leased::builder(remote).clock(clock()).hash_seed(1);
            let node = Node::build(setting, leased)?;
            if setting.on_failure.share().is_some() {
                let shares = MemoryStore::builder().hash_seeds([1, 2]).max_bytes(SHARE_BYTES);
                node.count_shares_in(shares.clock(clock()).build());
            }
            Ok(Arc::new(node))
        };
        let nodes = (0..setting.number).map(node).collect::<Result<_, tollgate::Error>>()?;
        let alone = case.parts.first();
        Ok(Self {
            experiment,
            setting,
            run: Run::new(experiment, case, BATCH)?,
            tasks: Tasks::new(time.clone()),
            time,
            store,
            nodes,
            questions,
            parts: case.parts.clone().into(),
            alone: alone.map(|part| Limiter::new(part.limits.clone(), new_store(&clock))),
            order: DecisionOrder::default(),
            tally: Tally::new(),
            admitted_alone: 0,
            attempts: 0,
            took: Timings::default(),
            measured: Duration::ZERO,
        })
    }

    /// Processes events in order of time: up to the end of the experiment all, then what is still
    /// under way.
    fn all(
        &mut self,
        decider: &mut impl Decider,
        mut progress: impl FnMut(u64, u64, Timings),
    ) -> Result<(), Error> {
        let (start_us, mut returns_us) = (self.experiment.start_us, self.experiment.at(RETURNS_US));
        let mut since = 0;
        loop {
            if since % BATCH == 0 {
                self.run.measures.held(Some((self.store.bytes(), self.store.subjects())));
                progress(self.time.now_us() - start_us, self.attempts, self.took);
                decider.go_on()?;
            }
            since += 1;
            let start = Instant::now();
            let due_us = self.run.peek()?.filter(|due| *due < self.experiment.duration_us);
            self.took.making += start.elapsed();
            let due_us = due_us.map(|due| self.experiment.at(due));
            let next_us = due_us.into_iter().chain(self.time.next_us()).min();
            let Some(next_us) = next_us else { break };
            if returns_us <= next_us {
                self.set(returns_us)?;
                returns_us += RETURNS_US;
                self.give_back(false);
                continue;
            }
            self.set(next_us)?;
            if due_us == Some(next_us)
                && let Some(attempt) = self.run.pop()?
            {
                self.ask(attempt)?;
            }
        }
        self.give_back(true);
        while let Some(next_us) = self.time.next_us() {
            self.set(next_us)?;
        }
        progress(self.experiment.duration_us, self.attempts, self.took);
        Ok(())
    }

    /// Sets the time, and ends what is due.
    fn set(&mut self, now_us: u64) -> Result<(), Error> {
        let start = Instant::now();
        self.time.set(now_us);
        while let Some(ended) = self.tasks.next_ended() {
            self.end(ended)?;
        }
        self.took.deciding += start.elapsed() - core::mem::take(&mut self.measured);
        Ok(())
    }

    /// Every node returns units that nobody spent: those of leases that have ended, or all.
    fn give_back(&mut self, all: bool) {
        for node in &self.nodes {
            let node = Arc::clone(node);
            // Nobody waits for the end of it.
            let _ = self.tasks.start(async move {
                node.give_back(all).await;
                Done::Returned
            });
        }
    }

    /// Asks a node about an attempt.
    fn ask(&mut self, attempt: Attempt) -> Result<(), Error> {
        let start = Instant::now();
        self.attempts += 1;
        if let Some(alone) = &self.alone {
            let mut digits = itoa::Buffer::new();
            let ask = ask(&self.parts, digits.format(attempt.client));
            let decision = ask.map(|ask| alone.check(ask).now()).transpose()?;
            self.admitted_alone += u64::from(decision.is_some_and(|it| it.is_allowed()));
        }
        let number = self.order.send();
        let setting = self.setting;
        let node = setting.spread.node(attempt.client, number, setting.number);
        let node = self.nodes.get(node as usize).map(Arc::clone);
        let (Some(node), parts) = (node, Arc::clone(&self.parts)) else { return Ok(()) };
        let task = async move {
            let answer = node.answer(&parts, attempt.client).await;
            Done::Answered(attempt, number, answer)
        };
        if let Some(ended) = self.tasks.start(task) {
            self.end(ended)?;
        }
        self.took.deciding += start.elapsed() - core::mem::take(&mut self.measured);
        Ok(())
    }

    /// Measures the answer to an attempt.
    fn end(&mut self, ended: Ended<Done>) -> Result<(), Error> {
        let Done::Answered(attempt, number, answer) = ended.result else { return Ok(()) };
        let NodeAnswer { verdict, authority, at_us } = answer?;
        let now_us = self.time.now_us();
        let decided_us = match authority {
            Authority::Store => at_us.unwrap_or(now_us),
            // A node that charges further units has spent its own before it asked, in the same
            // moment.
            Authority::Lease => ended.asked_us.unwrap_or(now_us),
            _ => now_us,
        };
        let start = Instant::now();
        let answered_us = now_us - self.experiment.start_us;
        self.tally.add(authority, answered_us - attempt.at_us);
        let is_last = !self.run.try_again(&attempt, verdict, answered_us);
        let outcome = AttemptOutcome {
            decided_us,
            waited_us: answered_us - attempt.first_us,
            is_admitted: verdict.is_admitted,
            retry_after_us: verdict.retry_after_us,
            is_last,
            is_counted: authority != Authority::FailureRule,
        };
        self.order.done(number, Some((attempt, outcome)));
        while let Some((attempt, outcome)) = self.order.next() {
            self.run.measures.count(&attempt, outcome);
        }
        // The time that is measured here does not include the decisions around it.
        let took = start.elapsed();
        self.took.measuring += took;
        self.measured += took;
        Ok(())
    }

    fn finish(mut self, case: &Case) -> CaseResult {
        // After an interruption some attempts have no answer.
        self.order.close();
        while let Some((attempt, outcome)) = self.order.next() {
            self.run.measures.count(&attempt, outcome);
        }
        let counters = tally::sum(self.nodes.iter().map(|node| node.counters()));
        let asked = (self.questions.load(Ordering::Relaxed), Some(self.admitted_alone));
        let measured = self.run.finish(case);
        // Of several parts some may be decided on the node, and the rest a way from it.
        let within_us = if case.parts.len() > 1 { 2 * self.setting.round_trip_us } else { 0 };
        self.tally.finish((case, self.setting), &counters, asked, within_us, measured)
    }
}

#[cfg(test)]
mod tests;
