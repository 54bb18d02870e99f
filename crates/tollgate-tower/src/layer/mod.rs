//! The layer, its settings, and what all of its services share.

mod body;
mod charge;
mod extensions;
mod front;
mod future;
mod mark;
mod misconfigurations;
mod refused;
mod request_limits;
mod service;
mod share;
mod templates;

use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate::{MemoryStore, ParseError, Store};
use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};
use tower_layer::Layer;

use crate::answer::{Answers, Profile};
use crate::identity::{ClientAddress, Identity, PathReading};

pub use body::{AnyBody, AnyBodyFuture, AnyBodyLayer, ResponseBody};
pub use charge::{Charges, ResponseHead};
pub use future::ResponseFuture;
pub use misconfigurations::Misconfiguration;
pub use refused::{Refused, RequestHead};
pub use request_limits::{Limited, LimitedFuture, RequestLimits, RequestLimitsLayer};
pub use service::Tollgate;
pub use share::Share;

use charge::Charging;
use front::Front;
use misconfigurations::{Misconfigurations, OnMisconfiguration};
use refused::OnRefused;
use share::Times;
use templates::Templates;

/// When to ask again after a store has failed, unless said otherwise: 1 s.
pub const RETRY_WHEN_UNAVAILABLE: Duration = Duration::from_secs(1);

/// Limits before a service: a tower layer. Cheap to clone; clones, and all services that it makes,
/// are one limiter. What it does is in `docs/middleware.md`.
///
/// The bodies of its responses must be such as can be made of bytes, so that it can refuse:
/// `axum::body::Body` and `http_body_util::Full` are; before others, put an [`AnyBodyLayer`] in
/// between.
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
pub struct TollgateLayer<S>(Arc<Shared<S>>);

/// What all services of a layer share.
pub(crate) struct Shared<S> {
    gate: Gate<S>,
    front: Front,
    answers: Answers,
    show_revision: bool,
    retry_when_unavailable: Duration,
    /// Answers for another's request, to a proxy: in the terms of HTTP, whatever that request is.
    for_proxies: bool,
    charging: Charging,
    on_refused: Option<OnRefused>,
    misconfigurations: Misconfigurations,
    times: Times,
    /// The newest revision that was seen.
    newest: AtomicU64,
}

impl TollgateLayer<MemoryStore> {
    /// Limits for each client, by its peer address, counted in memory.
    ///
    /// # Errors
    /// What is no limit: the notation is in `docs/notation.md`.
    pub fn per_client(limits: &str) -> Result<Self, ParseError> {
        Self::per_client_named("client", limits)
    }

    /// The same under a name: answers tell clients which of several layers refused them.
    ///
    /// ```
    /// use tollgate_tower::TollgateLayer;
    /// let everywhere = TollgateLayer::per_client("1000/h")?;
    /// let on_login = TollgateLayer::per_client_named("login", "5/m")?;
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As [`TollgateLayer::per_client`]; a name that is empty, too long or has control characters.
    pub fn per_client_named(name: &str, limits: &str) -> Result<Self, ParseError> {
        Self::per_client_builder(name, limits)?.build()
    }

    /// The same, to be set up: where clients are behind a proxy, or answers are your own.
    ///
    /// # Errors
    /// As [`TollgateLayer::per_client_named`].
    pub fn per_client_builder(
        name: &str,
        limits: &str,
    ) -> Result<Builder<MemoryStore>, ParseError> {
        // Memory does not fail; were it to, nobody should get through uncounted.
        let policy = Policy::new(name, OnFailure::Deny).entry(Entry::new(["ip"], limits)?);
        let policies = Policies::new(Combine::First, vec![policy]).map_err(|problems| {
            ParseError::whole(limits, problems.to_string(), "give limits, as `10/s, 240/h`")
        })?;
        Ok(Self::builder(Gate::new(policies, MemoryStore::new())?))
    }
}

impl<S: Store + 'static> TollgateLayer<S> {
    /// A layer that asks `gate`, with the settings of [`TollgateLayer::builder`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(gate: Gate<S>) -> Result<Self, ParseError> {
        Self::builder(gate).build()
    }

    /// A layer that asks `gate`, to be set up: clients by their peer address, the headers of the
    /// IETF's draft, nothing else.
    pub fn builder(gate: Gate<S>) -> Builder<S> {
        Builder {
            gate,
            front: Front::new(),
            profile: Profile::default(),
            expose: false,
            show_revision: false,
            retry_when_unavailable: RETRY_WHEN_UNAVAILABLE,
            for_proxies: false,
            charging: Charging::default(),
            on_refused: None,
            told: None,
        }
    }

    /// Takes the mark off what a request carries that it was decided: for handlers that send
    /// requests of their own to a service behind these limits, with the extensions of the one they
    /// handle. Otherwise those would pass as the same request, uncounted.
    pub fn forget(&self, extensions: &mut Extensions) {
        mark::remove(extensions);
    }

    /// The gate: its counters, its policies, its store.
    #[must_use]
    pub fn gate(&self) -> &Gate<S> {
        &self.0.gate
    }

    /// How much of the requests' time was spent on limiting.
    #[must_use]
    pub fn share(&self) -> Share {
        self.0.times.share()
    }

    /// What was given back and charged more after responses.
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

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        if misconfigurations::one_is_gone(self.times.requests()) {
            self.misconfigurations.report(Misconfiguration::MadeForEachRequest);
        }
    }
}

/// The settings of a [`TollgateLayer`].
#[must_use = "`build` makes the layer"]
pub struct Builder<S> {
    gate: Gate<S>,
    front: Front,
    profile: Profile,
    expose: bool,
    show_revision: bool,
    retry_when_unavailable: Duration,
    for_proxies: bool,
    charging: Charging,
    on_refused: Option<OnRefused>,
    told: Option<OnMisconfiguration>,
}

impl<S: Store + 'static> Builder<S> {
    /// How the client's address is found, the field `ip`: the peer's unless said otherwise.
    pub fn client(mut self, client: ClientAddress) -> Self {
        self.front.client_identity = Identity::client(client.clone());
        self.front.client = client;
        self
    }

    /// Who is logged in, the field `user`.
    pub fn user(mut self, user: Identity) -> Self {
        self.front.user = Some(user);
        self
    }

    /// The key of the caller, the field `api_key`.
    pub fn api_key(mut self, key: Identity) -> Self {
        self.front.api_key = Some(key);
        self
    }

    /// The field `field.NAME`; the last of a name counts.
    pub fn field(mut self, name: &str, identity: Identity) -> Self {
        self.front.custom.retain(|(known, _)| **known != *name);
        self.front.custom.push((name.into(), identity));
        self
    }

    /// Where the server has left the peer's address, when neither axum did nor a `SocketAddr` is
    /// among the extensions.
    pub fn peer(
        mut self,
        peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.front.peer = Some(Arc::new(peer));
        self
    }

    /// Where a router has left the template of the route that matched: the field `route`, and what
    /// [`Identity::route`] sees. With the feature `axum` it replaces what axum tells.
    pub fn route(
        mut self,
        route: impl Fn(&Extensions) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.front.route = Some(Arc::new(route));
        self
    }

    /// How the field `path` is read, where servers differ: what the server behind may read in
    /// another way is refused unless said otherwise. [`Identity::path`] has a reading of its own.
    pub fn paths(mut self, paths: impl Into<PathReading>) -> Self {
        self.front.paths = paths.into();
        self
    }

    /// Which headers tell clients about their limits.
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Whether pages of other origins may see those headers: no unless said otherwise.
    pub fn expose(self, expose: bool) -> Self {
        Self { expose, ..self }
    }

    /// Whether every answer has the header `Tollgate-Revision`: no unless said otherwise.
    pub fn show_revision(self, show: bool) -> Self {
        Self { show_revision: show, ..self }
    }

    /// What `Retry-After` says when the store failed and the rule is `deny`.
    pub fn retry_when_unavailable(self, after: Duration) -> Self {
        Self { retry_when_unavailable: after, ..self }
    }

    /// Answers a proxy that asks whether a request of its client may go on. Then a refusal is one
    /// of HTTP also where that request is one of gRPC, whose refusals have the status 200: a proxy
    /// would take that for a yes. And policies may look at fields that this front does not tell,
    /// since others ask the same gate: such a field is absent, and the mistake is reported.
    pub fn for_proxies(self) -> Self {
        Self { for_proxies: true, ..self }
    }

    /// Gives the charge back when this says so of a response, and when the service ended with an
    /// error.
    pub fn refund_when(
        mut self,
        refund: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.charging.refund_when = Some(Arc::new(refund));
        self
    }

    /// Charges as many more units as this says of a response, as far as they remain.
    pub fn extra_cost(
        mut self,
        cost: impl Fn(&ResponseHead<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.charging.extra_cost = Some(Arc::new(cost));
        self
    }

    /// Makes the answer to a refused request, from the one that would be given: another status, a
    /// body of one's own. A handler's own 429 never comes here, nor does a refusal to a request of
    /// gRPC. It must not block.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{HeaderValue, header::CONTENT_TYPE};
    /// # use tollgate::MemoryStore;
    /// # use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};
    /// use tollgate_tower::TollgateLayer;
    /// # let policy = Policy::new("a", OnFailure::Deny).entry(Entry::new(["ip"], "1/s")?);
    /// # let policies = Policies::new(Combine::First, vec![policy])?;
    /// # let gate = Gate::new(policies, MemoryStore::new())?;
    /// let limits = TollgateLayer::builder(gate).on_refused(|refused, mut response| {
    ///     response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    ///     let policy = refused.policy.unwrap_or("the service");
    ///     response.map(|_| Bytes::from(format!("slow down, says {policy}\n")))
    /// });
    /// # let _ = limits.build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_refused(
        mut self,
        answer: impl Fn(&Refused<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = Some(Box::new(answer));
        self
    }

    /// OnMisconfiguration of each mistake in the set-up, in place of a warning of `tracing`.
    pub fn on_misconfiguration(
        mut self,
        told: impl Fn(&Misconfiguration) + Send + Sync + 'static,
    ) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// Policies that look at a field which this layer does not tell.
    pub fn build(self) -> Result<TollgateLayer<S>, ParseError> {
        // In this order, so that policies that are replaced meanwhile are taken as new ones.
        let revision = self.gate.revision();
        let policies = self.gate.policies();
        let shared = Shared {
            answers: Answers::new(self.profile).expose(self.expose),
            gate: self.gate,
            front: self.front,
            show_revision: self.show_revision,
            retry_when_unavailable: self.retry_when_unavailable,
            for_proxies: self.for_proxies,
            charging: self.charging,
            on_refused: self.on_refused,
            misconfigurations: Misconfigurations::new(self.told),
            times: Times::default(),
            newest: AtomicU64::new(revision.number),
        };
        shared.gate.make_extension(Templates::new);
        let not_supplied = shared.not_supplied(&policies);
        if shared.for_proxies && !not_supplied.is_empty() {
            shared.misconfigurations.report_anew(&Misconfiguration::FieldNotSupplied(not_supplied));
        } else if let Some(field) = not_supplied.first() {
            return Err(ParseError::whole(
                &field.to_string(),
                format!("policies look at `{field}`, and this layer does not tell it"),
                "say what it is with the builder: `user`, `api_key`, `field` or `route`; with axum, \
                 the feature `axum` tells the route",
            ));
        }
        Ok(TollgateLayer(Arc::new(shared)))
    }
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("profile", &self.profile).finish_non_exhaustive()
    }
}
