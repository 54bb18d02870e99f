//! Changes of a count other than checks: refunds, adjustments, changed numbers.

use smallvec::SmallVec;

use super::amount::kept_of;
use super::{Carried, Carries, HoldSums, States};
use crate::cost::Amounts;
use crate::decision::{Charges, Receipt};
use crate::limit::{Limit, LimitSet};
use crate::strategy::{Cell, Charge, Judgement, Step};
use crate::time::{SKEW_US, Time};

/// The part of a charge that a refund returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    cost: u64,
    left: u64,
    units: u64,
}

impl Portion {
    /// All of a charge of `cost`.
    #[must_use]
    pub const fn whole(cost: u64) -> Self {
        Self { cost, left: cost, units: cost }
    }

    /// `units` of a charge of `cost` of which `before` units were refunded before. If less than
    /// `units` is left, the portion is the rest.
    #[must_use]
    pub fn part(cost: u64, before: u64, units: u64) -> Self {
        let left = cost.saturating_sub(before);
        Self { cost, left, units: units.min(left) }
    }

    /// The portion of a charge of `cost` on one limit. Of several units, all are refunded together.
    fn on(self, limit: &Limit, cost: Amounts<'_>) -> Self {
        let charged = cost.of(limit.unit());
        match cost.is_of_one_unit() {
            true if charged > 0 => self,
            false if self.units > 0 => Self::whole(charged),
            _ => Self { cost: charged, left: 0, units: 0 },
        }
    }

    /// The units refunded in total, with this portion.
    #[must_use]
    pub const fn sum(self) -> u64 {
        self.cost - self.left + self.units
    }

    /// The units that can still be refunded after this portion.
    #[must_use]
    pub const fn left_after(self) -> u64 {
        self.left - self.units
    }

    /// True when nothing was left to refund.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.left == 0
    }
}

/// Refunds the portion of a charge of `cost` that still counts. The charge was recorded at
/// `charged_at_us`, one time per limit of `charged` in declared order.
///
/// The state may since have been written under other numbers, `limits`: limits are matched by
/// identity. A limit whose strategy changed refunds nothing, and neither does a charge that would
/// no longer count under its own numbers ([`spent_until_us`]).
///
/// Returns by how many units `remaining` rose beside the open holds, which `held` adds up, per
/// limit of `charged`.
pub fn refund(
    limits: &LimitSet,
    states: &mut dyn States,
    held: &HoldSums,
    charged: &LimitSet,
    charged_at_us: &[u64],
    (cost, portion): (Amounts<'_>, Portion),
    now: Time,
) -> SmallVec<[u64; 2]> {
    let mut given = SmallVec::new();
    for (limit, at_us) in charged.limits().iter().zip(charged_at_us) {
        let found = limits.limits().iter().zip(limits.places()).find(|(written, _)| {
            written.identity() == limit.identity() && written.strategy() == limit.strategy()
        });
        let Portion { cost, left, units } = portion.on(limit, cost);
        let Some((written, place)) = found.filter(|_| units > 0) else {
            given.push(0);
            continue;
        };
        let mut cell = states.cell(*place);
        let kept = kept_of(written, held);
        written.step().repair(&mut cell, now);
        let Judgement { remaining: before, reset_after_us, .. } =
            written.step().judge(&mut cell, now, 1);
        // This limit has recovered by itself. Its state keeps its times, so that its charges count
        // again if the clock steps back.
        if reset_after_us == 0 {
            given.push(0);
            continue;
        }
        // Only while the mark of this refund is kept. A later change of the numbers does not extend
        // that time, so no charge is refunded twice.
        if now.as_micros() < spent_until_us(limit, *at_us, cost) {
            written.step().refund(&mut cell, now, Charge { at_us: *at_us, left, units });
        }
        let after = written.step().judge(&mut cell, now, 1).remaining;
        forget_if_free(written.step(), &mut cell, now);
        given.push(after.saturating_sub(kept).saturating_sub(before.saturating_sub(kept)));
    }
    given
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
        each.map(move |(limit, at_us)| spent_until_us(limit, *at_us, cost.of(limit.unit())))
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

/// Returns `delta` units to every limit, the oldest first. A negative `delta` takes units, at most
/// what remains beside the open holds, which `held` adds up. This is an administrator's correction.
///
/// Returns the change of `remaining` per limit, in declared order.
pub fn adjust(
    limits: &LimitSet,
    states: &mut dyn States,
    held: &HoldSums,
    delta: i64,
    now: Time,
) -> SmallVec<[i64; 2]> {
    let mut changes = SmallVec::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let mut cell = states.cell(*place);
        let (step, kept) = (limit.step(), kept_of(limit, held));
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

/// Carries a state `old`, counted under `was`, over into the fresh `states` of `limits`. Limits are
/// matched by identity.
pub fn migrate(
    limits: &LimitSet,
    states: &mut dyn States,
    was: &LimitSet,
    old: &mut dyn States,
    now: Time,
) -> Carries {
    let mut carries = Carries::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let before = was.limits().iter().zip(was.places());
        let found = before.into_iter().find(|(held, _)| held.identity() == limit.identity());
        carries.push(match found {
            Some((held, from)) if held.strategy() == limit.strategy() => {
                let (mut cell, mut from) = (states.cell(*place), old.cell(*from));
                if held.step() == limit.step() {
                    // The same numbers in another notation, such as 60/1m and 1/1s under one name.
                    cell.copy(&mut from);
                    Carried::Same
                } else {
                    limit.step().migrate(&mut cell, held.step(), &mut from, now);
                    Carried::Over
                }
            }
            _ => Carried::Fresh,
        });
    }
    carries
}
