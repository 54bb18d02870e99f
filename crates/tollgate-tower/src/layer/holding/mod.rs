//! The layer that holds. A policy's hold for the time of a request is given back when its response
//! has ended, or when nobody waits for it any more.

mod body;
mod guard;
mod keeper;
mod spent;

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tollgate::Store;
use tower_layer::Layer;
use tower_service::Service;

use super::future::{Admitted, Boxed};
use super::mark;
use super::service::Refusal;
use super::share::Timer;
use super::shared::Shared;

pub use body::HoldingBody;
pub use keeper::Holds;
pub use spent::Spent;

use keeper::{Counts, Placed, place};

/// A tower layer as [`super::TollgateLayer`], which also holds: a policy with slots (`20 at once`)
/// keeps one for each request that is at work, and a policy whose cost is reserved keeps the
/// estimate. `docs/holds.md` describes its behaviour. [`super::TollgateLayer::holding`] makes it.
///
/// A request is at work until the body of its response has ended or was dropped, the service has
/// failed, or its future was dropped. So the body of a response is wrapped.
///
/// ```
/// use std::net::SocketAddr;
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Full;
/// use tollgate_tower::TollgateLayer;
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # futures_executor::block_on(async {
/// let layer = TollgateLayer::per_client("1 at once")?.holding();
/// let mut service = layer.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from("hello")))
/// }));
/// let request = || {
///     let mut request = Request::new(String::new());
///     // What a server does; with the feature `axum`, what axum does.
///     request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 7], 4711)));
///     request
/// };
/// let first = service.ready().await?.call(request()).await?;
/// let second = service.ready().await?.call(request()).await?;
/// assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
/// drop(first);
/// let third = service.ready().await?.call(request()).await?;
/// assert_eq!(third.status(), StatusCode::OK);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HoldingLayer<S> {
    shared: Arc<Shared<S>>,
    counts: Arc<Counts>,
    keep_header: bool,
}

impl<S: Store + 'static> HoldingLayer<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared, counts: Arc::default(), keep_header: false }
    }

    /// Sets whether the header that says what a request has used stays in the response. The default
    /// is no: it is removed.
    #[must_use]
    pub fn keep_header(self, keep: bool) -> Self {
        Self { keep_header: keep, ..self }
    }

    /// The numbers of holds that did not go as they should. Clones of a layer have them in common.
    #[must_use]
    pub fn holds(&self) -> Holds {
        self.counts.holds()
    }
}

impl<S> Clone for HoldingLayer<S> {
    fn clone(&self) -> Self {
        let Self { shared, counts, keep_header } = self;
        let (shared, counts) = (Arc::clone(shared), Arc::clone(counts));
        Self { shared, counts, keep_header: *keep_header }
    }
}

impl<S> fmt::Debug for HoldingLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldingLayer").field("holds", &self.counts.holds()).finish_non_exhaustive()
    }
}

impl<S, I> Layer<I> for HoldingLayer<S> {
    type Service = HoldingTollgate<I, S>;

    fn layer(&self, inner: I) -> Self::Service {
        HoldingTollgate { inner, layer: self.clone() }
    }
}

/// A rate-limited service that holds, created by a [`HoldingLayer`].
pub struct HoldingTollgate<I, S> {
    inner: I,
    layer: HoldingLayer<S>,
}

impl<I: Clone, S> Clone for HoldingTollgate<I, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<I, S> fmt::Debug for HoldingTollgate<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldingTollgate")
    }
}

/// The response future of a [`HoldingTollgate`]. Dropped before its end, it gives back what it
/// holds.
#[must_use = "futures do nothing unless they are polled"]
pub struct HoldingFuture<RB, E>(Boxed<HoldingBody<RB>, E>);

impl<RB, E> fmt::Debug for HoldingFuture<RB, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldingFuture")
    }
}

impl<RB, E> Future for HoldingFuture<RB, E> {
    type Output = Result<Response<HoldingBody<RB>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<I, S, B, RB> Service<Request<B>> for HoldingTollgate<I, S>
where
    I: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Send + 'static,
    S: Store + 'static,
    B: Send + 'static,
    RB: From<Bytes> + Send + 'static,
{
    type Response = Response<HoldingBody<RB>>;
    type Error = I::Error;
    type Future = HoldingFuture<RB, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The call uses the service that was polled ready; the clone replaces it.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let HoldingLayer { shared, counts, keep_header } = self.layer.clone();
        HoldingFuture(Box::pin(async move {
            let (admitted, mut guard) = match shared.hold(&mut request, &counts).await {
                Ok(admitted) => admitted,
                Err(refusal) => return Ok(refusal.map(RB::from).map(HoldingBody::plain)),
            };
            // Dropped here, and with this future: the hold is given back then.
            if let Some(guard) = &mut guard {
                guard.begin(&mut request);
            }
            let mut result = inner.call(request).await;
            admitted.finish(&mut result).await;
            match (&mut guard, &mut result) {
                (Some(guard), Ok(response)) => guard.read(response, keep_header),
                (Some(guard), Err(_)) => guard.fail(),
                (None, _) => {}
            }
            let response = result?;
            Ok(response.map(|body| HoldingBody::new(body, guard)))
        }))
    }
}

type Guarded<S> = (Admitted<S>, Option<Box<guard::Guard>>);

impl<S: Store + 'static> Shared<S> {
    /// Decides a request, marks it as decided, and holds what its policies keep for it.
    async fn hold<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        counts: &Arc<Counts>,
    ) -> Result<Guarded<S>, Refusal> {
        let mut admitted = Admitted::default();
        let is_marked = mark::is_on(request.extensions());
        if is_marked && self.has_decided(request.extensions()) {
            return Ok((admitted, None));
        }
        let timer: Option<Timer> = self.times.start();
        let prepared = {
            let (told, closely) = (&self.misconfigurations, timer.is_some());
            let front = &self.front;
            match front.with_fields(request, told, closely, |f| self.prepare(request, f)) {
                Ok(prepared) => prepared,
                Err((_, Some(refusal))) => return Err(refusal),
                Err((_, None)) => return Ok((admitted, None)),
            }
        };
        let prepared = match self.with_limits(request, prepared) {
            Ok(prepared) => prepared,
            Err(later) => later.await,
        };
        let mark = prepared.mark();
        let Some(Placed { answer, guard }) = place(&self.gate, prepared, counts).await else {
            let wire = self.wire(request);
            return Err(Box::new(self.unavailable(wire, &[])));
        };
        if let Some(refusal) = self.verdict(request, &answer, &mut admitted.marks) {
            return Err(refusal);
        }
        mark::put(request.extensions_mut(), mark);
        // A hold has no receipt: its charge is settled with it.
        let by_response = guard.is_none() && !self.charging.is_none();
        admitted.later(self, by_response.then_some(answer), timer);
        Ok((admitted, guard.map(Box::new)))
    }
}
