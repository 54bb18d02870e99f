//! What all connections together may hold of bodies and of answers that are long.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Bytes that are held for connections.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    /// How many are held now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share of so many, until it is dropped; none where there is no room for it.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Share { budget: Arc::clone(self), bytes })
    }
}

/// A part of the budget.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
