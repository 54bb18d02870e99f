//! Real time: each attempt is sent when it is due, whichever attempts still wait (an open loop).
//!
//! This module has neither a clock nor a network. The driver of a [`Live`] case takes the questions
//! that are due, asks a store, and reports the answers with their times:
//!
//! ```
//! use tollgate_lab::Verdict;
//! use tollgate_lab::experiment::live::{Answer, Live};
//! use tollgate_lab::experiment::{Results, zoo};
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
//!     live.answered(question, Answer { sent_us, decided_us, answered_us, verdict });
//! }
//! let result = live.finish(None);
//! assert_eq!(result.live.unwrap().latency_us.unwrap().max, 200);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A latency begins when its attempt was due, not when it was sent. Otherwise a store that blocks
//! the driver would hide the delay of attempts that are due meanwhile ("coordinated omission": G.
//! Tene, "How NOT to Measure Latency", 2013).

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hdrhistogram::Histogram;

use super::measure::{Attempt, AttemptOutcome, rounded};
use super::results::{CaseResult, Latency, LiveResult};
use super::run::Run;
use super::{Arrivals, Case, Experiment};
use crate::decide::Verdict;
use crate::error::Error;

/// How many requests are generated at once: few, since no question is sent meanwhile.
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
}

/// An attempt that is due.
#[derive(Debug)]
#[must_use = "a question that gets no answer is to be said so: Live::failed"]
pub struct Question {
    attempt: Attempt,
    number: u64,
}

impl Question {
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
}

/// An answer with its times.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // made by who drives
pub struct Answer {
    /// When the question was passed to the store.
    pub sent_us: u64,
    /// When the store decided, by its own clock: microseconds since the Unix epoch.
    pub decided_us: u64,
    /// When the answer arrived.
    pub answered_us: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// What a server used for the decisions of a case.
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
    /// There are too many clients, a log cannot be read again, or the case is a queue, which cannot
    /// run in real time here.
    pub fn new(experiment: &'e Experiment, case: &'e Case) -> Result<Self, Error> {
        if case.queue.is_some() {
            return Err(Error::NotLive { case: case.name.clone() });
        }
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
    pub fn take(&mut self, now_us: u64) -> Result<Option<Question>, Error> {
        if self.run.peek()?.is_none_or(|due| due > now_us) {
            return Ok(None);
        }
        let Some(attempt) = self.run.pop()? else { return Ok(None) };
        let number = self.order.send();
        self.sent += 1;
        self.in_flight = self.in_flight.max(self.sent - self.answered - self.failed);
        Ok(Some(Question { attempt, number }))
    }

    /// Records the answer to a question.
    pub fn answered(&mut self, question: Question, answer: Answer) {
        let Question { attempt, number } = question;
        let Answer { sent_us, decided_us, answered_us, verdict } = answer;
        self.answered += 1;
        self.late.add(sent_us.saturating_sub(attempt.at_us));
        self.latency.add(answered_us.saturating_sub(attempt.at_us));
        self.missed_edges += u64::from(self.missed_its_edge(&attempt, decided_us));
        let is_last = !self.run.try_again(&attempt, verdict, answered_us);
        let waited_us = answered_us.saturating_sub(attempt.first_us);
        let is_admitted = verdict.is_admitted;
        let outcome = AttemptOutcome { decided_us, waited_us, is_admitted, is_last };
        self.order.done(number, Some((attempt, outcome)));
        self.count();
    }

    /// Records that a question will have no answer. Its client does not retry, since the effect on
    /// the store is unknown.
    pub fn failed(&mut self, question: Question, why: &str) {
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
        self.order.waiting.clear();
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
            clock_steps: self.order.steps,
            cpu_us: each(|used| used.cpu_us),
            calls: each(|used| used.calls),
            commands: each(|used| used.commands),
        };
        CaseResult { live: Some(live), ..self.run.finish(self.case) }
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

/// Sorts attempts in the order in which the store decided them.
///
/// A question sent after an answer has arrived is decided after that answer. So the decisions are
/// complete up to the newest answer that had arrived when the oldest open question was sent. Only
/// times of the store's clock are compared, which must not be set back.
#[derive(Default)]
struct DecisionOrder {
    /// The latest decision time of all answers.
    newest: u64,
    /// The number of the first of `waiting`.
    first: u64,
    /// For each question since the oldest open one: the latest decision time when it was sent;
    /// `None` when it is done.
    waiting: VecDeque<Option<u64>>,
    /// The answers that were decided before others that had arrived when they were sent: the
    /// store's clock was set back.
    steps: u64,
    /// By decision time, and by the number of the question.
    ready: BinaryHeap<Reverse<(u64, u64, Attempt, AttemptOutcome)>>,
}

impl DecisionOrder {
    fn send(&mut self) -> u64 {
        self.waiting.push_back(Some(self.newest));
        self.first + self.waiting.len() as u64 - 1
    }

    fn done(&mut self, number: u64, what: Option<(Attempt, AttemptOutcome)>) {
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let known = self.waiting.get_mut(place).and_then(Option::take);
        if let (Some(known), Some((_, outcome))) = (known, &what) {
            self.steps += u64::from(outcome.decided_us < known);
        }
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        if let Some((attempt, outcome)) = what {
            self.newest = self.newest.max(outcome.decided_us);
            self.ready.push(Reverse((outcome.decided_us, number, attempt, outcome)));
        }
    }

    /// The next attempt before which nothing can be missing.
    fn next(&mut self) -> Option<(Attempt, AttemptOutcome)> {
        let complete = self.waiting.front().copied().flatten();
        let Reverse((decided_us, ..)) = self.ready.peek()?;
        if complete.is_some_and(|complete| *decided_us > complete) {
            return None;
        }
        self.ready.pop().map(|Reverse((.., attempt, outcome))| (attempt, outcome))
    }
}

/// A histogram of durations.
struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    /// The longest duration that is recorded exactly: an hour.
    const MAX_US: u64 = 3_600_000_000;

    fn new() -> Self {
        #[allow(clippy::expect_used)] // fixed bounds, and the test below makes one
        Self(Histogram::new_with_bounds(1, Self::MAX_US, 3).expect("bounds that are possible"))
    }

    fn add(&mut self, us: u64) {
        self.0.saturating_record(us);
    }

    fn read(&self) -> Option<Latency> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Latency {
            mean: rounded(self.0.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.0.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(decided_us: u64) -> Option<(Attempt, AttemptOutcome)> {
        let attempt =
            Attempt { at_us: 0, first_us: 0, client: 0, workload: 0, tries: 0, request: 0 };
        Some((
            attempt,
            AttemptOutcome { decided_us, waited_us: 0, is_admitted: true, is_last: true },
        ))
    }

    fn flush(order: &mut DecisionOrder) -> Vec<u64> {
        core::iter::from_fn(|| order.next()).map(|(_, outcome)| outcome.decided_us).collect()
    }

    #[test]
    fn answers_that_overtake_each_other_are_put_in_order() {
        let mut order = DecisionOrder::default();
        let sent: Vec<u64> = (0..4).map(|_| order.send()).collect();
        assert_eq!(sent, [0, 1, 2, 3]);
        order.done(1, outcome(20));
        order.done(3, outcome(10));
        assert!(flush(&mut order).is_empty(), "0 and 2 may have been decided before");
        let late = order.send();
        order.done(0, outcome(5));
        assert!(flush(&mut order).is_empty(), "2 may have been decided before 5");
        order.done(2, None);
        // The open question was sent when the answer decided at 20 was known.
        assert_eq!(flush(&mut order), [5, 10, 20]);
        order.done(late, outcome(21));
        assert_eq!(flush(&mut order), [21]);
        assert_eq!((order.waiting.len(), order.first, order.steps), (0, 5, 0));
        let back = order.send();
        order.done(back, outcome(20));
        assert_eq!((flush(&mut order), order.steps), (vec![20], 1));
    }

    #[test]
    fn a_spread_is_read_to_three_digits() {
        let mut spread = LatencyHistogram::new();
        assert_eq!(spread.read(), None);
        (1..=1_000).for_each(|us| spread.add(us));
        let read = spread.read().unwrap();
        assert_eq!((read.p50, read.p90, read.p99), (500, 900, 990));
        assert!((read.mean - 500.5).abs() < 1.0, "{read:?}");
        spread.add(u64::MAX);
        assert!(spread.read().unwrap().max >= LatencyHistogram::MAX_US);
    }

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
