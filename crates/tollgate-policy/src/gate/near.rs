//! The policies of now, near at hand for each thread.

use std::cell::RefCell;
use std::sync::Arc;

use arc_swap::cache::Cache;
use arc_swap::{ArcSwap, Guard};
use thread_local::ThreadLocal;

use super::Live;

/// The policies that count, which may be replaced while they are asked. For each thread those that
/// it saw last lie beside them, so that it writes to no memory that others write to as long as they
/// are the same. A thread that asks no more keeps the last ones until the gate is gone.
pub(super) struct Near {
    live: Arc<ArcSwap<Live>>,
    seen: ThreadLocal<RefCell<Seen>>,
}

type Seen = Cache<Arc<ArcSwap<Live>>, Arc<Live>>;

impl Near {
    pub(super) fn new(live: Live) -> Self {
        Self { live: Arc::new(ArcSwap::from_pointee(live)), seen: ThreadLocal::new() }
    }

    /// What `work` makes of the policies of now.
    #[inline]
    pub(super) fn with<T>(&self, work: impl FnOnce(&Live) -> T) -> T {
        let seen = self.seen.get_or(|| RefCell::new(Cache::new(Arc::clone(&self.live))));
        match seen.try_borrow_mut() {
            Ok(mut seen) => work(seen.load()),
            // Within the work of another.
            Err(_) => work(&self.live.load()),
        }
    }

    /// The policies of now, for as long as they are held.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Others take their place.
    pub(super) fn store(&self, live: Live) {
        self.live.store(Arc::new(live));
    }
}
