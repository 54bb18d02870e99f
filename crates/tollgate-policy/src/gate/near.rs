//! The policies of now, near at hand for each thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::cache::Cache;
use arc_swap::{ArcSwap, Guard};
use thread_local::ThreadLocal;

use super::Live;

/// The policies that count, which may be replaced while they are asked. For each thread that goes
/// the short way those that it saw last lie beside them, so that it writes to no memory that others
/// write to as long as they are the same. A thread that asks no more keeps the last ones until the
/// gate is gone.
pub(super) struct Near {
    live: Arc<ArcSwap<Live>>,
    /// Whether every request is asked the same, so that nothing is kept for a thread where that is
    /// not so. For a moment it is that of the policies before: which way is right is asked of those
    /// that are there.
    is_short: AtomicBool,
    seen: ThreadLocal<Alone>,
}

/// What a thread saw last. The values of several threads lie side by side: each on cache lines of
/// its own, since each request writes to it that it is in use.
#[repr(align(128))]
struct Alone(RefCell<Cache<Arc<ArcSwap<Live>>, Arc<Live>>>);

impl Near {
    pub(super) fn new(live: Live) -> Self {
        let is_short = AtomicBool::new(live.is_short());
        Self { live: Arc::new(ArcSwap::from_pointee(live)), is_short, seen: ThreadLocal::new() }
    }

    /// What `work` makes of the policies of now, where every request is asked the same.
    #[inline]
    pub(super) fn short<T>(&self, work: impl FnOnce(&Live) -> Option<T>) -> Option<T> {
        if !self.is_short.load(Ordering::Relaxed) {
            return None;
        }
        let seen = || Alone(RefCell::new(Cache::new(Arc::clone(&self.live))));
        match self.seen.get_or(seen).0.try_borrow_mut() {
            Ok(mut seen) => work(seen.load()),
            // Within the work of another.
            Err(_) => self.short_within(work),
        }
    }

    #[cold]
    fn short_within<T>(&self, work: impl FnOnce(&Live) -> Option<T>) -> Option<T> {
        work(&self.live.load())
    }

    /// The policies of now, for as long as they are held.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Others take their place.
    pub(super) fn store(&self, live: Live) {
        let is_short = live.is_short();
        self.live.store(Arc::new(live));
        self.is_short.store(is_short, Ordering::Relaxed);
    }
}
