//! What can go wrong with time series on Redis.

use redis::ServerError;

use super::bounds::{MAX_BUCKETS, MAX_SERIES};
use crate::client::refused;
use crate::fault::Fault;

/// The most characters of a server's own words that are kept.
const MAX_WORDS: usize = 200;

/// Why time series could not be written or read.
///
/// A message holds addresses, bounds and words of RedisTimeSeries, never a key or a password.
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
        /// Where.
        address: String,
    },
    /// The user may not do what is needed.
    #[error(
        "the Redis user may not use time series: it needs `+ping +command|info +ts.create +ts.add \
         +ts.mrange` on the keys of the series (`ACL SETUSER`)"
    )]
    NoPermission,
    /// A series or a query is outside of its bounds. Nothing was sent.
    #[error("{what}")]
    Invalid {
        /// What is wrong, and what would be right.
        what: String,
    },
    /// RedisTimeSeries refused.
    #[error("the time series of Redis refused: {what}")]
    Refused {
        /// In its own words.
        what: String,
    },
    /// What came back is not what these commands answer. The connection is not used again.
    #[error(
        "Redis's answer is not one of RedisTimeSeries: expected {expected}; is it the right \
         server, and is nothing between that mixes answers up?"
    )]
    Malformed {
        /// What should have stood there.
        expected: &'static str,
    },
    /// The answer to a query is larger than what is taken.
    #[error(
        "the answer has more than {MAX_SERIES} series or {MAX_BUCKETS} buckets: ask for less time, \
         longer buckets or fewer series"
    )]
    TooLarge,
    /// Something between us and Redis, or in Redis as a whole.
    #[error(transparent)]
    Fault(#[from] Fault),
}

tollgate::debug_as_display!(TimeSeriesError);

impl TimeSeriesError {
    /// True when the same may succeed later without anybody changing a setting.
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

    /// Reads an error of the server. `address` is where it is.
    pub(super) fn from_reply(error: &ServerError, address: &str) -> Self {
        let (code, text) = (error.code(), error.details().unwrap_or(""));
        let lower = text.to_ascii_lowercase();
        match code {
            // The first versions had no code before it.
            "TSDB:" => Self::Refused { what: words(text) },
            // As in RedisTimeSeries: the keys that a filter finds are not known beforehand.
            _ if lower.contains("doesn't have read permission") => Self::NoPermission,
            "NOPERM" => Self::NoPermission,
            "ERR" if lower.starts_with("tsdb: ") => {
                Self::Refused { what: words(text.get(6..).unwrap_or("")) }
            }
            // The rest of this text quotes what was asked, with its keys.
            "ERR" if lower.starts_with("unknown command") => {
                Self::Missing { address: address.to_owned() }
            }
            _ => Self::Fault(refused(error)),
        }
    }

    /// Whether it tells of another server, or of another role of it, than there was at connecting.
    pub(super) fn wants_another_connection(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Malformed { .. }
                | Self::Fault(Fault::ReadOnly | Fault::MasterDown | Fault::NoAuth)
        )
    }
}

/// A server's words, bounded, and on one line.
fn words(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(MAX_WORDS).collect()
}
