//! Which headers tell clients of their limits.

use http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use http::{HeaderMap, HeaderValue};

/// The meaning of `X-RateLimit-Reset`: both have been in use for years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now.
    Delta,
    /// Seconds since 1970 (the Unix epoch), by the store's clock.
    Epoch,
}

/// The headers that inform a client about its limits. `Retry-After` is part of every denial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Profile {
    /// `RateLimit-Policy` and `RateLimit`, as in revisions 08 to 11 of the IETF draft.
    #[default]
    Draft,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    Legacy(Reset),
    /// All five.
    Both(Reset),
    /// None.
    None,
}

impl Profile {
    pub(super) fn draft(self) -> bool {
        matches!(self, Self::Draft | Self::Both(_))
    }

    pub(super) fn legacy(self) -> Option<Reset> {
        match self {
            Self::Legacy(reset) | Self::Both(reset) => Some(reset),
            Self::Draft | Self::None => None,
        }
    }

    /// The value for `Access-Control-Expose-Headers` that lets pages read the headers.
    fn exposed(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Draft => "RateLimit-Policy, RateLimit, Retry-After",
            Self::Legacy(_) => {
                "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After"
            }
            Self::Both(_) => {
                "RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining, \
                 X-RateLimit-Reset, Retry-After"
            }
            Self::None => "Retry-After",
        })
    }

    /// Appends them to those already listed.
    pub(super) fn list_exposed(self, headers: &mut HeaderMap) {
        let value = self.exposed();
        if !headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().any(|line| line == value) {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, value);
        }
    }
}
