//! The strategies: pure steps over small states.
//!
//! A step does no I/O and never fails. Its input is a state in a [`Cell`], the store's time and a
//! cost. It computes what would happen, or makes it happen. `docs/definitions.md` defines each
//! strategy; no other code implements it.

use crate::limit::{Element, LimitKind, MAX_UNITS, Quota, QuotaError};
use crate::time::Time;

/// The state of one limit while a step works on it. All zeros, or an empty log, is fresh.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums)] // a store builds it: another form of state must be seen there
pub enum Cell<'a> {
    /// The state of every strategy but `sliding_log`: a few integers.
    Words(&'a mut [u64]),
    /// The state of `sliding_log`, in a log that the store provides.
    Log(&'a mut dyn Log),
}

impl Cell<'_> {
    /// The words. A store passes each step the kind of state that its [`Shape`] requires.
    #[inline]
    fn words(&mut self) -> &mut [u64] {
        match self {
            Self::Words(words) => words,
            Self::Log(_) => unreachable!("this step's shape is words"),
        }
    }

    /// Copies a state of the same shape.
    pub(crate) fn copy(&mut self, from: &mut Self) {
        match (self, from) {
            (Self::Words(words), Self::Words(from)) => words.copy_from_slice(from),
            (Self::Log(log), Self::Log(from)) => copy_log(*log, *from),
            _ => unreachable!("equal steps have the same shape"),
        }
    }

    fn log(&mut self) -> &mut dyn Log {
        match self {
            Self::Log(log) => &mut **log,
            Self::Words(_) => unreachable!("this step's shape is a log"),
        }
    }
}

/// One event of a log: its time, and the total cost of all events up to and including it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it
pub struct Entry {
    /// When the event was recorded, in microseconds since the Unix epoch.
    pub at_us: u64,
    /// The cost in units of this event and all before it, counted from the log's beginning.
    pub total: u64,
}

/// The log of `sliding_log`, provided by the store: entries in order of time. A store whose reads
/// can fail may return any entry; it must remember the failure and discard the step's result.
pub trait Log: core::fmt::Debug {
    /// The number of entries.
    fn len(&self) -> usize;
    /// True when there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The entry at `index`, counted from the oldest.
    fn entry(&self, index: usize) -> Entry;
    /// The total of the last dropped entry; 0 if none was dropped.
    fn base(&self) -> u64;
    /// Drops the `count` oldest entries. The base becomes the total of the last of them.
    fn drop_front(&mut self, count: usize);
    /// Adds an entry after the newest.
    fn push(&mut self, entry: Entry);
    /// Replaces the newest entry.
    fn amend(&mut self, entry: Entry);
    /// Replaces all entries and sets the base to 0, for the rare operations.
    fn replace(&mut self, entries: &[Entry]);
}

/// Copies the entries of `from` into `log`, which is fresh.
pub(crate) fn copy_log(log: &mut dyn Log, from: &dyn Log) {
    let base = from.base();
    let entries: Vec<Entry> = (0..from.len())
        .map(|i| from.entry(i))
        .map(|entry| Entry { total: entry.total.wrapping_sub(base), ..entry })
        .collect();
    log.replace(&entries);
}

/// The view of a step before anything is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judgement {
    /// The largest cost that would be admitted now, in units.
    pub(crate) remaining: u64,
    /// The shortest wait in microseconds until the cost is admitted: 0 for now, [`NEVER_US`] for
    /// never.
    pub(crate) retry_after_us: u64,
    /// The shortest wait in microseconds until the state is fresh.
    pub(crate) reset_after_us: u64,
    /// The state is more than the skew in the future: `docs/definitions.md`, section 3.
    pub(crate) stepped_back: bool,
}

/// An upper bound of all times and sums of a state: a double holds every integer below it exactly.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// The `retry_after_us` that means *never*.
pub(crate) const NEVER_US: u64 = u64::MAX;

/// The result of a charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    /// The recorded time of the charge: now, or the newest stored time if the clock is behind it.
    pub(crate) at_us: u64,
    /// The shortest wait in microseconds until the state is fresh, after the charge.
    pub(crate) reset_after_us: u64,
}

/// A charge, and the part of it to refund.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Charge {
    pub(crate) at_us: u64,
    /// The units that were not refunded before.
    pub(crate) left: u64,
    /// The units to refund now, at most `left`.
    pub(crate) units: u64,
}

/// The kind of state that a step works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)]
pub enum Shape {
    /// This many integers.
    Words(usize),
    /// A log.
    Log,
}

/// The longest wait of any step: 2^51 microseconds, or 71 years.
pub(crate) const LONGEST_WAIT_US: u64 = 1 << 51;

/// The most units that can be used under a quota: its capacity and its debt. `exact` is how many
/// can be counted exactly. Without a debt in the quota it is the capacity, or as much of that as
/// can be counted.
pub(crate) fn most_used(quota: &Quota, capacity: u64, exact: u64) -> Result<u64, QuotaError> {
    let exact = exact.min(MAX_UNITS);
    let Some(debt) = quota.debt else { return Ok(exact.min(2 * capacity).max(capacity)) };
    let most = capacity.checked_add(debt).filter(|most| *most <= exact);
    most.ok_or_else(|| {
        QuotaError::new(
            Element::Debt,
            format!("a debt of {debt} cannot be counted exactly"),
            format!("the largest is {} here", exact.saturating_sub(capacity)),
        )
    })
}

/// One compiled strategy with fixed numbers. `charge` is only called with a cost of at least 1
/// that `judge` admits, or that `judge` of the step that is [`Step::with_capacity`] admits.
pub(crate) trait Step: Sized {
    /// The kind of its state.
    fn shape(&self) -> Shape;
    /// The capacity of a fresh subject, in units.
    fn capacity(&self) -> u64;
    /// Judges a check of `cost` at `now` without a change of state. A cost of 0 is admitted unless
    /// more is used than the capacity, as after charges without a check.
    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement;
    /// Charges an admitted cost.
    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded;
    /// Notes that another limit of the set denied a check that this one admits.
    fn deny(&self, cell: &mut Cell<'_>, now: Time) {
        let _ = (cell, now);
    }
    /// Repairs a state that is in the future.
    fn repair(&self, cell: &mut Cell<'_>, now: Time);
    /// When a state equals a fresh one, in microseconds since the Unix epoch.
    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64;
    /// Refunds what still counts of a charge.
    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge);
    /// When a charge of `cost` can no longer be refunded, in microseconds since the Unix epoch.
    fn spent_until_us(&self, at_us: u64, cost: u64) -> u64;
    /// Returns `units` without a receipt, the oldest first.
    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64);
    /// Carries the state `old`, counted under `was`, over into the fresh `cell`.
    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time);
    /// The most units that a state can hold as used. `None` where its form has no such bound.
    fn most(&self) -> Option<u64> {
        None
    }
    /// The same step with a capacity of `most`: the units that remain under it can be charged
    /// without a check.
    fn with_capacity(&self, most: u64) -> Self;
    /// The same step, whose version in Lua knows the windows around this time.
    fn around(&self, _now: Time) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }
    /// The same step in Lua.
    fn lua_spec(&self) -> LuaSpec;
    /// True if a count can have these words: every step is exact for those only. Untrusted states
    /// must be checked first.
    fn is_sound(&self, words: &[u64]) -> bool;
}

/// A function that calls a step more than once: the strategy is dispatched only once.
pub(crate) trait WithStep {
    /// The result.
    type Answer;
    /// Runs the function.
    fn with_step(self, step: &impl Step) -> Self::Answer;
}

/// The properties of a strategy, for help, docs, charts and tests: everything that iterates over
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) name: &'static str,
    pub(crate) kind: LimitKind,
    /// The letter for it where every byte counts.
    pub(crate) code: char,
    pub(crate) summary: &'static str,
    pub(crate) page: &'static str,
    pub(crate) options: &'static [&'static str],
    /// Its steps in Lua.
    pub(crate) steps: &'static [&'static LuaStep],
    /// Worst window, sustained rate, bytes per subject and burst behaviour of a quota.
    pub(crate) traits: fn(&Quota) -> Traits,
    /// The most units admitted in any half-open window of this many microseconds, at least 1.
    pub(crate) most_in: fn(&Quota, u64) -> u128,
}

/// The properties of a quota under a strategy: one row of the "which one?" table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Traits {
    /// The most units admitted in any half-open window as long as the quota's duration.
    pub worst_window: u64,
    /// The sustained rate under constant demand, as text.
    pub sustained: String,
    /// The bytes of state per subject in the memory store, without its key, as text.
    pub bytes: String,
    /// How bursts are handled, as text.
    pub burst: String,
    /// When a denied caller may retry, as text.
    pub retry: &'static str,
}

/// The maximum number of units of a greedy quota in a window of `span_us`: a full burst at its
/// start, and the units that come back until its last microsecond.
pub(crate) fn most_of_rate(quota: &Quota, burst: u64, span_us: u64) -> u128 {
    let back = u128::from(quota.units) * u128::from(span_us - 1);
    u128::from(burst) + back / u128::from(quota.period.as_micros())
}

/// The most units of a quota in any window as long as its period: at most twice its burst and its
/// units.
pub(crate) fn worst_window(quota: &Quota, most_in: fn(&Quota, u64) -> u128) -> u64 {
    u64::try_from(most_in(quota, quota.period.as_micros())).unwrap_or(u64::MAX)
}

mod describe;
mod lua;
mod period;
mod registry;

pub use lua::{LUA_MUL_DIV, LuaSpec, LuaStep};

pub(crate) use registry::Compiled;
pub use registry::Strategy;

pub use describe::lua_steps;
