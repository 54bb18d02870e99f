//! A state that is taken out of a shard, what it gets there, and where it came from.

use crate::engine;
use crate::memory::state::State;

/// The room of a subject in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::memory) enum Room {
    /// A separate entry, or room for one.
    Own,
    /// No room: it shares a state with other new subjects. The set is held until the state is put
    /// back.
    Shared { set: usize, nth: usize },
    /// No room even for a shared state.
    None,
}

/// The room that a subject without an entry wants.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Wanted {
    /// So many new subjects of the same check were promised room already.
    pub(in crate::memory) before: usize,
    /// Also for a hold.
    pub(in crate::memory) a_hold: bool,
}

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
    /// a copy of the shared state has a separate state from now on.
    pub(in crate::memory) fn is_shared(&self, charged: bool) -> bool {
        self.shared && !(charged && self.is_new())
    }
}
