//! The memory budget that all connections share for bodies, calls and long responses.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A budget of bytes, or of streams.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    most: usize,
    /// The budget that this is a part of. Every share that is taken here is also taken there.
    whole: Option<Arc<Self>>,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most, whole: None })
    }

    /// A part of this budget: a user of the part leaves the rest to the others.
    #[cfg(feature = "grpc")]
    pub(crate) fn part(self: &Arc<Self>, most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most, whole: Some(Arc::clone(self)) })
    }

    /// The bytes in use now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The bytes left now, of this budget alone.
    #[cfg(feature = "grpc")]
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.held())
    }

    /// Takes a share of this size, held until it is dropped; `None` if too little is left.
    pub(crate) fn take(self: &Arc<Self>, size: usize) -> Option<Share> {
        self.add(size).then(|| Share { budget: Arc::clone(self), size })
    }

    fn add(&self, size: usize) -> bool {
        let more = |held: usize| held.checked_add(size).filter(|held| *held <= self.most);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let fits = self.whole.as_ref().is_none_or(|whole| whole.add(size));
        if !fits {
            self.held.fetch_sub(size, Ordering::Relaxed);
        }
        fits
    }

    fn give(&self, size: usize) {
        self.held.fetch_sub(size, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give(size);
        }
    }
}

/// A share of the budget.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    size: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_from_the_whole_and_leaves_the_rest() {
        let whole = Budget::new(100);
        let part = whole.part(60);
        let all = part.take(60).unwrap();
        assert!(part.take(1).is_none());
        assert_eq!((whole.room(), whole.held()), (40, 60));
        drop(all);
        let _others = whole.take(70).unwrap();
        assert!(part.take(40).is_none(), "the whole has no room");
        assert_eq!((part.held(), whole.held()), (0, 70), "what was not taken is held nowhere");
    }
}
