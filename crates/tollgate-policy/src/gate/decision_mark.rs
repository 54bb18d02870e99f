//! The mark that a front puts on a decided request, so that no other layer decides it again.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::policies::Policies;

/// The parts that decided a request: the gate, its policies, and the store. The mark is three
/// numbers, so it keeps nothing alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecisionMark {
    gate: u64,
    store: u64,
    policies: u64,
    is_first: bool,
}

static NEXT_GATE: AtomicU64 = AtomicU64::new(FIRST_GATE);

const FIRST_GATE: u64 = 1;

/// The mark of the first gate in this process, with its first policies.
static FIRST: OnceLock<DecisionMark> = OnceLock::new();

impl DecisionMark {
    /// The mark of a new gate over a store.
    pub(super) fn new(store: u64, policies: &Policies) -> Self {
        let gate = NEXT_GATE.fetch_add(1, Ordering::Relaxed);
        let is_first = gate == FIRST_GATE;
        let mark = Self { gate, store, policies: policies.hash_number(), is_first };
        if is_first {
            let _ = FIRST.set(mark);
        }
        mark
    }

    /// The mark of the first gate in this process, with its first policies. A front can represent
    /// it by a zero-sized type. `None` before there is a gate.
    #[must_use]
    pub fn first() -> Option<Self> {
        FIRST.get().copied()
    }

    /// True for [`DecisionMark::first`].
    #[must_use]
    #[inline]
    pub fn is_first(self) -> bool {
        self.is_first
    }

    /// The mark of the same gate with other policies.
    pub(super) fn with(self, policies: &Policies) -> Self {
        let (policies, first) = (policies.hash_number(), Self::first());
        let is_first =
            first.is_some_and(|first| (first.gate, first.policies) == (self.gate, policies));
        Self { policies, is_first, ..self }
    }

    /// True when both decide equally: the same gate, or the same policies over the same store.
    #[must_use]
    pub fn is_alike(self, other: Self) -> bool {
        self.gate == other.gate || (self.store == other.store && self.policies == other.policies)
    }
}
