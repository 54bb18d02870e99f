//! The effect that limits would have had on real traffic: runs every case of a [`Plan`] over the
//! same events.
//!
//! Each case has a new unbounded memory store, so that a replay is exact, and a clock that is set
//! to the time of each event; [`replay_in`] takes another store. A subject is the *number* of a
//! client, not its name. A limit only needs to know which events belong to the same client, and a
//! number fits into the store's smallest entry. Also, a name from a hostile log may exceed the
//! length of a subject.
//!
//! ```
//! use std::path::Path;
//! use tollgate_logs::{Lines, Reading};
//! use tollgate_logs::replay::{Plan, StrategyChoice, replay};
//!
//! let log: &[u8] = b"\
//!     {\"ip\":\"::1\",\"ts\":1000}\n{\"ip\":\"::1\",\"ts\":1001}\n{\"ip\":\"::2\",\"ts\":1002}\n";
//! let lines = Lines::from_reader(log, Path::new("-"), None)?;
//! let traffic = Reading::default().read_lines(lines, |_| ())?;
//! let plan = Plan::new(&["1/10s"], StrategyChoice::All)?;
//! let report = replay(&traffic, &plan, |_| ())?;
//! for case in &report.cases {
//!     assert_eq!((case.admitted, case.denied, case.clients_denied), (2, 1, 1));
//!     assert_eq!(case.top_denied, [("::1".to_owned(), 1)]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod peak;
mod plan;
mod report;

use std::time::{Duration, Instant};

use self::peak::Peak;
pub use self::plan::{Case, Plan, Refused, StrategyChoice};
pub(crate) use self::report::top_denied;
pub use self::report::{CaseReport, LimitPeak, Report, ReportJson, TOP_DENIED};
use crate::decide::{Decider, InMemory, Per, PerLimits, Verdict};
use crate::error::Error;
use crate::event::Event;
use crate::event_unit::EventUnit;
use crate::read::Traffic;

/// The events between two calls of the progress function, and between two sweeps of expired
/// entries. Each sweep covers one of the store's 256 shards, so all of them once in 2,097,152
/// events. Entries that expire sooner are removed when new subjects arrive.
const BATCH_EVENTS: usize = 8_192;

/// The progress of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The current case, an index into [`Plan::cases`].
    pub case: usize,
    /// The number of cases.
    pub cases: usize,
    /// The events of this case that were decided.
    pub events: u64,
    /// The events of each case.
    pub total_events: u64,
}

/// Runs every case of `plan` over all events of `traffic` in memory, one case after the other.
/// Equal traffic and plans give equal reports except for elapsed times.
/// Timestamps after [`tollgate::Time::MAX`] (in 2184) count as that time, as in every store.
///
/// `progress` is called every few thousand events and at the end of each case.
///
/// Memory: the states of one case at a time, and 8 bytes per client. Each limit of the case takes
/// another 8 bytes per client, and a bit per event of its window. Events are not kept in memory:
/// they are read once for the decisions and once more for each limit's peak.
///
/// Cases run one after the other on purpose: two at a time would need twice the memory, and would
/// distort each other's [`CaseReport::elapsed`].
///
/// # Errors
/// [`Error::Temporary`] when events sorted on disk cannot be read; [`Error::Decide`] when the
/// engine refuses a question (which no log is known to cause).
pub fn replay(
    traffic: &Traffic,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<Report, Error> {
    replay_in(traffic, plan, &mut InMemory::default(), progress)
}

/// As [`replay()`], with decisions of another store.
///
/// # Errors
/// Those of [`replay()`] and of the decider.
pub fn replay_in(
    traffic: &Traffic,
    plan: &Plan,
    decider: &mut impl Decider,
    mut progress: impl FnMut(Progress),
) -> Result<Report, Error> {
    let mut cases = Vec::with_capacity(plan.cases.len());
    for (index, case) in plan.cases.iter().enumerate() {
        decider.begin(&[PerLimits::new(Per::Client, case.limits.clone())])?;
        let mut run = Run::new(traffic, case)?;
        let mut events = traffic.ordered.iter()?;
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        let mut done = 0;
        loop {
            batch.clear();
            for event in events.by_ref().take(BATCH_EVENTS) {
                batch.push(event?);
            }
            run.decide(decider, &batch)?;
            done += batch.len() as u64;
            progress(Progress {
                case: index,
                cases: plan.cases.len(),
                events: done,
                total_events: traffic.ordered.len(),
            });
            if batch.len() < BATCH_EVENTS {
                break;
            }
        }
        cases.push(run.finish(traffic, case));
    }
    Ok(Report::new(traffic, plan, cases))
}

/// The run of one case.
struct Run<'a> {
    /// One per limit of the set, in declared order.
    peaks: Vec<Peak<'a>>,
    /// The denials of each client.
    denied: Vec<u64>,
    verdicts: Vec<Verdict>,
    admitted_total: u64,
    denied_total: u64,
    elapsed: Duration,
}

impl<'a> Run<'a> {
    fn new(traffic: &'a Traffic, case: &Case) -> Result<Self, Error> {
        let unit = EventUnit::of([&case.limits])?;
        let peaks = case
            .limits
            .limits()
            .iter()
            .map(|limit| Peak::new(traffic, limit.quota().period.as_micros(), unit.is_of(limit)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            peaks,
            denied: vec![0; traffic.clients.len()],
            verdicts: Vec::with_capacity(BATCH_EVENTS),
            admitted_total: 0,
            denied_total: 0,
            elapsed: Duration::ZERO,
        })
    }

    /// Decides the next events. Only the decisions are timed, not the counting.
    fn decide(&mut self, decider: &mut impl Decider, events: &[Event]) -> Result<(), Error> {
        self.verdicts.clear();
        let start = Instant::now();
        decider.decide(events, &mut self.verdicts)?;
        self.elapsed += start.elapsed();
        for (event, verdict) in events.iter().zip(&self.verdicts) {
            let admitted = verdict.is_admitted;
            for peak in &mut self.peaks {
                peak.count(*event, admitted)?;
            }
            if admitted {
                self.admitted_total += 1;
            } else {
                self.denied_total += 1;
                self.denied[event.client.index() as usize] += 1;
            }
        }
        Ok(())
    }

    fn finish(self, traffic: &Traffic, case: &Case) -> CaseReport {
        let peaks = case
            .limits
            .limits()
            .iter()
            .zip(&self.peaks)
            .map(|(limit, peak)| LimitPeak { limit: limit.to_string(), peak: peak.most() })
            .collect();
        CaseReport {
            strategy: case.strategy.clone(),
            limit: case.text(),
            admitted: self.admitted_total,
            denied: self.denied_total,
            peaks,
            clients_denied: self.denied.iter().filter(|denied| **denied > 0).count() as u64,
            top_denied: report::top_denied(&traffic.clients, &self.denied),
            elapsed: self.elapsed,
        }
    }
}

#[cfg(test)]
mod tests;
