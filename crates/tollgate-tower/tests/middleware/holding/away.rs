//! A store that has to be waited for, which can be stopped and can fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};
use tollgate::operation::{Check, Operation, Refund, Renew, Settle};
use tollgate::{Around, ManualClock, MemoryStore, Store as _, StoreError};

/// The counts of a memory store, behind a wait.
#[derive(Clone)]
pub(crate) struct Away(Arc<Inner>);

struct Inner {
    store: MemoryStore,
    /// Closed while it is stopped.
    open: Semaphore,
    asked: Notify,
    failures: AtomicU64,
    /// How many checks are still to be answered too late.
    late: AtomicU64,
}

impl Away {
    pub(crate) fn new(clock: ManualClock) -> Self {
        let store = MemoryStore::builder().clock(clock).build();
        let open = Semaphore::new(1);
        let (asked, failures, late) = (Notify::new(), AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Inner { store, open, asked, failures, late }))
    }

    /// Checks and refunds wait until [`Away::go_on`].
    pub(crate) fn stop(&self) {
        self.0.open.forget_permits(1);
    }

    pub(crate) fn go_on(&self) {
        self.0.open.add_permits(1);
    }

    /// Waits until a check or a refund has come.
    pub(crate) async fn is_asked(&self) {
        self.0.asked.notified().await;
    }

    /// The next settlements fail, this many of them.
    pub(crate) fn fail(&self, settlements: u64) {
        self.0.failures.store(settlements, Ordering::Relaxed);
    }

    /// The next checks are decided, and answered too late, this many of them.
    pub(crate) fn is_late(&self, checks: u64) {
        self.0.late.store(checks, Ordering::Relaxed);
    }

    pub(crate) fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    async fn is_open(&self) {
        tokio::task::yield_now().await;
        if self.0.open.available_permits() == 0 {
            self.0.asked.notify_one();
        }
        drop(self.0.open.acquire().await);
    }
}

impl Around for Away {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0.store
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let less = |left: u64| left.checked_sub(1);
        let fails = |left: &AtomicU64| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        match O::NAME {
            Check::NAME | Refund::NAME => self.is_open().await,
            Settle::NAME | Renew::NAME => tokio::task::yield_now().await,
            _ => {}
        }
        if O::NAME == Settle::NAME && fails(&self.0.failures) {
            return Err(StoreError::ambiguous("it is away"));
        }
        let answer = self.0.store.perform(operation).await;
        if O::NAME == Check::NAME {
            // The answer is on its way.
            tokio::task::yield_now().await;
            if fails(&self.0.late) {
                return Err(StoreError::ambiguous("no answer in time"));
            }
        }
        answer
    }
}
