//! The parts of a request from which an identity is read.

use core::fmt;
use std::net::IpAddr;

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The parts of a request from which an identity is read: everything but the body.
///
/// Its `Debug` shows only the method: the rest contains secrets and personal data.
#[derive(Clone, Copy)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    peer: Option<IpAddr>,
    route: Option<&'r str>,
    path: Option<&'r str>,
}

impl<'r> Head<'r> {
    /// The head of a request, without a peer and without a route.
    #[must_use]
    pub fn new<Body>(request: &'r Request<Body>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            peer: None,
            route: None,
            path: None,
        }
    }

    /// Sets the address of the peer of the connection.
    #[must_use]
    pub fn with_peer(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// Sets the template of the matched route, such as `/users/{id}`.
    #[must_use]
    pub fn with_route(self, route: &'r str) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Sets the whole path, if a router removed a part of it from the URI.
    #[must_use]
    pub fn with_path(self, path: &'r str) -> Self {
        Self { path: Some(path), ..self }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// The URI as requested; [`PathReading`](super::PathReading) converts its path to the canonical
    /// form.
    #[must_use]
    pub fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The values that outer layers attached, such as the authenticated user.
    #[must_use]
    pub fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// The address of the peer of the connection.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The path as requested: that of [`Head::uri`], or the whole path that it is a part of.
    #[must_use]
    pub fn path(&self) -> &'r str {
        self.path.unwrap_or(self.uri.path())
    }

    /// The template of the matched route.
    #[must_use]
    pub fn route(&self) -> Option<&'r str> {
        self.route
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({})", self.method)
    }
}
