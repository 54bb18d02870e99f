//! The builder of a layer, with its settings.

use core::fmt;
use core::future::Future;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::error::Error as StdError;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate::{Cost, LimitSet, MAX_REMEMBERED, MemoryStore, ParseError, Store};
use tollgate_policy::{Combine, Entry, Gate, OnFailure, Outcome, Policies, Policy};

use super::charge::{Charging, ResponseHead};
use super::front::Front;
use super::limits::LimitsFunction;
use super::misconfigurations::{Misconfiguration, Misconfigurations, OnMisconfiguration};
use super::refused::{OnRefused, Refused, RequestHead};
use super::respond::RETRY_WHEN_UNAVAILABLE;
use super::share::Times;
use super::shared::Shared;
use super::templates::Templates;
use super::tollgate_layer::TollgateLayer;
use crate::answer::{Answers, Profile};
use crate::identity::{ClientAddress, Identity, PathReading, header_name};

impl TollgateLayer<MemoryStore> {
    /// Limits for each client, by its peer address, counted in memory.
    ///
    /// # Errors
    /// An invalid limit: `docs/notation.md` describes the notation.
    pub fn per_client(limits: &str) -> Result<Self, ParseError> {
        Self::per_client_named("client", limits)
    }

    /// As [`TollgateLayer::per_client`], with a name: answers then contain which layer refused a
    /// request.
    ///
    /// ```
    /// use tollgate_tower::TollgateLayer;
    /// let everywhere = TollgateLayer::per_client("1000/h")?;
    /// let on_login = TollgateLayer::per_client_named("login", "5/m")?;
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As [`TollgateLayer::per_client`]; also a name that is empty, too long or has control
    /// characters.
    pub fn per_client_named(name: &str, limits: &str) -> Result<Self, ParseError> {
        // Memory does not fail; if it did, no request should pass uncounted.
        let (store, on_failure) = (MemoryStore::new(), OnFailure::Deny);
        Self::per_client_builder(name, limits, store, on_failure)?.build()
    }
}

impl<S: Store + 'static> TollgateLayer<S> {
    /// A layer over `gate`, with the default settings of [`TollgateLayer::builder`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(gate: Gate<S>) -> Result<Self, ParseError> {
        Self::builder(gate).build()
    }

    /// As [`TollgateLayer::per_client_named`], counted in any store, and with settings: for clients
    /// behind a proxy, or custom answers. `on_failure` decides while the store cannot answer.
    /// Layers of different names on one store count separately.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::OnFailure;
    /// use tollgate_tower::TollgateLayer;
    /// let store = MemoryStore::new();
    /// let layer = |name, limits| {
    ///     TollgateLayer::per_client_builder(name, limits, store.clone(), OnFailure::Allow)
    /// };
    /// let everywhere = layer("everywhere", "1000/h")?.build()?;
    /// let on_export = layer("export", "5/h")?.expose(true).build()?;
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As [`TollgateLayer::per_client_named`].
    pub fn per_client_builder(
        name: &str,
        limits: &str,
        store: S,
        on_failure: OnFailure,
    ) -> Result<Builder<S>, ParseError> {
        Self::for_policy(Policy::new(name, on_failure).entry(Entry::new(["ip"], limits)?), store)
    }

    /// A builder of a layer with one policy, counted in `store`. It counts within the name of the
    /// policy.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Entry, OnFailure, Policy};
    /// use tollgate_tower::{TollgateLayer, identity::Identity};
    /// let per_tenant = Entry::new(["field.tenant"], "100/m")?.absent("skip")?;
    /// let policy = Policy::new("tenants", OnFailure::Allow).entry(per_tenant);
    /// let layer = TollgateLayer::for_policy(policy, MemoryStore::new())?
    ///     .field("tenant", Identity::header("x-tenant")?)
    ///     .build()?;
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid policy: its name, or that it has no limits.
    pub fn for_policy(policy: Policy, store: S) -> Result<Builder<S>, ParseError> {
        let name = policy.name.clone();
        let policies = Policies::new(Combine::First, vec![policy]).map_err(|problems| {
            ParseError::whole(&name, problems.to_string(), "`docs/policies.md` has the rules")
        })?;
        Ok(Self::builder(Gate::new(policies, store)?))
    }

    /// A builder of a layer over `gate`. By default, clients are identified by their peer address,
    /// and responses have the headers of the IETF draft.
    pub fn builder(gate: Gate<S>) -> Builder<S> {
        Builder {
            gate,
            front: Front::new(),
            profile: Profile::default(),
            expose: false,
            any_wait: false,
            partition_keys: false,
            show_revision: false,
            retry_when_unavailable: RETRY_WHEN_UNAVAILABLE,
            for_proxies: false,
            charging: Charging::default(),
            limits: Vec::new(),
            on_refused: None,
            told: None,
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
    any_wait: bool,
    partition_keys: bool,
    show_revision: bool,
    retry_when_unavailable: Duration,
    for_proxies: bool,
    charging: Charging,
    limits: Vec<LimitsFunction>,
    on_refused: Option<OnRefused>,
    told: Option<OnMisconfiguration>,
}

impl<S: Store + 'static> Builder<S> {
    /// Sets how the client's address, the field `ip`, is determined. The default is the peer's.
    pub fn client(mut self, client: ClientAddress) -> Self {
        self.front.client_identity = Identity::client(client.clone());
        self.front.client = client;
        self
    }

    /// Sets the authenticated user, the field `user`.
    pub fn user(mut self, user: Identity) -> Self {
        self.front.user = Some(user);
        self
    }

    /// Sets the API key of the caller, the field `api_key`. Keys in the conditions of policies and
    /// rulings are hashed in the same way. Layers over one gate need the same hashing.
    pub fn api_key(mut self, key: Identity) -> Self {
        self.front.api_key = Some(key);
        self
    }

    /// Reads the id of a request from this header of a trusted proxy ([`Builder::client`] says
    /// which are), and remembers it so long. A request that the proxy asks about again under its
    /// id gets the first answer and is charged once ([`tollgate::Ask::request`]). By default none
    /// is read.
    ///
    /// The proxy has to make the id itself, and to write over what clients send: whoever can choose
    /// it is charged once in all. A request without a usable id is charged as without this.
    ///
    /// # Errors
    /// An invalid name of a header, or `idempotency-key`, which clients choose; a time below 1 ms
    /// or over [`MAX_REMEMBERED`].
    pub fn request_id(mut self, header: &str, remembered: Duration) -> Result<Self, ParseError> {
        if header.eq_ignore_ascii_case("idempotency-key") {
            return Err(ParseError::whole(
                header,
                "clients choose this header, and could be charged once in all",
                "name one that your proxy sets, such as X-Request-Id",
            ));
        }
        if remembered < Duration::from_millis(1) || remembered > MAX_REMEMBERED {
            return Err(ParseError::whole(
                &format!("{remembered:?}"),
                "request ids are not remembered for so long",
                "give 1ms to 24h, such as 30s",
            ));
        }
        self.front.request_id = Some((header_name(header)?, remembered));
        Ok(self)
    }

    /// Sets the field `field.NAME`; the last call with a name counts.
    pub fn field(mut self, name: &str, identity: Identity) -> Self {
        self.front.custom.retain(|(known, _)| **known != *name);
        self.front.custom.push((name.into(), identity));
        self
    }

    /// Sets how to read the peer's address from the extensions, if neither axum nor a `SocketAddr`
    /// in them provides it.
    pub fn peer(
        mut self,
        peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.front.peer = Some(Arc::new(peer));
        self
    }

    /// Sets how to read the template of the matched route from the extensions. It is the field
    /// `route`, and the value of [`Identity::route`]. With the feature `axum`, it replaces axum's
    /// own.
    pub fn route(
        mut self,
        route: impl Fn(&Extensions) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.front.route = Some(Arc::new(route));
        self
    }

    /// Sets how the field `path` is interpreted, where servers differ. By default, paths that the
    /// server behind may interpret differently are refused. [`Identity::path`] has separate
    /// settings.
    pub fn paths(mut self, paths: impl Into<PathReading>) -> Self {
        self.front.paths = paths.into();
        self
    }

    /// Sets the headers that inform clients about their limits.
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Sets whether pages of other origins may read those headers. The default is no.
    pub fn expose(self, expose: bool) -> Self {
        Self { expose, ..self }
    }

    /// Sets whether a denial has `Retry-After` even where open holds are in the way. The default is
    /// no: whoever settles a hold ends that wait, so it is only the longest one.
    pub fn retry_after_any(self, any: bool) -> Self {
        Self { any_wait: any, ..self }
    }

    /// Sets whether `RateLimit-Policy` has partition keys ([`Answers::partition_keys`]). The
    /// default is no.
    pub fn partition_keys(self, shown: bool) -> Self {
        Self { partition_keys: shown, ..self }
    }

    /// Sets whether every response has the header `Tollgate-Revision`. The default is no.
    pub fn show_revision(self, show: bool) -> Self {
        Self { show_revision: show, ..self }
    }

    /// Sets `Retry-After` for a failed store under the failure rule `deny`.
    pub fn retry_when_unavailable(self, after: Duration) -> Self {
        Self { retry_when_unavailable: after, ..self }
    }

    /// Answers a proxy that asks whether its client's request may go on. A refusal is then an HTTP
    /// response even if that request is gRPC. The proxy would take the status 200 of a gRPC refusal
    /// as an approval. Policies may also read fields that this layer does not provide, since others
    /// use the same gate. Such a field is absent, and the misconfiguration is reported.
    pub fn for_proxies(self) -> Self {
        Self { for_proxies: true, ..self }
    }

    /// Sets the limits of a policy by a function of each request: by tenant, by plan, from a
    /// database. `None` is the policy's own limits. They count within the policy, for each of its
    /// subjects. An override of the policy that holds goes before, and so do limits that an
    /// administrator has set: the function is not called then. The last call with a policy counts.
    ///
    /// The function gets the head of the request; its future keeps what it needs of it. If it
    /// fails, the failure rule of the policy decides, and one log line reports the start of the
    /// failure, and one its end. With a local share the policy's own limits apply then. A request
    /// waits for the future without a bound: give its calls their own deadline, for example with
    /// `tokio::time::timeout`.
    ///
    /// ```
    /// use http::{Request, Response, StatusCode};
    /// use http_body_util::Full;
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Entry, OnFailure, Policy};
    /// use tollgate_tower::{TollgateLayer, identity::Identity};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// # futures_executor::block_on(async {
    /// /// What each tenant has paid for, as a database would say.
    /// async fn plan_of(tenant: &str) -> Result<Option<&'static str>, std::io::Error> {
    ///     Ok((tenant == "acme").then_some("2/h"))
    /// }
    ///
    /// let per_tenant = Entry::new(["field.tenant"], "1/h")?.absent("skip")?;
    /// let policy = Policy::new("plan", OnFailure::Deny).entry(per_tenant);
    /// let layer = TollgateLayer::for_policy(policy, MemoryStore::new())?
    ///     .field("tenant", Identity::header("tenant")?)
    ///     .limits("plan", |head| {
    ///         let tenant = head.headers.get("tenant").cloned();
    ///         async move {
    ///             let Some(tenant) = tenant else { return Ok(None) };
    ///             let limits = plan_of(tenant.to_str()?).await?;
    ///             Ok(limits.map(str::parse).transpose()?)
    ///         }
    ///     })
    ///     .build()?;
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
    pub fn limits<F, R>(mut self, policy: &str, of: F) -> Self
    where
        F: Fn(RequestHead<'_>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LimitSet>, Box<dyn StdError + Send + Sync>>>
            + Send
            + 'static,
    {
        self.limits.retain(|function| *function.policy != *policy);
        self.limits.push(LimitsFunction::new(policy, of));
        self
    }

    /// Refunds the charge if this function is true for the response, or if the service returned an
    /// error.
    pub fn refund_when(
        mut self,
        refund: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.charging.refund_when = Some(Arc::new(refund));
        self
    }

    /// Charges as many extra units as this function returns for a response, as far as they remain.
    pub fn extra_cost<C: Into<Cost>>(
        mut self,
        cost: impl Fn(&ResponseHead<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        self.charging.extra_cost = Some(Arc::new(move |head| cost(head).into()));
        self
    }

    /// Replaces the response to a refused request, given the default one: another status, or a
    /// custom body. The outcome comes first, since each has its own status: `Denied` 429, `Never`
    /// 422, `Banned` 403, `Missing` 400, 401 or 503, and `FailedClosed` 503. Return the default for
    /// those that you do not mean. It is not called for a handler's own 429, nor for a refusal of a
    /// gRPC request. It must not block.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{HeaderValue, header::CONTENT_TYPE};
    /// # use tollgate::MemoryStore;
    /// # use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};
    /// use tollgate_policy::Outcome;
    /// use tollgate_tower::TollgateLayer;
    /// # let policy = Policy::new("a", OnFailure::Deny).entry(Entry::new(["ip"], "1/s")?);
    /// # let policies = Policies::new(Combine::First, vec![policy])?;
    /// # let gate = Gate::new(policies, MemoryStore::new())?;
    /// let limits = TollgateLayer::builder(gate).on_refused(|outcome, refused, mut response| {
    ///     if outcome != Outcome::Denied {
    ///         return response;
    ///     }
    ///     response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    ///     let policy = refused.policy.unwrap_or("the service");
    ///     response.map(|_| Bytes::from(format!("slow down, says {policy}\n")))
    /// });
    /// # let _ = limits.build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_refused(
        mut self,
        answer: impl Fn(Outcome, &Refused<'_>, Response<Bytes>) -> Response<Bytes>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_refused = Some(Box::new(answer));
        self
    }

    /// Sets the function that is called for each misconfiguration, instead of a `tracing` warning.
    pub fn on_misconfiguration(
        mut self,
        told: impl Fn(&Misconfiguration) + Send + Sync + 'static,
    ) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    /// Policies read a field that this layer does not provide; limits by request are for a policy
    /// that does not exist.
    pub fn build(self) -> Result<TollgateLayer<S>, ParseError> {
        if let Some(hashing) = self.front.api_key.as_ref().and_then(Identity::hashing).cloned() {
            self.gate.hash_api_keys(move |key| hashing.hash(key.as_bytes()).into());
        }
        // Policies that replace these meanwhile count as new ones.
        let current = self.gate.current();
        self.limits.iter().try_for_each(|it| check_policy(current.policies(), &it.policy))?;
        let shared = Shared {
            answers: Answers::new(self.profile)
                .expose(self.expose)
                .retry_after_any(self.any_wait)
                .partition_keys(self.partition_keys),
            gate: self.gate,
            front: self.front,
            show_revision: self.show_revision,
            retry_when_unavailable: self.retry_when_unavailable,
            for_proxies: self.for_proxies,
            is_plain: self.charging.is_none() && self.limits.is_empty(),
            charging: self.charging,
            limits: self.limits,
            on_refused: self.on_refused,
            misconfigurations: Misconfigurations::new(self.told),
            times: Times::default(),
            newest: AtomicU64::new(current.revision().number),
        };
        current.extension(Templates::new);
        let not_supplied = shared.not_supplied(current.policies());
        if shared.for_proxies && !not_supplied.is_empty() {
            shared.misconfigurations.report_anew(&Misconfiguration::FieldNotSupplied(not_supplied));
        } else if let Some(field) = not_supplied.first() {
            return Err(ParseError::whole(
                &field.to_string(),
                format!("policies look at `{field}`, and this layer does not tell it"),
                "set it with the builder: `user`, `api_key`, `field` or `route`; with axum, \
                 the feature `axum` gives the route",
            ));
        }
        Ok(TollgateLayer(Arc::new(shared)))
    }
}

/// Refuses the name of a policy that does not exist.
fn check_policy(policies: &Policies, name: &str) -> Result<(), ParseError> {
    if policies.policies().iter().any(|policy| policy.name == name) {
        return Ok(());
    }
    let near = policies.similar(name).or_else(|| Some(policies.policies().first()?.name.as_str()));
    let remedy = near.map_or_else(String::new, |near| format!("did you mean `{near}`?"));
    Err(ParseError::whole(name, "no policy has this name, to set its limits by request", remedy))
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("profile", &self.profile).finish_non_exhaustive()
    }
}
