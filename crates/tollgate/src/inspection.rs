//! The stored state of a count, for an administrator.

use crate::engine::ShownHold;
use crate::time::Time;

/// The state of one subject under one limit set.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The full text of the limits that the state was written under.
    pub written_under: String,
    /// The words of all limits.
    pub words: Vec<u64>,
    /// The events of every log: the time in microseconds since the Unix epoch, and the cost in
    /// units.
    pub logs: Vec<Vec<(u64, u64)>>,
    /// When the state equals a fresh one.
    pub fresh_at: Time,
    /// True when the subject has no separate state because the store is full. The state shown is
    /// then the one it shares with others.
    pub shared: bool,
    /// How many holds are open on the count.
    pub open: u64,
    /// The first of these to end, at most [`MAX_SHOWN_HOLDS`].
    pub holds: Vec<ShownHold>,
}

/// The most open holds that an inspection shows.
pub const MAX_SHOWN_HOLDS: usize = 100;

impl Inspection {
    /// The result of [`Inspect`](crate::operation::Inspect).
    #[must_use]
    pub fn new(
        written_under: String,
        words: Vec<u64>,
        logs: Vec<Vec<(u64, u64)>>,
        fresh_at: Time,
        shared: bool,
    ) -> Self {
        Self { written_under, words, logs, fresh_at, shared, open: 0, holds: Vec::new() }
    }

    /// The same of a count with this number of open holds; these end first.
    #[must_use]
    pub fn holding(self, (open, holds): (u64, Vec<ShownHold>)) -> Self {
        Self { open, holds, ..self }
    }
}
