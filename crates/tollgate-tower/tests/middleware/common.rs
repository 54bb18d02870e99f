//! Requests, and their responses.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{Format, Gate, Policies};
use tower::ServiceExt as _;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The number of the revision that decided.
    pub(crate) fn revision(&self) -> u64 {
        let text = self.header("tollgate-revision").unwrap();
        text.split_once('-').unwrap().0.parse().unwrap()
    }
}

/// A request from a peer, with headers.
pub(crate) fn from(peer: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::get("/").body(Body::empty()).unwrap();
    for (name, value) in headers {
        request
            .headers_mut()
            .append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    let peer: IpAddr = peer.parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 4711)));
    request
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Seen {
    let response = app.clone().oneshot(request).await.unwrap_or_else(|e: Infallible| match e {});
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Seen { status: parts.status, headers: parts.headers, body }
}

/// The status of the answer to a peer with these headers.
pub(crate) async fn status(app: &Router, peer: &str, headers: &[(&str, &str)]) -> u16 {
    send(app, from(peer, headers)).await.status.as_u16()
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies").join(name)
}

/// A gate in memory, and its clock.
pub(crate) fn gate(policies: Policies) -> (Gate<MemoryStore>, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Gate::new(policies, store).unwrap(), clock)
}

/// Policies as in a file, without the first line.
pub(crate) fn policies(toml: &str) -> Policies {
    Policies::parse(&format!("version = 1\n{toml}"), Format::Toml).unwrap_or_else(|e| panic!("{e}"))
}
