//! One check over the states of one or several sets: the part that every store shares.
//!
//! A store finds the states, hands them to [`decide`], and keeps what it says has changed. It
//! never looks into a state, and the strategies never see a store.

use smallvec::SmallVec;

use crate::limit::{LimitSet, Place};
use crate::strategy::{Cell, Judgement, NEVER_US, Step};
use crate::time::Time;

mod correct;
mod decide;
mod held;

pub use correct::{
    Portion, adjust, migrate, receipt_until_us, refund, refundable_until_us, spent_until_us,
};
pub use decide::decide;
pub(crate) use decide::{DecideOne, decide_set};
pub use held::{Held, VecLog};

/// The state of a set for one subject, wherever it lives.
pub trait States {
    /// The state that lies at `place`.
    fn cell(&mut self, place: Place) -> Cell<'_>;
}

/// One (subject, set) of a check.
#[allow(missing_debug_implementations)] // borrows whatever the store has
pub struct Part<'a> {
    limits: &'a LimitSet,
    states: &'a mut dyn States,
    carried: Carries,
}

impl<'a> Part<'a> {
    /// The state of a subject under the limits it was written under.
    pub fn new(limits: &'a LimitSet, states: &'a mut dyn States) -> Self {
        Self { limits, states, carried: Carries::new() }
    }

    /// The same, after [`migrate`] said what it carried over.
    #[must_use]
    pub fn carrying(mut self, carried: Carries) -> Self {
        self.carried = carried;
        self
    }
}

/// What became of each limit's count, in declared order; empty when nothing changed.
pub type Carries = SmallVec<[Carried; 2]>;

/// What became of a limit's count when its numbers changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Carried {
    /// The numbers are those that the state was counted under.
    #[default]
    Same,
    /// The count was carried over to new numbers.
    Over,
    /// Another strategy, or a limit that was not there: it started fresh.
    Fresh,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// All of the cost or nothing.
    Whole,
    /// As much of the cost as remains.
    Partial,
    /// As `Whole`, changing nothing.
    Peek,
    /// As `Partial`, changing nothing.
    PeekPartial,
}

impl Mode {
    /// True when nothing may change.
    #[must_use]
    pub const fn is_peek(self) -> bool {
        matches!(self, Self::Peek | Self::PeekPartial)
    }

    /// True when a part of the cost is better than nothing.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Partial | Self::PeekPartial)
    }
}

/// One limit's four fields, as `docs/definitions.md` defines them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fields {
    /// The largest cost that would be admitted now, after an Allow's charge.
    pub remaining: u64,
    /// The least wait until the cost is admitted; 0 where it would be now, `None` for never.
    pub retry_after_us: Option<u64>,
    /// The least wait until `remaining` is the limit.
    pub reset_after_us: u64,
    /// When the charge was recorded: the store's now, or the newest stored time under skew.
    pub charged_at_us: u64,
    /// What became of the count when the numbers changed.
    pub carried: Carried,
}

impl Fields {
    /// What a store answers that does not decide by [`decide`].
    #[must_use]
    pub const fn new(
        remaining: u64,
        retry_after_us: Option<u64>,
        reset_after_us: u64,
        charged_at_us: u64,
        carried: Carried,
    ) -> Self {
        Self { remaining, retry_after_us, reset_after_us, charged_at_us, carried }
    }

    #[inline]
    fn uncharged(judgement: &Judgement, now: Time) -> Self {
        let retry = judgement.retry_after_us;
        Self {
            remaining: judgement.remaining,
            retry_after_us: (retry != NEVER_US).then_some(retry),
            reset_after_us: judgement.reset_after_us,
            charged_at_us: now.as_micros(),
            carried: Carried::Same,
        }
    }
}

/// What a store answers: who was judged is the caller's to know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The units admitted; 0 is a denial.
    pub granted: u64,
    /// The fields of each part's limits, in declared order.
    pub fields: SmallVec<[Fields; 2]>,
    /// True when the states must be written back, also after a denial (a repaired clock step).
    pub changed: bool,
    /// The charge's number in the store, 0 when nothing was charged. The store sets it.
    pub receipt: u64,
    /// The store's time of the decision.
    pub now: Time,
    /// True when the store is full and a subject has no count of its own: it was judged by one that
    /// it shares with others, or denied because there was no room even for that. The store sets it.
    pub shared: bool,
}

impl Outcome {
    /// What a store answers that does not decide by [`decide`].
    #[must_use]
    pub fn new(granted: u64, fields: SmallVec<[Fields; 2]>, receipt: u64, now: Time) -> Self {
        Self { granted, fields, changed: false, receipt, now, shared: false }
    }
}

/// What one limit answers: an [`Outcome`] without lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    pub(crate) granted: u64,
    pub(crate) fields: Fields,
    pub(crate) changed: bool,
    pub(crate) receipt: u64,
    pub(crate) now: Time,
}

impl From<Single> for Outcome {
    #[inline]
    fn from(single: Single) -> Self {
        let Single { granted, fields, changed, receipt, now } = single;
        let mut all = SmallVec::new();
        all.push(fields);
        Self { granted, fields: all, changed, receipt, now, shared: false }
    }
}

/// True for words that a count of these limits can have. A store whose states may come from
/// elsewhere, or be damaged, asks before it works on them; of logs it must know itself that times
/// and totals rise.
#[must_use]
pub fn is_sound(limits: &LimitSet, words: &[u64]) -> bool {
    let mut each = limits.limits().iter().zip(limits.places());
    each.all(|(limit, place)| {
        words.get(place.words()).is_some_and(|words| limit.step().is_sound(words))
    })
}

/// When the state of a set means the same as a fresh one, in microseconds since the epoch. A
/// store may forget it then, and keeps it [`crate::SKEW_US`] longer.
pub fn fresh_at_us(limits: &LimitSet, states: &mut dyn States) -> u64 {
    let each = limits.limits().iter().zip(limits.places());
    each.map(|(limit, place)| limit.step().fresh_at_us(&mut states.cell(*place))).max().unwrap_or(0)
}
