//! Provides the fields of a request that policies read.

use core::cell::{OnceCell, RefCell};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, HeaderName};
use http::{Extensions, Request};
use tollgate::{MAX_REQUEST_BYTES, RequestId, Subject, SubjectPrefix};
use tollgate_policy::{Field, Fields, Prepared};

use super::extensions::{self, UnixPeer};
use super::misconfigurations::{Misconfiguration, Misconfigurations};
use crate::identity::{
    ClientAddress, Head, Identity, LOCAL, MAX_VALUE_BYTES, Missing, PathReading, Required, Value,
    Why, header_text, host_name,
};

type PeerFunction = Arc<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;
type RouteFunction = Arc<dyn Fn(&Extensions) -> Option<String> + Send + Sync>;

/// The mapping from fields to identities.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) client: ClientAddress,
    /// The same as an identity, for messages about it.
    pub(super) client_identity: Identity,
    pub(super) user: Option<Identity>,
    pub(super) api_key: Option<Identity>,
    pub(super) custom: Vec<(Box<str>, Identity)>,
    pub(super) peer: Option<PeerFunction>,
    pub(super) route: Option<RouteFunction>,
    pub(super) paths: PathReading,
    /// The header with the id of a request, and how long that is remembered.
    pub(super) request_id: Option<(HeaderName, Duration)>,
}

impl Front {
    pub(super) fn new() -> Self {
        Self {
            client: ClientAddress::peer(),
            client_identity: Identity::client(ClientAddress::peer()),
            user: None,
            api_key: None,
            custom: Vec::new(),
            peer: None,
            route: None,
            paths: PathReading::default(),
            request_id: None,
        }
    }

    /// The id that a trusted proxy gave to a request.
    #[inline]
    pub(super) fn request_id<'r, B>(
        &self,
        request: &'r Request<B>,
        misconfigurations: &Misconfigurations,
    ) -> Option<RequestId<'r>> {
        let (name, time) = self.request_id.as_ref()?;
        // Anybody else could choose an id that was used, and be charged once in all.
        let peer = self.peer(request.extensions());
        let peer = peer.or_else(|| UnixPeer::is_in(request.extensions()).then_some(LOCAL));
        if !peer.is_some_and(|peer| self.client.trusts(peer)) {
            return None;
        }
        let text = header_text(request.headers(), name).ok();
        match text.filter(|text| (1..=MAX_REQUEST_BYTES).contains(&text.len())) {
            Some(text) => Some(RequestId::new(text).remembered(*time).of_each_question()),
            None => {
                misconfigurations.report(Misconfiguration::NoRequestId(name.clone()));
                None
            }
        }
    }

    /// True when this layer can provide the field for some request.
    pub(super) fn supplies(&self, field: &Field) -> bool {
        match field {
            Field::User => self.user.is_some(),
            Field::ApiKey => self.api_key.is_some(),
            Field::Custom(name) => self.custom.iter().any(|(known, _)| known == name),
            Field::Route => self.route.is_some() || cfg!(feature = "axum"),
            _ => true,
        }
    }

    /// The peer of the connection.
    #[inline]
    fn peer(&self, extensions: &Extensions) -> Option<IpAddr> {
        match &self.peer {
            Some(function) => function(extensions),
            None => extensions::peer(extensions),
        }
    }

    /// True when an identity is configured for some field.
    fn has_identities(&self) -> bool {
        self.user.is_some() || self.api_key.is_some() || !self.custom.is_empty()
    }

    /// The template of the matched route.
    fn route<'r>(&self, extensions: &'r Extensions) -> Option<Cow<'r, str>> {
        match &self.route {
            Some(function) => function(extensions).map(Cow::Owned),
            None => extensions::route(extensions).map(Cow::Borrowed),
        }
    }

    /// Runs `work` on the fields of a request. `closely` enables checks for misconfigurations that
    /// are expensive to detect.
    pub(super) fn with_fields<B, T>(
        &self,
        request: &Request<B>,
        misconfigurations: &Misconfigurations,
        closely: bool,
        work: impl FnOnce(&RequestFields<'_>) -> T,
    ) -> T {
        let extensions = request.extensions();
        // Stored here, so that it lives while the fields are read.
        let route = if self.has_identities() { self.route(extensions) } else { None };
        work(&RequestFields::new(request, self, misconfigurations, closely, route.as_deref()))
    }

    /// The subject of a client's IPv4 address, if no header has to be read to find it, as for most
    /// requests.
    #[inline]
    pub(super) fn subject_of_ipv4(
        &self,
        extensions: &Extensions,
        field: &Field,
        prefix: &SubjectPrefix,
    ) -> Option<Subject> {
        let Field::Ip = field else { return None };
        let address = self.client.plain_ipv4(|| self.peer(extensions))?;
        Some(prefix.with_ipv4(address))
    }

    /// The identity configured for a field.
    fn identity(&self, field: &Field) -> Option<&Identity> {
        match field {
            Field::User => self.user.as_ref(),
            Field::ApiKey => self.api_key.as_ref(),
            Field::Custom(name) => {
                self.custom.iter().find(|(known, _)| known == name).map(|(_, identity)| identity)
            }
            _ => None,
        }
    }

    /// The reason to refuse a request because of a field.
    pub(super) fn missing<'m>(&'m self, field: &'m Field, why: Why) -> Missing<'m> {
        let what = match field {
            Field::Ip => Required::Identity(&self.client_identity),
            Field::Host => Required::Host,
            Field::Path => Required::Path,
            Field::Method => Required::Method,
            Field::Header(name) => Required::Header(name),
            Field::Custom(name) => {
                self.identity(field).map_or(Required::Field(name), Required::Identity)
            }
            Field::User => self.identity(field).map_or(Required::Field("user"), Required::Identity),
            Field::ApiKey => {
                self.identity(field).map_or(Required::Field("api_key"), Required::Identity)
            }
            _ => Required::Field(""),
        };
        Missing { what, why }
    }
}

/// A request as policies see it. Malformed fields are remembered: they must never count as absent.
pub(super) struct RequestFields<'r> {
    head: Head<'r>,
    front: &'r Front,
    misconfigurations: &'r Misconfigurations,
    /// Whether to check for misconfigurations that are expensive to detect.
    closely: bool,
    client: OnceCell<Option<(Value<'static>, IpAddr)>>,
    /// Cached, because hashing takes about a microsecond.
    api_key: OnceCell<Option<Value<'r>>>,
    /// Cached, because a function of the program may verify a token for it.
    user: OnceCell<Option<Value<'r>>>,
    route: OnceCell<Option<Cow<'r, str>>>,
    faults: RefCell<Vec<(Field, Why)>>,
}

impl<'r> RequestFields<'r> {
    fn new<B>(
        request: &'r Request<B>,
        front: &'r Front,
        misconfigurations: &'r Misconfigurations,
        closely: bool,
        route: Option<&'r str>,
    ) -> Self {
        let mut head = Head::new(request);
        if front.has_identities() {
            // For identities that use them.
            if let Some(peer) = front.peer(request.extensions()) {
                head = head.with_peer(peer);
            }
            if let Some(route) = route {
                head = head.with_route(route);
            }
            if let Some(path) = extensions::path(request.extensions()) {
                head = head.with_path(path);
            }
        }
        Self {
            head,
            front,
            misconfigurations,
            closely,
            client: OnceCell::new(),
            api_key: OnceCell::new(),
            user: OnceCell::new(),
            route: OnceCell::new(),
            faults: RefCell::new(Vec::new()),
        }
    }

    /// A field that was read and is malformed, unless only shadow policies read it: those have no
    /// effect.
    #[inline]
    pub(super) fn fault(&self, prepared: &Prepared) -> Option<(Field, Why)> {
        self.faults.borrow().iter().find(|(field, _)| prepared.enforces(field)).cloned()
    }

    /// Whether no field that was read so far is malformed.
    pub(super) fn are_sound(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// Why a missing field is missing: it is absent, or not a number where one is required.
    pub(super) fn why_missing(&self, field: &Field) -> Why {
        match field {
            Field::Ip => Why::NoPeer,
            Field::Route => Why::NoRoute,
            other if self.field(other).is_some() => Why::NoNumber,
            _ => Why::Absent,
        }
    }

    #[cold]
    fn malformed(&self, field: &Field, why: Why) {
        self.faults.borrow_mut().push((field.clone(), why));
    }

    /// A value, or `None`; a malformed one is remembered.
    #[inline]
    fn keep<T>(&self, field: &Field, found: Result<T, Why>) -> Option<T> {
        match found {
            Ok(value) => Some(value),
            Err(Why::Absent | Why::NoRoute) => None,
            Err(why) => {
                self.malformed(field, why);
                None
            }
        }
    }

    /// The value that the client is counted by, and its full address.
    fn ip(&self) -> Option<(Value<'static>, IpAddr)> {
        let peer = self.head.peer().or_else(|| self.front.peer(self.head.extensions()));
        let headers = self.head.headers();
        let found = &self.front.client;
        let client = match peer {
            Some(peer) if self.closely => Some(found.client(peer, headers)),
            Some(peer) => Some(found.client_unread(peer, headers)),
            None if UnixPeer::is_in(self.head.extensions()) => found.client_of_local(headers),
            None => None,
        };
        let Some(client) = client else {
            self.misconfigurations.report(Misconfiguration::NoPeer);
            return None;
        };
        if let Some(remark) = client.remark() {
            self.misconfigurations.report(Misconfiguration::Address(remark));
        }
        Some((client.value(), client.address()))
    }

    fn value(&self, field: &Field, identity: Option<&'r Identity>) -> Option<Value<'r>> {
        let identity = identity?;
        let value = self.keep(field, identity.value(&self.head).map_err(|missing| missing.why()));
        if identity.is_own() && value.as_ref().is_some_and(|value| is_whole_ipv6(value.as_str())) {
            self.misconfigurations.report(Misconfiguration::WholeIpv6);
        }
        value
    }

    /// As `value`, computed once per request.
    fn once<'s>(
        &'s self,
        field: &Field,
        found: &'s OnceCell<Option<Value<'r>>>,
    ) -> Option<Cow<'s, str>> {
        let value = found.get_or_init(|| self.value(field, self.front.identity(field)));
        Some(Cow::Borrowed(value.as_ref()?.as_str()))
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        let header = header_text(self.head.headers(), HOST).map(host_name);
        let host = match (self.head.uri().host().map(host_name), header) {
            (Some(host), Err(Why::Absent)) => host,
            // The handler may use either of the two.
            (Some(host), Ok(header)) if host.eq_ignore_ascii_case(header) => host,
            (Some(_), Ok(_)) => {
                self.malformed(&Field::Host, Why::TwoHosts);
                return None;
            }
            (_, header) => self.keep(&Field::Host, header)?,
        };
        if host.len() > MAX_VALUE_BYTES {
            let why = Why::TooLong { bytes: host.len(), most: MAX_VALUE_BYTES };
            self.malformed(&Field::Host, why);
            return None;
        }
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Some(Cow::Owned(host.to_ascii_lowercase()));
        }
        Some(Cow::Borrowed(host))
    }

    fn route(&self) -> Option<Cow<'r, str>> {
        match self.head.route() {
            Some(route) => Some(Cow::Borrowed(route)),
            None => self.front.route(self.head.extensions()),
        }
    }
}

impl Fields for RequestFields<'_> {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Ip => {
                let (value, _) = self.client.get_or_init(|| self.ip()).as_ref()?;
                Some(Cow::Borrowed(value.as_str()))
            }
            Field::Host => self.host(),
            Field::Method => {
                let method = self.head.method().as_str();
                if method.len() > MAX_VALUE_BYTES {
                    let why = Why::TooLong { bytes: method.len(), most: MAX_VALUE_BYTES };
                    self.malformed(field, why);
                    return None;
                }
                Some(Cow::Borrowed(method))
            }
            Field::Path => {
                let path = extensions::path(self.head.extensions());
                let path = path.unwrap_or(self.head.uri().path());
                // Routers interpret these differently. A policy must not match one interpretation
                // while the handler sees another.
                self.keep(field, self.front.paths.read(path))
            }
            Field::Route => self.route.get_or_init(|| self.route()).as_deref().map(Cow::Borrowed),
            Field::Header(name) => {
                self.keep(field, header_text(self.head.headers(), &**name)).map(Cow::Borrowed)
            }
            Field::ApiKey => self.once(field, &self.api_key),
            Field::User => self.once(field, &self.user),
            other => self.value(other, self.front.identity(other)).map(Value::into_cow),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.client.get_or_init(|| self.ip()).as_ref().map(|(_, address)| *address)
    }
}

/// True for a full IPv6 address, which does not identify a client: one customer has 2^64 of them.
fn is_whole_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok()
}
