//! The generic cell rate algorithm: the step that `uniform` and the greedy `token_bucket` share.
//!
//! The state is the theoretical arrival time (TAT): the time at which everything charged has been
//! replenished. It has two words: whole microseconds, and the numerator of the fraction.

use crate::limit::{Quota, Refusal, Element};
use crate::strategy::period::{Emission, Exact};
use crate::strategy::{
    Cell, Charge, Charged, Descriptor, Judgement, LuaSpec, LuaStep, MAX_EXACT, NEVER_US, Shape,
    Traits,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "gcra",
    code: 'g',
    summary: "units come back one by one, a burst is free when it was not used (GCRA)",
    page: include_str!("gcra.md"),
    options: &["burst"],
    steps: &[&LUA],
    traits,
};

/// The greedy step in Lua.
pub(crate) const LUA: LuaStep = LuaStep {
    name: "greedy",
    code: 'g',
    numbers: 3,
    words: Some(2),
    sound_numbers: "n[3] > 0 and n[2] * n[3] < 9007199254740992
      and n[1] * n[3] <= n[2] * 4503599627370496",
    sound_words: "w[2] < n[2]",
    text: include_str!("gcra.lua"),
};

/// A burst of units, each of which takes `emission` to be replenished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    burst: u64,
    emission: Emission,
    /// The debt of an exhausted state: `B*T`.
    full: Exact,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, Refusal> {
    Step::new(quota.units, quota.period.as_micros(), quota.burst.unwrap_or(quota.units))
}

impl Step {
    /// `units` per `period_us`, of which `burst` can be taken at once.
    pub(crate) fn new(units: u64, period_us: u64, burst: u64) -> Result<Self, Refusal> {
        let emission = Emission::new(units, period_us);
        // Under these two bounds, every product in the Lua version stays below 2^53.
        if burst.checked_mul(emission.denominator()).is_none_or(|product| product >= 1 << 53) {
            return Err(Refusal::new(
                Element::Units,
                format!("{units} per this duration cannot be counted exactly"),
                format!(
                    "the time of one unit is a fraction with the denominator {}, and burst times \
                     that must stay below 2^53: choose a number that shares factors with the \
                     duration in microseconds, or a smaller burst",
                    emission.denominator()
                ),
            ));
        }
        let micros = u128::from(burst) * u128::from(period_us) / u128::from(units);
        if micros > 1 << 51 {
            return Err(Refusal::new(
                Element::Burst,
                format!("a burst of {burst} would take over 71 years to come back"),
                "lower the burst or raise the rate".to_owned(),
            ));
        }
        Ok(Self { burst, emission, full: emission.times(burst) })
    }

    /// The debt at `now`: the time until everything is replenished, at most `full`.
    #[inline(always)]
    fn debt(&self, cell: &mut Cell<'_>, now: Time) -> (Exact, bool) {
        let words = cell.words();
        let tat = Exact { us: words[0], num: words[1] };
        let now = now.as_micros();
        if tat.us < now {
            return (Exact::default(), false);
        }
        let debt = Exact { us: tat.us - now, num: tat.num };
        if debt > self.full { (self.full, true) } else { (debt, false) }
    }

    #[inline(always)]
    fn owe(&self, cell: &mut Cell<'_>, now: Time, debt: Exact) {
        let words = cell.words();
        let nothing = debt == Exact::default();
        words[0] = if nothing { 0 } else { now.as_micros() + debt.us };
        words[1] = debt.num;
    }
}

impl super::Step for Step {
    #[inline]
    fn shape(&self) -> Shape {
        Shape::Words(2)
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline(always)]
    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let (debt, stepped_back) = self.debt(cell, now);
        let remaining = self.emission.units_in(self.emission.minus(self.full, debt));
        let retry_after_us = if cost <= remaining {
            0
        } else if cost > self.burst {
            NEVER_US
        } else {
            let wanted = self.emission.add(debt, self.emission.times(cost));
            self.emission.minus(wanted, self.full).ceil_us()
        };
        Judgement { remaining, retry_after_us, reset_after_us: debt.ceil_us(), stepped_back }
    }

    #[inline(always)]
    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Charged {
        let (debt, _) = self.debt(cell, now);
        let debt = self.emission.add(debt, self.emission.times(cost));
        self.owe(cell, now, debt);
        Charged { at_us: now.as_micros(), reset_after_us: debt.ceil_us() }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let (debt, stepped_back) = self.debt(cell, now);
        if stepped_back {
            self.owe(cell, now, debt);
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        Exact { us: words[0], num: words[1] }.ceil_us()
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        let (debt, _) = self.debt(cell, now);
        if charge.at_us > now.as_micros() + SKEW_US {
            // The clock has stepped back since the charge: how much of it was replenished is
            // unknown.
            return;
        }
        // What was replenished in the meantime belongs to the units that are refunded last.
        let drained = Exact { us: now.as_micros().saturating_sub(charge.at_us), num: 0 };
        let most = charge.left.min(self.burst);
        let left = self.emission.minus(self.emission.times(most), drained);
        let kept = (charge.left - charge.units).min(self.burst);
        let given = left.min(self.emission.times(most - kept));
        self.owe(cell, now, self.emission.minus(debt, given));
    }

    fn spent_until_us(&self, at_us: u64, cost: u64) -> u64 {
        at_us + self.emission.times(cost).ceil_us()
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        let (debt, _) = self.debt(cell, now);
        let given = self.emission.times(units.min(self.burst));
        self.owe(cell, now, self.emission.minus(debt, given));
    }

    fn lua_spec(&self) -> LuaSpec {
        let Self { burst, emission, full } = *self;
        let one = emission.times(1);
        let numbers = [emission.numerator(), emission.denominator(), burst];
        let mut spec = LuaSpec::plain(&LUA, &numbers);
        spec.arguments.extend([one.us, one.num, full.us, full.num]);
        spec
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [tat, num] if *tat < MAX_EXACT && *num < self.emission.denominator())
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let (debt, _) = was.debt(old, now);
        if was.emission == self.emission {
            self.owe(cell, now, debt.min(self.full));
            return;
        }
        let units = was.emission.units_in(debt);
        let rest = was.emission.minus(debt, was.emission.times(units));
        let rest = Exact { us: self.emission.scaled_us(was.emission, rest), num: 0 };
        let debt = self.emission.add(self.emission.times(units.min(self.burst)), rest);
        self.owe(cell, now, debt.min(self.full));
    }
}

fn traits(quota: &Quota) -> Traits {
    let burst = quota.burst.unwrap_or(quota.units);
    Traits {
        worst_window: burst + quota.units - 1,
        sustained: quota.rate(),
        bytes: "16".to_owned(),
        burst: format!("{burst} at once, then one each {}", quota.gap()),
        retry: "the exact time at which the missing units are back",
    }
}
