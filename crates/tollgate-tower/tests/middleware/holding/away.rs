//! A store that has to be waited for, which can be stopped and can fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};
use tollgate::{
    Counted, Hold, Inspection, ManualClock, MemoryStore, Question, Receipt, Refund, Settled, Store,
    StoreError, Time, engine,
};

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

    /// The next settlements fail, so many of them.
    pub(crate) fn fail(&self, settlements: u64) {
        self.0.failures.store(settlements, Ordering::Relaxed);
    }

    /// The next checks are decided, and answered too late, so many of them.
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

impl Store for Away {
    fn identity(&self) -> u64 {
        self.0.store.identity()
    }
    async fn check(&self, question: &Question<'_>) -> Result<engine::Outcome, StoreError> {
        self.is_open().await;
        let answer = self.0.store.check(question).await;
        // The answer is on its way.
        tokio::task::yield_now().await;
        let less = |left: u64| left.checked_sub(1);
        match self.0.late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Err(StoreError::ambiguous("no answer in time")),
            Err(_) => answer,
        }
    }
    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.is_open().await;
        self.0.store.refund(receipt, units).await
    }
    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        self.0.store.adjust(counted, delta).await
    }
    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.0.store.reset(counted).await
    }
    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.store.inspect(counted).await
    }
    async fn settle(&self, hold: &Hold, actual: u64) -> Result<Option<Settled>, StoreError> {
        tokio::task::yield_now().await;
        let fails = |left: u64| left.checked_sub(1);
        if self.0.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
            return Err(StoreError::ambiguous("it is away"));
        }
        self.0.store.settle(hold, actual).await
    }
    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        tokio::task::yield_now().await;
        self.0.store.renew(hold, ttl_us).await
    }
}
