//! Whether the answers fit each other, whatever the strategy: a told wait that is over admits, and
//! what remained is there. Nothing here knows how a limiter counts.

use std::collections::BTreeMap;

use crate::history::{Call, CallOutcome, FaultKind, History, Verdict};

use super::most::instants;
use super::options::{Options, Strictness};
use super::verdict::{Area, Judged};

/// Checks the calls of one kind of traffic.
pub(super) fn check(history: &History, options: &Options, is_sequential: bool) -> Vec<Judged> {
    let stepped = history.faults.iter().any(|fault| fault.kind == FaultKind::ClockStep);
    // A changed limit and a repeated request have answers of their own.
    let changed = history.calls.iter().any(|call| {
        call.request.is_some() || call.parts.iter().any(|part| part.limits != options.limits)
    });
    if stepped || changed {
        return Vec::new();
    }
    let mut subjects: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        for part in &call.parts {
            subjects.entry(&part.subject).or_default().push(call);
        }
    }
    let mut found = Vec::new();
    for calls in subjects.values_mut() {
        calls.sort_by_key(|call| (call.invoked_us, call.id));
        let mut subject = Subject { history, options, found: &mut found };
        subject.due(calls);
        if is_sequential {
            subject.told(calls);
        }
    }
    found
}

/// One count. Its calls are in the order of their beginnings.
struct Subject<'a> {
    history: &'a History,
    options: &'a Options,
    found: &'a mut Vec<Judged>,
}

impl Subject<'_> {
    fn broken(&mut self, area: Area, reason: String, calls: &[&Call]) {
        let calls: Vec<Call> = calls.iter().map(|&call| call.clone()).collect();
        let faults = self.history.faults.clone();
        let part = History { calls, faults, ..History::default() };
        self.found.push(Judged::broken(area, reason, part));
    }

    fn kept(&mut self, area: Area) {
        self.found.push(Judged { checked: 1, ..Judged::new(area) });
    }

    /// Denials of what is due by every strategy: the first units of a fresh subject, and one unit
    /// after so long a time that nothing counts any more.
    fn due(&mut self, calls: &[&Call]) {
        let capacity = match self.options.held {
            Strictness::Definition => self.options.capacity(),
            // How much is admitted at once is not promised: one unit is.
            Strictness::Bound => 1,
        };
        let mut charged: Vec<&Call> = Vec::new();
        for (place, &call) in calls.iter().enumerate() {
            let denied = call.outcome.is_denial();
            if denied && call.cost <= capacity {
                let returned_us = call.returned_us.unwrap_or(u64::MAX);
                let later = calls.iter().skip(place + 1);
                let meanwhile = later.take_while(|other| other.invoked_us <= returned_us);
                let may_charge = |other: &&&Call| {
                    other.outcome.is_allowed() || other.outcome == CallOutcome::Unknown
                };
                let before: Vec<&Call> =
                    charged.iter().copied().chain(meanwhile.filter(may_charge).copied()).collect();
                self.first_units(call, &before, capacity);
                self.idle(call, &before);
            }
            if call.outcome.is_allowed() || call.outcome == CallOutcome::Unknown {
                charged.push(call);
            }
        }
    }

    fn first_units(&mut self, call: &Call, before: &[&Call], capacity: u64) {
        let sum = before.iter().fold(0_u64, |sum, one| sum.saturating_add(one.cost));
        if sum.saturating_add(call.cost) <= capacity {
            let reason = format!(
                "call {}: denied, though {sum} of the first {capacity} were charged before",
                call.id
            );
            let calls: Vec<&Call> = before.iter().copied().chain([call]).collect();
            self.broken(Area::Decisions, reason, &calls);
        } else {
            self.kept(Area::Decisions);
        }
    }

    fn idle(&mut self, call: &Call, before: &[&Call]) {
        let (Some(idle_us), Some(last)) = (self.options.idle_us(), before.last()) else { return };
        if call.cost > 1 {
            return;
        }
        let precision_us = self.options.precision_us;
        let ends = before.iter().map(|one| instants(one, precision_us).1);
        let last_us = ends.max().unwrap_or(u64::MAX);
        let (from_us, _) = instants(call, precision_us);
        if from_us >= last_us.saturating_add(idle_us) {
            let reason = format!(
                "call {}: denied {} us after the last charge, where {idle_us} us are enough",
                call.id,
                from_us - last_us
            );
            self.broken(Area::Denials, reason, &[last, call]);
        } else {
            self.kept(Area::Denials);
        }
    }

    /// Each answer beside the last one that tells something about it.
    fn told(&mut self, calls: &[&Call]) {
        let mut waiting: Option<(&Call, u64)> = None;
        let mut remained: Option<(&Call, u64)> = None;
        let mut last: Option<&Call> = None;
        for &call in calls {
            // With calls that overlap, nobody knows what the limiter knew.
            let overlaps = last.is_some_and(|one| {
                one.returned_us.is_none_or(|returned_us| returned_us >= call.invoked_us)
            });
            last = Some(call);
            if overlaps || self.is_disturbed(call) {
                (waiting, remained) = (None, None);
            }
            if let Some((denied, wait_us)) = waiting.filter(|(one, _)| one.cost == call.cost) {
                self.waited(denied, wait_us, call);
            }
            if let Some((before, left)) = remained.filter(|(_, left)| call.cost <= *left) {
                self.was_there(before, left, call);
            }
            match call.outcome {
                CallOutcome::Denied { retry_after_us, remaining } => {
                    // The first wait is the one to keep to, while none is admitted.
                    if let Some(wait_us) = retry_after_us
                        && waiting.is_none_or(|(one, _)| one.cost != call.cost)
                    {
                        waiting = Some((call, wait_us));
                    }
                    remained = remaining.map(|left| (call, left)).or(remained);
                }
                CallOutcome::Allowed { remaining } => {
                    waiting = None;
                    remained = remaining.map(|left| (call, left));
                }
                CallOutcome::Never | CallOutcome::NotCharged => {}
                CallOutcome::Unknown => (waiting, remained) = (None, None),
            }
        }
    }

    /// Whether a fault came before a call, or during it: answers from before it bind no more.
    fn is_disturbed(&self, call: &Call) -> bool {
        self.history.faults.iter().any(|fault| fault.began_us <= call.invoked_us)
    }

    /// A question that was asked again after a denial with a wait, with no charge between.
    fn waited(&mut self, denied: &Call, wait_us: u64, call: &Call) {
        let precision_us = self.options.precision_us;
        let (told_from, told_to) = instants(denied, precision_us);
        let (from_us, to_us) = instants(call, precision_us);
        let is_over = from_us >= told_to.saturating_add(wait_us);
        let usual_us = if call.decided_us.is_some() { 0 } else { precision_us };
        let slack_us = self.options.wait_unit_us.unwrap_or(usual_us);
        let is_early = to_us.saturating_add(slack_us) < told_from.saturating_add(wait_us);
        match call.outcome {
            CallOutcome::Denied { .. } | CallOutcome::Never if is_over => {
                let reason =
                    format!("call {}: denied after the wait of {wait_us} us was over", call.id);
                self.broken(Area::Waits, reason, &[denied, call]);
            }
            CallOutcome::Allowed { .. } if is_early => {
                let early_us = told_from.saturating_add(wait_us) - to_us;
                let reason = format!(
                    "call {}: admitted {early_us} us before the wait of {wait_us} us was over",
                    call.id
                );
                self.broken(Area::Waits, reason, &[denied, call]);
            }
            CallOutcome::Denied { .. } | CallOutcome::Allowed { .. } => self.kept(Area::Waits),
            _ => {}
        }
    }

    /// A question for no more than remained, with nothing charged between.
    fn was_there(&mut self, before: &Call, left: u64, call: &Call) {
        match call.outcome {
            CallOutcome::Denied { .. } | CallOutcome::Never => {
                let reason = format!("call {}: denied, though {left} remained", call.id);
                self.broken(Area::Remaining, reason, &[before, call]);
            }
            CallOutcome::Allowed { .. } => self.kept(Area::Remaining),
            _ => {}
        }
    }
}

/// Joins findings of one area: the broken one with the shortest history stands.
pub(super) fn summed(found: Vec<Judged>) -> Vec<Judged> {
    let mut areas: BTreeMap<Area, Judged> = BTreeMap::new();
    for one in found {
        let area = areas.entry(one.area).or_insert_with(|| Judged::new(one.area));
        let shorter = one.part.calls.len() < area.part.calls.len();
        let checked = area.checked + one.checked;
        if one.verdict == Verdict::Broken && (area.verdict != Verdict::Broken || shorter) {
            *area = one;
        }
        area.checked = checked;
    }
    areas.into_values().collect()
}
