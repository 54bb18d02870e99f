//! The sources of identities: an address, a header, an API key, a route, a path, a function.

use core::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HeaderName, PROXY_AUTHORIZATION};
use tollgate::ParseError;

use super::client::ClientAddress;
use super::head::Head;
use super::header::header_name;
use super::key::{ApiKey, Hashing};
use super::path::PathReading;

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
pub struct Identity(pub(super) Way);

/// The way to the value.
#[derive(Clone)]
pub(super) enum Way {
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

    /// The path in canonical form; a [`Case`](super::Case) or a [`PathReading`] defines how it is
    /// interpreted. A caller can send any number of paths: prefer [`Identity::route`].
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

    /// True for the result of a function.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.0, Way::Own { .. })
    }

    /// True for a bearer key, which a 401 can request.
    pub(super) fn is_bearer(&self) -> bool {
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
