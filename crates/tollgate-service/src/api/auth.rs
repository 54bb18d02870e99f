//! `/v1/auth`: tells a proxy whether a request may proceed.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::task::{Context, Poll};
use std::net::SocketAddr;

use http::header::{HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use tollgate::ParseError;
use tollgate_policy::{Field, Gate};
use tollgate_stores::AnyStore;
use tollgate_tower::answer::Profile;
use tollgate_tower::identity::{ApiKey, ClientAddress, Hashing, Identity, PathReading};
use tollgate_tower::{Misconfiguration, Tollgate, TollgateLayer, UnixPeer};
use tower_layer::Layer as _;
use tower_service::Service;

use super::problem::Problem;
use super::query::Query;
use crate::auth_options::{AuthOptions, Forwarded};
use crate::http::{Reply, Whole};
use crate::listen::Peer;
use crate::operations::Operation;

/// Accepts every request that reaches it, with an empty body. Proxies do not read a body, and an
/// unread body makes them close the connection instead of reusing it.
#[derive(Clone, Copy, Debug)]
struct AcceptAll;

impl Service<Request<()>> for AcceptAll {
    type Response = Reply;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::default())))
    }
}

/// The status of a refusal, where `deny_status` has replaced it.
const STATUS: HeaderName = HeaderName::from_static("tollgate-status");

/// Answers the requests of proxies. The library's layer runs in front of a service that accepts
/// all, so headers and refusals are the same as everywhere.
pub(crate) struct Auth {
    limited: Tollgate<AcceptAll, AnyStore>,
    options: AuthOptions,
}

impl core::fmt::Debug for Auth {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Auth").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Auth {
    /// # Errors
    /// A setting is not a valid header name.
    pub(crate) fn new(
        gate: Gate<AnyStore>,
        options: AuthOptions,
        (paths, hashing): (PathReading, Hashing),
        headers: Profile,
        on_misconfiguration: impl Fn(&Misconfiguration) + Send + Sync + 'static,
    ) -> Result<Self, ParseError> {
        let client = ClientAddress::behind(options.trust.clone(), options.client_header.clone());
        let mut builder = TollgateLayer::builder(gate)
            .client(client)
            .paths(paths)
            .profile(headers)
            .peer(|extensions| extensions.get::<SocketAddr>().map(SocketAddr::ip))
            .for_proxies()
            .on_misconfiguration(on_misconfiguration);
        if let Some(name) = &options.user_header {
            builder = builder.user(Identity::header(name)?);
        }
        if let Some(name) = &options.api_key_header {
            let key = if name.eq_ignore_ascii_case("authorization") {
                ApiKey::bearer(hashing)
            } else {
                ApiKey::header(name, hashing)?
            };
            builder = builder.api_key(Identity::api_key(key));
        }
        for (name, header) in &options.field_headers {
            builder = builder.field(name, Identity::header(header)?);
        }
        if let Some(name) = &options.request_id_header {
            builder = builder.request_id(name, options.request_id_for)?;
        }
        Ok(Self { limited: builder.build()?.layer(AcceptAll), options })
    }

    /// The option that is missing where no request at `/v1/auth` ever has this field.
    pub(crate) fn lacks(&self, field: &Field) -> Option<&'static str> {
        let AuthOptions { user_header, api_key_header, .. } = &self.options;
        match field {
            Field::User if user_header.is_none() => Some("--user-header"),
            Field::ApiKey if api_key_header.is_none() => Some("--api-key-header"),
            _ => None,
        }
    }

    pub(crate) async fn respond(
        &self,
        request: Request<Whole>,
        peer: Peer,
    ) -> Result<Reply, Problem> {
        let deny_status = match request.uri().query() {
            None => None,
            Some(_) => Query::new(request.uri()).only(Operation::Auth)?.deny_status()?,
        };
        let (head, _) = request.into_parts();
        let mut judged = Request::new(());
        *judged.method_mut() = head.method;
        *judged.uri_mut() = head.uri;
        *judged.headers_mut() = head.headers;
        let is_trusted = self.options.trust.contains(peer.address());
        let substituted = if is_trusted { self.substitute(&mut judged) } else { Ok(()) };
        let mut response = match substituted {
            Ok(()) => {
                match peer {
                    Peer::Tcp(address) => {
                        judged.extensions_mut().insert(SocketAddr::new(address, 0));
                    }
                    Peer::Unix => {
                        judged.extensions_mut().insert(UnixPeer);
                    }
                }
                let Ok(response) = self.limited.clone().call(judged).await;
                response
            }
            // A client can cause this, for example with a `<` in its path. The proxy must see a
            // denial, not an error of the service on which it might fail open.
            Err(problem) => problem.response(),
        };
        if let Some(status) = deny_status.filter(|_| !response.status().is_success()) {
            // A proxy that knows one status alone learns here which refusal it is.
            let refused = HeaderValue::from(response.status().as_u16());
            response.headers_mut().insert(STATUS, refused);
            *response.status_mut() = status;
        }
        Ok(response)
    }

    /// Replaces the proxy's request by the original request that it describes.
    fn substitute(&self, request: &mut Request<()>) -> Result<(), Problem> {
        const ORIGINAL: [HeaderName; 2] = [
            HeaderName::from_static("x-original-uri"),
            HeaderName::from_static("x-original-method"),
        ];
        const FORWARDED: [HeaderName; 2] = [
            HeaderName::from_static("x-forwarded-uri"),
            HeaderName::from_static("x-forwarded-method"),
        ];
        const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
        let headers = request.headers();
        let is_there = |family: &[HeaderName]| family.iter().any(|name| headers.contains_key(name));
        let family = match self.options.forwarded {
            Forwarded::Nothing => return Ok(()),
            Forwarded::Original => ORIGINAL,
            Forwarded::Forwarded => FORWARDED,
            Forwarded::Either => match (is_there(&ORIGINAL), is_there(&FORWARDED)) {
                (true, true) => {
                    return Err(Problem::bad(
                        "both X-Original-* and X-Forwarded-* tell a request, and a client may have \
                         sent one of them: say with --forwarded which your proxy writes",
                    ));
                }
                (true, false) => ORIGINAL,
                (false, _) => FORWARDED,
            },
        };
        let [uri, method] = [&family[0], &family[1]].map(|name| only(headers, name));
        let host = if family == FORWARDED { only(headers, &FORWARDED_HOST)? } else { None };
        if let Some((name, value)) = uri?.map(|value| (&family[0], value)) {
            let uri = Uri::try_from(value.as_bytes());
            *request.uri_mut() = uri.map_err(|_| no(name, "a URI, e.g. `/login?next=1`"))?;
        }
        if let Some((name, value)) = method?.map(|value| (&family[1], value)) {
            let method = Method::from_bytes(value.as_bytes());
            *request.method_mut() = method.map_err(|_| no(name, "a method, e.g. `POST`"))?;
        }
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
        Ok(())
    }
}

/// The value of a header that may occur at most once.
fn only(headers: &HeaderMap, name: &HeaderName) -> Result<Option<HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().cloned();
    if values.next().is_some() {
        let detail = format!("`{name}` comes twice: the proxy must write over what clients send");
        return Err(Problem::bad(detail).at(name.as_str()));
    }
    Ok(first)
}

fn no(name: &HeaderName, what: &str) -> Problem {
    Problem::bad(format!("`{name}` is not {what}")).at(name.as_str())
}
