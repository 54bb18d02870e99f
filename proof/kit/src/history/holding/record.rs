//! The records of holds: who placed, settled and renewed which, and the answers.

use crate::oracle::Kind;

use super::super::record::{CallOutcome, RecordedCount};

/// One call about a hold, as its client saw it.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldCall {
    /// A number that no other call of the history has.
    pub id: u64,
    /// The caller: a client or a process.
    pub client: String,
    /// When the call began, in microseconds.
    pub invoked_us: u64,
    /// When it returned, in microseconds; `None` when it never did.
    pub returned_us: Option<u64>,
    /// The hold: its id, or any word that no other hold has.
    pub hold: String,
    /// The question, and the answer.
    pub step: HoldStep,
}

/// The question of a call about a hold, and the answer.
#[allow(clippy::exhaustive_enums, reason = "a checker handles each")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldStep {
    /// To place it.
    Place(Place),
    /// To settle it for this many units; a release settles it for none.
    Settle {
        /// The units.
        actual: u64,
        /// The answer.
        answer: Settling,
    },
    /// To renew it.
    Renew {
        /// For how long, in microseconds.
        ttl_us: u64,
        /// The answer.
        answer: Renewing,
    },
}

/// A reserve or an acquire.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind of units that it keeps.
    pub kind: Kind,
    /// The subjects and their limits, all judged together.
    pub parts: Vec<RecordedCount>,
    /// The cost, at least 1.
    pub cost: u64,
    /// How long it lasts, in microseconds.
    pub ttl_us: u64,
    /// The store's own time of the decision, in microseconds, by the recorder's clock.
    pub decided_us: Option<u64>,
    /// The answer.
    pub outcome: CallOutcome,
    /// The fencing number of a hold that was placed, if the answer has it.
    pub fence: Option<u64>,
}

/// The answer to a commit or a release.
#[allow(clippy::exhaustive_enums, reason = "a checker handles each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// It was open until now.
    Done {
        /// The smallest `remaining` of all limits afterwards, if the answer has it.
        remaining: Option<u64>,
    },
    /// It was settled before, for this many units.
    Already(u64),
    /// It is not open.
    NotOpen,
    /// No answer: it may have been settled or not.
    Unknown,
}

/// The answer to a renewal.
#[allow(clippy::exhaustive_enums, reason = "a checker handles each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewing {
    /// It ends at this time, in microseconds.
    Until(u64),
    /// It is not open.
    NotOpen,
    /// No answer.
    Unknown,
}

impl HoldStep {
    /// Whether the call was answered.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        match self {
            Self::Place(place) => !matches!(place.outcome, CallOutcome::Unknown),
            Self::Settle { answer, .. } => !matches!(answer, Settling::Unknown),
            Self::Renew { answer, .. } => !matches!(answer, Renewing::Unknown),
        }
    }
}
