//! The current policies, cached per thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::cache::Cache;
use arc_swap::{ArcSwap, Guard};
use thread_local::ThreadLocal;

use super::live::Live;

/// The current policies, which may be replaced while in use. Each thread on the fast path caches
/// the ones it saw last. While they are unchanged, it writes to no memory that other threads write
/// to. An idle thread keeps its cached policies until the gate is dropped.
pub(super) struct SnapshotCache {
    live: Arc<ArcSwap<Live>>,
    /// Whether the policies have a fast path; without one, threads cache nothing. During a
    /// replacement the flag may briefly be that of the previous policies, so the policies
    /// themselves are checked again.
    has_fast_path: AtomicBool,
    cached: ThreadLocal<Padded>,
}

/// The cache of one thread. The caches of several threads are adjacent in memory. Each has its own
/// cache lines, since every request marks it as used.
#[repr(align(128))]
struct Padded(RefCell<Cache<Arc<ArcSwap<Live>>, Arc<Live>>>);

impl SnapshotCache {
    pub(super) fn new(live: Live) -> Self {
        let has_fast_path = AtomicBool::new(live.has_fast_path());
        let live = Arc::new(ArcSwap::from_pointee(live));
        Self { live, has_fast_path, cached: ThreadLocal::new() }
    }

    /// Runs `work` on the current policies, if they have a fast path.
    #[inline]
    pub(super) fn fast_path<T>(&self, work: impl FnOnce(&Arc<Live>) -> Option<T>) -> Option<T> {
        if !self.has_fast_path.load(Ordering::Relaxed) {
            return None;
        }
        let cached = || Padded(RefCell::new(Cache::new(Arc::clone(&self.live))));
        match self.cached.get_or(cached).0.try_borrow_mut() {
            Ok(mut cached) => work(cached.load()),
            // Called within another `work`.
            Err(_) => self.fast_path_within(work),
        }
    }

    #[cold]
    fn fast_path_within<T>(&self, work: impl FnOnce(&Arc<Live>) -> Option<T>) -> Option<T> {
        work(&self.live.load())
    }

    /// The current policies, while the guard is held.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Replaces the policies.
    pub(super) fn store(&self, live: Live) {
        let has_fast_path = live.has_fast_path();
        self.live.store(Arc::new(live));
        self.has_fast_path.store(has_fast_path, Ordering::Relaxed);
    }
}
