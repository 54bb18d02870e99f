//! Real time: each attempt is sent when it is due, whichever attempts still wait (an open loop).
//!
//! This module has neither a clock nor a network. The driver of a [`Live`] case takes the questions
//! that are due, asks a store, and reports the answers with their times:
//!
//! ```
//! use tollgate_logs::Verdict;
//! use tollgate_experiments::experiment::live::{TimedAnswer, Live};
//! use tollgate_experiments::experiment::{Results, zoo};
//!
//! let experiment = zoo(40, 30, 1)?;
//! let mut live = Live::new(&experiment, &experiment.cases[0])?;
//! // By the store's clock; this machine's own stands at 0 then.
//! let begin_us = experiment.next_start(1_800_000_000_000_000);
//! live.begin(begin_us);
//! while let Some(due_us) = live.next_due()? {
//!     // Sleep until then; and then, at that time or later:
//!     let Some(question) = live.take(due_us)? else { continue };
//!     // Ask a store about `question.client()`, and later:
//!     let verdict = Verdict::new(true, None);
//!     let (sent_us, answered_us) = (due_us + 1, due_us + 200);
//!     let decided_us = begin_us + due_us + 90;
//!     live.answered(question, TimedAnswer { sent_us, decided_us, answered_us, verdict });
//! }
//! let result = live.finish(None);
//! assert_eq!(result.live.unwrap().latency_us.unwrap().max, 200);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A latency begins when its attempt was due, not when it was sent. Otherwise a store that blocks
//! the driver would hide the delay of attempts that are due meanwhile ("coordinated omission": G.
//! Tene, "How NOT to Measure Latency", 2013).

use tollgate_lease::LeasedCounters;
use tollgate_policy::Authority;
use tollgate_queue::Stats;

use super::decision_order::DecisionOrder;
use super::latency_histogram::LatencyHistogram;
use super::measure::{Attempt, AttemptOutcome, rounded};
use super::nodes::tally::{self, Tally};
use super::queue::LiveQueue;
use super::results::{CaseResult, LiveResult};
use super::run::Run;
use super::{Arrivals, Case, Experiment};
use crate::error::Error;
use tollgate_logs::decide::Verdict;

/// How many requests are generated together: few, since no question is sent meanwhile.
const BATCH: usize = 64;

/// The longest time for which a case waits to align its windows as in simulated time, where nothing
/// depends on the alignment.
const MAX_ALIGN_US: u64 = 60_000_000;

/// A case that runs in real time. Times are in microseconds from its start, except for those of the
/// store's clock.
pub struct Live<'e> {
    experiment: &'e Experiment,
    case: &'e Case,
    run: Run<'e>,
    order: DecisionOrder,
    latency: LatencyHistogram,
    late: LatencyHistogram,
    sent: u64,
    answered: u64,
    failed: u64,
    failure: Option<String>,
    in_flight: u64,
    begin_us: u64,
    missed_edges: u64,
    /// For a case with nodes.
    tally: Tally,
    /// For a case with a queue.
    queue: Option<LiveQueue<'e>>,
}

/// An attempt that is due.
#[derive(Debug)]
#[must_use = "a question that gets no answer is to be said so: Live::failed"]
pub struct DueAttempt {
    attempt: Attempt,
    number: u64,
}

impl DueAttempt {
    /// When it was due.
    #[must_use]
    pub fn due_us(&self) -> u64 {
        self.attempt.at_us
    }

    /// The number of the client.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.attempt.client
    }

    /// The number of the question, from 0 in the order in which they are due.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// An answer with its times.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // made by who drives
pub struct TimedAnswer {
    /// When the question was passed to the store.
    pub sent_us: u64,
    /// When the store decided, by its own clock: microseconds since the Unix epoch.
    pub decided_us: u64,
    /// When the answer arrived.
    pub answered_us: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// The usage of a server for the decisions of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // made by who drives
pub struct ServerUsage {
    /// Microseconds of processor time.
    pub cpu_us: u64,
    /// Calls of scripts.
    pub calls: u64,
    /// Commands run by scripts.
    pub commands: u64,
}

impl core::fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Live").field("case", &self.case.name).finish_non_exhaustive()
    }
}

impl<'e> Live<'e> {
    /// A case of an experiment, with its first requests generated.
    ///
    /// # Errors
    /// There are too many clients, or a log cannot be read again.
    pub fn new(experiment: &'e Experiment, case: &'e Case) -> Result<Self, Error> {
        let mut run = Run::new(experiment, case, BATCH)?;
        run.peek()?;
        Ok(Self {
            experiment,
            case,
            run,
            order: DecisionOrder::default(),
            latency: LatencyHistogram::new(),
            late: LatencyHistogram::new(),
            sent: 0,
            answered: 0,
            failed: 0,
            failure: None,
            in_flight: 0,
            begin_us: experiment.start_us,
            missed_edges: 0,
            tally: Tally::new(),
            queue: case.queue.as_ref().map(|setting| LiveQueue::new(experiment, setting)),
        })
    }

    /// Sets the start of the case by the store's clock: [`Experiment::next_start`]. The default is
    /// the start of the experiment in simulated time.
    pub fn begin(&mut self, begin_us: u64) {
        self.begin_us = begin_us;
        self.run.measures.start_at(begin_us);
    }

    /// When the next attempt is due; `None` while no attempt is known. An answer may cause further
    /// attempts.
    ///
    /// # Errors
    /// A log cannot be read again.
    pub fn next_due(&mut self) -> Result<Option<u64>, Error> {
        self.run.peek()
    }

    /// The next attempt, if it is due.
    ///
    /// # Errors
    /// As [`Live::next_due`].
    pub fn take(&mut self, now_us: u64) -> Result<Option<DueAttempt>, Error> {
        if self.run.peek()?.is_none_or(|due| due > now_us) {
            return Ok(None);
        }
        let Some(attempt) = self.run.pop()? else { return Ok(None) };
        let number = self.order.send();
        self.sent += 1;
        self.in_flight = self.in_flight.max(self.sent - self.answered - self.failed);
        Ok(Some(DueAttempt { attempt, number }))
    }

    /// Records the answer to a question, or of a queue to an offer. A queue has no time of the
    /// store's: `decided_us` is when the answer arrived.
    pub fn answered(&mut self, question: DueAttempt, answer: TimedAnswer) {
        self.decided(question, answer, true);
    }

    /// Records the answer of a node to a question, and the authority that decided it. Nodes have no
    /// time of the store's: `decided_us` is when the answer arrived.
    pub fn answered_by(&mut self, question: DueAttempt, answer: TimedAnswer, authority: Authority) {
        let took_us = answer.answered_us.saturating_sub(question.due_us());
        self.tally.add(authority, took_us);
        self.decided(question, answer, authority != Authority::FailureRule);
    }

    fn decided(&mut self, question: DueAttempt, answer: TimedAnswer, is_counted: bool) {
        let DueAttempt { attempt, number } = question;
        let TimedAnswer { sent_us, decided_us, answered_us, verdict } = answer;
        self.answered += 1;
        self.late.add(sent_us.saturating_sub(attempt.at_us));
        self.latency.add(answered_us.saturating_sub(attempt.at_us));
        self.missed_edges += u64::from(self.missed_its_edge(&attempt, decided_us));
        let is_last = !self.run.try_again(&attempt, verdict, answered_us);
        let waited_us = answered_us.saturating_sub(attempt.first_us);
        let outcome = AttemptOutcome {
            decided_us,
            waited_us,
            is_admitted: verdict.is_admitted,
            retry_after_us: verdict.retry_after_us,
            is_last,
            is_counted,
        };
        self.order.done(number, Some((attempt, outcome)));
        self.count();
        if let Some(queue) = &mut self.queue {
            queue.offered(answered_us, verdict.is_admitted);
        }
    }

    /// Records that a worker of the case's queue took a job, which waited for so long.
    pub fn delivered(&mut self, now_us: u64, waited_us: u64) {
        if let Some(queue) = &mut self.queue {
            queue.delivered(now_us, waited_us);
            self.run.measures.deliver(self.begin_us.saturating_add(now_us));
        }
    }

    /// Records that a worker of the case's queue has done a job.
    pub fn done(&mut self, now_us: u64) {
        if let Some(queue) = &mut self.queue {
            queue.done(now_us);
        }
    }

    /// Records that a question will have no answer. Its client does not retry, since the effect on
    /// the store is unknown.
    pub fn failed(&mut self, question: DueAttempt, why: &str) {
        self.failed += 1;
        self.failure.get_or_insert_with(|| why.to_owned());
        self.run.measures.fail(&question.attempt);
        self.order.done(question.number, None);
        self.count();
    }

    /// Records what a store uses now: bytes and subjects.
    pub fn held(&mut self, held: Option<(usize, usize)>) {
        self.run.measures.held(held);
    }

    /// Whether an attempt meant for one side of an edge was decided on the other.
    fn missed_its_edge(&self, attempt: &Attempt, decided_us: u64) -> bool {
        let workload = self.experiment.workloads.get(attempt.workload as usize);
        match workload.map(|workload| &workload.arrivals) {
            Some(Arrivals::Edge { window_us, .. }) if attempt.tries == 0 => {
                let due_us = self.begin_us.saturating_add(attempt.at_us);
                due_us / window_us.max(&1) != decided_us / window_us.max(&1)
            }
            _ => false,
        }
    }

    /// Counts what was decided before everything that is still open.
    fn count(&mut self) {
        while let Some((attempt, outcome)) = self.order.next() {
            self.run.measures.count(&attempt, outcome);
        }
    }

    /// The results. A question that is still open counts as never answered.
    #[must_use]
    pub fn finish(mut self, used: Option<ServerUsage>) -> CaseResult {
        self.order.close();
        self.count();
        let latency_us = self.latency.read();
        let mean = latency_us.as_ref().map(|latency| latency.mean);
        let each = |of: fn(&ServerUsage) -> u64| {
            let used = used.filter(|_| self.answered > 0)?;
            Some(rounded(of(&used) as f64 / self.answered as f64))
        };
        let share = |operation: u64| Some(rounded(mean? / operation as f64));
        let live = LiveResult {
            operation_share: self.experiment.operation_us.and_then(share),
            latency_us,
            late_us: self.late.read(),
            failed: self.failed,
            failure: self.failure,
            in_flight: self.in_flight,
            missed_edges: self.missed_edges,
            clock_steps: self.order.steps(),
            cpu_us: each(|used| used.cpu_us),
            calls: each(|used| used.calls),
            commands: each(|used| used.commands),
        };
        CaseResult { live: Some(live), ..self.run.finish(self.case) }
    }

    /// The results of a case with a queue, with the queue's own counts at this time.
    #[must_use]
    pub fn finish_queue(
        mut self,
        used: Option<ServerUsage>,
        now_us: u64,
        stats: &Stats,
    ) -> CaseResult {
        let queue = self.queue.take().map(|queue| queue.finish(now_us, stats));
        CaseResult { queue, ..self.finish(used) }
    }

    /// The results of a case with nodes, with the counters of each. Nobody knows more closely than
    /// to within a latency when a node decided, so a promise is that for a window that is longer by
    /// the longest one.
    #[must_use]
    pub fn finish_nodes(
        mut self,
        used: Option<ServerUsage>,
        counters: &[LeasedCounters],
    ) -> CaseResult {
        let (case, tally) = (self.case, core::mem::replace(&mut self.tally, Tally::new()));
        let within_us = self.latency.read().map_or(0, |latency| latency.max);
        let measured = self.finish(used);
        let Some(nodes) = &case.nodes else { return measured };
        let counters = tally::sum(counters.iter().copied());
        tally.finish((case, nodes), &counters, (counters.asked, None), within_us, measured)
    }
}

impl Experiment {
    /// The earliest start of a case in real time from `now_us` on; both in microseconds since the
    /// Unix epoch. At this time windows aligned to the clock are positioned relative to the traffic
    /// as in simulated time.
    ///
    /// Attacked edges require this alignment, so the wait for it has no limit. For windows of
    /// limits and of the capacity it only makes cases comparable, so the wait is at most a minute;
    /// longer windows may be aligned differently.
    #[must_use]
    pub fn next_start(&self, now_us: u64) -> u64 {
        let step = self.align_us();
        let behind = now_us.abs_diff(self.start_us) % step;
        let wait = match (behind, now_us >= self.start_us) {
            (0, _) => 0,
            (behind, true) => step - behind,
            (behind, false) => behind,
        };
        now_us.saturating_add(wait)
    }

    fn align_us(&self) -> u64 {
        let edges = self.workloads.iter().filter_map(|workload| match workload.arrivals {
            Arrivals::Edge { window_us, .. } => Some(window_us.max(1)),
            _ => None,
        });
        let needed = edges.fold(1, |one, other| multiple(one, other).unwrap_or(one));
        let sets = self.cases.iter().flat_map(|case| &case.parts).map(|part| &part.limits);
        let periods = sets.flat_map(|limits| limits.limits().iter());
        let mut windows: Vec<u64> = periods
            .map(|limit| limit.quota().period.as_micros())
            .chain(self.capacity.iter().map(|capacity| capacity.window_us))
            .collect();
        windows.sort_unstable();
        windows.into_iter().fold(needed, |one, other| {
            multiple(one, other).filter(|all| *all <= needed.max(MAX_ALIGN_US)).unwrap_or(one)
        })
    }
}

/// The least common multiple.
fn multiple(one: u64, other: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one.checked_div(divisor)?.checked_mul(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_begin_where_windows_lie_as_in_simulated_time() {
        let file = |arrivals: &str, limit: &str| {
            let text = format!(
                "version = 1\nduration = \"60s\"\nworkload = [{{ {arrivals} }}]\n\
                 case = [{{ limits = [{{ per = \"client\", limit = \"{limit}\" }}] }}]\n"
            );
            Experiment::parse("x", &text).unwrap()
        };
        let steady = "arrivals = \"steady\", rate = \"1/s\"";
        let edge = "arrivals = \"edge\", size = 1, window = \"1h\"";
        const S: u64 = 1_000_000;
        for (arrivals, limit, step) in [
            (steady, "5/10s via gcra", 10 * S),
            (steady, "5/10s via gcra, 9/25s via gcra", 50 * S),
            (steady, "5/40s via gcra, 9/50s via gcra", 40 * S),
            (steady, "5/1h via gcra", 1),
            (edge, "5/1h via gcra", 3_600 * S),
            (edge, "5/7s via gcra", 3_600 * S),
        ] {
            let experiment = file(arrivals, limit);
            assert_eq!(experiment.align_us(), step, "{limit}");
            let start = experiment.start_us;
            for now in [start, start + 1, start + step, start - 1, start + 12_345_678] {
                let next = experiment.next_start(now);
                assert!(next >= now && next - now < step, "{now} {next}");
                assert_eq!(next.abs_diff(start) % step, 0);
            }
        }
    }
}
