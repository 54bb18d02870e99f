//! Work in the store that goes on when nobody waits for it any more, as where a client hangs up.
//! The store may do it all the same, so that it is to be counted.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The most works of a process that go on without a caller. Of more, the work ends with its caller,
/// and is not counted.
const MAX_WITHOUT_CALLER: usize = 4_096;

static PLACES: Semaphore = Semaphore::const_new(MAX_WITHOUT_CALLER);

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Work that goes on in a separate task if it is dropped before its end, for at most 4,096 of a
/// process at a time. Of more, and without a runtime of tokio, the work ends where it is dropped.
pub struct ToItsEnd<T: 'static> {
    /// `None` once it has ended.
    work: Option<Work<T>>,
}

impl<T: 'static> ToItsEnd<T> {
    /// This work, which does nothing until it is polled or dropped.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<T: 'static> fmt::Debug for ToItsEnd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToItsEnd")
    }
}

impl<T: 'static> Future for ToItsEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Like any future, this one must not be polled after its end.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if let (Ok(place), Ok(runtime)) = (PLACES.try_acquire(), Handle::try_current()) {
            drop(runtime.spawn(async move {
                drop(work.await);
                drop(place);
            }));
        }
    }
}
