//! The errors of time series in Redis.

use redis::ServerError;

use super::bounds::{MAX_BUCKETS, MAX_SERIES};
use crate::fault::Fault;
use crate::node::refused;

/// The most characters of a server's error text that are kept.
const MAX_WORDS: usize = 200;

/// Why time series could not be written or read.
///
/// A message contains addresses, bounds and words of RedisTimeSeries, never a key or a password.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeSeriesError {
    /// The server does not know the commands.
    #[error(
        "Redis at {address} has no time series (TS.ADD is unknown to it): they are built into \
         Redis 8, and come with Redis Stack before that, or with the module valkey-timeseries for \
         Valkey. The embedded series goes on without them"
    )]
    Missing {
        /// The address.
        address: String,
    },
    /// The user lacks a permission.
    #[error(
        "the Redis user may not use time series: it needs `+ping +command|info +ts.create +ts.add \
         +ts.mrange`, and `+pexpire` for series that expire, on the keys of the series \
         (`ACL SETUSER`)"
    )]
    NoPermission,
    /// A series or a query is out of bounds. Nothing was sent.
    #[error("{what}")]
    Invalid {
        /// The problem, and a valid value.
        what: String,
    },
    /// RedisTimeSeries refused.
    #[error("the time series of Redis refused: {what}")]
    Refused {
        /// The error text of RedisTimeSeries.
        what: String,
    },
    /// The reply is not one of these commands. The connection is not used again.
    #[error(
        "Redis's answer is not one of RedisTimeSeries: expected {expected}; is it the right \
         server, and is nothing between that mixes answers up?"
    )]
    Malformed {
        /// The expected reply.
        expected: &'static str,
    },
    /// The reply to a query is larger than the bounds allow.
    #[error(
        "the answer has more than {MAX_SERIES} series or {MAX_BUCKETS} buckets: ask for less time, \
         longer buckets or fewer series"
    )]
    TooLarge,
    /// A fault of the connection, or of Redis as a whole.
    #[error(transparent)]
    Fault(#[from] Fault),
}

tollgate::debug_as_display!(TimeSeriesError);

impl TimeSeriesError {
    /// Whether a retry may succeed later without a change of settings.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Fault(fault) => fault.is_transient(),
            Self::Malformed { .. } => true,
            _ => false,
        }
    }

    pub(super) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    /// Parses an error of the server at `address`.
    pub(super) fn from_reply(error: &ServerError, address: &str) -> Self {
        let (code, text) = (error.code(), error.details().unwrap_or(""));
        let lower = text.to_ascii_lowercase();
        match code {
            // The first versions had no error code.
            "TSDB:" => Self::Refused { what: words(text) },
            // As in RedisTimeSeries: the keys that a filter finds are not known beforehand.
            _ if lower.contains("doesn't have read permission") => Self::NoPermission,
            "NOPERM" => Self::NoPermission,
            "ERR" if lower.starts_with("tsdb: ") => {
                Self::Refused { what: words(text.get(6..).unwrap_or("")) }
            }
            // The rest of this text quotes the command, with its keys.
            "ERR" if lower.starts_with("unknown command") => {
                Self::Missing { address: address.to_owned() }
            }
            _ => Self::Fault(refused(error)),
        }
    }

    /// Whether the error suggests that another server answers now, or the same one in another role.
    pub(super) fn wants_another_connection(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Malformed { .. }
                | Self::Fault(Fault::ReadOnly | Fault::MasterDown | Fault::NoAuth)
        )
    }
}

/// A server's error text, shortened, on one line.
fn words(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(MAX_WORDS).collect()
}
