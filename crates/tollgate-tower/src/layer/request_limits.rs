//! Limits that a function returns for each request: by tenant, by plan, from a database.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::error::Error as StdError;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Ask, Cost, Error, LimitSet, Limiter, ParseError, Store, Subject};
use tollgate_policy::{Loss, OnFailure};
use tower_layer::Layer;
use tower_service::Service;

use super::RETRY_WHEN_UNAVAILABLE;
use super::refused::RequestHead;
use crate::answer::{Answers, HeaderTemplate, Marks, Profile, Wire};

/// The subject, the limits and the cost of one request.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    subject: Subject,
    limits: LimitSet,
    cost: Cost,
}

impl RequestLimits {
    /// One unit for this subject, under these limits.
    #[must_use]
    pub fn new(subject: Subject, limits: LimitSet) -> Self {
        Self { subject, limits, cost: Cost::from(1) }
    }

    /// Sets the cost; a plain number is requests.
    #[must_use]
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Self { cost: cost.into(), ..self }
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;
type Found = Pin<Box<dyn Future<Output = Result<Option<RequestLimits>, BoxError>> + Send>>;

struct Shared<S> {
    name: String,
    limiter: Limiter<S>,
    of: Box<dyn Fn(RequestHead<'_>) -> Found + Send + Sync>,
    on_failure: OnFailure,
    answers: Answers,
    store: Loss,
    function: Loss,
}

/// A tower layer with limits that a function returns for each request. If the limits are few and
/// known in advance, a policy with overrides is shorter (`docs/policies.md`).
///
/// The function is called with the head of the request; its future keeps what it needs of it.
/// `None` means no limit. The failure rule decides when the function or the store fails. One log
/// line reports the start of a failure, and one its end. Invalid limits or costs count as an error
/// of the function. A request waits for the future without a bound: give its calls their own
/// deadline, for example with `tokio::time::timeout`.
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Full;
/// use tollgate::{MemoryStore, Subject};
/// use tollgate_policy::{Loss, OnFailure};
/// use tollgate_tower::{RequestLimits, RequestLimitsLayer};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # futures_executor::block_on(async {
/// /// What each tenant has paid for, as a database would say.
/// async fn plan_of(tenant: &str) -> Result<&'static str, std::io::Error> {
///     Ok(if tenant == "acme" { "2/h" } else { "1/h" })
/// }
///
/// let layer = RequestLimitsLayer::new("plan", MemoryStore::new(), OnFailure::Deny, |head| {
///     let tenant = head.headers.get("tenant").and_then(|it| it.to_str().ok()).map(str::to_owned);
///     async move {
///         let Some(tenant) = tenant else { return Ok(None) };
///         let limits = plan_of(&tenant).await?.parse()?;
///         let subject = Subject::new("tenant", &tenant)?;
///         Ok(Some(RequestLimits::new(subject, limits)))
///     }
/// })?;
/// let mut service = layer.layer(service_fn(async |_: Request<()>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from("hello")))
/// }));
/// for (tenant, status) in [("acme", 200), ("acme", 200), ("acme", 429), ("bolt", 200)] {
///     let request = Request::builder().header("tenant", tenant).body(())?;
///     let response = service.ready().await?.call(request).await?;
///     assert_eq!(response.status().as_u16(), status);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RequestLimitsLayer<S>(Arc<Shared<S>>);

impl<S: Store> RequestLimitsLayer<S> {
    /// Counts requests in `store` by the result of `of`; `on_failure` decides if that fails. The
    /// headers contain the limits under `name`.
    ///
    /// # Errors
    /// A name that is not possible in a header: empty, or too long. A local share as the failure
    /// rule: only a gate has one.
    pub fn new<F, R>(name: &str, store: S, on_failure: OnFailure, of: F) -> Result<Self, ParseError>
    where
        F: Fn(RequestHead<'_>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<RequestLimits>, BoxError>> + Send + 'static,
    {
        // Never used: each question has its own limits.
        let unused: LimitSet = "1/s".parse()?;
        HeaderTemplate::new(name, &unused)?;
        if on_failure.share().is_some() {
            return Err(ParseError::whole(
                &on_failure.to_string(),
                "limits by request have no local share",
                "say `OnFailure::Deny` or `OnFailure::Allow`, or make a gate with policies",
            ));
        }
        Ok(Self(Arc::new(Shared {
            name: name.to_owned(),
            limiter: Limiter::new(unused, store),
            of: Box::new(move |head| Box::pin(of(head))),
            on_failure,
            answers: Answers::new(Profile::default()),
            store: Loss::new("the store"),
            function: Loss::new("the function that gives limits"),
        })))
    }
}

impl<S> Clone for RequestLimitsLayer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for RequestLimitsLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLimitsLayer").finish_non_exhaustive()
    }
}

impl<S, I> Layer<I> for RequestLimitsLayer<S> {
    type Service = Limited<I, S>;

    fn layer(&self, inner: I) -> Self::Service {
        Limited { inner, shared: Arc::clone(&self.0) }
    }
}

/// A service wrapped by a [`RequestLimitsLayer`].
pub struct Limited<I, S> {
    inner: I,
    shared: Arc<Shared<S>>,
}

impl<I: Clone, S> Clone for Limited<I, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<I, S> fmt::Debug for Limited<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limited")
    }
}

/// The response future of a [`Limited`] service.
pub type LimitedFuture<RB, E> =
    Pin<Box<dyn Future<Output = Result<Response<RB>, E>> + Send + 'static>>;

impl<I, S, B, RB> Service<Request<B>> for Limited<I, S>
where
    I: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Send + 'static,
    S: Store + 'static,
    B: Send + 'static,
    RB: From<Bytes> + Send + 'static,
{
    type Response = Response<RB>;
    type Error = I::Error;
    type Future = LimitedFuture<RB, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let found = (self.shared.of)(RequestHead::new(&request));
        let wire = Wire::from_headers(request.headers());
        // The call uses the service that was polled ready; the clone replaces it.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut marks = Marks::default();
            if let Some(refusal) = shared.refusal(found, wire, &mut marks).await {
                return Ok(refusal.map(RB::from));
            }
            let mut result = inner.call(request).await;
            if let Ok(response) = &mut result {
                marks.write(response.headers_mut());
            }
            result
        })
    }
}

impl<S: Store> Shared<S> {
    /// The refusal; or `None`, with the headers for the response in `marks`.
    async fn refusal(
        &self,
        found: Found,
        wire: Wire,
        marks: &mut Marks,
    ) -> Option<Response<Bytes>> {
        let limits = match found.await {
            Ok(None) => {
                self.function.answered();
                return None;
            }
            Ok(Some(limits)) => limits,
            Err(error) => return self.failed(&self.function, wire, &error),
        };
        let template = match HeaderTemplate::new(&self.name, &limits.limits) {
            Ok(template) => template,
            Err(error) => return self.failed(&self.function, wire, &error),
        };
        let ask = Ask::new(&limits.subject).under(&limits.limits).cost(limits.cost.clone());
        let decision = match self.limiter.check(ask).await {
            Ok(decision) => decision,
            Err(Error::Store(error)) if !error.is_alone() => {
                return self.failed(&self.store, wire, &error);
            }
            Err(error) => return self.failed(&self.function, wire, &error),
        };
        self.function.answered();
        self.store.answered();
        let refusal = self.answers.refused(wire, &[&template], &decision);
        if refusal.is_none() {
            self.answers.fill(marks, &[&template], &decision);
        }
        refusal
    }

    /// The result of the failure rule if nothing could be counted.
    fn failed(&self, loss: &Loss, wire: Wire, why: &dyn fmt::Display) -> Option<Response<Bytes>> {
        let allowed = self.on_failure == OnFailure::Allow;
        loss.failed(allowed, why);
        (!allowed).then(|| self.answers.unavailable(wire, &[&self.name], RETRY_WHEN_UNAVAILABLE))
    }
}
