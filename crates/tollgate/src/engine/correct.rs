//! Changes of a count other than checks: refunds, adjustments, changed numbers.

use smallvec::SmallVec;

use super::Part;
use super::amount::kept_of;
use super::credit::Credits;
use super::holding::end_holds;
use crate::adjustment::Adjustment;
use crate::cost::{Amounts, Cost};
use crate::decision::{Charges, PAID_BY_CREDITS, Receipt};
use crate::limit::{Limit, LimitSet, Place, Unit};
use crate::strategy::{Cell, Charge, Judgement, Step};
use crate::time::{SKEW_US, Time};

/// The part of a charge that a refund returns, by the units of the charge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Portion(SmallVec<[UnitPortion; 1]>);

/// The part of one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct UnitPortion {
    unit: Unit,
    cost: u64,
    left: u64,
    units: u64,
}

impl Portion {
    /// All of a charge.
    #[must_use]
    pub fn whole(cost: Amounts<'_>) -> Self {
        Self::part(cost, 0.into(), cost)
    }

    /// `units` of a charge of `cost` of which `before` was refunded before. If less is left of a
    /// unit, the portion is the rest of it. A plain `before` of a charge by unit is all of it.
    #[must_use]
    pub fn part(cost: Amounts<'_>, before: Amounts<'_>, units: Amounts<'_>) -> Self {
        let is_over = before.plain().is_some() && cost.plain().is_none() && before.first() > 0;
        let each = cost.iter().map(|(unit, cost)| {
            let left = if is_over { 0 } else { cost.saturating_sub(before.of(unit)) };
            UnitPortion { unit: *unit, cost, left, units: units.of(unit).min(left) }
        });
        Self(each.collect())
    }

    /// The portion on one limit.
    fn on(&self, limit: &Limit) -> Option<UnitPortion> {
        self.0.iter().find(|part| part.unit == *limit.unit() && part.units > 0).copied()
    }

    /// The units refunded in total, with this portion.
    #[must_use]
    pub fn sum(&self) -> Cost {
        let each = self.0.iter().map(|it| (it.unit, it.cost - it.left + it.units));
        Cost::of(&each.collect::<Vec<_>>())
    }

    /// The units that can still be refunded after this portion.
    #[must_use]
    pub fn left_after(&self) -> Cost {
        let each = self.0.iter().map(|it| (it.unit, it.left - it.units));
        Cost::of(&each.filter(|(_, left)| *left > 0).collect::<Vec<_>>())
    }

    /// True when nothing was left to refund.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|it| it.units == 0)
    }
}

/// Refunds the portion of a charge that still counts, on a count whose due holds end first. Of a
/// unit of which credits paid a part, they get it back, and the limits nothing. The charge was
/// recorded at `charged_at_us`, one time per limit of `charged` in declared order, or
/// [`PAID_BY_CREDITS`]. It was made at `at`.
///
/// The state may since have been written under other numbers, those of the part: limits are
/// matched by identity. A limit whose strategy changed refunds nothing. Neither does a charge that
/// would no longer count under its own numbers ([`spent_until_us`]).
///
/// Returns by how many units `remaining` rose beside the open holds, per limit of `charged`.
pub fn refund(
    part: &mut Part<'_>,
    charged: &LimitSet,
    (charged_at_us, at): (&[u64], Time),
    portion: &Portion,
    now: Time,
) -> SmallVec<[u64; 2]> {
    let mut held = end_holds(part, now);
    let credits = held.credits.clone();
    if !credits.is_empty() {
        let each = charged.limits().iter().zip(charged_at_us);
        let paid = each.filter(|(_, at_us)| **at_us == PAID_BY_CREDITS).map(|(limit, _)| limit);
        give_back(part.limits, &mut held.credits, paid, portion, (at, now));
    }
    let (limits, states) = (part.limits, &mut *part.states);
    let mut given = SmallVec::new();
    for (limit, at_us) in charged.limits().iter().zip(charged_at_us) {
        let Some((written, place)) = written_as(limits, limit) else {
            given.push(0);
            continue;
        };
        let mut cell = states.cell(place);
        let kept = kept_of(written, &held);
        written.step().repair(&mut cell, now);
        let Judgement { remaining: before, reset_after_us, .. } =
            written.step().judge(&mut cell, now, 1);
        let before = (before + credits.of(written)).saturating_sub(kept);
        // A limit that has recovered by itself keeps its times, so that its charges count again if
        // the clock steps back.
        let counts = reset_after_us > 0;
        // Only while the mark of this refund is kept. A later change of the numbers does not extend
        // that time, so no charge is refunded twice.
        if let Some(UnitPortion { cost, left, units, .. }) = portion.on(limit).filter(|_| counts)
            && *at_us != PAID_BY_CREDITS
            && now.as_micros() < spent_until_us(limit, *at_us, cost)
        {
            written.step().refund(&mut cell, now, Charge { at_us: *at_us, left, units });
        }
        let after = written.step().judge(&mut cell, now, 1).remaining + held.credits.of(written);
        if counts {
            forget_if_free(written.step(), &mut cell, now);
        }
        given.push(after.saturating_sub(kept).saturating_sub(before));
    }
    if let Some(holds) = part.holds.as_deref_mut() {
        holds.set_sums(held);
    }
    given
}

/// The limit of a count that another one is written as now, with its place.
fn written_as<'l>(limits: &'l LimitSet, limit: &Limit) -> Option<(&'l Limit, Place)> {
    let mut each = limits.limits().iter().zip(limits.places());
    let is_same = |written: &Limit| {
        written.identity() == limit.identity() && written.strategy() == limit.strategy()
    };
    each.find(|(written, _)| is_same(written)).map(|(written, place)| (written, *place))
}

/// Gives units of a charge back to the credits that paid for these limits, as long as one of the
/// limits could give back a charge of that time.
fn give_back<'l>(
    limits: &LimitSet,
    credits: &mut Credits,
    paid: impl Iterator<Item = &'l Limit>,
    portion: &Portion,
    (at, now): (Time, Time),
) {
    let mut units: SmallVec<[Unit; 2]> = SmallVec::new();
    for limit in paid {
        let Some(UnitPortion { unit, cost, units: back, .. }) = portion.on(limit) else { continue };
        let counts = written_as(limits, limit).is_some()
            && now.as_micros() < spent_until_us(limit, at.as_micros(), cost);
        if counts && !units.contains(&unit) {
            units.push(unit);
            credits.give_back(unit, back);
        }
    }
}

/// Until when a charge of `cost` under `limit` can be refunded, in microseconds since the Unix
/// epoch: how long the mark of its refund must be kept. A later change of the numbers does not
/// extend it.
#[must_use]
pub fn spent_until_us(limit: &Limit, charged_at_us: u64, cost: u64) -> u64 {
    limit.step().spent_until_us(charged_at_us, cost)
}

/// The same for a whole receipt: the latest time of its charges.
#[must_use]
pub fn receipt_until_us(receipt: &Receipt) -> u64 {
    let each = receipt.charges.iter().flat_map(|charges| {
        let Charges { limits, at_us, .. } = charges;
        let each = limits.limits().iter().zip(at_us);
        let cost = receipt.cost.amounts();
        each.map(move |(limit, at_us)| {
            spent_until_us(limit, receipt.counted_us(*at_us), cost.of(limit.unit()))
        })
    });
    each.max().unwrap_or(0)
}

/// Until when any charge up to `now` can be refunded, in microseconds since the Unix epoch: how
/// long a store must remember the reset of a subject.
#[must_use]
pub fn refundable_until_us(limits: &LimitSet, now: Time) -> u64 {
    let at_us = now.as_micros() + SKEW_US;
    let until = |limit: &Limit| match &limit.quota().calendar {
        // A bound for any window, since `now` may be the start of the epoch.
        Some(calendar) => at_us + calendar.unit().most_us(),
        None => limit.step().spent_until_us(at_us, limit.capacity()),
    };
    limits.limits().iter().map(until).max().unwrap_or(0)
}

/// Returns units to every limit, the oldest first, each the amount of its unit. A negative amount
/// takes units, at most what remains beside the open holds and without credits. Due holds end
/// first. This is an administrator's correction.
///
/// Returns the change of `remaining` per limit, in declared order.
pub fn adjust(part: &mut Part<'_>, by: &Adjustment, now: Time) -> SmallVec<[i64; 2]> {
    let held = end_holds(part, now);
    let (limits, states) = (part.limits, &mut *part.states);
    let mut changes = SmallVec::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let delta = by.of(limit.unit());
        let mut cell = states.cell(*place);
        let (step, kept) = (limit.step(), kept_of(limit, &held));
        step.repair(&mut cell, now);
        let Judgement { remaining, reset_after_us, .. } = step.judge(&mut cell, now, 1);
        let before = remaining.saturating_sub(kept);
        if delta > 0 && reset_after_us == 0 {
            changes.push(0);
            continue;
        }
        if delta > 0 {
            step.grant(&mut cell, now, delta.unsigned_abs());
            forget_if_free(step, &mut cell, now);
        } else {
            let taken = delta.unsigned_abs().min(before);
            if taken > 0 {
                step.charge(&mut cell, now, taken);
            }
        }
        let after = step.judge(&mut cell, now, 1).remaining.saturating_sub(kept);
        // Cannot overflow: both are at most 2^40.
        changes.push(after.cast_signed() - before.cast_signed());
    }
    changes
}

/// Resets a state to fresh once all of it has been returned.
fn forget_if_free(step: &impl Step, cell: &mut Cell<'_>, now: Time) {
    if step.judge(cell, now, 1).reset_after_us == 0 {
        match cell {
            Cell::Words(words) => words.fill(0),
            Cell::Log(log) => log.replace(&[]),
        }
    }
}
