//! Charges without a check (`docs/definitions.md`, section 8).

use core::time::Duration;

use smallvec::SmallVec;

use super::States;
use super::amount::{Amount, Claim};
use crate::cost::Amounts;
use crate::limit::{Limit, LimitSet};
use crate::strategy::{Cell, Judgement, NEVER_US, Step};
use crate::time::Time;

/// The effect of a charge without a check on one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Charged {
    /// Whether a check would have admitted the cost.
    pub fits: bool,
    /// The units of the cost that were not charged, since they exceed the limit's debt.
    pub cut: u64,
    /// The largest cost that would be admitted now, in units.
    pub remaining: u64,
    /// The shortest wait in microseconds until the same cost is admitted: 0 for now, `None` for
    /// never.
    pub retry_after_us: Option<u64>,
    /// The shortest wait in microseconds until `remaining` is the limit's capacity.
    pub reset_after_us: u64,
}

impl Charged {
    /// The effect in a store that does not charge by [`charge`].
    #[must_use]
    pub const fn new(
        fits: bool,
        cut: u64,
        remaining: u64,
        retry_after_us: Option<u64>,
        reset_after_us: u64,
    ) -> Self {
        Self { fits, cut, remaining, retry_after_us, reset_after_us }
    }

    /// The wait until the same cost is admitted: zero for now, `None` for never.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_us.map(Duration::from_micros)
    }

    /// The shortest wait until the limit is fresh.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }
}

/// Charges `cost` to every limit without a check, each the amount of its unit, up to its debt. A
/// state that several subjects share never has a debt: `owes` is false for it.
///
/// The states have changed and must be written back. Returns what was done to each limit, in
/// declared order.
pub fn charge(
    limits: &LimitSet,
    states: &mut dyn States,
    cost: Amounts<'_>,
    owes: bool,
    now: Time,
) -> SmallVec<[Charged; 2]> {
    let each = limits.limits().iter().zip(limits.places());
    each.map(|(limit, place)| {
        let (mut cell, step) = (states.cell(*place), limit.step());
        let Claim { wanted, taken } = Amount::of_charge(cost).on(limit);
        step.repair(&mut cell, now);
        let fits = step.judge(&mut cell, now, wanted).retry_after_us == 0;
        let cut = take(limit, &mut cell, taken, owes, now);
        let judgement = step.judge(&mut cell, now, asked_again(limits, limit, cost));
        let Judgement { remaining, retry_after_us, reset_after_us, .. } = judgement;
        let retry_after_us = (retry_after_us != NEVER_US).then_some(retry_after_us);
        Charged { fits, cut, remaining, retry_after_us, reset_after_us }
    })
    .collect()
}

/// The amount whose wait the answer to a charge has: a plain cost is asked of every limit, as by a
/// check.
pub(super) fn asked_again(limits: &LimitSet, limit: &Limit, cost: Amounts<'_>) -> u64 {
    match cost.plain() {
        Some(cost) if limits.is_plain() => cost,
        _ => Amount::of_charge(cost).on(limit).wanted,
    }
}

/// Repairs a state from the future, and charges up to the limit's debt, or up to the remaining
/// units if the state never `owes`. Returns the units that were not charged.
pub(super) fn take(limit: &Limit, cell: &mut Cell<'_>, cost: u64, owes: bool, now: Time) -> u64 {
    let step = limit.step();
    step.repair(cell, now);
    let room = match owes {
        true => limit.with_debt().judge(cell, now, 1).remaining,
        false => step.judge(cell, now, 1).remaining,
    };
    let taken = cost.min(room);
    if taken > 0 {
        step.charge(cell, now, taken);
    }
    cost - taken
}
