//! The fixed window: a count that restarts with each window.
//!
//! The state has two words: the start of the window, and the units admitted in it. Windows start at
//! multiples of `D` since the Unix epoch, or at the first admitted check.

use crate::limit::{Anchor, LimitKind, Quota, QuotaError, MAX_UNITS};
use crate::strategy::{
    Cell, Charge, Recorded, Descriptor, Judgement, LuaSpec, LuaStep, MAX_EXACT, NEVER_US, Shape,
    Traits, worst_window,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "fixed_window",
    kind: LimitKind::Rate,
    code: 'f',
    summary: "N in each window, counted from the epoch or from the first hit",
    page: include_str!("fixed_window.md"),
    options: &["anchor", "debt"],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The step in Lua.
const LUA: LuaStep = LuaStep {
    name: "fixed",
    code: 'f',
    numbers: 3,
    capacity: 1,
    words: Some(2),
    sound_numbers: "n[1] <= 1099511627776 and n[3] <= 1",
    sound_words: "w[2] <= 1099511627776",
    text: include_str!("fixed_window.lua"),
};

/// `units` in each window of `period_us`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    units: u64,
    period_us: u64,
    anchor: Anchor,
}

/// The current window.
struct View {
    start_us: u64,
    count: u64,
    /// The effective time: now, or the window's start if the clock is behind it.
    at_us: u64,
    stepped_back: bool,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    Ok(Step {
        units: quota.units,
        period_us: quota.period.as_micros(),
        anchor: quota.anchor.unwrap_or_default(),
    })
}

impl Step {
    /// The start of the window that a charge at `us` opens or joins.
    fn start(&self, us: u64) -> u64 {
        match self.anchor {
            Anchor::Epoch => us - us % self.period_us,
            Anchor::FirstHit => us,
        }
    }

    fn view(&self, cell: &mut Cell<'_>, now: Time) -> View {
        let words = cell.words();
        let (start_us, count) = (words[0], words[1]);
        let now = now.as_micros();
        let fresh = View { start_us: self.start(now), count: 0, at_us: now, stepped_back: false };
        if count == 0 || now >= start_us + self.period_us {
            return fresh;
        }
        if start_us <= now {
            return View { start_us, count, ..fresh };
        }
        if start_us - now <= SKEW_US {
            return View { start_us, count, at_us: start_us, stepped_back: false };
        }
        View { count, stepped_back: true, ..fresh }
    }

    fn store(cell: &mut Cell<'_>, start_us: u64, count: u64) {
        let words = cell.words();
        words[0] = start_us;
        words[1] = count;
    }
}

impl super::Step for Step {
    fn shape(&self) -> Shape {
        Shape::Words(2)
    }

    fn capacity(&self) -> u64 {
        self.units
    }

    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let view = self.view(cell, now);
        let remaining = self.units.saturating_sub(view.count);
        let wait_us = view.start_us + self.period_us - now.as_micros();
        let retry_after_us = if view.count + cost <= self.units {
            0
        } else if cost > self.units {
            NEVER_US
        } else {
            wait_us
        };
        let reset_after_us = if view.count == 0 { 0 } else { wait_us };
        Judgement { remaining, retry_after_us, reset_after_us, stepped_back: view.stepped_back }
    }

    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        let view = self.view(cell, now);
        Self::store(cell, view.start_us, view.count + cost);
        let reset_after_us = view.start_us + self.period_us - now.as_micros();
        Recorded { at_us: view.at_us, reset_after_us }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let view = self.view(cell, now);
        if view.stepped_back {
            Self::store(cell, view.start_us, view.count);
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        if words[1] == 0 { 0 } else { words[0] + self.period_us }
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        let view = self.view(cell, now);
        if (view.start_us..view.start_us + self.period_us).contains(&charge.at_us) {
            Self::store(cell, view.start_us, view.count.saturating_sub(charge.units));
        }
    }

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        self.start(at_us) + self.period_us
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        let view = self.view(cell, now);
        Self::store(cell, view.start_us, view.count.saturating_sub(units));
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [start, count] if *start < MAX_EXACT && *count <= MAX_UNITS)
    }

    fn lua_spec(&self) -> LuaSpec {
        let first_hit = u64::from(self.anchor == Anchor::FirstHit);
        LuaSpec::plain(&LUA, &[self.units, self.period_us, first_hit])
    }

    fn with_capacity(&self, most: u64) -> Self {
        Self { units: most, ..self.clone() }
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let view = was.view(old, now);
        let same = self.period_us == was.period_us && self.anchor == was.anchor;
        if same && view.count == 0 {
            // A window that has ended counts again where the clock steps back.
            cell.words().copy_from_slice(old.words());
            return;
        }
        let start_us = if same { view.start_us } else { self.start(view.at_us) };
        Self::store(cell, start_us, view.count);
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    let (units, period_us) = (u128::from(quota.units), quota.period.as_micros());
    // The window that holds the first microsecond, and those that begin after it.
    let later = units * u128::from((span_us - 1).div_ceil(period_us));
    match quota.anchor.unwrap_or_default() {
        Anchor::Epoch => units + later,
        // A window that opened before the span had its first hit there; else all open within it.
        Anchor::FirstHit => {
            (units - 1 + later).max(units * u128::from(span_us.div_ceil(period_us)))
        }
    }
}

fn traits(quota: &Quota) -> Traits {
    Traits {
        worst_window: worst_window(quota, most_in),
        sustained: quota.rate(),
        bytes: "16".to_owned(),
        burst: format!("{} at once, and as many again across a window's edge", quota.units),
        retry: "the end of the window",
    }
}
