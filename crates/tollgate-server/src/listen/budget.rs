//! The memory budget that all connections share for bodies and long responses.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A budget of bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    /// The bytes in use now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes a share of this many bytes, held until it is dropped; `None` if the budget has too few
    /// left.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Share { budget: Arc::clone(self), bytes })
    }
}

/// A share of the budget.
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
