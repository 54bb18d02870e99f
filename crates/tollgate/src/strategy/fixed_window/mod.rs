//! The fixed window: a count that restarts with each window.
//!
//! The state has two words: the start of the window, and the units admitted in it. Windows start at
//! multiples of `D` since the Unix epoch, at the first admitted check, or at dates. The first word
//! of a calendar is its whole window, since its length is not that of the next.

use sha2::{Digest as _, Sha256};

use crate::limit::{Anchor, Calendar, LimitKind, MAX_UNITS, Quota, QuotaError, Window};
use crate::strategy::{
    Cell, Charge, Recorded, Descriptor, Judgement, LuaSpec, LuaStep, MAX_EXACT, NEVER_US, Shape,
    Traits, worst_window,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "fixed_window",
    kind: LimitKind::Rate,
    code: 'f',
    summary: "N in each window, counted from the epoch, the first hit, or a date",
    page: include_str!("fixed_window.md"),
    options: &["anchor", "debt"],
    steps: &[&LUA, &CALENDAR_LUA],
    traits,
    most_in,
};

/// The step in Lua.
const LUA: LuaStep = LuaStep {
    name: "fixed",
    code: 'f',
    numbers: 3,
    capacity: 1,
    edges: None,
    words: Some(2),
    sound_numbers: "n[1] <= 1099511627776 and n[3] <= 1",
    sound_words: "w[2] <= 1099511627776",
    text: include_str!("fixed_window.lua"),
};

/// The step of a calendar in Lua.
const CALENDAR_LUA: LuaStep = LuaStep {
    name: "calendar",
    code: 'k',
    numbers: 7,
    capacity: 1,
    edges: Some(4),
    words: Some(2),
    sound_numbers: "n[1] <= 1099511627776 and n[4] <= n[5] and n[5] <= n[6] and n[6] <= n[7]",
    sound_words: "w[2] <= 1099511627776",
    text: include_str!("calendar.lua"),
};

/// `units` in each window of `period_us`, or of a calendar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    units: u64,
    period_us: u64,
    anchor: Anchor,
    calendar: Option<Dates>,
}

/// The windows of a calendar.
#[derive(Clone, Debug)]
struct Dates {
    calendar: Calendar,
    /// A number for its zone and edge: other windows are other numbers of a limit.
    place: u64,
    /// The time whose windows the step in Lua knows.
    around_us: u64,
}

/// The current window.
struct View {
    window: Window,
    count: u64,
    /// The effective time: now, or the window's start if the clock is behind it.
    at_us: u64,
    stepped_back: bool,
}

impl PartialEq for Dates {
    fn eq(&self, other: &Self) -> bool {
        self.calendar == other.calendar
    }
}

impl Eq for Dates {}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    let dates = |calendar: &Calendar| {
        let place = Sha256::digest(calendar.place());
        let place = place.iter().take(5).fold(0, |number, byte| number << 8 | u64::from(*byte));
        Dates { calendar: calendar.clone(), place, around_us: 0 }
    };
    Ok(Step {
        units: quota.units,
        period_us: quota.period.as_micros(),
        anchor: quota.anchor.unwrap_or_default(),
        calendar: quota.calendar.as_ref().map(dates),
    })
}

impl Step {
    /// The window that a charge at `us` opens or joins.
    fn window(&self, us: u64) -> Window {
        let start_us = match (&self.calendar, self.anchor) {
            (Some(dates), _) => return dates.calendar.holding(us),
            (None, Anchor::Epoch) => us - us % self.period_us,
            (None, Anchor::FirstHit) => us,
        };
        Window { start_us, end_us: start_us + self.period_us }
    }

    /// The window of a state.
    fn read(&self, word: u64) -> Window {
        match self.calendar {
            Some(_) => Window::from_word(word),
            None => Window { start_us: word, end_us: word + self.period_us },
        }
    }

    fn view(&self, cell: &mut Cell<'_>, now: Time) -> View {
        let words = cell.words();
        let (window, count) = (self.read(words[0]), words[1]);
        let now = now.as_micros();
        let is_over = now >= window.end_us;
        if count > 0 && !is_over && window.start_us <= now {
            return View { window, count, at_us: now, stepped_back: false };
        }
        if count > 0 && !is_over && window.start_us - now <= SKEW_US {
            return View { window, count, at_us: window.start_us, stepped_back: false };
        }
        let mut next = self.window(now);
        if count == 0 || is_over {
            if self.calendar.is_some() && is_over {
                // Under another version of the time zones the next window may have begun before.
                next.start_us = next.start_us.max(window.end_us);
            }
            return View { window: next, count: 0, at_us: now, stepped_back: false };
        }
        View { window: next, count, at_us: now, stepped_back: true }
    }

    fn store(&self, cell: &mut Cell<'_>, window: Window, count: u64) {
        let words = cell.words();
        words[0] = match self.calendar {
            Some(_) => window.to_word(),
            None => window.start_us,
        };
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
        let wait_us = view.window.end_us - now.as_micros();
        let retry_after_us = if view.count.saturating_add(cost) <= self.units {
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
        self.store(cell, view.window, view.count + cost);
        let reset_after_us = view.window.end_us - now.as_micros();
        Recorded { at_us: view.at_us, reset_after_us }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let view = self.view(cell, now);
        if view.stepped_back {
            self.store(cell, view.window, view.count);
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        if words[1] == 0 { 0 } else { self.read(words[0]).end_us }
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        let view = self.view(cell, now);
        if view.window.holds(charge.at_us) {
            self.store(cell, view.window, view.count.saturating_sub(charge.units));
        }
    }

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        self.window(at_us).end_us
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        let view = self.view(cell, now);
        self.store(cell, view.window, view.count.saturating_sub(units));
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [window, count] if *window < MAX_EXACT && *count <= MAX_UNITS)
    }

    fn around(&self, now: Time) -> Self {
        let around_us = now.as_micros();
        let calendar = self.calendar.clone().map(|dates| Dates { around_us, ..dates });
        Self { calendar, ..self.clone() }
    }

    fn lua_spec(&self) -> LuaSpec {
        if let Some(Dates { calendar, place, around_us }) = &self.calendar {
            let [a, b, c, d] = calendar.edges(*around_us);
            let numbers = [self.units, self.period_us, *place, a, b, c, d];
            return LuaSpec::plain(&CALENDAR_LUA, &numbers);
        }
        let first_hit = u64::from(self.anchor == Anchor::FirstHit);
        LuaSpec::plain(&LUA, &[self.units, self.period_us, first_hit])
    }

    fn with_capacity(&self, most: u64) -> Self {
        Self { units: most, ..self.clone() }
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let dates = (self.calendar.is_some(), was.calendar.is_some());
        let same = self.period_us == was.period_us && self.anchor == was.anchor;
        let view = was.view(old, now);
        // A window that has ended counts again where the clock steps back. That of a calendar
        // counts until its own end, whatever its zone and edge are now.
        if same && (dates == (true, true) || view.count == 0 && dates == (false, false)) {
            cell.words().copy_from_slice(old.words());
            return;
        }
        let stays = same && dates == (false, false);
        let window = if stays { view.window } else { self.window(view.at_us) };
        self.store(cell, window, view.count);
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    let (units, period_us) = (u128::from(quota.units), shortest_us(quota));
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

/// The length of the shortest window.
fn shortest_us(quota: &Quota) -> u64 {
    quota.calendar.as_ref().map_or(quota.period.as_micros(), Calendar::shortest_us)
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
