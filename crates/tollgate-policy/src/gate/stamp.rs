//! What a front notes on a request that was decided, so that nobody decides it again.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::policies::Policies;

/// Who decided a request: which gate, by which policies, over which store. Three numbers, so that
/// noting it keeps nothing alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    gate: u64,
    store: u64,
    policies: u64,
}

static NEXT_GATE: AtomicU64 = AtomicU64::new(1);

impl Stamp {
    /// That of a new gate over a store.
    pub(super) fn new(store: u64, policies: &Policies) -> Self {
        let gate = NEXT_GATE.fetch_add(1, Ordering::Relaxed);
        Self { gate, store, policies: policies.hash_number() }
    }

    /// That of the same gate with other policies.
    pub(super) fn with(self, policies: &Policies) -> Self {
        Self { policies: policies.hash_number(), ..self }
    }

    /// True when both decide the same: one gate, or the same policies over the same store.
    #[must_use]
    pub fn is_alike(self, other: Self) -> bool {
        self.gate == other.gate || (self.store == other.store && self.policies == other.policies)
    }
}
