//! The request extensions in which servers and routers store what they know of a request.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;

/// Marks a request that came over a unix socket, in its extensions. Such a peer has no address: to
/// the networks that are trusted ([`ClientAddress`](crate::identity::ClientAddress)) it is
/// 127.0.0.1, and the client is who the header of a trusted proxy names. Without such a header
/// there is no `ip`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a mark
pub struct UnixPeer;

impl UnixPeer {
    pub(super) fn is_in(extensions: &Extensions) -> bool {
        extensions.get::<Self>().is_some()
    }
}

/// The peer of the connection: from axum, or a `SocketAddr` that the server inserted.
#[inline]
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0.ip());
    }
    inserted_peer(extensions)
}

/// Also reads the peer address of a test, which axum stores separately.
#[inline(never)]
fn inserted_peer(extensions: &Extensions) -> Option<IpAddr> {
    let inserted = extensions.get::<SocketAddr>();
    #[cfg(feature = "axum")]
    let inserted = inserted.or_else(|| {
        use axum::extract::connect_info::MockConnectInfo;
        extensions.get::<MockConnectInfo<SocketAddr>>().map(|MockConnectInfo(address)| address)
    });
    inserted.map(SocketAddr::ip)
}

/// The template of the matched route.
#[inline]
pub(super) fn route(extensions: &Extensions) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(route) = extensions.get::<axum::extract::MatchedPath>() {
        return Some(route.as_str());
    }
    let _ = extensions;
    None
}

/// The whole path, if a nested router removed a part of it.
#[inline]
pub(super) fn path(extensions: &Extensions) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(uri) = extensions.get::<axum::extract::OriginalUri>() {
        return Some(uri.0.path());
    }
    let _ = extensions;
    None
}
