//! The settings of `/v1/auth`: the trusted proxies, and the fields in their headers.

use core::time::Duration;

use tollgate_tower::identity::{AddressHeader, Networks};

/// Which headers of a proxy describe the original request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Forwarded {
    /// Either of the two families. A request with both is refused, since the client may have sent
    /// the one that its proxy does not overwrite.
    #[default]
    Either,
    /// `X-Original-URI` and `X-Original-Method`, the convention of nginx.
    Original,
    /// `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`, as sent by Traefik and
    /// Caddy.
    Forwarded,
    /// None: the request to `/v1/auth` itself is judged.
    Nothing,
}

/// How `/v1/auth` reads the requests of proxies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthOptions {
    /// The networks of trusted proxies.
    pub trust: Networks,
    /// The header in which proxies send the client's address.
    pub client_header: AddressHeader,
    /// Which headers describe the original request.
    pub forwarded: Forwarded,
    /// The header that contains the user, if any.
    pub user_header: Option<String>,
    /// The header that contains an API key, if any.
    pub api_key_header: Option<String>,
    /// The headers that contain a `field.NAME` of policies: the name, and the header.
    pub field_headers: Vec<(String, String)>,
    /// The header in which trusted proxies send the id of a request, if any.
    pub request_id_header: Option<String>,
    /// How long such an id is remembered.
    pub request_id_for: Duration,
}

/// How long the id of a request is remembered by default.
const REQUEST_ID_FOR: Duration = Duration::from_secs(30);

impl Default for AuthOptions {
    /// Trusts loopback proxies and reads `X-Forwarded-For`; reads no users and no API keys.
    fn default() -> Self {
        Self {
            trust: loopback(),
            client_header: AddressHeader::XForwardedFor,
            forwarded: Forwarded::default(),
            user_header: None,
            api_key_header: None,
            field_headers: Vec::new(),
            request_id_header: None,
            request_id_for: REQUEST_ID_FOR,
        }
    }
}

/// The loopback networks.
fn loopback() -> Networks {
    // Both constants are valid networks, so the fallback is unreachable.
    "127.0.0.0/8, ::1/128".parse().unwrap_or_else(|_| Networks::private())
}
