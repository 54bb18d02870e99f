//! One line of a log: whose request it is, and when.
//!
//! Read are the common and combined formats of Apache and nginx and JSON lines, told apart line by
//! line (`{` begins JSON). A line is an event when client, time and the `--by` field can be read,
//! whatever follows them.

mod clf;
mod json;

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::time::TimeError;

/// The longest name of a field in bytes.
pub const MAX_FIELD: usize = 256;

/// Whom a limit is counted for: the `--by` option.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum By {
    /// The address of the client (a port behind it is left out).
    #[default]
    Ip,
    /// The path of the request, without its query.
    Path,
    /// The authenticated user. A `-` means that there was none: such a line is no event.
    User,
    /// A field by its name. JSON lines: any field, `a.b` is field `b` inside `a`. Common and
    /// combined logs: `method`, `status`, `referer`, `agent`, `host` (the remote host, first on
    /// the line) or `vhost` (the virtual host in front of it).
    Field(String),
}

/// Why a text is no `--by` option.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByError {
    /// Nothing was given.
    #[error("--by needs a field: ip, path, user, or the name of a field of the log")]
    Empty,
    /// Longer than [`MAX_FIELD`].
    #[error("the name of a --by field has at most {MAX_FIELD} bytes; this one has {len}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

tollgate::debug_as_display!(ByError);

impl FromStr for By {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, ByError> {
        match text {
            "" => Err(ByError::Empty),
            "ip" => Ok(Self::Ip),
            "path" => Ok(Self::Path),
            "user" => Ok(Self::User),
            _ if text.len() > MAX_FIELD => Err(ByError::TooLong { len: text.len() }),
            _ => Ok(Self::Field(text.to_owned())),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Path => "path",
            Self::User => "user",
            Self::Field(name) => name,
        })
    }
}

/// What was read from a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parsed<'a> {
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The value of the `--by` field, never empty.
    pub key: Cow<'a, [u8]>,
}

/// Why a line is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is on the line.
    Blank,
    /// More than [`crate::source::MAX_LINE`] bytes.
    TooLong,
    /// No client at the beginning of a common or combined line.
    NoClient,
    /// No `[time]` on a common or combined line.
    NoTime,
    /// A time that cannot be read.
    Time(TimeError),
    /// The `--by` field is not on this line, or is empty or `-`.
    NoField(By),
    /// A field that common and combined lines do not have.
    UnknownField(String),
    /// The request is not closed by a quote.
    CutRequest,
    /// The request is not `METHOD path`.
    NoRequest,
    /// Not valid JSON; the column (from 1) where that shows, and whether the line just ended.
    Json {
        /// In bytes from the start of the line, from 1.
        column: usize,
        /// The line ends in the middle of a value.
        cut: bool,
    },
    /// None of the fields that hold the client.
    JsonNoClient,
    /// None of the fields that hold the time.
    JsonNoTime,
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
            Self::NoField(By::User) => f.write_str("no user on this line (the field is -)"),
            Self::NoField(by) => write!(f, "no {by} on this line"),
            Self::UnknownField(name) => write!(
                f,
                "a common or combined log has no field {name:?}; it has ip, path, user, {}",
                clf::FIELDS.join(", ")
            ),
            Self::CutRequest => f.write_str("the quote that closes the request is missing"),
            Self::NoRequest => f.write_str("the request is not \"METHOD path\""),
            Self::Json { cut: true, .. } => f.write_str("the JSON ends too early"),
            Self::Json { column, .. } => write!(f, "not valid JSON at column {column}"),
            Self::JsonNoClient => {
                write!(f, "no field with the client, such as {}", json::CLIENT[..4].join(", "))
            }
            Self::JsonNoTime => {
                write!(f, "no field with the time, such as {}", json::TIME[..4].join(", "))
            }
        }
    }
}

/// Reads lines for one `--by` option.
///
/// # Examples
/// ```
/// use tollgate_lab::parse::Parser;
/// let parser = Parser::new("path".parse().unwrap());
/// let line = br#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 17"#;
/// let parsed = parser.parse(line).unwrap();
/// assert_eq!((parsed.at_us, &*parsed.key), (1_431_857_103_000_000, &b"/a"[..]));
/// ```
#[derive(Debug)]
pub struct Parser {
    by: By,
    clf: Option<clf::Field>,
    json: json::Fields,
}

impl Parser {
    /// A parser that takes the client from the field `by`.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self { clf: clf::Field::from_by(&by), json: json::Fields::from_by(&by), by }
    }

    /// The option it was made with.
    #[must_use]
    pub const fn by(&self) -> &By {
        &self.by
    }

    /// Reads one line, given without its end.
    ///
    /// # Errors
    /// [`Reason`] says why the line is no event.
    pub fn parse<'a>(&self, line: &'a [u8]) -> Result<Parsed<'a>, Reason> {
        let line = line.trim_ascii_start();
        match line.first() {
            None => Err(Reason::Blank),
            Some(b'{') => self.json.parse(line, &self.by),
            Some(_) => {
                let head = clf::Head::parse(line)?;
                let Some(field) = self.clf else {
                    return Err(Reason::UnknownField(self.by.to_string()));
                };
                let key = head.field(field).and_then(|value| match value {
                    b"" | b"-" => Err(Reason::NoField(self.by.clone())),
                    value => Ok(Cow::Borrowed(value)),
                })?;
                Ok(Parsed { at_us: head.at_us, key })
            }
        }
    }
}

/// The path of a request target: without query and fragment, and without `http://host`.
fn path_of(target: &[u8]) -> &[u8] {
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

/// The address in `1.2.3.4:5678` or `[2001:db8::1]:80`, for some servers write the port behind it
/// and each connection has another; none when the text is anything else.
fn without_port(client: &[u8]) -> Option<&[u8]> {
    let mark = memchr::memrchr(b':', client)?;
    let text = std::str::from_utf8(client).ok()?;
    text.parse::<SocketAddr>().ok()?;
    let address = &client[..mark];
    Some(address.strip_prefix(b"[").and_then(|a| a.strip_suffix(b"]")).unwrap_or(address))
}

/// For a fuzz target: reads `line` under every kind of `--by` option. Must not panic, and what is
/// an event must have a client and a time that a store takes.
///
/// # Panics
/// When the parser breaks one of its promises, which is what a fuzzer looks for.
pub fn fuzz_line(line: &[u8]) {
    let name = line.get(..line.len().min(8)).map(String::from_utf8_lossy).unwrap_or_default();
    for by in ["ip", "path", "user", "method", "status", "referer", "agent", "host", "vhost", "a.b"]
        .into_iter()
        .chain([&*name])
    {
        let Ok(by) = by.parse::<By>() else { continue };
        match Parser::new(by).parse(line) {
            Ok(parsed) => {
                assert!(!parsed.key.is_empty());
                assert!(parsed.at_us < crate::time::END_US);
            }
            Err(reason) => assert!(!reason.to_string().is_empty()),
        }
    }
    let _ = crate::time::parse(line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_is_a_word_or_a_field() {
        assert_eq!("ip".parse(), Ok(By::Ip));
        assert_eq!("a.b".parse(), Ok(By::Field("a.b".into())));
        assert_eq!("".parse::<By>(), Err(ByError::Empty));
        assert_eq!("x".repeat(257).parse::<By>(), Err(ByError::TooLong { len: 257 }));
        assert_eq!(By::default().to_string(), "ip");
    }

    #[test]
    fn a_path_is_the_target_without_host_and_query() {
        for (target, path) in [
            ("/a/b?c=d", "/a/b"),
            ("/a#b", "/a"),
            ("http://x.org/a?b", "/a"),
            ("https://x.org", "/"),
            ("http://x.org?b=/c", "/"),
            ("*", "*"),
            ("x.org:443", "x.org:443"),
            ("/go?to=http://x.org/", "/go"),
            ("/a://b", "/a://b"),
            ("://b/c", "://b/c"),
        ] {
            assert_eq!(path_of(target.as_bytes()), path.as_bytes(), "{target}");
        }
    }

    #[test]
    fn only_a_port_is_taken_off() {
        for (text, ip) in [
            ("1.2.3.4:5678", Some("1.2.3.4")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("2001:db8::1", None),
            ("::ffff:1.2.3.4", None),
            ("1.2.3.4", None),
            ("host.example:80", None),
        ] {
            assert_eq!(without_port(text.as_bytes()), ip.map(str::as_bytes), "{text}");
        }
    }

    const PIECES: [&str; 24] = [
        "1.2.3.4",
        "::1",
        "-",
        " ",
        "  ",
        "[17/May/2015:10:05:03 +0000]",
        "[",
        "]",
        "\"",
        "\\",
        "\\\"",
        "GET /a?b HTTP/1.1",
        "200",
        "{",
        "}",
        "\"ip\":",
        "\"ts\":",
        "\"a\":",
        "{\"b\":",
        "1431857103",
        "1e9",
        ",",
        "null",
        "\u{e9}",
    ];

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_line(&line);
        }

        #[test]
        fn no_pieces_of_lines_make_it_panic(
            pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..30),
        ) {
            fuzz_line(pieces.concat().as_bytes());
        }
    }
}
