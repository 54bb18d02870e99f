//! The result of parsing a line, or why it is not an event.

use std::borrow::Cow;
use std::fmt;

use super::by::By;
use super::format::Format;
use super::names::{CLF_FIELDS, CLIENT, TIME};
use super::signs::Signs;
use crate::time::TimeError;

/// The event on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parsed<'a> {
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The value of the `--by` field, never empty; of several fields their values joined by `,`, in
    /// which `,` is `%2C` and `%` is `%25`.
    pub key: Cow<'a, [u8]>,
    /// The cost, at least 1: 1 without a field of costs; `None` when the line has no cost there.
    pub cost: Option<u32>,
    /// Whether the time has a zone. One without is taken as UTC.
    pub has_zone: bool,
    /// Whether the client is an address that a proxy passed on, and not the peer.
    pub is_forwarded: bool,
    /// Whether the request looks like one of a robot or a scanner; nothing without
    /// [`super::Parser::with_signs`].
    pub signs: Signs,
}

impl Parsed<'_> {
    /// The same event, without its line.
    pub(super) fn into_owned<'a>(self) -> Parsed<'a> {
        let Self { at_us, key, cost, has_zone, is_forwarded, signs } = self;
        let key = Cow::Owned(key.into_owned());
        Parsed { at_us, key, cost, has_zone, is_forwarded, signs }
    }
}

/// Why a line is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The line is blank.
    Blank,
    /// The line has more than [`crate::source::MAX_LINE`] bytes.
    TooLong,
    /// A common or combined line does not begin with a client.
    NoClient,
    /// A common or combined line has no `[time]`.
    NoTime,
    /// The time is invalid.
    Time(TimeError),
    /// The client is counted by its address, and there is another text.
    NotAddress {
        /// The name of the field, by which clients can be counted instead.
        field: String,
        /// The text, in printable form.
        value: String,
    },
    /// The `--by` field is missing, empty or `-`.
    NoField(By),
    /// Common and combined lines do not have this field.
    UnknownField(String),
    /// The request has no closing quote.
    CutRequest,
    /// The request is not `METHOD path`.
    NoRequest,
    /// The line is not valid JSON.
    Json {
        /// The position of the error in bytes, from 1.
        column: usize,
        /// Whether the line ends in the middle of a value.
        cut: bool,
    },
    /// The cost is above the largest one, 4,294,967,295.
    Cost,
    /// No field contains the client.
    JsonNoClient,
    /// No field contains the time.
    JsonNoTime,
    /// No column contains the client; the names of the columns.
    NoClientColumn(String),
    /// No column contains the time; the names of the columns.
    NoTimeColumn(String),
    /// There are fewer columns than the header names.
    FewColumns,
    /// The line has another format than the one that is asked for.
    OtherFormat(Format),
}

impl From<TimeError> for Reason {
    fn from(error: TimeError) -> Self {
        Self::Time(error)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("the line is blank"),
            Self::TooLong => {
                write!(f, "the line is longer than {} bytes", crate::source::MAX_LINE)
            }
            Self::NoClient => f.write_str("no client address at the start of the line"),
            Self::NoTime => f.write_str(
                "no [time] behind the client: neither a common or combined log line nor JSON",
            ),
            Self::Time(error) => error.fmt(f),
            Self::NotAddress { field, value } => {
                write!(f, "the client is no address: `{field}` is `{value}`")
            }
            Self::NoField(By::User) => f.write_str("no user on this line (the field is -)"),
            Self::NoField(by) => write!(f, "no {by} on this line"),
            Self::UnknownField(name) => write!(
                f,
                "a common or combined log has no field {name:?}; it has ip, path, user, {}",
                CLF_FIELDS.join(", ")
            ),
            Self::Cost => write!(f, "the cost is above {}, the largest that is read", u32::MAX),
            Self::CutRequest => f.write_str("the quote that closes the request is missing"),
            Self::NoRequest => f.write_str("the request is not \"METHOD path\""),
            Self::Json { cut: true, .. } => f.write_str("the JSON ends too early"),
            Self::Json { column, .. } => write!(f, "not valid JSON at column {column}"),
            Self::JsonNoClient => write!(
                f,
                "no field with the client's address, such as {} (--client-field names it)",
                CLIENT[..4].join(", ")
            ),
            Self::JsonNoTime => write!(
                f,
                "no field with the time, such as {} (--time-field names it)",
                TIME[..4].join(", ")
            ),
            Self::NoClientColumn(names) => write!(
                f,
                "no column with the client's address (--client-field names it) among {names}"
            ),
            Self::NoTimeColumn(names) => {
                write!(f, "no column with the time (--time-field names it) among {names}")
            }
            Self::FewColumns => f.write_str("the line has fewer columns than the header"),
            Self::OtherFormat(format) => write!(f, "the line is not of --format {format}"),
        }
    }
}

/// The path of a request target: without query and fragment, and without `http://host`.
pub(super) fn path_of(target: &[u8]) -> &[u8] {
    let path = match memchr::memmem::find(target.get(..16).unwrap_or(target), b"://") {
        Some(at) if at > 0 && target[..at].iter().all(u8::is_ascii_alphabetic) => {
            let behind = &target[at + 3..];
            match memchr::memchr2(b'/', b'?', behind) {
                Some(at) if behind[at] == b'/' => &behind[at..],
                _ => b"/",
            }
        }
        _ => target,
    };
    &path[..memchr::memchr2(b'?', b'#', path).unwrap_or(path.len())]
}

/// The target of a first request line; a text without blanks is the target itself.
pub(super) fn target(request: &[u8]) -> &[u8] {
    match memchr::memchr(b' ', request) {
        Some(at) if request[..at].iter().all(u8::is_ascii_uppercase) => {
            let behind = &request[at + 1..];
            match memchr::memrchr(b' ', behind) {
                Some(end) if behind[end + 1..].starts_with(b"HTTP/") => &behind[..end],
                _ => behind,
            }
        }
        _ => request,
    }
}

/// The method of a first request line; a text without blanks is the method itself.
pub(super) fn method_of(request: &[u8]) -> &[u8] {
    &request[..memchr::memchr(b' ', request).unwrap_or(request.len())]
}
