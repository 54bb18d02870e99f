//! The options of a check, and the engine's answer.

use smallvec::SmallVec;

use crate::decision::Authority;
use crate::strategy::{Judgement, NEVER_US};
use crate::time::Time;

/// The change of each limit's count, in declared order. Empty when no limit's numbers changed.
pub type Carries = SmallVec<[Carried; 2]>;

/// The effect on a limit's count when the limit's numbers changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Carried {
    /// The numbers are those that the state was counted under.
    #[default]
    Same,
    /// The count was carried over to new numbers.
    Over,
    /// The count started fresh: the strategy changed, or the limit is new.
    Fresh,
}

impl Carried {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Over => "over",
            Self::Fresh => "fresh",
        }
    }
}

/// How a check charges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// Charges all of the cost or nothing.
    Whole,
    /// Charges as much of the cost as remains.
    Partial,
    /// As `Whole`, without a change of state.
    Peek,
    /// As `Partial`, without a change of state.
    PeekPartial,
    /// As `Whole`, of a caller that waits: a denial counts for no ban.
    Waiting,
    /// As `Partial`, of a caller that waits: a denial counts for no ban.
    WaitingPartial,
}

impl Mode {
    /// True when no state may change.
    #[must_use]
    pub const fn is_peek(self) -> bool {
        matches!(self, Self::Peek | Self::PeekPartial)
    }

    /// True for a caller that waits: a denial counts for no ban.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::Waiting | Self::WaitingPartial)
    }

    /// The same of a caller that waits. No ban counts a peek in any case.
    pub(crate) const fn waiting(self) -> Self {
        match self {
            Self::Whole | Self::Waiting => Self::Waiting,
            Self::Partial | Self::WaitingPartial => Self::WaitingPartial,
            Self::Peek | Self::PeekPartial => self,
        }
    }

    /// A number for each mode, which stored questions contain. A retry that waits asks the same
    /// question.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Whole | Self::Waiting => 0,
            Self::Partial | Self::WaitingPartial => 1,
            Self::Peek => 2,
            Self::PeekPartial => 3,
        }
    }

    /// True when a part of the cost may be charged.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Partial | Self::PeekPartial | Self::WaitingPartial)
    }
}

/// One limit's four fields, as `docs/definitions.md` defines them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fields {
    /// The largest cost that would be admitted now, in units; after an Allow, with the charge
    /// deducted.
    pub remaining: u64,
    /// The shortest wait in microseconds until the cost is admitted: 0 for now, `None` for never.
    pub retry_after_us: Option<u64>,
    /// The shortest wait in microseconds until `remaining` is the limit's capacity.
    pub reset_after_us: u64,
    /// When the charge was recorded, in microseconds since the Unix epoch: the store's now, or the
    /// newest stored time if the clock stepped back; [`crate::PAID_BY_CREDITS`] where those paid a
    /// part of it.
    pub charged_at_us: u64,
    /// The effect on the count when the numbers changed.
    pub carried: Carried,
    /// True when `retry_after_us` is an upper bound: it would be shorter if every open hold were
    /// settled now with 0.
    pub until_hold: bool,
}

impl Fields {
    /// The fields for a store that does not decide by [`super::decide()`].
    #[must_use]
    pub const fn new(
        remaining: u64,
        retry_after_us: Option<u64>,
        reset_after_us: u64,
        charged_at_us: u64,
        carried: Carried,
    ) -> Self {
        Self {
            remaining,
            retry_after_us,
            reset_after_us,
            charged_at_us,
            carried,
            until_hold: false,
        }
    }

    #[inline]
    pub(super) fn uncharged(judgement: &Judgement, now: Time) -> Self {
        let retry = judgement.retry_after_us;
        Self {
            remaining: judgement.remaining,
            retry_after_us: (retry != NEVER_US).then_some(retry),
            reset_after_us: judgement.reset_after_us,
            charged_at_us: now.as_micros(),
            carried: Carried::Same,
            until_hold: false,
        }
    }
}

/// A store's answer. It does not name the subjects: the caller knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The units admitted; 0 for a denial.
    pub granted: u64,
    /// The fields of each part's limits, in declared order.
    pub fields: SmallVec<[Fields; 2]>,
    /// True when the states must be written back; possible after a denial too (a repaired clock
    /// step).
    pub changed: bool,
    /// The charge's number in the store; 0 when nothing was charged. The store sets it.
    pub receipt: u64,
    /// The store's time at the decision.
    pub now: Time,
    /// True when the store is full and a subject has no separate count. The subject was judged by a
    /// count that it shares with others, or denied for lack of room even for that. The store sets
    /// it.
    pub shared: bool,
    /// False when the subjects lie on several servers, so that others may have seen some of them
    /// charged and the rest not. The store sets it.
    pub isolated: bool,
    /// True for the answer to an earlier question under the same request id: nothing was charged
    /// now. The store sets it.
    pub repeated: bool,
    /// True for a question under a request id whose first answer was repeated
    /// [`super::MAX_REPEATS`] times before: it was judged, and charged, as one without an id. The
    /// store sets it.
    pub overused: bool,
    /// How many wait in line ahead of this question, where it is in the line.
    pub ahead: u16,
    /// The authority that decided. An authority that answers in place of a store sets it.
    pub authority: Authority,
    /// The hold that was placed, if one was. It is in a box, since nearly no answer has it.
    pub hold: Option<Box<Placed>>,
}

/// Whether the longest wait among these limits is an upper bound: it would be shorter if every open
/// hold were settled now with 0.
pub(crate) fn is_until_hold(fields: impl Iterator<Item = Fields>) -> bool {
    // Every limit that waits as long has to wait for holds: `None` is never, the longest.
    let longest = fields.map(|field| (field.retry_after_us.unwrap_or(NEVER_US), !field.until_hold));
    longest.max().is_some_and(|(_, stays)| !stays)
}

/// A hold that a store has placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it
pub struct Placed {
    /// The fencing number.
    pub fence: u64,
    /// When it ends by itself.
    pub end: Time,
    /// Which answer under its name this is: 1 for the one that placed it. 0 without a name.
    pub answer: u64,
}

impl Outcome {
    /// The outcome for a store that does not decide by [`super::decide()`].
    #[must_use]
    pub fn new(granted: u64, fields: SmallVec<[Fields; 2]>, receipt: u64, now: Time) -> Self {
        let authority = Authority::Store;
        Self {
            granted,
            fields,
            changed: false,
            receipt,
            now,
            shared: false,
            isolated: true,
            repeated: false,
            overused: false,
            ahead: 0,
            authority,
            hold: None,
        }
    }

    /// The outcome, of which an empty one is left. A move of a whole one that was written just now
    /// stalls the processor.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new(0, SmallVec::new(), 0, self.now))
    }

    /// True for a denial whose longest wait is an upper bound: it would be shorter if every open
    /// hold were settled now with 0.
    #[must_use]
    pub fn is_until_hold(&self) -> bool {
        self.granted == 0 && is_until_hold(self.fields.iter().copied())
    }
}

/// The answer of one limit: an [`Outcome`] without lists.
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
        Self { changed, ..Self::new(granted, all, receipt, now) }
    }
}
