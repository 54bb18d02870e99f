//! A store that wraps another: everything but how it performs operations is that of the other.

use core::future::Future;
use core::time::Duration;

use crate::operation::Operation;
use crate::{Facts, Keeps, Receipt, Store, StoreError};

/// A store around another, which may change, delay or observe each operation. It is a [`Store`]
/// whose answers have to be awaited: [`Store::perform_now`] is always `None`.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tollgate::operation::Operation;
/// use tollgate::{Around, Limiter, MemoryStore, Store, StoreError};
///
/// /// A store that counts what it is asked.
/// struct Counting<S>(S, AtomicU64);
///
/// impl<S: Store> Around for Counting<S> {
///     type Inner = S;
///
///     fn inner(&self) -> &S {
///         &self.0
///     }
///
///     async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.perform(operation).await
///     }
/// }
///
/// # async fn asks() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Counting(MemoryStore::new(), AtomicU64::new(0));
/// let limiter = Limiter::new("10/s".parse()?, store);
/// assert!(limiter.check("user:42").await?.is_allowed());
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "a store is expected here, such as `MemoryStore`",
    note = "a connection is awaited first, and `?` takes it out of its `Result`: \
            `RedisStore::connect(url).await?`",
    note = "the stores of Tollgate are cheap to clone and shared by their clones, without an `Arc` \
            or a lock",
    note = "a store of one's own implements `Store` (docs/stores.md), or `Around` another"
)]
pub trait Around: Send + Sync {
    /// The type of the other store.
    type Inner: Store;

    /// The other store.
    fn inner(&self) -> &Self::Inner;

    /// Performs an operation; `self.inner().perform(operation)` passes it on.
    fn answer<O: Operation>(
        &self,
        operation: &O,
    ) -> impl Future<Output = Result<O::Answer, StoreError>> + Send;
}

impl<A: Around> Store for A {
    const KEEPS: Keeps = A::Inner::KEEPS;

    fn identity(&self) -> u64 {
        self.inner().identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.inner().issued(receipt)
    }

    fn facts(&self) -> Facts {
        self.inner().facts().answering_at_once(false)
    }

    fn will_wait(&self, longest: Duration) {
        self.inner().will_wait(longest);
    }

    fn perform<O: Operation>(
        &self,
        operation: &O,
    ) -> impl Future<Output = Result<O::Answer, StoreError>> + Send {
        self.answer(operation)
    }

    fn perform_now<O: Operation>(&self, _: &O) -> Option<Result<O::Answer, StoreError>> {
        None
    }
}
