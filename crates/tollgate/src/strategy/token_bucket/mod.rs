//! The token bucket: a burst that refills continuously (the step of `gcra`) or at intervals.

use crate::limit::{LimitKind, Quota, Refill, QuotaError};
use crate::strategy::{
    Cell, Charge, Recorded, Descriptor, Judgement, LuaSpec, Shape, Traits, most_of_rate,
    worst_window,
};
use crate::time::Time;

use super::gcra;
use interval::Interval;

mod interval;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "token_bucket",
    kind: LimitKind::Rate,
    code: 't',
    summary: "a bucket of tokens that refills steadily, or whole at intervals",
    page: include_str!("token_bucket.md"),
    options: &["burst", "refill", "debt"],
    steps: &[&gcra::LUA, &interval::LUA],
    traits,
    most_in,
};

/// The two ways to refill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Greedy(gcra::Step),
    Interval(Interval),
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    let burst = quota.burst.unwrap_or(quota.units);
    Ok(match quota.refill.unwrap_or_default() {
        Refill::Greedy => Step::Greedy(gcra::Step::new(quota, burst)?),
        Refill::Interval => Step::Interval(Interval::new(quota, burst)?),
    })
}

impl super::Step for Step {
    fn shape(&self) -> Shape {
        Shape::Words(2)
    }

    fn capacity(&self) -> u64 {
        match self {
            Self::Greedy(step) => step.capacity(),
            Self::Interval(step) => step.capacity(),
        }
    }

    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        match self {
            Self::Greedy(step) => step.judge(cell, now, cost),
            Self::Interval(step) => step.judge(cell, now, cost),
        }
    }

    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        match self {
            Self::Greedy(step) => step.charge(cell, now, cost),
            Self::Interval(step) => step.charge(cell, now, cost),
        }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        match self {
            Self::Greedy(step) => step.repair(cell, now),
            Self::Interval(step) => step.repair(cell, now),
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        match self {
            Self::Greedy(step) => step.fresh_at_us(cell),
            Self::Interval(step) => step.fresh_at_us(cell),
        }
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        match self {
            Self::Greedy(step) => step.refund(cell, now, charge),
            Self::Interval(step) => step.refund(cell, now, charge),
        }
    }

    fn spent_until_us(&self, at_us: u64, cost: u64) -> u64 {
        match self {
            Self::Greedy(step) => step.spent_until_us(at_us, cost),
            Self::Interval(step) => step.spent_until_us(at_us),
        }
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        match self {
            Self::Greedy(step) => step.grant(cell, now, units),
            Self::Interval(step) => step.grant(cell, now, units),
        }
    }

    fn lua_spec(&self) -> LuaSpec {
        match self {
            Self::Greedy(step) => step.lua_spec(),
            Self::Interval(step) => step.lua_spec(),
        }
    }

    fn most(&self) -> Option<u64> {
        match self {
            Self::Greedy(step) => step.most(),
            Self::Interval(step) => Some(step.most()),
        }
    }

    fn with_capacity(&self, most: u64) -> Self {
        match self {
            Self::Greedy(step) => Self::Greedy(step.with_capacity(most)),
            Self::Interval(step) => Self::Interval(step.with_capacity(most)),
        }
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        match self {
            Self::Greedy(step) => step.is_sound(words),
            Self::Interval(step) => step.is_sound(words),
        }
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        match (self, was) {
            (Self::Greedy(step), Self::Greedy(was)) => step.migrate(cell, was, old, now),
            (Self::Interval(step), Self::Interval(was)) if step.same_beat(was) => {
                step.migrate(cell, was, old, now);
            }
            // Another kind of refill, or other refill times: the consumed units, as if charged now.
            _ => {
                let (Some(before), Some(most)) = (was.most(), self.most()) else { return };
                let consumed = before - was.with_capacity(before).judge(old, now, 1).remaining;
                if consumed > 0 {
                    self.charge(cell, now, consumed.min(most));
                }
            }
        }
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    let burst = quota.burst.unwrap_or(quota.units);
    match quota.refill.unwrap_or_default() {
        Refill::Greedy => most_of_rate(quota, burst, span_us),
        // A full bucket just before a refill, and each refill in the window.
        Refill::Interval => {
            let refills = (span_us - 1).div_ceil(quota.period.as_micros());
            u128::from(burst) + u128::from(burst.min(quota.units)) * u128::from(refills)
        }
    }
}

fn traits(quota: &Quota) -> Traits {
    let burst = quota.burst.unwrap_or(quota.units);
    match quota.refill.unwrap_or_default() {
        Refill::Greedy => Traits {
            worst_window: worst_window(quota, most_in),
            sustained: quota.rate(),
            bytes: "16".to_owned(),
            burst: format!("{burst} at once, then one each {}", quota.gap()),
            retry: "the exact time at which the missing tokens are back",
        },
        Refill::Interval => Traits {
            worst_window: worst_window(quota, most_in),
            sustained: if burst < quota.units {
                format!("{burst} per {}", quota.period)
            } else {
                quota.rate()
            },
            bytes: "16".to_owned(),
            burst: format!("{burst} at once, {} more each {}", quota.units, quota.period),
            retry: "the refill that brings the missing tokens",
        },
    }
}
