//! The builder of a layer, with its settings.

use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate::{Cost, MAX_REMEMBERED, MemoryStore, ParseError, Store};
use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};

use super::charge::{Charging, ResponseHead};
use super::front::Front;
use super::misconfigurations::{Misconfiguration, Misconfigurations, OnMisconfiguration};
use super::refused::{OnRefused, Refused};
use super::share::Times;
use super::shared::Shared;
use super::templates::Templates;
use super::tollgate_layer::TollgateLayer;
use crate::answer::{Answers, Profile};
use crate::identity::{ClientAddress, Identity, PathReading, header_name};

/// The default `Retry-After` when the store has failed: 1 s.
pub const RETRY_WHEN_UNAVAILABLE: Duration = Duration::from_secs(1);

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
        Self::per_client_builder(name, limits)?.build()
    }

    /// As [`TollgateLayer::per_client_named`], with settings: for clients behind a proxy, or custom
    /// answers.
    ///
    /// # Errors
    /// As [`TollgateLayer::per_client_named`].
    pub fn per_client_builder(
        name: &str,
        limits: &str,
    ) -> Result<Builder<MemoryStore>, ParseError> {
        // Memory does not fail; if it did, no request should pass uncounted.
        let policy = Policy::new(name, OnFailure::Deny).entry(Entry::new(["ip"], limits)?);
        let policies = Policies::new(Combine::First, vec![policy]).map_err(|problems| {
            ParseError::whole(limits, problems.to_string(), "give limits, e.g. `10/s, 240/h`")
        })?;
        Ok(Self::builder(Gate::new(policies, MemoryStore::new())?))
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
    /// custom body. It is not called for a handler's own 429, nor for a refusal of a gRPC request.
    /// It must not block.
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
    /// Policies read a field that this layer does not provide.
    pub fn build(self) -> Result<TollgateLayer<S>, ParseError> {
        if let Some(hashing) = self.front.api_key.as_ref().and_then(Identity::hashing).cloned() {
            self.gate.hash_api_keys(move |key| hashing.hash(key.as_bytes()).into());
        }
        // Policies that replace these meanwhile count as new ones.
        let current = self.gate.current();
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
            charging: self.charging,
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

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("profile", &self.profile).finish_non_exhaustive()
    }
}
