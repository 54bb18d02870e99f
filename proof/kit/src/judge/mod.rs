//! A judge for any limiter: it asks through a [`Driver`], records what comes back, and finds which
//! promises the limiter kept.
//!
//! The traffic is made to be awkward: bursts at the edges of windows, questions when a told wait
//! is over and just before, costs above the limit, many clients at once, subjects that are easily
//! mistaken for each other. Where the limiter's clock can be set no time passes; else the judge
//! waits.
//!
//! The record is checked in three ways:
//!
//! 1. The [history checker](crate::history) holds it to the definition of the strategy, where each
//!    decision has the limiter's own time.
//! 2. Without that time the definitions are applied to the two instants between which a decision
//!    was made: what no time between them explains is wrong.
//! 3. The answers are held against each other, whatever the strategy: a wait that is over admits,
//!    and what remained is there.
//!
//! ```
//! use tollgate_proof::history::CallOutcome;
//! use tollgate_proof::judge::{
//!     Abilities, Area, Ask, Disturbance, Driver, DriverError, Options, Reply, judge,
//! };
//!
//! /// It admits everything.
//! struct Open;
//!
//! impl Driver for Open {
//!     fn abilities(&self) -> Abilities {
//!         Abilities { clock: true, ..Abilities::default() }
//!     }
//!     fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Reply>, DriverError> {
//!         let outcome = CallOutcome::Allowed { remaining: None };
//!         let reply = Reply { outcome, decided_us: None, invoked_us: 0, returned_us: 0 };
//!         Ok(vec![reply; asks.len()])
//!     }
//!     fn disturb(&mut self, _: Disturbance) -> Result<(), DriverError> {
//!         Err(DriverError::new("it cannot be disturbed"))
//!     }
//!     fn now_us(&self) -> u64 {
//!         0
//!     }
//!     fn sleep_until(&mut self, _: u64) {}
//! }
//!
//! let options = Options::new("3/10s via fixed_window".parse()?);
//! let judgement = judge(&mut Open, &options, &mut |_| {})?;
//! assert!(judgement.broken().contains(&Area::Bound));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ask;
mod between;
mod consistent;
mod live;
mod most;
mod options;
mod recorded;
mod session;
mod settable;
mod verdict;

use crate::history::{self, Bounds, CallOutcome, Finding, History, Verdict};

pub use ask::{Abilities, Ask, Disturbance, Driver, DriverError, Flood, Reply};
pub use options::{Options, Recorded, RecordedLog, Strictness};
pub use verdict::{Area, Judged, Judgement, MostAdmitted, Traffic};

use session::{Phase, Session};

/// After this time a question whose reply was lost is surely carried out, or never will be.
const LATE_US: u64 = 2_000_000;

/// Asks a limiter, and judges it. `said` gets the name of each kind of traffic when it begins.
///
/// # Errors
/// The limiter cannot be asked.
pub fn judge(
    driver: &mut dyn Driver,
    options: &Options,
    said: &mut dyn FnMut(&str),
) -> Result<Judgement, DriverError> {
    let mut session = Session::new(driver, options);
    if session.able.clock {
        settable::ask(&mut session, said)?;
    } else {
        live::ask(&mut session, said)?;
    }
    session.end();
    said("the verdict");
    Ok(judged(&session))
}

/// The verdicts about all that was recorded.
fn judged(session: &Session<'_>) -> Judgement {
    let options = session.options;
    let mut judgement = Judgement {
        judged: Area::ALL.map(Judged::new).into(),
        traffic: Vec::new(),
        most: most_so_far(options),
        open: session.open.clone(),
        flood: session.flood,
    };
    for phase in &session.done {
        let found = consistent::summed(of_phase(phase, session.able, options, &mut judgement.open));
        let broken = found.iter().filter(|one| one.verdict == Verdict::Broken);
        let broken: Vec<Area> = broken.map(|one| one.area).collect();
        add_traffic(&mut judgement.traffic, phase, &broken);
        let most = most::most(&phase.history, options);
        for (row, admitted) in judgement.most.iter_mut().zip(most) {
            if admitted > row.admitted {
                (row.admitted, row.traffic) = (admitted, phase.name);
            }
        }
        for one in found {
            let area = judgement.judged.iter_mut().find(|judged| judged.area == one.area);
            if let Some(area) = area {
                area.join(one, phase.name);
            }
        }
    }
    for one in &mut judgement.judged {
        if one.checked == 0 && one.verdict == Verdict::Held {
            one.verdict = Verdict::Unknown;
            one.reason = open_because(one.area, options).to_owned();
        }
    }
    judgement.open.dedup();
    judgement
}

/// Why nothing about an area was decided.
fn open_because(area: Area, options: &Options) -> &'static str {
    match (area, options.held) {
        (Area::AllOrNothing, _) if options.limits.limits().len() < 2 => "there is one limit",
        (Area::Waits, Strictness::Bound) => "no answer told a wait that was then over",
        (Area::Remaining, Strictness::Bound) => "no answer told what remained",
        (_, Strictness::Bound) => "it needs the definition of a strategy: write `via` in the limit",
        _ => "no answer showed it",
    }
}

fn most_so_far(options: &Options) -> Vec<MostAdmitted> {
    let row = |limit: &tollgate::Limit| MostAdmitted {
        limit: limit.to_string(),
        units: limit.quota().units,
        period_us: limit.quota().period.as_micros(),
        admitted: 0,
        traffic: "",
    };
    options.limits.limits().iter().map(row).collect()
}

/// Runs of one kind of traffic are one row.
fn add_traffic(rows: &mut Vec<Traffic>, phase: &Phase, broken: &[Area]) {
    let new = rows.last().is_none_or(|row| row.name != phase.name);
    if new {
        let (asked, allowed, denied, undecided) = (0, 0, 0, 0);
        let broken = Vec::new();
        rows.push(Traffic { name: phase.name, asked, allowed, denied, undecided, broken });
    }
    let Some(row) = rows.last_mut() else { return };
    row.asked += phase.asked;
    for call in &phase.history.calls {
        match call.outcome {
            CallOutcome::Allowed { .. } => row.allowed += 1,
            CallOutcome::Denied { .. } | CallOutcome::Never => row.denied += 1,
            CallOutcome::NotCharged | CallOutcome::Unknown => row.undecided += 1,
        }
    }
    for area in broken {
        if !row.broken.contains(area) {
            row.broken.push(*area);
        }
    }
    row.broken.sort_unstable();
}

/// The findings about one kind of traffic.
fn of_phase(
    phase: &Phase,
    able: Abilities,
    options: &Options,
    open: &mut Vec<String>,
) -> Vec<Judged> {
    let mut found = consistent::check(&phase.history, options, phase.is_sequential);
    let decisions = || phase.history.calls.iter().filter(|call| call.outcome.is_decision());
    let timed = decisions().all(|call| call.decided_us.is_some());
    let late_us = if able.clock { 0 } else { LATE_US };
    let wait_unit_us = options.wait_unit_us.unwrap_or_default();
    let bounds = Bounds { late_us, wait_unit_us, search_steps: 1, ..Bounds::default() };
    let report = match timed {
        true => history::check(&phase.history, &bounds),
        false => history::check(&widened(&phase.history, options.precision_us), &bounds),
    };
    let exact = timed && options.held == Strictness::Definition;
    for finding in report.findings() {
        let area = Area::of(finding.promise, None).filter(|area| exact || *area == Area::Bound);
        // A promise that nothing of this traffic is about is not open.
        let is_about = finding.checked > 0 || (area == Some(Area::Bound) && finding.places > 0);
        if let Some(area) = area.filter(|_| is_about && finding.verdict == Verdict::Unknown) {
            open.push(format!("{}, {}: {}", phase.name, area.name(), finding.reason));
        }
    }
    found.extend(report.findings().iter().filter_map(|finding| of_finding(finding, exact)));
    if !timed && options.held == Strictness::Definition {
        let can = phase.is_sequential && phase.history.faults.is_empty();
        if can && between::can_judge(options.limits.limits()) {
            found.extend(between::check(&phase.history, options));
        } else {
            let name = phase.name;
            open.push(format!("{name}: the exact answers, since none has the limiter's time"));
        }
    }
    found
}

/// The finding of the history checker, as far as the promise goes.
fn of_finding(finding: &Finding, exact: bool) -> Option<Judged> {
    let area = Area::of(finding.promise, finding.wrong)?;
    if !exact && area != Area::Bound {
        return None;
    }
    if finding.verdict == Verdict::Broken {
        return Some(Judged::broken(area, finding.reason.clone(), finding.part.clone()));
    }
    let checked = if finding.verdict == Verdict::Held { finding.checked } else { 0 };
    Some(Judged { checked, ..Judged::new(area) })
}

/// The calls with room for the step of the limiter's clock: two that it takes for further apart
/// than they were are no mistake of its own.
fn widened(history: &History, precision_us: u64) -> History {
    let mut history = history.clone();
    for call in &mut history.calls {
        (call.invoked_us, call.returned_us) = (
            call.invoked_us.saturating_sub(precision_us),
            call.returned_us.map(|at_us| at_us.saturating_add(precision_us)),
        );
    }
    history
}
