//! At most this many concurrently: the limit of how many holds are open, not of a rate.
//!
//! The step has no state: the engine takes the slots of the open holds from the remaining ones
//! (`engine/holding.rs`).

use crate::limit::{Element, LimitKind, Quota, QuotaError};
use crate::strategy::{
    Cell, Charge, Descriptor, Judgement, LuaSpec, LuaStep, NEVER_US, Recorded, Shape, Traits,
};
use crate::time::Time;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "concurrency",
    kind: LimitKind::Slots,
    code: 'c',
    summary: "at most N at once: a slot is taken and given back, or comes back when its hold ends",
    page: include_str!("concurrency.md"),
    options: &["hold"],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The form of the step in a stored state. Its effect is in the driver, like its state.
pub(crate) const LUA: LuaStep = LuaStep {
    name: "concurrency",
    code: 'c',
    numbers: 2,
    capacity: 1,
    edges: None,
    words: Some(0),
    sound_numbers: "true",
    sound_words: "true",
    text: include_str!("concurrency.lua"),
};

/// The shortest hold: a millisecond, in microseconds.
const MIN_HOLD_US: u64 = 1_000;

/// So many slots, and how long a hold on one lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    slots: u64,
    hold_us: u64,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    let (slots, hold_us) = (quota.units, quota.period.as_micros());
    if hold_us < MIN_HOLD_US {
        return Err(QuotaError::new(
            Element::Period,
            format!("a hold of {} is over before anybody could renew it", quota.period),
            "the shortest is 1ms".to_owned(),
        ));
    }
    Ok(Step { slots, hold_us })
}

impl super::Step for Step {
    fn shape(&self) -> Shape {
        Shape::Words(0)
    }

    fn capacity(&self) -> u64 {
        self.slots
    }

    fn judge(&self, _: &mut Cell<'_>, _: Time, cost: u64) -> Judgement {
        let retry_after_us = if cost <= self.slots { 0 } else { NEVER_US };
        let (remaining, reset_after_us, stepped_back) = (self.slots, 0, false);
        Judgement { remaining, retry_after_us, reset_after_us, stepped_back }
    }

    fn charge(&self, _: &mut Cell<'_>, now: Time, _: u64) -> Recorded {
        Recorded { at_us: now.as_micros(), reset_after_us: 0 }
    }

    fn repair(&self, _: &mut Cell<'_>, _: Time) {}

    fn fresh_at_us(&self, _: &mut Cell<'_>) -> u64 {
        0
    }

    fn refund(&self, _: &mut Cell<'_>, _: Time, _: Charge) {}

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        at_us
    }

    fn grant(&self, _: &mut Cell<'_>, _: Time, _: u64) {}

    fn lua_spec(&self) -> LuaSpec {
        LuaSpec::plain(&LUA, &[self.slots, self.hold_us])
    }

    fn most(&self) -> Option<u64> {
        Some(self.slots)
    }

    fn with_capacity(&self, _: u64) -> Self {
        *self
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        words.is_empty()
    }

    fn migrate(&self, _: &mut Cell<'_>, _: &Self, _: &mut Cell<'_>, _: Time) {}
}

/// A slot that is given back can be taken again immediately, so no window has a bound.
fn most_in(_: &Quota, _: u64) -> u128 {
    u128::from(u64::MAX)
}

fn traits(quota: &Quota) -> Traits {
    let Quota { units, period, .. } = quota;
    Traits {
        worst_window: u64::MAX,
        sustained: format!("{units} at once"),
        bytes: "about 120 for each open hold".to_owned(),
        burst: format!("{units} at once, each for at most {period} unless it is renewed"),
        retry: "when a slot is given back, at the latest when a hold ends",
    }
}
