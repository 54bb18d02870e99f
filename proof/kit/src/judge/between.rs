//! The definitions where the time of a decision is known only between two instants: for
//! strategies of which an earlier charge always leaves more.

use std::collections::BTreeSet;

use tollgate::Limit;

use crate::conformance::rule_of;
use crate::history::{Call, CallOutcome, History};
use crate::oracle::{Oracle, Rule};

use super::most::instants;
use super::options::Options;
use super::verdict::{Area, Judged};

/// Each limit twice: with every charge as early as it can have been, and as late.
struct Counts {
    early: Vec<Oracle>,
    late: Vec<Oracle>,
    /// The latest instant of a charge.
    newest_us: u64,
}

/// Whether these limits can be judged so. A window of the epoch begins by the limiter's clock, of
/// which nothing is known; a window of the first hit ends earlier when it opens earlier.
pub(super) fn can_judge(limits: &[Limit]) -> bool {
    limits
        .iter()
        .all(|limit| matches!(rule_of(limit), Some(Rule::Greedy { .. } | Rule::Log { .. })))
}

/// Checks the calls of one kind of traffic, in which no two overlap.
pub(super) fn check(history: &History, options: &Options) -> Vec<Judged> {
    let mut subjects: Vec<&str> = history
        .calls
        .iter()
        .filter_map(|call| Some(call.parts.first()?.subject.as_str()))
        .collect();
    subjects.sort_unstable();
    subjects.dedup();
    let of = |subject: &str| -> Vec<&Call> {
        let is_of = |call: &&Call| call.parts.first().is_some_and(|it| it.subject == subject);
        history.calls.iter().filter(is_of).collect()
    };
    let mut found = Vec::new();
    for subject in subjects {
        if let Some(judged) = of_subject(&of(subject), options) {
            found.extend(judged);
        }
    }
    found
}

/// The findings about one subject: up to the first wrong answer, or to one that nobody knows.
fn of_subject(calls: &[&Call], options: &Options) -> Option<Vec<Judged>> {
    let rules = || options.limits.limits().iter().filter_map(rule_of);
    let oracles = || rules().map(Oracle::grouped).collect::<Result<Vec<_>, _>>().ok();
    let mut counts = Counts { early: oracles()?, late: oracles()?, newest_us: 0 };
    let mut found = Vec::new();
    let mut ids = Ids::default();
    for (place, call) in calls.iter().enumerate() {
        let (mut from_us, to_us) = instants(call, options.precision_us);
        match ids.see(call, from_us) {
            Seen::New => {}
            Seen::Repeat => continue,
            Seen::AfterLost { sent_us } => from_us = sent_us,
            Seen::Unknown => return Some(found),
        }
        match counts.wrong(call, (from_us, to_us), options) {
            Some((area, reason)) => {
                let shown = calls.get(..=place).unwrap_or(&[]);
                let calls = shown.iter().map(|&call| call.clone()).collect();
                let reason = format!("call {}: expected {reason}", call.id);
                let part = History { calls, ..History::default() };
                found.push(Judged::broken(ids.area(area, call), reason, part));
                return Some(found);
            }
            None => {
                let area = if ids.repeated { Area::Once } else { Area::Decisions };
                found.push(Judged { checked: 1, ..Judged::new(area) });
            }
        }
        if call.outcome.is_allowed() {
            counts.early.iter_mut().for_each(|it| it.charge_anyway(from_us, call.cost));
            counts.late.iter_mut().for_each(|it| it.charge_anyway(to_us, call.cost));
            counts.newest_us = to_us;
        }
    }
    Some(found)
}

/// The request ids of one subject.
#[derive(Default)]
struct Ids<'c> {
    charged: BTreeSet<&'c String>,
    denied: BTreeSet<&'c String>,
    /// The one whose reply was lost, and when it was sent.
    lost: Option<(&'c String, u64)>,
    /// Whether one came again.
    repeated: bool,
}

/// A call beside the ids of the calls before it.
enum Seen {
    New,
    /// It charges nothing. It is answered as before, or as things are now.
    Repeat,
    /// It was sent before, and charged then or now.
    AfterLost {
        sent_us: u64,
    },
    /// Nobody knows what was charged from here on.
    Unknown,
}

impl<'c> Ids<'c> {
    fn see(&mut self, call: &'c Call, from_us: u64) -> Seen {
        let id = call.request.as_ref();
        let seen = match (self.lost, id, call.outcome) {
            (Some((lost, sent_us)), Some(id), CallOutcome::Allowed { .. }) if lost == id => {
                (self.lost, self.repeated) = (None, true);
                Seen::AfterLost { sent_us }
            }
            // After a denial the lost question may still arrive, and be charged.
            (Some(_), ..) | (None, None, CallOutcome::Unknown) => Seen::Unknown,
            (None, Some(id), _) if self.charged.contains(id) => {
                self.repeated = true;
                Seen::Repeat
            }
            // Whether a denial is kept under its id is the limiter's choice.
            (None, Some(id), outcome) if outcome.is_denial() && self.denied.contains(id) => {
                Seen::Repeat
            }
            (None, Some(id), CallOutcome::Unknown) => {
                self.lost = Some((id, from_us));
                Seen::Repeat
            }
            _ => Seen::New,
        };
        self.charged.extend(id.filter(|_| call.outcome.is_allowed()));
        self.denied.extend(id.filter(|_| call.outcome.is_denial()));
        seen
    }

    /// The promise that a count is about: after a repeat a unit that is absent was charged twice.
    fn area(&self, area: Area, call: &Call) -> Area {
        let is_over = area == Area::Decisions && call.outcome.is_allowed();
        let is_count = matches!(area, Area::Decisions | Area::Remaining);
        if self.repeated && is_count && !is_over { Area::Once } else { area }
    }
}

impl Counts {
    /// The part of an answer that no time between the two instants explains, and the right one.
    fn wrong(
        &self,
        call: &Call,
        (from_us, to_us): (u64, u64),
        options: &Options,
    ) -> Option<(Area, String)> {
        let cost = call.cost;
        let most = self.early.iter().map(|it| it.left(to_us)).min().unwrap_or(0);
        let may = self.early.iter().all(|it| it.admits_after(to_us, 0, cost));
        // Before the latest instant of the last charge, the late counts are those of the future.
        let is_after = from_us >= self.newest_us;
        let left = self.late.iter().map(|it| it.left(from_us)).min();
        let least = left.filter(|_| is_after).unwrap_or(0);
        let must = is_after && self.late.iter().all(|it| it.admits_after(from_us, 0, cost));
        match call.outcome {
            CallOutcome::Allowed { .. } if !may => {
                Some((Area::Decisions, format!("denied: at most {most} remained")))
            }
            CallOutcome::Denied { .. } | CallOutcome::Never if must => {
                Some((Area::Decisions, format!("allowed: at least {least} remained")))
            }
            CallOutcome::Allowed { remaining: Some(told) } => {
                outside(told, [least.saturating_sub(cost), most.saturating_sub(cost)])
            }
            CallOutcome::Denied { retry_after_us, remaining } => remaining
                .and_then(|told| outside(told, [least, most]))
                .or_else(|| self.wait(retry_after_us?, (from_us, to_us), cost, options)),
            _ => None,
        }
    }

    /// Whether the end of a told wait is before any end that is right, or after all of them.
    fn wait(
        &self,
        told_us: u64,
        (from_us, to_us): (u64, u64),
        cost: u64,
        options: &Options,
    ) -> Option<(Area, String)> {
        let end = |oracles: &[Oracle], at_us: u64| {
            let waits: Option<Vec<u64>> =
                oracles.iter().map(|it| it.wait_for(at_us, cost)).collect();
            Some(at_us + waits?.into_iter().max()?)
        };
        let (first_us, last_us) = (end(&self.early, from_us)?, end(&self.late, to_us)?);
        if to_us.saturating_add(told_us) < first_us {
            return Some((Area::Waits, format!("a wait of at least {} us", first_us - to_us)));
        }
        let unit_us = options.wait_unit_us.unwrap_or(options.precision_us);
        if from_us.saturating_add(told_us) > last_us.saturating_add(unit_us) {
            let most_us = last_us.saturating_add(unit_us) - from_us;
            return Some((Area::Waits, format!("a wait of at most {most_us} us")));
        }
        None
    }
}

/// Whether a `remaining` is outside of a range.
fn outside(told: u64, [least, most]: [u64; 2]) -> Option<(Area, String)> {
    let expected = || format!("{least} to {most} remaining");
    (told < least || told > most).then(|| (Area::Remaining, expected()))
}
