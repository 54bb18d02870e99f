//! The strategies: pure steps over small states.
//!
//! A step does no I/O and never fails. It sees a state through a [`Cell`], the store's time and a
//! cost, and says what would happen or makes it happen.
//! `docs/definitions.md` says what each means; this is the only code that does it.

use smallvec::SmallVec;

use crate::limit::Quota;
use crate::time::Time;

/// Where one limit's state lives while a step works on it. All zero, or an empty log, is fresh.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums)] // a store builds it: another form of state must be seen there
pub enum Cell<'a> {
    /// The state of every strategy but `sliding_log`: a short row of integers.
    Words(&'a mut [u64]),
    /// The state of `sliding_log`, behind what the store supplies.
    Log(&'a mut dyn Log),
}

impl Cell<'_> {
    /// The words. A store gives each step the form of state that its [`Shape`] names.
    #[inline]
    fn words(&mut self) -> &mut [u64] {
        match self {
            Self::Words(words) => words,
            Self::Log(_) => unreachable!("this step's shape is words"),
        }
    }

    /// Takes over a state of the same shape as it is.
    pub(crate) fn copy(&mut self, from: &mut Self) {
        match (self, from) {
            (Self::Words(words), Self::Words(from)) => words.copy_from_slice(from),
            (Self::Log(log), Self::Log(from)) => copy_log(*log, *from),
            _ => unreachable!("equal steps have the same shape"),
        }
    }

    /// The log.
    fn log(&mut self) -> &mut dyn Log {
        match self {
            Self::Log(log) => &mut **log,
            Self::Words(_) => unreachable!("this step's shape is a log"),
        }
    }
}

/// One event of a log: its time and the cost of all events up to and with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it
pub struct Entry {
    /// When the event was recorded, in microseconds since the epoch.
    pub at_us: u64,
    /// The cost of this event and of all before it, counted from the log's beginning.
    pub total: u64,
}

/// What a store supplies for `sliding_log`: entries in order of time. A store whose reads can
/// fail answers with anything, remembers the fault, and throws the step's result away.
pub trait Log: core::fmt::Debug {
    /// How many entries are held.
    fn len(&self) -> usize;
    /// True when none is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Entry `index`, counted from the oldest held.
    fn entry(&self, index: usize) -> Entry;
    /// The total of the last entry dropped, 0 when none was.
    fn base(&self) -> u64;
    /// Drops the `count` oldest entries; the base becomes the total of the last of them.
    fn drop_front(&mut self, count: usize);
    /// Adds an entry after the newest.
    fn push(&mut self, entry: Entry);
    /// Replaces the newest entry.
    fn amend(&mut self, entry: Entry);
    /// Replaces all entries, with a base of 0: for the rare operations.
    fn replace(&mut self, entries: &[Entry]);
}

/// Makes `log`, which is fresh, hold what `from` holds.
pub(crate) fn copy_log(log: &mut dyn Log, from: &dyn Log) {
    let base = from.base();
    let entries: Vec<Entry> = (0..from.len())
        .map(|i| from.entry(i))
        .map(|entry| Entry { total: entry.total.wrapping_sub(base), ..entry })
        .collect();
    log.replace(&entries);
}

/// What a step sees at a time, before anything is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judgement {
    /// The largest cost that would be admitted now.
    pub(crate) remaining: u64,
    /// The least wait until the cost is admitted: 0 now, [`NEVER_US`] never.
    pub(crate) retry_after_us: u64,
    /// The least wait until everything is free.
    pub(crate) reset_after_us: u64,
    /// The state lies in the future by more than a skew: `docs/definitions.md`, section 3.
    pub(crate) stepped_back: bool,
}

/// No time and no sum of a state reaches this: the bound of exact integers in a double.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// A `retry_after_us` that says *never*.
pub(crate) const NEVER_US: u64 = u64::MAX;

/// What a charge did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Charged {
    /// The time at which the charge is recorded: now, or the newest stored time under skew.
    pub(crate) at_us: u64,
    /// The least wait until everything is free, after the charge.
    pub(crate) reset_after_us: u64,
}

/// A charge, and what is given back of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Charge {
    pub(crate) at_us: u64,
    /// What was not given back before.
    pub(crate) left: u64,
    /// What is given back now: at most `left`.
    pub(crate) units: u64,
}

/// What shape of state a step works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)]
pub enum Shape {
    /// This many integers.
    Words(usize),
    /// A log.
    Log,
}

/// One strategy with its numbers fixed. Costs are 1 and up; `charge` is only called with a cost
/// that `judge` admits.
pub(crate) trait Step {
    /// The shape of its state.
    fn shape(&self) -> Shape;
    /// What a fresh subject can take: `limit`.
    fn capacity(&self) -> u64;
    /// What a check of `cost` would see at `now`. Changes nothing.
    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement;
    /// Charges an admitted cost.
    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Charged;
    /// Mends a state that lies in the future.
    fn repair(&self, cell: &mut Cell<'_>, now: Time);
    /// When a state means the same as a fresh one, in microseconds since the epoch.
    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64;
    /// Gives back what still counts of a charge.
    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge);
    /// When a charge of `cost` can no longer be given back, in microseconds since the epoch.
    fn spent_until_us(&self, at_us: u64, cost: u64) -> u64;
    /// Gives back `units` without a receipt, the oldest first.
    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64);
    /// Takes over the state `old` that was counted under `was`, into the fresh `cell`.
    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time);
    /// The same step in Lua.
    fn lua_spec(&self) -> LuaSpec;
    /// True for words that a count can have: every step is exact for those, and for no others.
    /// What comes from outside is asked this first.
    fn is_sound(&self, words: &[u64]) -> bool;
}

/// Work with a step that calls it more than once: which strategy it is, is asked once.
pub(crate) trait WithStep {
    /// What comes of it.
    type Answer;
    /// Does the work.
    fn with_step(self, step: &impl Step) -> Self::Answer;
}

/// A step in Lua: the text of its functions, told apart by a name.
///
/// The text has a line `-- cold` after the functions that a check calls. Functions are named
/// `NAME_view`, `NAME_judge`, `NAME_charge`, and after that line `NAME_numbers`, `NAME_migrate`,
/// `NAME_refund`, `NAME_grant`; the step's arguments are always the last ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LuaStep {
    /// What its functions are called, before the underscore.
    pub name: &'static str,
    /// The letter that names it in a stored state.
    pub code: char,
    /// How many numbers its states are written under: the first two are at least 1.
    pub numbers: usize,
    /// How many integers its states hold; none for a row, which holds two more than its third
    /// number.
    pub words: Option<usize>,
    /// Whether a limit can have the numbers `n`, as an expression: a bound of every product that
    /// its functions form.
    pub sound_numbers: &'static str,
    /// Whether a count under the numbers `n` can have the integers `w`, as an expression. That the
    /// first is below 2^53 is asked of every step.
    pub sound_words: &'static str,
    /// Its functions.
    pub text: &'static str,
}

impl LuaStep {
    /// Whether a state of this step has so many integers under such numbers. What is not was
    /// written by nobody, and must not be counted with.
    #[must_use]
    pub fn is_sound(&self, words: usize, numbers: &[u64]) -> bool {
        let bounds = |(i, number): (usize, &u64)| {
            *number >= u64::from(i < 2) && *number <= crate::time::MAX_PERIOD_US
        };
        let row =
            || numbers.get(2).and_then(|buckets| usize::try_from(*buckets).ok())?.checked_add(2);
        numbers.len() == self.numbers
            && numbers.iter().enumerate().all(bounds)
            && self.words.or_else(row) == Some(words)
    }
}

/// What a limit is to a store whose steps run in Lua.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LuaSpec {
    /// The step that counts; none where there is none in Lua yet.
    pub step: Option<&'static LuaStep>,
    /// What the step's `NAME_numbers` takes: the numbers that a state is written under, each at
    /// most 2^53. Equal numbers of the same step mean equal counting.
    pub numbers: SmallVec<[u64; 4]>,
    /// What its other functions take last: what `NAME_numbers` answers.
    pub arguments: SmallVec<[u64; 8]>,
}

impl LuaSpec {
    /// A step whose functions take its numbers as they are.
    pub(crate) fn plain(step: &'static LuaStep, numbers: &[u64]) -> Self {
        Self {
            step: Some(step),
            numbers: SmallVec::from_slice(numbers),
            arguments: SmallVec::from_slice(numbers),
        }
    }
}

/// The exact product that several Lua steps need.
pub const LUA_MUL_DIV: &str = include_str!("period.lua");

/// What a strategy is, for help, docs, charts and tests: everything that iterates over them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) name: &'static str,
    /// The letter that names it where every byte counts.
    pub(crate) code: char,
    pub(crate) summary: &'static str,
    pub(crate) page: &'static str,
    pub(crate) options: &'static [&'static str],
    /// Its steps in Lua.
    pub(crate) steps: &'static [&'static LuaStep],
    /// Worst window, sustained rate, bytes per subject and burst behaviour of a quota.
    pub(crate) traits: fn(&Quota) -> Traits,
}

/// What a quota means under a strategy: one row of the "which one?" table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Traits {
    /// The most units admitted in any half-open window as long as the quota's duration.
    pub worst_window: u64,
    /// The rate that goes on for ever when demand never ends, in words.
    pub sustained: String,
    /// Bytes of state per subject in the memory store, its key apart, in words.
    pub bytes: String,
    /// What a burst meets, in words.
    pub burst: String,
    /// How a denied caller knows when to come back, in words.
    pub retry: &'static str,
}

/// Writes the registry: the public name of each strategy, and a compiled step of any of them.
macro_rules! strategies {
    ($($variant:ident = $folder:ident in $path:literal),+ $(,)?) => {
        $(#[path = $path] pub(crate) mod $folder;)+

        /// The algorithm that counts.
        ///
        /// ```
        /// use tollgate::Strategy;
        /// assert_eq!(Strategy::Gcra.name(), "gcra");
        /// assert_eq!(Strategy::named("sliding_log"), Some(Strategy::SlidingLog));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum Strategy {
            $(
                #[doc = concat!("`", stringify!($folder), "`")]
                $variant,
            )+
        }

        impl Strategy {
            /// Every strategy, in the order of the registry.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Self::$variant => &$folder::DESCRIPTOR,)+
                }
            }

            pub(crate) fn compile(self, quota: &Quota) -> Result<Compiled, Refusal> {
                Ok(match self {
                    $(Self::$variant => Compiled::$variant($folder::compile(quota)?),)+
                })
            }
        }

        /// A strategy with its numbers fixed.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub(crate) enum Compiled {
            $($variant($folder::Step),)+
        }

        impl Compiled {
            /// Does `work` with the step of this strategy.
            #[inline(always)]
            pub(crate) fn with_step<W: WithStep>(&self, work: W) -> W::Answer {
                match self { $(Self::$variant(step) => work.with_step(step),)+ }
            }
        }

        impl Step for Compiled {
            #[inline]
            fn shape(&self) -> Shape {
                match self { $(Self::$variant(step) => step.shape(),)+ }
            }
            #[inline]
            fn capacity(&self) -> u64 {
                match self { $(Self::$variant(step) => step.capacity(),)+ }
            }
            #[inline]
            fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
                match self { $(Self::$variant(step) => step.judge(cell, now, cost),)+ }
            }
            #[inline]
            fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Charged {
                match self { $(Self::$variant(step) => step.charge(cell, now, cost),)+ }
            }
            fn repair(&self, cell: &mut Cell<'_>, now: Time) {
                match self { $(Self::$variant(step) => step.repair(cell, now),)+ }
            }
            fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
                match self { $(Self::$variant(step) => step.fresh_at_us(cell),)+ }
            }
            fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
                match self { $(Self::$variant(step) => step.refund(cell, now, charge),)+ }
            }
            fn spent_until_us(&self, at_us: u64, cost: u64) -> u64 {
                match self { $(Self::$variant(step) => step.spent_until_us(at_us, cost),)+ }
            }
            fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
                match self { $(Self::$variant(step) => step.grant(cell, now, units),)+ }
            }
            fn lua_spec(&self) -> LuaSpec {
                match self { $(Self::$variant(step) => step.lua_spec(),)+ }
            }
            fn is_sound(&self, words: &[u64]) -> bool {
                match self { $(Self::$variant(step) => step.is_sound(words),)+ }
            }
            fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
                match (self, was) {
                    $((Self::$variant(step), Self::$variant(was)) => {
                        step.migrate(cell, was, old, now);
                    })+
                    // Another strategy starts fresh; the engine says so in the decision.
                    _ => {}
                }
            }
        }
    };
}

mod period;
mod registry;

pub(crate) use registry::Compiled;
pub use registry::Strategy;

impl Strategy {
    /// The name, as written after `via`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The strategy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }

    /// The letter that names it in a stored state.
    #[must_use]
    pub const fn code(self) -> char {
        self.descriptor().code
    }

    /// Its steps in Lua: a state may have been written by any of them. None where there is none
    /// yet: such a strategy works on Redis by comparing and swapping.
    #[must_use]
    pub const fn lua_steps(self) -> &'static [&'static LuaStep] {
        self.descriptor().steps
    }

    /// What it does, in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        self.descriptor().summary
    }

    /// Its page, in Markdown: what it promises, its worst case and cost, when to choose it.
    #[must_use]
    pub const fn page(self) -> &'static str {
        self.descriptor().page
    }

    /// The words of the notation that it takes beside `N/D` and `via`.
    #[must_use]
    pub const fn options(self) -> &'static [&'static str] {
        self.descriptor().options
    }

    /// What `quota` means under this strategy: one row of the "which one?" table.
    #[must_use]
    pub fn traits(self, quota: &Quota) -> Traits {
        (self.descriptor().traits)(quota)
    }
}

impl core::fmt::Display for Strategy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Every step that there is in Lua; one that several strategies share comes several times.
pub fn lua_steps() -> impl Iterator<Item = &'static LuaStep> {
    Strategy::ALL.iter().flat_map(|strategy| strategy.descriptor().steps).copied()
}
