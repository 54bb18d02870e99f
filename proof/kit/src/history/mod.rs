//! The history checker: whether a recorded run kept the promises.
//!
//! A [`History`] has calls as their clients saw them, and the faults meanwhile. [`check`] compares
//! it with the definitions, through the [`oracle`](crate::oracle), and gives one [`Verdict`] for
//! each [`Promise`]. [`Verdict::Unknown`] means that a history does not decide it.
//!
//! ```
//! use tollgate_proof::history::{Bounds, History, Promise, Verdict, check};
//!
//! let history: History = "
//!     call id=1 client=a invoked=0 returned=4 subject=x limits=1/9s cost=1 now=2 outcome=allowed
//!     call id=2 client=b invoked=1 returned=5 subject=x limits=1/9s cost=1 now=3 outcome=allowed
//! ".parse()?;
//! let report = check(&history, &Bounds::default());
//! assert_eq!(report.verdict(Promise::Bound), Verdict::Broken);
//! assert_eq!(report.findings()[0].part.calls.len(), 2, "{report}");
//! # Ok::<(), tollgate_proof::history::HistoryError>(())
//! ```
//!
//! # In which order calls are replayed
//!
//! 1. **By the store's time**, where all decisions of a group of counts have it. A store whose time
//!    contradicts real time (a call that returned before another began has the later time) breaks
//!    [`Promise::Order`], unless a [`FaultKind::ClockStep`] lies between the two.
//! 2. **Calls of one microsecond** come in the order of real time. Where that is free, they come by
//!    the units that remained before each. If that order is illegal, every order of up to seven is
//!    tried.
//! 3. **Without the store's time** every order is searched that real time allows, and every time
//!    between the instants of a call. The recorder's clock replaces the store's then.
//!
//! # Calls without an answer
//!
//! They may have been charged or not. The *least use* has the acknowledged charges alone, the *most
//! use* has all that may have been charged before. An allowed call is illegal when even the least
//! use denies it. A denied one is illegal when even the most use admits it. Between the two
//! nothing is decided.
//!
//! # Leases
//!
//! Of a count whose limits have a lease only the bound is checked: by the instants of the calls, in
//! intervals of many lengths. Nodes answer from their leases, so no answer shows the remaining
//! units.
//!
//! # Holds
//!
//! Of a count with holds, every call is judged together, checks too: in some order that real time
//! allows, with the decisions at the store's time. A settle has no fixed time, and may come at any
//! time of its call.
//!
//! # What is not decided
//!
//! - A trailing denial: no later answer shows that it was free. `checked of places` counts these.
//! - A group with a call in flight while the clock was set, or with an uncertain charge.
//! - `fixed_window anchor first-hit` with a charge that is uncertain: a window that opens earlier
//!   also ends earlier, so there is no minimum and no maximum use.
//! - Without the store's time: more than 24 calls that overlap, a fault that loses state, or an
//!   order that is not found within [`Bounds::search_steps`].

mod bound;
mod holding;
mod interval;
mod leased;
mod plan;
mod queue;
mod record;
mod replay;
mod report;
mod search;
mod shrink;
mod text;
mod track;

use std::collections::{BTreeMap, BTreeSet};

use bound::{Admitted, Bounded};
use leased::LeasedLimit;
use plan::{Plan, Planned, Role};
use replay::Replayed;
use search::{Mistake, Searched};
use track::Doubt;

pub use holding::{HoldCall, HoldStep, Place, Renewing, Settling};
pub use record::{
    Bounds, Call, CallOutcome, Fault, FaultKind, History, QueueCall, QueueStep, RecordedCount,
};
pub use report::{Finding, Promise, Report, Verdict, Wrong};
pub use text::HistoryError;

/// Decides which promises a history kept.
#[must_use]
pub fn check(history: &History, bounds: &Bounds) -> Report {
    let mut report = Report::new();
    // Checks of counts that have holds are judged with these.
    let (with_holds, history) = &holding::split(history);
    holding::check(with_holds, bounds, &mut report);
    let plan = Plan::new(history, bounds);
    for group in &plan.groups {
        let calls: Vec<&Planned<'_>> =
            group.iter().filter_map(|&position| plan.calls.get(position)).collect();
        Group { history, plan: &plan, calls, bounds }.check(&mut report);
    }
    queues(history, bounds, &mut report);
    report.close();
    report
}

/// Calls that share counts with each other, and with no others.
struct Group<'p, 'h> {
    history: &'h History,
    plan: &'p Plan<'h>,
    calls: Vec<&'p Planned<'h>>,
    bounds: &'p Bounds,
}

impl<'p, 'h> Group<'p, 'h> {
    fn check(&self, report: &mut Report) {
        let has_lease = |part: &RecordedCount| part.limits.lease().is_some();
        if self.calls.iter().any(|planned| planned.call.parts.iter().any(has_lease)) {
            return self.leased_bound(report);
        }
        let decisions = || {
            let told = |planned: &&&Planned<'_>| planned.call.outcome.is_decision();
            self.calls.iter().filter(told)
        };
        let timed = decisions().all(|p| p.call.decided_us.is_some() || p.role == Role::Repeat);
        let trusted = if timed { self.by_time(report) } else { self.by_search(report) };
        self.bound(report, trusted);
    }

    /// The part of the history with these calls, and all faults.
    fn part(&self, calls: impl IntoIterator<Item = u64>) -> History {
        let ids: BTreeSet<u64> = calls.into_iter().collect();
        let calls = self.history.calls.iter().filter(|call| ids.contains(&call.id));
        let faults = self.history.faults.clone();
        History { calls: calls.cloned().collect(), faults, ..History::default() }
    }

    /// Replays by the store's time. Whether the times can be trusted.
    fn by_time(&self, report: &mut Report) -> bool {
        let replayed = replay::replay(self.plan, &self.calls, self.bounds);
        let Replayed { contradiction, violation, undecided, exact, denied, partial, twice } =
            replayed;
        let all = self.calls.iter().filter(|planned| planned.call.outcome.is_decision()).count();
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        report.count(Promise::Order, if undecided.is_none() { all } else { 0 }, all);
        report.count(Promise::Exact, exact.checked, all);
        report.count(Promise::DenialsFree, denied.checked, denied.places);
        report.count(Promise::AllOrNothing, partial.checked, partial.places);
        report.count(Promise::ChargedOnce, twice.checked, twice.places);
        if let Some(ids) = contradiction {
            let [one, two] = ids;
            let reason =
                format!("call {two} returned before call {one} began, and has a later time");
            report.worsen(Promise::Order, Verdict::Broken, &reason, || self.part(ids));
            self.unknown(report, "the store's times contradict real time", &[]);
            return false;
        }
        if let Some(violation) = violation {
            let mut kept = None;
            let mut part = || {
                let kept = kept.get_or_insert_with(|| {
                    shrink::violating(self.plan, &self.calls, self.bounds, &violation)
                });
                self.part(kept.iter().map(|planned| planned.call.id))
            };
            let reason = format!("call {}: expected {}", violation.call, violation.expected);
            report.worsen(Promise::Exact, Verdict::Broken, &reason, &mut part);
            report.answer_is_wrong(violation.wrong);
            for &promise in &violation.promises {
                report.worsen(promise, Verdict::Broken, &reason, &mut part);
            }
            self.unknown(
                report,
                "the answers are wrong, and this is not shown to be why",
                &violation.promises,
            );
        } else if let Some(reason) = undecided {
            self.unknown(report, &reason, &[]);
            report.worsen(Promise::Order, Verdict::Unknown, &reason, History::default);
            let placed = |one: &&Planned<'_>| one.epoch.is_some() || one.role == Role::Repeat;
            return self.calls.iter().all(placed);
        } else if exact.checked < exact.places {
            let reason = "calls without an answer, or lost state, leave some answers open";
            report.worsen(Promise::Exact, Verdict::Unknown, reason, History::default);
        }
        true
    }

    /// Marks the promises that depend on exact answers as unknown, except those that are known to
    /// be broken.
    fn unknown(&self, report: &mut Report, reason: &str, broken: &[Promise]) {
        for doubt in Doubt::ALL.map(Doubt::promise).into_iter().chain([Promise::Exact]) {
            if !broken.contains(&doubt) {
                report.worsen(doubt, Verdict::Unknown, reason, History::default);
            }
        }
    }

    /// Searches for an order. The recorder's clock replaces the store's.
    fn by_search(&self, report: &mut Report) -> bool {
        let found = |mistake| search::search(self.plan, &self.calls, self.bounds, mistake);
        let decisions: Vec<&&Planned<'_>> =
            self.calls.iter().filter(|planned| planned.call.outcome.is_decision()).collect();
        let all = u64::try_from(decisions.len()).unwrap_or(u64::MAX);
        match found(Mistake::None) {
            Searched::Exhausted(reason) => {
                report.count(Promise::Exact, 0, all);
                self.unknown(report, &reason, &[]);
            }
            Searched::Illegal => {
                report.count(Promise::Exact, all, all);
                let part = || {
                    let kept = shrink::unordered(self.plan, &self.calls, self.bounds);
                    self.part(kept.iter().map(|planned| planned.call.id))
                };
                let reason = "no order of the calls explains the answers";
                report.worsen(Promise::Exact, Verdict::Broken, reason, part);
                let explains = |doubt: &Doubt| found(Mistake::Each(*doubt)) == Searched::Legal;
                let explained: Vec<Doubt> = Doubt::ALL.into_iter().filter(explains).collect();
                let broken: Vec<Promise> = match explained[..] {
                    [doubt] => vec![doubt.promise()],
                    _ => Vec::new(),
                };
                for &promise in &broken {
                    report.count(promise, 1, 1);
                    report.worsen(promise, Verdict::Broken, reason, part);
                }
                self.unknown(report, "no order of the calls explains the answers", &broken);
            }
            Searched::Legal => {
                report.count(Promise::Exact, all, all);
                self.would_show(report, &decisions);
            }
        }
        false
    }

    /// Counts for which calls an answer would have shown one unit more.
    fn would_show(&self, report: &mut Report, decisions: &[&&Planned<'_>]) {
        // Each is a separate search.
        let few = decisions.len() <= 64;
        for planned in decisions {
            let several = planned.asked.len() > 1;
            for position in 0..planned.asked.len() {
                let mistake = Mistake::One(planned.call.id, position);
                let shown = few
                    && search::search(self.plan, &self.calls, self.bounds, mistake)
                        == Searched::Illegal;
                let promise = match (planned.call.outcome.is_allowed(), several) {
                    (true, _) => Promise::ChargedOnce,
                    (false, true) => Promise::AllOrNothing,
                    (false, false) => Promise::DenialsFree,
                };
                report.count(promise, u64::from(shown), 1);
            }
        }
    }

    /// P1 for each count with a lease.
    fn leased_bound(&self, report: &mut Report) {
        let allowed = self.calls.iter().filter(|planned| planned.call.outcome.is_allowed());
        let mut tracks: BTreeMap<usize, Vec<Admitted<'p, 'h>>> = BTreeMap::new();
        for planned in allowed.filter(|planned| planned.role != Role::Repeat) {
            for asked in &planned.asked {
                let Some(rule) = asked.rule else { continue };
                tracks.entry(asked.track).or_default().push(Admitted { planned, rule });
            }
        }
        let nodes = leased::nodes(&self.calls, self.bounds);
        for (track, admitted) in tracks {
            let mut by_numbers: Vec<(Option<LeasedLimit<'_>>, Vec<Admitted<'p, 'h>>)> = Vec::new();
            for one in admitted {
                let limit = LeasedLimit::of(one.planned, track, nodes);
                match by_numbers.iter_mut().find(|(other, _)| *other == limit) {
                    Some((_, calls)) => calls.push(one),
                    None => by_numbers.push((limit, vec![one])),
                }
            }
            for (limit, calls) in by_numbers {
                let found = match limit {
                    Some(limit) => leased::check(&calls, limit, self.plan),
                    None => bound::check(&calls, self.plan, false),
                };
                self.bounded(report, found, calls.len());
            }
        }
    }

    /// P1 for each count.
    fn bound(&self, report: &mut Report, trusted: bool) {
        let mut admitted: BTreeMap<usize, Vec<Admitted<'p, 'h>>> = BTreeMap::new();
        let charged = |planned: &&&Planned<'_>| {
            planned.call.outcome.is_allowed() && planned.role != Role::Repeat
        };
        let mut calls: Vec<&'p Planned<'h>> = self.calls.iter().filter(charged).copied().collect();
        if trusted {
            calls.sort_by_key(|planned| (planned.epoch, planned.call.decided_us));
        }
        for planned in calls {
            for asked in &planned.asked {
                let Some(rule) = asked.rule else { continue };
                admitted.entry(asked.track).or_default().push(Admitted { planned, rule });
            }
        }
        for one in admitted.values() {
            self.bounded(report, bound::check(one, self.plan, trusted), one.len());
        }
    }

    /// Reports the finding about a count with this many allowed calls.
    fn bounded(&self, report: &mut Report, found: Bounded, calls: usize) {
        let places = u64::try_from(calls).unwrap_or(u64::MAX);
        let checked = if matches!(found, Bounded::Unknown(_)) { 0 } else { places };
        report.count(Promise::Bound, checked, places);
        match found {
            Bounded::Held => {}
            Bounded::Unknown(reason) => {
                report.worsen(Promise::Bound, Verdict::Unknown, &reason, History::default);
            }
            Bounded::Broken(calls, reason) => {
                report.worsen(Promise::Bound, Verdict::Broken, &reason, || self.part(calls));
            }
        }
    }
}

/// P14 for each queue.
fn queues(history: &History, bounds: &Bounds, report: &mut Report) {
    let mut queues: BTreeMap<&str, Vec<&QueueCall>> = BTreeMap::new();
    for call in &history.queue {
        queues.entry(&call.queue).or_default().push(call);
    }
    for calls in queues.values() {
        let found = queue::check(calls, &history.faults, bounds);
        report.count(Promise::Queue, found.checked, found.places);
        let part = || {
            let shown = calls.iter().filter(|call| found.calls.contains(&call.id));
            let queue = shown.map(|&call| call.clone()).collect();
            History { queue, faults: history.faults.clone(), ..History::default() }
        };
        report.worsen(Promise::Queue, found.verdict, &found.reason, part);
    }
}
