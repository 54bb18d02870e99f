//! Interval refills: `N` tokens at every multiple of `D` since the Unix epoch.
//!
//! The state has two words: the multiple of `D` at which the state was last updated, and the number
//! of tokens missing then.

use crate::limit::{Element, Quota, QuotaError};
use crate::strategy::{
    Cell, Charge, Recorded, Judgement, LONGEST_WAIT_US, LuaSpec, LuaStep, MAX_EXACT, NEVER_US,
    most_used,
};
use crate::time::{SKEW_US, Time};

/// The step of interval refills in Lua.
pub(super) const LUA: LuaStep = LuaStep {
    name: "interval",
    code: 'i',
    numbers: 4,
    capacity: 3,
    edges: None,
    words: Some(2),
    sound_numbers: "n[3] > 0 and n[3] <= n[4] and n[4] <= 1099511627776
      and math.ceil(n[4] / n[1]) * n[2] <= 2251799813685248",
    sound_words: "w[2] <= n[4]",
    text: include_str!("interval.lua"),
};

/// `units` at every multiple of `period_us`, up to `burst`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interval {
    units: u64,
    period_us: u64,
    burst: u64,
    /// The most tokens that can be missing.
    most: u64,
}

/// The state at one time.
struct View {
    /// The last refill, in microseconds since the Unix epoch, and the tokens missing since.
    refilled_us: u64,
    missing: u64,
    /// The effective time: now, or the stored refill if the clock is behind it.
    at_us: u64,
    stepped_back: bool,
}

impl Interval {
    pub(super) fn new(quota: &Quota, burst: u64) -> Result<Self, QuotaError> {
        let (units, period_us) = (quota.units, quota.period.as_micros());
        // The longest wait, burst/units intervals, plus a time must be exact in a double.
        if u128::from(burst.div_ceil(units)) * u128::from(period_us) > LONGEST_WAIT_US.into() {
            return Err(QuotaError::new(
                Element::Burst,
                format!("a burst of {burst} would take over 71 years to come back"),
                "lower the burst or raise the rate".to_owned(),
            ));
        }
        let most = most_used(quota, burst, (LONGEST_WAIT_US / period_us).saturating_mul(units))?;
        Ok(Self { units, period_us, burst, most })
    }

    /// True when both refill at the same times.
    pub(super) fn same_beat(&self, other: &Self) -> bool {
        self.period_us == other.period_us
    }

    fn view(&self, cell: &mut Cell<'_>, now: Time) -> View {
        let words = cell.words();
        let (stored_us, missing) = (words[0], words[1]);
        let now = now.as_micros();
        let current = now - now % self.period_us;
        if missing == 0 {
            return View { refilled_us: current, missing, at_us: now, stepped_back: false };
        }
        if stored_us > now {
            let step = stored_us - now > SKEW_US;
            let (refilled_us, at_us) = if step { (current, now) } else { (stored_us, stored_us) };
            return View { refilled_us, missing, at_us, stepped_back: step };
        }
        // Nearly every check is in the interval of the one before: no division for it.
        let refills = match current.saturating_sub(stored_us) {
            0 => 0,
            passed_us => passed_us / self.period_us,
        };
        let missing = missing.saturating_sub(refills.saturating_mul(self.units));
        View { refilled_us: current, missing, at_us: now, stepped_back: false }
    }

    /// The wait in microseconds from `now` until `tokens` more tokens were added.
    fn wait_us(&self, view: &View, now: Time, tokens: u64) -> u64 {
        if tokens == 0 {
            return 0;
        }
        view.refilled_us + tokens.div_ceil(self.units) * self.period_us - now.as_micros()
    }

    fn store(cell: &mut Cell<'_>, refilled_us: u64, missing: u64) {
        let words = cell.words();
        words[0] = refilled_us;
        words[1] = missing;
    }

    pub(super) fn capacity(&self) -> u64 {
        self.burst
    }

    pub(super) fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let view = self.view(cell, now);
        let remaining = self.burst.saturating_sub(view.missing);
        let retry_after_us = if view.missing.saturating_add(cost) <= self.burst {
            0
        } else if cost > self.burst {
            NEVER_US
        } else {
            self.wait_us(&view, now, view.missing + cost - self.burst)
        };
        Judgement {
            remaining,
            retry_after_us,
            reset_after_us: self.wait_us(&view, now, view.missing),
            stepped_back: view.stepped_back,
        }
    }

    pub(super) fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        let mut view = self.view(cell, now);
        view.missing += cost;
        Self::store(cell, view.refilled_us, view.missing);
        Recorded { at_us: view.at_us, reset_after_us: self.wait_us(&view, now, view.missing) }
    }

    pub(super) fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let view = self.view(cell, now);
        if view.stepped_back {
            Self::store(cell, view.refilled_us, view.missing);
        }
    }

    pub(super) fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        words[0] + words[1].div_ceil(self.units) * self.period_us
    }

    pub(super) fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        let view = self.view(cell, now);
        if charge.at_us - charge.at_us % self.period_us == view.refilled_us {
            Self::store(cell, view.refilled_us, view.missing.saturating_sub(charge.units));
        }
    }

    pub(super) fn spent_until_us(&self, at_us: u64) -> u64 {
        at_us - at_us % self.period_us + self.period_us
    }

    pub(super) fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        let view = self.view(cell, now);
        Self::store(cell, view.refilled_us, view.missing.saturating_sub(units));
    }

    pub(super) fn lua_spec(&self) -> LuaSpec {
        LuaSpec::plain(&LUA, &[self.units, self.period_us, self.burst, self.most])
    }

    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    pub(super) fn with_capacity(&self, most: u64) -> Self {
        Self { burst: most, ..*self }
    }

    pub(super) fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [refilled, missing] if *refilled < MAX_EXACT && *missing <= self.most)
    }

    /// Only for the same refill times: keeps the missing tokens, at most as many as there can be.
    pub(super) fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let view = was.view(old, now);
        Self::store(cell, view.refilled_us, view.missing.min(self.most));
    }
}
