//! The generic cell rate algorithm: the step that `uniform` and the greedy `token_bucket` share.
//!
//! The state is the theoretical arrival time (TAT): the time at which everything charged has been
//! replenished. It has two words: whole microseconds, and the numerator of the fraction.

use crate::limit::{Element, LimitKind, Quota, QuotaError};
use crate::strategy::period::{Emission, Exact, mul_div};
use crate::strategy::{
    Cell, Charge, Recorded, Descriptor, Judgement, LONGEST_WAIT_US, LuaSpec, LuaStep, MAX_EXACT,
    NEVER_US, Shape, Traits, most_of_rate, most_used, worst_window,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "gcra",
    kind: LimitKind::Rate,
    code: 'g',
    summary: "units come back one by one, a burst is free when it was not used (GCRA)",
    page: include_str!("gcra.md"),
    options: &["burst", "debt"],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The greedy step in Lua.
pub(crate) const LUA: LuaStep = LuaStep {
    name: "greedy",
    code: 'g',
    numbers: 4,
    capacity: 3,
    edges: None,
    words: Some(2),
    sound_numbers: "n[3] > 0 and n[3] <= n[4] and n[2] * n[4] < 9007199254740992
      and n[1] * n[4] <= n[2] * 4503599627370496",
    sound_words: "w[2] < n[2]",
    text: include_str!("gcra.lua"),
};

/// A burst of units, each of which takes `emission` to be replenished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    burst: u64,
    emission: Emission,
    /// The backlog of an exhausted state: `B*T`.
    full: Exact,
    /// The most units that can be used, and the backlog of so many.
    most: u64,
    longest: Exact,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    Step::new(quota, quota.burst.unwrap_or(quota.units))
}

impl Step {
    /// The quota's units per period, with this burst.
    pub(crate) fn new(quota: &Quota, burst: u64) -> Result<Self, QuotaError> {
        let (units, period_us) = (quota.units, quota.period.as_micros());
        let emission = Emission::new(units, period_us);
        // Under these two bounds, every product in the Lua version stays below 2^53.
        if burst.checked_mul(emission.denominator()).is_none_or(|product| product >= 1 << 53) {
            return Err(QuotaError::new(
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
        if micros > LONGEST_WAIT_US.into() {
            return Err(QuotaError::new(
                Element::Burst,
                format!("a burst of {burst} would take over 71 years to come back"),
                "lower the burst or raise the rate".to_owned(),
            ));
        }
        // The most for which the same bounds hold.
        let exact = (MAX_EXACT - 1) / emission.denominator();
        let most = most_used(quota, burst, exact.min(mul_div(LONGEST_WAIT_US, units, period_us)))?;
        let (full, longest) = (emission.times(burst), emission.times(most));
        Ok(Self { burst, emission, full, most, longest })
    }

    /// The backlog at `now`: the time until everything is replenished, at most `longest`.
    #[inline(always)]
    fn backlog(&self, cell: &mut Cell<'_>, now: Time) -> (Exact, bool) {
        let words = cell.words();
        let tat = Exact { us: words[0], num: words[1] };
        let now = now.as_micros();
        if tat.us < now {
            return (Exact::default(), false);
        }
        let backlog = Exact { us: tat.us - now, num: tat.num };
        if backlog > self.longest { (self.longest, true) } else { (backlog, false) }
    }

    #[inline(always)]
    fn owe(&self, cell: &mut Cell<'_>, now: Time, backlog: Exact) {
        let words = cell.words();
        let nothing = backlog == Exact::default();
        words[0] = if nothing { 0 } else { now.as_micros() + backlog.us };
        words[1] = backlog.num;
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
        let (backlog, stepped_back) = self.backlog(cell, now);
        let remaining = self.emission.units_in(self.emission.minus(self.full, backlog));
        // A cost of 0 waits as long as more is used than the burst.
        let retry_after_us = if cost <= remaining && cost > 0 {
            0
        } else if cost > self.burst {
            NEVER_US
        } else {
            let wanted = self.emission.add(backlog, self.emission.times(cost));
            self.emission.minus(wanted, self.full).ceil_us()
        };
        Judgement { remaining, retry_after_us, reset_after_us: backlog.ceil_us(), stepped_back }
    }

    #[inline(always)]
    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        let (backlog, _) = self.backlog(cell, now);
        let backlog = self.emission.add(backlog, self.emission.times(cost));
        self.owe(cell, now, backlog);
        Recorded { at_us: now.as_micros(), reset_after_us: backlog.ceil_us() }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let (backlog, stepped_back) = self.backlog(cell, now);
        if stepped_back {
            self.owe(cell, now, backlog);
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        Exact { us: words[0], num: words[1] }.ceil_us()
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        let (backlog, _) = self.backlog(cell, now);
        if charge.at_us > now.as_micros() + SKEW_US {
            // The clock has stepped back since the charge: how much of it was replenished is
            // unknown.
            return;
        }
        // Units that came back in the meantime are those that are refunded last.
        let drained = Exact { us: now.as_micros().saturating_sub(charge.at_us), num: 0 };
        let most = charge.left.min(self.most);
        let left = self.emission.minus(self.emission.times(most), drained);
        let kept = (charge.left - charge.units).min(self.most);
        let given = left.min(self.emission.times(most - kept));
        self.owe(cell, now, self.emission.minus(backlog, given));
    }

    fn spent_until_us(&self, at_us: u64, cost: u64) -> u64 {
        at_us + self.emission.times(cost).ceil_us()
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        let (backlog, _) = self.backlog(cell, now);
        let given = self.emission.times(units.min(self.most));
        self.owe(cell, now, self.emission.minus(backlog, given));
    }

    fn lua_spec(&self) -> LuaSpec {
        let Self { burst, emission, full, most, longest } = *self;
        let one = emission.times(1);
        let numbers = [emission.numerator(), emission.denominator(), burst, most];
        let mut spec = LuaSpec::plain(&LUA, &numbers);
        spec.arguments.extend([one.us, one.num, full.us, full.num, longest.us, longest.num]);
        spec
    }

    fn most(&self) -> Option<u64> {
        Some(self.most)
    }

    fn with_capacity(&self, most: u64) -> Self {
        Self { burst: most, full: self.emission.times(most), ..*self }
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [tat, num] if *tat < MAX_EXACT && *num < self.emission.denominator())
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let (backlog, _) = was.backlog(old, now);
        if was.emission == self.emission {
            self.owe(cell, now, backlog.min(self.longest));
            return;
        }
        let units = was.emission.units_in(backlog);
        let rest = was.emission.minus(backlog, was.emission.times(units));
        let rest = Exact { us: self.emission.scaled_us(was.emission, rest), num: 0 };
        let backlog = self.emission.add(self.emission.times(units.min(self.most)), rest);
        self.owe(cell, now, backlog.min(self.longest));
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    most_of_rate(quota, quota.burst.unwrap_or(quota.units), span_us)
}

fn traits(quota: &Quota) -> Traits {
    let burst = quota.burst.unwrap_or(quota.units);
    Traits {
        worst_window: worst_window(quota, most_in),
        sustained: quota.rate(),
        bytes: "16".to_owned(),
        burst: format!("{burst} at once, then one each {}", quota.gap()),
        retry: "the exact time at which the missing units are back",
    }
}
