//! The policies of now, cached for each thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::cache::Cache;
use arc_swap::{ArcSwap, Guard};
use thread_local::ThreadLocal;

use super::Live;

/// The policies that count, which may be replaced while they are asked. Each thread that takes the
/// fast path keeps the ones that it saw last: while they are the same, it writes to no memory that
/// other threads write to. A thread that asks no more keeps the last ones until the gate is gone.
pub(super) struct SnapshotCache {
    live: Arc<ArcSwap<Live>>,
    /// Whether there is a fast path: without one nothing is cached for a thread. While policies are
    /// replaced it is, for a moment, that of the ones before: the policies themselves are asked.
    has_fast_path: AtomicBool,
    cached: ThreadLocal<Padded>,
}

/// What one thread caches. The values of several threads lie side by side: each on cache lines of
/// its own, since each request marks it as used.
#[repr(align(128))]
struct Padded(RefCell<Cache<Arc<ArcSwap<Live>>, Arc<Live>>>);

impl SnapshotCache {
    pub(super) fn new(live: Live) -> Self {
        let has_fast_path = AtomicBool::new(live.has_fast_path());
        let live = Arc::new(ArcSwap::from_pointee(live));
        Self { live, has_fast_path, cached: ThreadLocal::new() }
    }

    /// What `work` makes of the policies of now, where they have a fast path.
    #[inline]
    pub(super) fn fast_path<T>(&self, work: impl FnOnce(&Arc<Live>) -> Option<T>) -> Option<T> {
        if !self.has_fast_path.load(Ordering::Relaxed) {
            return None;
        }
        let cached = || Padded(RefCell::new(Cache::new(Arc::clone(&self.live))));
        match self.cached.get_or(cached).0.try_borrow_mut() {
            Ok(mut cached) => work(cached.load()),
            // Within the work of another.
            Err(_) => self.fast_path_within(work),
        }
    }

    #[cold]
    fn fast_path_within<T>(&self, work: impl FnOnce(&Arc<Live>) -> Option<T>) -> Option<T> {
        work(&self.live.load())
    }

    /// The policies of now, for as long as they are held.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Replaces them.
    pub(super) fn store(&self, live: Live) {
        let has_fast_path = live.has_fast_path();
        self.live.store(Arc::new(live));
        self.has_fast_path.store(has_fast_path, Ordering::Relaxed);
    }
}
