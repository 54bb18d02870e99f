//! The identity of a client: an address, a header, an API key, a route, or the result of a
//! function.
//!
//! Each [`Identity`] returns a [`Value`], or why there is none. Requests without a value never
//! share one. `docs/identity.md` describes the rules.

mod address;
mod client;
mod hops;
mod host;
mod key;
mod missing;
mod network;
mod path;
mod text;

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, AsHeaderName, COOKIE, HeaderName, PROXY_AUTHORIZATION};
use http::{Extensions, HeaderMap, Method, Request, Uri};
use tollgate::ParseError;

pub use address::Ipv6Prefix;
pub(crate) use client::LOCAL;
pub use client::{AddressHeader, Client, ClientAddress, MAX_HOPS, Peers, Remark};
pub use host::host_name;
pub use key::{ApiKey, Hashing, MAX_KEY_BYTES, MIN_SECRET_BYTES};
pub(crate) use missing::Required;
pub use missing::{Missing, Why};
pub use network::{MAX_NETWORKS, Networks};
pub use path::{Case, EscapedSlashes, PathParameters, PathReading};
pub use text::Value;

/// The longest value of an identity other than a key, in bytes: a subject contains it unchanged.
pub const MAX_VALUE_BYTES: usize = 1_024;

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

    /// The URI as requested; [`PathReading`] converts its path to the canonical form.
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

/// A source of identities. Clones are cheap.
///
/// ```
/// use http::Request;
/// use tollgate_tower::identity::{Head, Identity};
///
/// let user = Identity::header("x-user")?;
/// let request = Request::get("/").header("x-user", "42").body(())?;
/// let value = user.value(&Head::new(&request)).map(|value| value.as_str().to_owned());
/// assert_eq!(value, Ok("42".to_owned()));
///
/// let nobody = Request::get("/").body(())?;
/// let missing = user.value(&Head::new(&nobody)).unwrap_err();
/// assert_eq!(missing.to_string(), "the header `x-user` is missing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Identity(Way);

#[derive(Clone)]
enum Way {
    Client(ClientAddress),
    Header { name: HeaderName, lowercase: bool },
    Key(ApiKey),
    Route,
    Path(PathReading),
    Own { name: Arc<str>, function: OwnFunction },
}

type OwnFunction = Arc<dyn Fn(&Head<'_>) -> Option<String> + Send + Sync>;

impl Identity {
    /// The client's address.
    #[must_use]
    pub fn client(address: ClientAddress) -> Self {
        Self(Way::Client(address))
    }

    /// The value of a header, unchanged. Use it only for a header that an outer component has
    /// verified or set. Otherwise a client chooses its own identity.
    ///
    /// # Errors
    /// An invalid name of a header, or a header that contains a secret (`authorization`,
    /// `proxy-authorization`, `cookie`): see [`Identity::api_key`].
    pub fn header(name: &str) -> Result<Self, ParseError> {
        let header = header_name(name)?;
        if [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(&header) {
            return Err(ParseError::whole(
                name,
                "this header holds a secret, and counts must not hold it",
                "use `ApiKey`, which hashes it, or a function of yours",
            ));
        }
        Ok(Self(Way::Header { name: header, lowercase: false }))
    }

    /// For a header: converts its value to lower case, as a login may do. Other identities do not
    /// change.
    #[must_use]
    pub fn lowercase(self) -> Self {
        match self.0 {
            Way::Header { name, .. } => Self(Way::Header { name, lowercase: true }),
            other => Self(other),
        }
    }

    /// An API key, as its hash.
    #[must_use]
    pub fn api_key(key: ApiKey) -> Self {
        Self(Way::Key(key))
    }

    /// How it hashes API keys, if it is one.
    pub(crate) fn hashing(&self) -> Option<&Hashing> {
        match &self.0 {
            Way::Key(key) => Some(key.hashing()),
            _ => None,
        }
    }

    /// The template of the matched route.
    #[must_use]
    pub fn route() -> Self {
        Self(Way::Route)
    }

    /// The path in canonical form; a [`Case`] or a [`PathReading`] defines how it is interpreted. A
    /// caller can send any number of paths: prefer [`Identity::route`].
    #[must_use]
    pub fn path(reading: impl Into<PathReading>) -> Self {
        Self(Way::Path(reading.into()))
    }

    /// The result of `function`; `name` is used in errors.
    #[must_use]
    pub fn own(
        name: &str,
        function: impl Fn(&Head<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self(Way::Own { name: name.into(), function: Arc::new(function) })
    }

    /// The identity of this request.
    ///
    /// # Errors
    /// Why the request has none. [`Missing::is_absent`] distinguishes an absent value from a
    /// malformed one.
    pub fn value<'r>(&self, head: &Head<'r>) -> Result<Value<'r>, Missing<'_>> {
        let found = match &self.0 {
            Way::Client(address) => {
                head.peer.ok_or(Why::NoPeer).map(|peer| address.client(peer, head.headers).value())
            }
            Way::Header { name, lowercase } => header_value(head.headers, name, *lowercase),
            Way::Key(key) => key.value(head.headers),
            Way::Route => match head.route {
                Some(route) if !route.is_empty() => bounded(route).map(Value::borrowed),
                _ => Err(Why::NoRoute),
            },
            Way::Path(reading) => path_value(head.path(), reading),
            Way::Own { function, .. } => match function(head) {
                Some(text) if !text.is_empty() => bounded(&text).map(|_| ()).map(|()| text),
                _ => Err(Why::Absent),
            }
            .map(Value::owned),
        };
        found.map_err(|why| Missing { what: Required::Identity(self), why })
    }

    /// True for the result of a function.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.0, Way::Own { .. })
    }

    /// True for a bearer key, which a 401 can request.
    fn is_bearer(&self) -> bool {
        matches!(&self.0, Way::Key(key) if key.is_bearer())
    }
}

impl fmt::Display for Identity {
    /// A description for humans: `the header `x-user``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::Client(_) => f.write_str("the client's address"),
            Way::Header { name, .. } => write!(f, "the header `{name}`"),
            Way::Key(key) if key.is_bearer() => write!(f, "the {}", key.name()),
            Way::Key(key) => write!(f, "the API key in `{}`", key.name()),
            Way::Route => f.write_str("the route"),
            Way::Path(_) => f.write_str("the path"),
            Way::Own { name, .. } => write!(f, "`{name}`"),
        }
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(address) => address.fmt(f),
            Self::Header { name, lowercase } => {
                f.debug_struct("Header").field("name", name).field("lowercase", lowercase).finish()
            }
            Self::Key(key) => key.fmt(f),
            Self::Route => f.write_str("Route"),
            Self::Path(reading) => f.debug_tuple("Path").field(reading).finish(),
            Self::Own { name, .. } => f.debug_tuple("Own").field(name).finish(),
        }
    }
}

/// The name of a header, or why it is invalid.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, ParseError> {
    name.parse().map_err(|_| {
        ParseError::whole(
            name,
            "this is no name of a header",
            "use letters, digits and `-`, as in `x-user`",
        )
    })
}

/// The value of a header with a single line, without blanks around it.
fn one_line(headers: &HeaderMap, name: impl AsHeaderName, most: usize) -> Result<&[u8], Why> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(Why::Absent)?.as_bytes();
    if lines.next().is_some() {
        return Err(Why::Repeated);
    }
    if line.len() > most {
        return Err(Why::TooLong { bytes: line.len(), most });
    }
    match line.trim_ascii() {
        b"" => Err(Why::Absent),
        line => Ok(line),
    }
}

fn header_value<'r>(
    headers: &'r HeaderMap,
    name: &HeaderName,
    lowercase: bool,
) -> Result<Value<'r>, Why> {
    let text = header_text(headers, name)?;
    if !lowercase {
        return Ok(Value::borrowed(text));
    }
    // Non-ASCII blanks are trimmed too, as logins do; the result may be empty.
    match text.trim().to_lowercase() {
        text if text.is_empty() => Err(Why::Absent),
        text => Ok(Value::owned(text)),
    }
}

/// The value of a header with a single line, as text.
pub(crate) fn header_text(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&str, Why> {
    let line = one_line(headers, name, MAX_VALUE_BYTES)?;
    core::str::from_utf8(line).map_err(|_| Why::NotText)
}

fn path_value<'p>(path: &'p str, reading: &PathReading) -> Result<Value<'p>, Why> {
    bounded(path)?;
    let form = reading.read(path)?;
    bounded(&form)?;
    Ok(match form {
        std::borrow::Cow::Borrowed(text) => Value::borrowed(text),
        std::borrow::Cow::Owned(text) => Value::owned(text),
    })
}

fn bounded(text: &str) -> Result<&str, Why> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(Why::TooLong { bytes: text.len(), most: MAX_VALUE_BYTES });
    }
    Ok(text)
}
