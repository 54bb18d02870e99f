//! Finds the limits of a prepared request, by the functions that give them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use http::Request;
use smallvec::SmallVec;
use tollgate::Store;
use tollgate_policy::Prepared;

use super::limits::Finding;
use super::refused::RequestHead;
use super::shared::Shared;

/// A prepared request, once its limits are known.
pub(super) type LaterPrepared = Pin<Box<dyn Future<Output = Prepared> + Send>>;

impl<S: Store + 'static> Shared<S> {
    /// The prepared request with its limits; or a future of it, where a function has to be waited
    /// for.
    #[inline]
    pub(super) fn with_limits<B>(
        self: &Arc<Self>,
        request: &Request<B>,
        prepared: Prepared,
    ) -> Result<Prepared, LaterPrepared> {
        match self.limits.is_empty() {
            true => Ok(prepared),
            false => self.find_limits(request, prepared),
        }
    }

    #[inline(never)]
    fn find_limits<B>(
        self: &Arc<Self>,
        request: &Request<B>,
        prepared: Prepared,
    ) -> Result<Prepared, LaterPrepared> {
        let wanted = self.limits.iter().enumerate();
        let wanted = wanted.filter(|(_, function)| prepared.takes_limits(&function.policy));
        let finding: SmallVec<[(usize, Finding); 1]> = wanted
            .map(|(place, function)| (place, function.find(RequestHead::new(request))))
            .collect();
        if finding.is_empty() {
            return Ok(prepared);
        }
        let (shared, mut prepared) = (Arc::clone(self), prepared.for_long());
        let mut later: LaterPrepared = Box::pin(async move {
            for (place, finding) in finding {
                let found = finding.await;
                if let Some(function) = shared.limits.get(place) {
                    function.give(&mut prepared, found);
                }
            }
            prepared
        });
        // A function that has the limits in a cache need not be waited for. One that has to be is
        // polled again at once, by whoever waits for the response.
        match later.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(prepared) => Ok(prepared),
            Poll::Pending => Err(later),
        }
    }
}
