//! Response bodies that cannot be built from bytes: [`AnyBodyLayer`] makes such services usable.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower_layer::Layer;
use tower_service::Service;

/// Lets [`super::TollgateLayer`] wrap a service whose response body cannot be built from bytes,
/// such as that of tonic and `hyper::body::Incoming`. Put it between the two.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tollgate_tower::{AnyBodyLayer, TollgateLayer};
/// use tower::{ServiceBuilder, service_fn};
///
/// let service = ServiceBuilder::new()
///     .layer(TollgateLayer::per_client("100/s")?)
///     .layer(AnyBodyLayer)
///     .service(service_fn(async |_: Request<Empty<bytes::Bytes>>| {
///         Ok::<_, std::convert::Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
///     }));
/// # let _ = service;
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // there is nothing to set
pub struct AnyBodyLayer;

impl<I> Layer<I> for AnyBodyLayer {
    type Service = AnyBody<I>;

    fn layer(&self, inner: I) -> AnyBody<I> {
        AnyBody { inner }
    }
}

/// A service wrapped by an [`AnyBodyLayer`].
#[derive(Clone, Debug)]
pub struct AnyBody<I> {
    inner: I,
}

impl<I, B, RB> Service<Request<B>> for AnyBody<I>
where
    I: Service<Request<B>, Response = Response<RB>>,
{
    type Response = Response<ResponseBody<RB>>;
    type Error = I::Error;
    type Future = AnyBodyFuture<I::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        AnyBodyFuture { inner: self.inner.call(request) }
    }
}

pin_project_lite::pin_project! {
    /// The response future of an [`AnyBody`].
    #[derive(Debug)]
    pub struct AnyBodyFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, RB, E> Future for AnyBodyFuture<F>
where
    F: Future<Output = Result<Response<RB>, E>>,
{
    type Output = Result<Response<ResponseBody<RB>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.project().inner.poll(cx));
        Poll::Ready(result.map(|response| response.map(ResponseBody::service)))
    }
}

pin_project_lite::pin_project! {
    /// The body of a response: the service's own, or that of a refusal.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project_lite::pin_project! {
    #[derive(Debug)]
    #[project = KindProjected]
    enum Kind<B> {
        Service { #[pin] body: B },
        Refusal { body: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    fn service(body: B) -> Self {
        Self { kind: Kind::Service { body } }
    }
}

impl<B> From<Bytes> for ResponseBody<B> {
    /// The body of a refusal.
    fn from(body: Bytes) -> Self {
        Self { kind: Kind::Refusal { body: Some(body).filter(|body| !body.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjected::Service { body } => body.poll_frame(cx),
            KindProjected::Refusal { body } => {
                Poll::Ready(body.take().map(|body| Ok(Frame::data(body))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Refusal { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.size_hint(),
            Kind::Refusal { body } => {
                let length = body.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
        }
    }
}
