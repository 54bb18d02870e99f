//! Answers a future that need not wait, without a runtime.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// The output of a future that is ready when it is polled for the first time, as those of a store
/// are whose [`Facts::answers_at_once`](crate::Facts::answers_at_once) is true. `None` if it would
/// have to wait: then it is dropped.
///
/// ```
/// assert_eq!(tollgate::at_once(async { 1 }), Some(1));
/// assert_eq!(tollgate::at_once(core::future::pending::<()>()), None);
/// ```
#[inline]
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
