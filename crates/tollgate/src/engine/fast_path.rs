//! The engine's fast paths, each with the same result as [`super::decide`]: one part without holds,
//! which lies where the store keeps it, and one hold that charges nothing.
//!
//! Without them a check in memory takes 25 % more under two limits, and a reserve with its commit
//! takes 22 % more.

use smallvec::SmallVec;

use super::amount::{Amount, kept_of};
use super::decide::{Judged, charge};
use super::denial::{deny, repair};
use super::holds::{self, Holds as _, MAX_HOLDS, OpenHold};
use super::{Carried, Fields, HoldTable, Mode, Outcome, Placed, Single, States};
use crate::cost::Amounts;
use crate::hold::{HoldKind, HoldTerms};
use crate::limit::LimitSet;
use crate::strategy::{Cell, Compiled, Step, WithStep};
use crate::time::Time;

/// Judges and charges one limit, with the same result as [`decide`] over a set of one.
pub(crate) struct DecideOne {
    pub(crate) now: Time,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

impl DecideOne {
    /// Decides over a state of two words. They are passed and returned by value, so that the
    /// compiler keeps them in registers where a step is inlined.
    #[inline(always)]
    pub(crate) fn over_pair(self, step: &Compiled, words: [u64; 2]) -> (Single, [u64; 2]) {
        step.with_step(OverPair(self, words))
    }

    /// Decides over any state.
    #[inline(never)]
    pub(crate) fn over_cell(self, step: &Compiled, cell: &mut Cell<'_>) -> Single {
        step.with_step(OverCell(self, cell))
    }

    #[inline(always)]
    fn decide(self, step: &impl Step, cell: &mut Cell<'_>) -> Single {
        let Self { now, mut cost, mode } = self;
        if mode.is_partial() {
            // With nothing left, the check is denied as for cost 1.
            cost = cost.min(step.judge(cell, now, 1).remaining).max(1);
        }
        let judgement = step.judge(cell, now, cost);
        let admitted = judgement.retry_after_us == 0;
        let mut fields = Fields::uncharged(&judgement, now);
        let mut changed = false;
        if admitted && !mode.is_peek() {
            let charged = step.charge(cell, now, cost);
            fields.remaining -= cost;
            fields.reset_after_us = charged.reset_after_us;
            fields.charged_at_us = charged.at_us;
            changed = true;
        } else if judgement.stepped_back && !mode.is_peek() {
            step.repair(cell, now);
            changed = true;
        }
        let granted = if admitted { cost } else { 0 };
        Single { granted, fields, changed, receipt: 0, now }
    }
}

struct OverPair(DecideOne, [u64; 2]);

impl WithStep for OverPair {
    type Answer = (Single, [u64; 2]);

    #[inline(always)]
    fn with_step(self, step: &impl Step) -> Self::Answer {
        let Self(one, mut words) = self;
        let single = one.decide(step, &mut Cell::Words(&mut words));
        (single, words)
    }
}

struct OverCell<'c, 's>(DecideOne, &'c mut Cell<'s>);

impl WithStep for OverCell<'_, '_> {
    type Answer = Single;

    #[inline(always)]
    fn with_step(self, step: &impl Step) -> Single {
        self.0.decide(step, self.1)
    }
}

/// As [`decide`] over one part without a carried count, as nearly every check is. It is generic
/// over the states, and collects nothing but the answer.
pub(crate) fn decide_set(
    limits: &LimitSet,
    states: &mut impl States,
    now: Time,
    cost: Amounts<'_>,
    mode: Mode,
) -> Outcome {
    if let (Some(step), [place]) = (cost.only_step(limits), limits.places()) {
        let one = DecideOne { now, cost: cost.first(), mode };
        return one.over_cell(step, &mut states.cell(*place)).into();
    }
    let mut judged = Judged::new(limits.limits().len());
    let cost = judged.cost(mode, cost, |judged, cost| judged.judge(limits, states, now, cost));
    let admitted = judged.admitted;
    let mut changed = false;
    if !mode.is_peek() {
        if admitted {
            charge(limits, states, now, cost, &mut judged.fields);
            changed = true;
        } else {
            if judged.stepped_back {
                repair(limits, states, now);
                changed = true;
            }
            changed |= !mode.waits() && deny(limits, states, now, &mut judged.fields);
        }
    }
    Outcome { granted: if admitted { cost.first() } else { 0 }, changed, ..judged.outcome(now) }
}

/// Places a hold with the same result as [`super::decide`], which judges all that this
/// leaves: it returns `None`, and has changed nothing then.
///
/// It leaves named holds, denials, ends that are due, a clock that stepped back, several limits,
/// bans, counts for which somebody waits in line or that have a credit, and holds that charge
/// something now or at their end; also counts with an open hold that charges at its end, and counts
/// with [`MAX_HOLDS`] of them.
pub(crate) fn hold_one(
    limits: &LimitSet,
    states: &mut impl States,
    table: &mut HoldTable,
    now: Time,
    cost: u64,
    terms: &HoldTerms,
) -> Option<Outcome> {
    let ([limit], [place], None) = (limits.limits(), limits.places(), terms.id.name()) else {
        return None;
    };
    let kind = terms.id.kind();
    let wanted = Amount::of_cost(cost, Some(kind)).on(limit).taken;
    let charges = match kind {
        HoldKind::Reserve => false,
        HoldKind::Acquire => Amount::of_charge(cost).on(limit).taken > 0,
        HoldKind::Charging | HoldKind::Credit => true,
    };
    if wanted == 0 || charges || table.has_line() {
        return None;
    }
    let (at_us, back_us) = holds::clock(table, now);
    let is_due = table.first().is_some_and(|hold| hold.end_us <= at_us);
    let mut sums = table.sums();
    if is_due
        || back_us > 0
        || !sums.charging.is_zero()
        || sums.count >= MAX_HOLDS
        || !sums.credits.is_empty()
    {
        return None;
    }
    let judgement = limit.step().judge(&mut states.cell(*place), now, wanted);
    let remaining = judgement.remaining.saturating_sub(kept_of(limit, &sums));
    if judgement.stepped_back || wanted > remaining {
        return None;
    }
    let end_us = at_us + terms.ttl_us;
    let hold = OpenHold { end_us, id: terms.id, cost: cost.into() };
    sums.add(&hold);
    table.insert(hold);
    sums.fence = at_us.max(sums.fence + 1);
    sums.seen_us = at_us;
    let fence = sums.fence;
    table.set_sums(sums);
    let until_last = table.last().map_or(0, |last| last.end_us.saturating_sub(now.as_micros()));
    let fields = Fields::new(
        remaining - wanted,
        Some(0),
        judgement.reset_after_us.max(until_last),
        now.as_micros(),
        Carried::Same,
    );
    let placed = Placed { fence, end: Time::from_micros(end_us), answer: 0 };
    // One push is in line here, where an iterator is a call.
    let mut each = SmallVec::new();
    each.push(fields);
    let mut outcome = Outcome::new(cost, each, 0, now);
    outcome.changed = true;
    outcome.hold = Some(Box::new(placed));
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, Part, VecStates, decide};
    use super::*;

    /// A number below `end` for the next step, the same in every run.
    fn next(seed: &mut u64, end: u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % end
    }

    #[test]
    fn a_hold_on_the_fast_path_is_the_general_one() {
        let texts = ["10/s via gcra", "10/s via fixed_window", "9/s via sliding_log", "9 at once"];
        for text in texts {
            let limits: LimitSet = text.parse().unwrap();
            let (mut states, mut table) = (VecStates::fresh(&limits), HoldTable::default());
            let mut seed = 7;
            let (mut now_us, mut taken, mut left) = (1_000_000_000, 0, 0);
            for turn in 0..20_000_u64 {
                now_us += next(&mut seed, 200_000);
                if next(&mut seed, 50) == 0 {
                    now_us -= 2_000_000;
                }
                let now = Time::from_micros(now_us);
                let [charging, acquire] = [20, 2].map(|of| next(&mut seed, of) == 0);
                let kind = match (charging, acquire) {
                    (true, _) => HoldKind::Charging,
                    (_, true) => HoldKind::Acquire,
                    _ => HoldKind::Reserve,
                };
                let ttl_us = 1 + next(&mut seed, 400_000);
                let terms = HoldTerms::new(kind, ttl_us);
                let cost = 1 + next(&mut seed, 4);
                let (mut same_states, mut same_table) = (states.clone(), table.clone());
                let one = hold_one(&limits, &mut same_states, &mut same_table, now, cost, &terms);
                if one.is_none() {
                    assert_eq!(format!("{table:?}"), format!("{same_table:?}"), "{text}: {turn}");
                    assert_eq!(format!("{states:?}"), format!("{same_states:?}"), "{text}: {turn}");
                }
                let part = Part::new(&limits, &mut states).holding(&mut table);
                let all = decide(&mut [part], now, cost.into(), Mode::Whole, Some(terms)).unwrap();
                left += u32::from(one.is_none());
                if let Some(one) = one {
                    taken += 1;
                    assert_eq!(one, all, "{text}: {turn}, {kind:?}");
                    assert_eq!(format!("{table:?}"), format!("{same_table:?}"), "{text}: {turn}");
                    assert_eq!(format!("{states:?}"), format!("{same_states:?}"), "{text}: {turn}");
                }
            }
            assert!(taken > 1_000 && left > 1_000, "{text}: {taken} taken, {left} left");
        }
    }
}
