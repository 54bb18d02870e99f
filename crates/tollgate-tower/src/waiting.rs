//! A layer for clients of a service that limits them: each request waits for its turn.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error as StdError;
use std::sync::Arc;

use tollgate::{Ask, Decision, Error, Line, Store, Waiting};
use tower_layer::Layer;
use tower_service::Service;

type AskOf<R> = dyn Fn(&R) -> Option<Ask<'static>> + Send + Sync;
type WaitOf<T> = dyn Fn(&T) -> Option<Duration> + Send + Sync;

/// A tower layer before a client: each request waits until its limits admit it, and is sent then.
/// The requests of equal subjects are sent in the order of their arrival, and only the first of
/// them asks the store ([`Line::until_ready`]).
///
/// A function says whom a request counts for: a text such as `api:users`, a subject, or an ask with
/// a cost; `None` for a request that is not limited. Clones are one line, and so are all services
/// that the layer creates.
///
/// ```
/// use std::time::Duration;
/// use http::{Request, Response};
/// use tollgate::{Limiter, Line};
/// use tollgate_tower::WaitingLayer;
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let line = Line::new(Limiter::memory("1/20ms via gcra".parse()?), 100);
/// let layer = WaitingLayer::new(line, Duration::from_secs(5), |request: &Request<()>| {
///     let host = request.uri().host()?;
///     Some(format!("host:{host}").into())
/// });
/// let mut client = layer.layer(service_fn(async |_: Request<()>| {
///     Ok::<_, std::convert::Infallible>(Response::new("an answer"))
/// }));
/// for _ in 0..3 {
///     let request = Request::get("http://api.example/users").body(())?;
///     assert_eq!(client.ready().await?.call(request).await?.status(), 200);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("throttle", "backpressure", "client", "pace"))]
pub struct WaitingLayer<S, R, T> {
    line: Arc<Line<S>>,
    waiting: Waiting,
    ask_of: Arc<AskOf<R>>,
    wait_of: Option<Arc<WaitOf<T>>>,
}

impl<S: Store, R, T> WaitingLayer<S, R, T> {
    /// Requests wait in this line, at most for the deadline: a [`Duration`](core::time::Duration),
    /// or a [`Waiting`].
    pub fn new(
        line: Line<S>,
        waiting: impl Into<Waiting>,
        ask_of: impl Fn(&R) -> Option<Ask<'static>> + Send + Sync + 'static,
    ) -> Self {
        let (line, waiting, ask_of) = (Arc::new(line), waiting.into(), Arc::new(ask_of));
        Self { line, waiting, ask_of, wait_of: None }
    }

    /// Learns from each response how long the service asks to wait: no turn of the same subjects
    /// begins before ([`Line::back_off`]). [`wait_of`](crate::answer::wait_of) reads the headers of
    /// a response. A response without a wait is `None`.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{Request, Response};
    /// use tollgate::{Limiter, Line};
    /// use tollgate_tower::{WaitingLayer, answer::wait_of};
    /// # let line = Line::new(Limiter::memory("20/s".parse()?), 100);
    /// let layer = WaitingLayer::new(line, Duration::from_secs(60), |_: &Request<String>| {
    ///     Some("api".into())
    /// })
    /// .learning(|response: &Response<String>| {
    ///     wait_of(response.status(), response.headers(), SystemTime::now())
    /// });
    /// # let _ = layer;
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn learning(
        self,
        wait_of: impl Fn(&T) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        Self { wait_of: Some(Arc::new(wait_of)), ..self }
    }
}

impl<S, R, T> Clone for WaitingLayer<S, R, T> {
    fn clone(&self) -> Self {
        let Self { line, waiting, ask_of, wait_of } = self;
        let (line, ask_of) = (Arc::clone(line), Arc::clone(ask_of));
        Self { line, waiting: *waiting, ask_of, wait_of: wait_of.clone() }
    }
}

impl<S, R, T> fmt::Debug for WaitingLayer<S, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingLayer").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl<S, R, T, I> Layer<I> for WaitingLayer<S, R, T> {
    type Service = WaitingClient<I, S, R, T>;

    fn layer(&self, inner: I) -> Self::Service {
        WaitingClient { inner, layer: self.clone() }
    }
}

/// A client whose requests wait for their turn, created by a [`WaitingLayer`].
pub struct WaitingClient<I, S, R, T> {
    inner: I,
    layer: WaitingLayer<S, R, T>,
}

impl<I: Clone, S, R, T> Clone for WaitingClient<I, S, R, T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<I, S, R, T> fmt::Debug for WaitingClient<I, S, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingClient")
    }
}

/// Why a request was not sent, or has no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitingError<E> {
    /// The limits do not admit it within the deadline. It was not sent.
    Denied(Box<Decision<'static>>),
    /// The deadline passed in line, or as many wait already as may. It was not sent.
    Late,
    /// The limits could not be asked. It was not sent.
    Limiter(Error),
    /// The error of the client behind.
    Client(E),
}

impl<E: fmt::Display> fmt::Display for WaitingError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(decision) => write!(f, "the limits do not admit it in time: {decision}"),
            Self::Late => f.write_str("too many requests wait before it to be sent in time"),
            Self::Limiter(error) => write!(f, "the limits could not be asked: {error}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for WaitingError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Limiter(error) => Some(error),
            Self::Client(error) => Some(error),
            Self::Denied(_) | Self::Late => None,
        }
    }
}

/// The response future of a [`WaitingClient`]. Dropped while it waits, it has charged nothing, and
/// those behind move up.
#[must_use = "futures do nothing unless they are polled"]
pub struct WaitingFuture<T, E>(Pin<Box<dyn Future<Output = Result<T, WaitingError<E>>> + Send>>);

impl<T, E> fmt::Debug for WaitingFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingFuture")
    }
}

impl<T, E> Future for WaitingFuture<T, E> {
    type Output = Result<T, WaitingError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<I, S, R, T> Service<R> for WaitingClient<I, S, R, T>
where
    I: Service<R, Response = T> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Send + 'static,
    S: Store + 'static,
    R: Send + 'static,
    T: Send + 'static,
{
    type Response = T;
    type Error = WaitingError<I::Error>;
    type Future = WaitingFuture<T, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(WaitingError::Client)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The call uses the service that was polled ready; the clone replaces it.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let WaitingLayer { line, waiting, ask_of, wait_of } = self.layer.clone();
        WaitingFuture(Box::pin(async move {
            let ask = ask_of(&request);
            if let Some(ask) = ask.clone() {
                match line.until_ready(ask, waiting).await {
                    Ok(Some(decision)) if decision.is_allowed() => {}
                    Ok(Some(decision)) => {
                        return Err(WaitingError::Denied(Box::new(decision.into_owned())));
                    }
                    Ok(None) => return Err(WaitingError::Late),
                    Err(error) => return Err(WaitingError::Limiter(error)),
                }
            }
            let response = inner.call(request).await.map_err(WaitingError::Client)?;
            let wait = wait_of.and_then(|wait_of| wait_of(&response));
            if let (Some(ask), Some(wait)) = (ask, wait) {
                // The ask was valid before.
                let _ = line.back_off(ask, wait);
            }
            Ok(response)
        }))
    }
}
