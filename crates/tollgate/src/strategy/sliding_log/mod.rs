//! The sliding log: every admitted event is remembered for `D`, so the bound is exact.
//!
//! Entries contain the running total of costs. The units in the window are then one subtraction,
//! and the wait of a weighted cost is a binary search. Events in the same microsecond share an
//! entry, since they expire together. A denial drops no entries. The total wraps around; only
//! differences are used, and they are far smaller.

use crate::limit::{LimitKind, Quota, QuotaError};
use crate::strategy::{
    Cell, Charge, Recorded, Descriptor, Entry, Judgement, Log, LuaSpec, LuaStep, NEVER_US, Shape,
    Traits, copy_log, worst_window,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "sliding_log",
    kind: LimitKind::Rate,
    code: 'l',
    summary: "never more than N in any D, exactly: every event is remembered",
    page: include_str!("sliding_log.md"),
    options: &["debt"],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The step in Lua.
const LUA: LuaStep = LuaStep {
    name: "log",
    code: 'l',
    numbers: 2,
    capacity: 1,
    edges: None,
    words: Some(0),
    sound_numbers: "n[1] <= 1099511627776",
    sound_words: "true",
    text: include_str!("sliding_log.lua"),
};

/// `units` in any half-open window of `period_us`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    units: u64,
    period_us: u64,
}

/// The events that count at one time.
struct View {
    /// The index of the first entry that counts.
    first: usize,
    /// The running total before it.
    base: u64,
    used: u64,
    newest: Option<Entry>,
    /// The effective time: now, or the newest entry's time if the clock is behind it.
    at_us: u64,
    stepped_back: bool,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    Ok(Step { units: quota.units, period_us: quota.period.as_micros() })
}

/// The first index from `from` on for which `found` holds; `len` if there is none. `found` must
/// stay true once it is true: the search doubles its steps from `from`, then bisects.
fn first_index(from: usize, len: usize, found: impl Fn(usize) -> bool) -> usize {
    let mut reach = 1;
    let mut low = from;
    while low + reach <= len && !found(low + reach - 1) {
        low += reach;
        reach *= 2;
    }
    let mut high = (low + reach).min(len + 1);
    // All indices below `low` fail. `high` is one past an index that holds, or past the end.
    while low + 1 < high {
        let middle = low + (high - low - 1) / 2;
        if middle < len && !found(middle) {
            low = middle + 1;
        } else {
            high = middle + 1;
        }
    }
    low.min(len)
}

impl Step {
    fn view(&self, log: &dyn Log, now: Time) -> View {
        let now_us = now.as_micros();
        let fresh = View {
            first: 0,
            base: log.base(),
            used: 0,
            newest: None,
            at_us: now_us,
            stepped_back: false,
        };
        let Some(last) = log.len().checked_sub(1) else { return fresh };
        let newest = log.entry(last);
        let at_us = now_us.max(newest.at_us);
        let first =
            first_index(0, log.len(), |i| log.entry(i).at_us + self.period_us > at_us);
        let base = if first == 0 { log.base() } else { log.entry(first - 1).total };
        let used = newest.total.wrapping_sub(base);
        let view = View { first, base, used, newest: Some(newest), at_us, ..fresh };
        if newest.at_us > now_us && newest.at_us - now_us > SKEW_US {
            return View {
                used,
                newest: Some(Entry { at_us: now_us, total: used }),
                at_us: now_us,
                stepped_back: true,
                ..fresh
            };
        }
        view
    }

    /// The wait in microseconds until `freed` units have left the window.
    fn wait_us(&self, log: &dyn Log, view: &View, now: Time, freed: u64) -> u64 {
        let leaving_us = if view.stepped_back {
            view.at_us
        } else {
            let index =
                first_index(view.first, log.len(), |i| {
                    log.entry(i).total.wrapping_sub(view.base) >= freed
                });
            log.entry(index).at_us
        };
        leaving_us + self.period_us - now.as_micros()
    }

    /// Applies `change` to the events that count, oldest first, and rewrites the log, for the rare
    /// operations. Events that no longer count are unchanged.
    fn rewrite(&self, log: &mut dyn Log, now: Time, change: impl FnMut(&mut Event)) {
        let first = self.view(log, now).first;
        let mut events = events(log);
        events[first..].iter_mut().for_each(change);
        let mut total = 0;
        let mut entries = Vec::with_capacity(events.len());
        for event in events.iter().filter(|event| event.cost > 0) {
            total += event.cost;
            entries.push(Entry { at_us: event.at_us, total });
        }
        log.replace(&entries);
    }
}

/// The charges of one microsecond.
struct Event {
    at_us: u64,
    cost: u64,
}

fn events(log: &dyn Log) -> Vec<Event> {
    let mut before = log.base();
    let own = |entry: Entry| {
        let cost = entry.total.wrapping_sub(before);
        before = entry.total;
        Event { at_us: entry.at_us, cost }
    };
    (0..log.len()).map(|i| log.entry(i)).map(own).collect()
}

impl super::Step for Step {
    fn shape(&self) -> Shape {
        Shape::Log
    }

    fn capacity(&self) -> u64 {
        self.units
    }

    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let log = cell.log();
        let view = self.view(log, now);
        let remaining = self.units.saturating_sub(view.used);
        let retry_after_us = if view.used.saturating_add(cost) <= self.units {
            0
        } else if cost > self.units {
            NEVER_US
        } else {
            self.wait_us(log, &view, now, view.used + cost - self.units)
        };
        let reset_after_us = match view.newest {
            Some(newest) if view.used > 0 => newest.at_us + self.period_us - now.as_micros(),
            _ => 0,
        };
        Judgement { remaining, retry_after_us, reset_after_us, stepped_back: view.stepped_back }
    }

    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        let mut view = self.view(cell.log(), now);
        if view.stepped_back {
            self.repair(cell, now);
            view = self.view(cell.log(), now);
        }
        let log = cell.log();
        if view.first > 0 {
            log.drop_front(view.first);
        }
        let at_us = view.at_us;
        match view.newest {
            Some(newest) if newest.at_us == at_us && view.used > 0 => {
                log.amend(Entry { at_us, total: newest.total.wrapping_add(cost) });
            }
            newest => {
                let total = newest.map_or(log.base(), |newest| newest.total);
                log.push(Entry { at_us, total: total.wrapping_add(cost) });
            }
        }
        Recorded { at_us, reset_after_us: at_us + self.period_us - now.as_micros() }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let log = cell.log();
        let view = self.view(log, now);
        if view.stepped_back {
            log.replace(&[Entry { at_us: view.at_us, total: view.used }]);
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let log = cell.log();
        log.len().checked_sub(1).map_or(0, |last| log.entry(last).at_us + self.period_us)
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        self.repair(cell, now);
        let log = cell.log();
        self.rewrite(log, now, |event| {
            if event.at_us == charge.at_us && event.cost >= charge.units {
                event.cost -= charge.units;
            }
        });
    }

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        at_us + self.period_us
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        self.repair(cell, now);
        let log = cell.log();
        let mut left = units;
        self.rewrite(log, now, |event| {
            let given = event.cost.min(left);
            event.cost -= given;
            left -= given;
        });
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        words.is_empty()
    }

    fn lua_spec(&self) -> LuaSpec {
        LuaSpec::plain(&LUA, &[self.units, self.period_us])
    }

    fn with_capacity(&self, most: u64) -> Self {
        Self { units: most, ..self.clone() }
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let (log, old) = (cell.log(), old.log());
        // A longer window may still count what the shorter one no longer did, so all entries are
        // kept. A state in the future is repaired under the old numbers.
        let view = was.view(old, now);
        if view.stepped_back {
            log.replace(&[Entry { at_us: view.at_us, total: view.used }]);
            return;
        }
        copy_log(log, old);
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    u128::from(quota.units) * u128::from(span_us.div_ceil(quota.period.as_micros()))
}

fn traits(quota: &Quota) -> Traits {
    Traits {
        worst_window: worst_window(quota, most_in),
        sustained: quota.rate(),
        bytes: format!("16 per remembered event, at most {} of them", quota.units),
        burst: format!("{} at once, then none until they leave the window", quota.units),
        retry: "the exact time at which enough events leave the window",
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::first_index;

    #[test]
    fn the_search_finds_the_first_of_every_length() {
        for len in 0..40 {
            for from in 0..=len {
                for answer in from..=len {
                    assert_eq!(first_index(from, len, |i| i >= answer), answer, "{from} {len}");
                }
            }
        }
    }

    /// Each look is a read of the store: near the oldest entry there are few, and never more than
    /// twice the logarithm.
    #[test]
    fn the_search_looks_at_few_entries() {
        for (len, answer, looks) in [
            (1000, 0, 1),
            (1000, 1, 3),
            (1000, 2, 3),
            (1000, 3, 5),
            (1000, 6, 5),
            (1000, 7, 7),
            (1000, 100, 13),
            (1000, 500, 17),
            (1000, 999, 18),
            (1000, 1000, 17),
            (0, 0, 0),
            (1, 1, 1),
        ] {
            let seen = Cell::new(0);
            let found = first_index(0, len, |i| {
                seen.set(seen.get() + 1);
                i >= answer
            });
            assert_eq!((found, seen.get()), (answer, looks), "{len} {answer}");
        }
    }
}
