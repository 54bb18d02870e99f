//! A state that is taken out of a shard, and where it came from.

use crate::engine;
use crate::memory::state::State;

/// Where a state was found, and where it is written back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    /// The subject's own entry, in this bucket.
    Own { bucket: usize },
    /// No entry yet; there is room for one.
    New,
    /// The state shared with others, in this bucket, for lack of room. It is written back under
    /// this set, which is held for it.
    Shared { bucket: usize, set: usize },
    /// No entry, and no room even for a shared state.
    Nowhere,
}

/// A state taken out of a shard while a check works on it.
#[derive(Debug)]
pub(in crate::memory) struct Taken {
    pub(super) home: Home,
    pub(in crate::memory) state: State,
    /// Whether it is a shared state or a copy of one.
    pub(super) shared: bool,
    /// The state as it was found, if it was counted under other numbers.
    pub(super) before: Option<State>,
    pub(in crate::memory) carried: engine::Carries,
}

impl Taken {
    /// True when the state is written to a new entry.
    pub(in crate::memory) fn is_new(&self) -> bool {
        matches!(self.home, Home::New)
    }

    /// True when there was no room even for a state that it shares.
    pub(in crate::memory) fn is_nowhere(&self) -> bool {
        matches!(self.home, Home::Nowhere)
    }

    /// True when the subject has no separate state for lack of room. A subject that was charged on
    /// a copy of the shared state has a state of its own from now on.
    pub(in crate::memory) fn is_shared(&self, charged: bool) -> bool {
        self.shared && !(charged && self.is_new())
    }
}
