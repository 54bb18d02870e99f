//! The layer: it makes services, and knows what they have counted.

use core::fmt;
use std::sync::Arc;

use http::Extensions;
use tollgate::Store;
use tollgate_policy::{Exposition, Gate};
use tower_layer::Layer;

use super::charge::Charges;
use super::holding::HoldingLayer;
use super::mark;
use super::service::Tollgate;
use super::share::Share;
use super::shared::Shared;

/// A tower layer that limits requests to a service. Clones are cheap; clones, and all services that
/// the layer creates, are one limiter. `docs/middleware.md` describes its behaviour.
///
/// The response body must be buildable from bytes, for refusals. `axum::body::Body` and
/// `http_body_util::Full` are; for others, put an [`AnyBodyLayer`](super::AnyBodyLayer) in between.
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Full;
/// use std::net::SocketAddr;
/// use tollgate_tower::TollgateLayer;
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # futures_executor::block_on(async {
/// let limits = TollgateLayer::per_client("2/h")?;
/// let mut service = limits.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from("hello")))
/// }));
/// for status in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
///     let mut request = Request::new(String::new());
///     // What a server does; with the feature `axum`, what axum does.
///     request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 7], 4711)));
///     let response = service.ready().await?.call(request).await?;
///     assert_eq!(response.status(), status);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("rate limit", "throttle", "middleware", "governor"))]
pub struct TollgateLayer<S>(pub(super) Arc<Shared<S>>);

impl<S: Store + 'static> TollgateLayer<S> {
    /// Removes the mark that a request was decided. It is for handlers that send their own requests
    /// to a service behind these limits, with the extensions of the request they handle. With the
    /// mark, those would pass uncounted, as the same request.
    pub fn forget(&self, extensions: &mut Extensions) {
        mark::remove(extensions);
    }

    /// The same layer, for policies with slots (`20 at once`): it holds them while requests are at
    /// work. Both are one limiter.
    #[must_use]
    pub fn holding(&self) -> HoldingLayer<S> {
        HoldingLayer::new(Arc::clone(&self.0))
    }

    /// The gate: its counters, its policies, its store.
    #[must_use]
    pub fn gate(&self) -> &Gate<S> {
        &self.0.gate
    }

    /// The share of the requests' time that was spent on limiting.
    #[must_use]
    pub fn share(&self) -> Share {
        self.0.times.share()
    }

    /// The counters of this layer and of its gate as a page for Prometheus, under the names that
    /// the service has for them (`docs/metrics.md`).
    ///
    /// ```
    /// use tollgate_tower::TollgateLayer;
    /// let layer = TollgateLayer::per_client("100/m")?;
    /// // For a route of its own, such as `/metrics`.
    /// let page = layer.metrics().to_string();
    /// assert!(page.contains("# TYPE tollgate_decisions_total counter\n"));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Exposition {
        self.0.metrics()
    }

    /// The numbers of refunds and extra charges after responses.
    #[must_use]
    pub fn charges(&self) -> Charges {
        self.0.charging.charges()
    }
}

impl<S> Clone for TollgateLayer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for TollgateLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer").field("answers", &self.0.answers).finish_non_exhaustive()
    }
}

impl<S, I> Layer<I> for TollgateLayer<S> {
    type Service = Tollgate<I, S>;

    fn layer(&self, inner: I) -> Self::Service {
        Tollgate::new(inner, Arc::clone(&self.0))
    }
}
