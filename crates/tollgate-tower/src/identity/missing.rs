//! Why a request has no identity, and the status of the response.

use core::fmt;

use http::StatusCode;

use super::source::Identity;
use super::why::Why;

/// The identity that is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Required<'i> {
    Identity(&'i Identity),
    /// A header, by its name.
    Header(&'i str),
    Host,
    Path,
    Method,
    /// A field that no front provides, by its name.
    Field(&'i str),
}

/// An identity that a request lacks, and why.
#[derive(Clone, Copy, Debug)]
pub struct Missing<'i> {
    pub(crate) what: Required<'i>,
    pub(crate) why: Why,
}

impl Missing<'static> {
    /// A path that was refused, for callers of [`PathReading::read`].
    ///
    /// ```
    /// use tollgate_tower::identity::{Missing, PathReading};
    /// let why = PathReading::default().read("/a/../b").unwrap_err();
    /// let said = Missing::path(why).to_string();
    /// assert!(said.starts_with("the path has a segment `.` or `..`"), "{said}");
    /// ```
    ///
    /// [`PathReading::read`]: super::PathReading::read
    #[must_use]
    pub fn path(why: Why) -> Self {
        Self { what: Required::Path, why }
    }
}

impl Missing<'_> {
    /// Why the identity has no value.
    #[must_use]
    pub fn why(&self) -> Why {
        self.why
    }

    /// True when the value is merely absent, so that a policy may skip a limit. All other reasons
    /// are malformed input: skipping a limit for those would allow clients to evade it.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.why, Why::Absent | Why::NoRoute | Why::NoPeer)
    }

    /// The status of the response: 401 if a bearer key is absent, 404 if no route matched, 503 if
    /// the server provided no peer, otherwise 400.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.why {
            Why::Absent if self.what.is_bearer() => StatusCode::UNAUTHORIZED,
            Why::NoRoute => StatusCode::NOT_FOUND,
            Why::NoPeer => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl PartialEq for Missing<'_> {
    /// Two are equal when they have the same reason for the same identity.
    fn eq(&self, other: &Self) -> bool {
        let same = match (self.what, other.what) {
            (Required::Identity(mine), Required::Identity(theirs)) => core::ptr::eq(mine, theirs),
            (Required::Header(mine), Required::Header(theirs))
            | (Required::Field(mine), Required::Field(theirs)) => mine == theirs,
            (Required::Host, Required::Host)
            | (Required::Path, Required::Path)
            | (Required::Method, Required::Method) => true,
            _ => false,
        };
        same && self.why == other.why
    }
}

impl Eq for Missing<'_> {}

impl fmt::Display for Missing<'_> {
    /// A sentence for the client; it contains no part of the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = self.what;
        match self.why {
            Why::Absent => write!(f, "{identity} is missing"),
            Why::NoRoute => f.write_str("no route matches this request"),
            Why::Repeated => write!(f, "{identity} is given several times: give it once"),
            Why::TooLong { bytes, most } => {
                write!(f, "{identity} has {bytes} bytes: at most {most}")
            }
            Why::NotText => write!(f, "{identity} is not UTF-8"),
            Why::NoPeer => write!(f, "{identity} is not known to the server"),
            Why::Dots => write!(
                f,
                "{identity} has a segment `.` or `..`, which servers differ in reading: send it \
                 without"
            ),
            Why::EscapedSlash => write!(
                f,
                "{identity} has an escaped slash (`%2F`), which servers differ in reading: send it \
                 without, or set how it is read (`escaped_slashes`, `--escaped-slashes`)"
            ),
            Why::Backslash => write!(
                f,
                "{identity} has a backslash (`\\`, `%5C`), which servers differ in reading: send \
                 it \
                 without, or set that it is kept (`escaped_slashes`, `--escaped-slashes keep`)"
            ),
            Why::Parameter => write!(
                f,
                "{identity} has a parameter (`;`, `%3B`), which servers differ in reading: send it \
                 without, or set how it is read (`parameters`, `--path-parameters`)"
            ),
            Why::Nul => write!(f, "{identity} has a zero byte (`%00`): send it without"),
            Why::TwoHosts => write!(f, "{identity} of the URI is not that of the header `host`"),
            Why::NoNumber => write!(f, "{identity} is not a whole number from 1"),
        }
    }
}

impl std::error::Error for Missing<'_> {}

impl Required<'_> {
    /// True for a bearer key, which a 401 can request.
    fn is_bearer(self) -> bool {
        matches!(self, Self::Identity(identity) if identity.is_bearer())
    }
}

impl fmt::Display for Required<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(identity) => identity.fmt(f),
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Host => f.write_str("the host"),
            Self::Path => f.write_str("the path"),
            Self::Method => f.write_str("the method"),
            Self::Field(name) => write!(f, "the field `{name}`"),
        }
    }
}
