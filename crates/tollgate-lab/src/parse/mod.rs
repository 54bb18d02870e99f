//! Parses one line of a log into a client and a time.
//!
//! Supported are the common and combined formats of Apache and nginx, and JSON lines; the format is
//! detected line by line (`{` begins JSON). A line is an event when the client, the time and the
//! `--by` field can be parsed, whatever follows them.

mod by;
mod clf;
mod field_names;
mod json;
mod line;

use std::borrow::Cow;

pub use self::by::{By, ByError, MAX_FIELD};
pub use self::line::{Parsed, Reason};

/// Parses lines for one `--by` option.
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

    /// The parser's `--by` option.
    #[must_use]
    pub const fn by(&self) -> &By {
        &self.by
    }

    /// Parses one line, without its end.
    ///
    /// # Errors
    /// [`Reason`] explains why the line is not an event.
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

/// For a fuzz target: parses `line` with every kind of `--by` option. It must not panic, and an
/// event must have a client and a time that a store accepts.
///
/// # Panics
/// The parser violates one of these guarantees.
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

    use super::line::{path_of, without_port};
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
