//! Parses one line of a log into a client, a time and a cost.
//!
//! Supported are the common and combined formats of Apache and nginx, and JSON lines; the format is
//! detected line by line (`{` begins JSON). A line is an event when the client, the time and the
//! `--by` field can be parsed, whatever follows them.

mod by;
mod clf;
mod column;
mod field_names;
mod json;
mod line;

use std::borrow::Cow;

pub use self::by::{By, ByError, MAX_BY, MAX_FIELD};
pub(crate) use self::column::Column;
use self::column::MAX_COLUMNS;
pub use self::line::{Parsed, Reason};

/// The client of all requests, if they are counted together.
const ALL: &[u8] = b"all";

/// Parses lines for one `--by` option.
///
/// # Examples
/// ```
/// use tollgate_logs::parse::Parser;
/// let parser = Parser::new("path".parse().unwrap());
/// let line = br#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 17"#;
/// let parsed = parser.parse(line).unwrap();
/// assert_eq!((parsed.at_us, &*parsed.key), (1_431_857_103_000_000, &b"/a"[..]));
///
/// let parser = Parser::new("ip,path".parse().unwrap()).with_cost("bytes".parse().unwrap());
/// let parsed = parser.parse(line).unwrap();
/// assert_eq!((&*parsed.key, parsed.cost), (&b"::1,/a"[..], Some(17)));
/// ```
#[derive(Debug)]
pub struct Parser {
    by: By,
    /// The parts of the key: none to count all requests together.
    columns: Vec<Column>,
    /// The index of the column of the cost, after those of the key.
    cost: Option<usize>,
    json: json::Fields,
}

/// A parsed line, of either format.
#[derive(Clone, Copy)]
enum Values<'r, 'a> {
    Clf(&'r clf::Head<'a>),
    Json(&'r json::Record<'a>),
}

impl Parser {
    /// A parser that takes the client from the field `by`.
    #[must_use]
    pub fn new(by: By) -> Self {
        let columns = match &by {
            By::All => Vec::new(),
            by => by.fields().iter().map(Column::required).collect(),
        };
        Self::of_columns(by, columns)
    }

    /// A parser whose key has these columns, at most 19 of them.
    pub(crate) fn of_columns(by: By, columns: Vec<Column>) -> Self {
        debug_assert!(columns.len() < MAX_COLUMNS, "one is left for the cost");
        Self { by, json: json::Fields::new(&columns), columns, cost: None }
    }

    /// The same parser, which also takes the cost from a field.
    #[must_use]
    pub fn with_cost(mut self, by: By) -> Self {
        let mut all = self.columns.clone();
        all.push(Column::optional(&by));
        self.json = json::Fields::new(&all);
        self.cost = Some(self.columns.len());
        self.columns = all;
        self
    }

    /// The same parser, which takes the cost from this column.
    pub(crate) fn with_cost_column(mut self, column: Column) -> Self {
        self = self.with_cost(By::Ip);
        if let Some(last) = self.columns.last_mut() {
            *last = column;
        }
        self.json = json::Fields::new(&self.columns);
        self
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
            Some(b'{') => match std::str::from_utf8(line) {
                Ok(text) => self.parsed(Values::Json(&self.json.parse(text)?)),
                // Some servers copy bytes of a request that are not UTF-8 into other fields; they
                // must not make the line invalid.
                Err(_) => {
                    let text = String::from_utf8_lossy(line);
                    let parsed = self.parsed(Values::Json(&self.json.parse(&text)?))?;
                    Ok(Parsed { key: Cow::Owned(parsed.key.into_owned()), ..parsed })
                }
            },
            Some(_) => self.parsed(Values::Clf(&clf::Head::parse(line)?)),
        }
    }

    fn parsed<'a>(&self, values: Values<'_, 'a>) -> Result<Parsed<'a>, Reason> {
        let at_us = match values {
            Values::Clf(head) => head.at_us,
            Values::Json(record) => record.at_us,
        };
        let parts = self.cost.unwrap_or(self.columns.len());
        let key = match self.columns.get(..parts).unwrap_or_default() {
            [] => Cow::Borrowed(ALL),
            [one] if one.is_required => self.value(values, 0)?.unwrap_or_default(),
            several => {
                let value = |index| Ok(self.value(values, index)?.unwrap_or_default());
                let all = (0..several.len()).map(value).collect::<Result<Vec<_>, Reason>>()?;
                Cow::Owned(joined(all.iter().map(|value| &**value)))
            }
        };
        let cost = match self.cost {
            None => Some(1),
            Some(index) => self.value(values, index)?.and_then(|value| cost(&value)).transpose()?,
        };
        Ok(Parsed { at_us, key, cost })
    }

    /// The value of a column; `None` where it is absent and not required.
    fn value<'a>(
        &self,
        values: Values<'_, 'a>,
        index: usize,
    ) -> Result<Option<Cow<'a, [u8]>>, Reason> {
        let Some(column) = self.columns.get(index) else { return Ok(None) };
        let value = match (values, column.clf) {
            (Values::Json(record), _) => Ok(record.value(index, column.kind)),
            (Values::Clf(head), Some(field)) => head.field(field).map(|value| match value {
                b"" | b"-" => None,
                value => Some(Cow::Borrowed(value)),
            }),
            (Values::Clf(_), None) => Err(Reason::UnknownField(column.by.to_string())),
        };
        match value {
            Ok(None) if column.is_required => Err(Reason::NoField(column.by.clone())),
            Err(_) if !column.is_required => Ok(None),
            value => value,
        }
    }
}

/// A cost: `None` unless it is a whole number of at least 1.
fn cost(value: &[u8]) -> Option<Result<u32, Reason>> {
    let text = std::str::from_utf8(value).ok()?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.parse() {
        Ok(0) => None,
        Ok(cost) => Some(Ok(cost)),
        Err(_) => Some(Err(Reason::Cost)),
    }
}

/// A part of a key with several: its separator is escaped, so that no two keys are equal.
fn append_escaped(key: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    while let Some(at) = memchr::memchr2(b',', b'%', rest) {
        let (plain, special) = rest.split_at(at);
        key.extend_from_slice(plain);
        key.extend_from_slice(if special.first() == Some(&b',') { b"%2C" } else { b"%25" });
        rest = special.get(1..).unwrap_or_default();
    }
    key.extend_from_slice(rest);
}

/// A key of several values.
pub(crate) fn joined<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    for (index, value) in values.enumerate() {
        if index > 0 {
            key.push(b',');
        }
        append_escaped(&mut key, value);
    }
    key
}

/// The parts of a key with several, as they were before [`append_escaped`].
pub(crate) fn parts(key: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    key.split(|byte| *byte == b',').map(|part| {
        if memchr::memchr(b'%', part).is_none() {
            return Cow::Borrowed(part);
        }
        let mut plain = Vec::with_capacity(part.len());
        let mut rest = part;
        while let Some((&first, tail)) = rest.split_first() {
            rest = match (first, tail.get(..2)) {
                (b'%', Some(b"2C")) => {
                    plain.push(b',');
                    tail.get(2..).unwrap_or_default()
                }
                (b'%', Some(b"25")) => {
                    plain.push(b'%');
                    tail.get(2..).unwrap_or_default()
                }
                _ => {
                    plain.push(first);
                    tail
                }
            };
        }
        Cow::Owned(plain)
    })
}

/// For a fuzz target: parses `line` with every kind of `--by` option. It must not panic, and an
/// event must have a client and a time that a store accepts.
///
/// # Panics
/// The parser violates one of these guarantees.
pub fn fuzz_line(line: &[u8]) {
    let name = line.get(..line.len().min(8)).map(String::from_utf8_lossy).unwrap_or_default();
    for by in [
        "ip",
        "path",
        "user",
        "status",
        "referer",
        "agent",
        "vhost",
        "a.b",
        "all",
        "ip,method,host",
    ]
    .into_iter()
    .chain([&*name])
    {
        let Ok(by) = by.parse::<By>() else { continue };
        match Parser::new(by).with_cost(By::Field("bytes".into())).parse(line) {
            Ok(parsed) => {
                assert!(!parsed.key.is_empty() && parsed.cost != Some(0));
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
        assert_eq!("all".parse(), Ok(By::All));
        let several = By::Several(vec![By::Ip, By::Field("a.b".into())]);
        assert_eq!("ip, a.b".parse(), Ok(several.clone()));
        assert_eq!(several.to_string(), "ip,a.b");
        assert_eq!("ip,".parse::<By>(), Err(ByError::Empty));
        for twice in ["ip,path,ip", "ip,all"] {
            assert!(matches!(twice.parse::<By>(), Err(ByError::Repeated { .. })), "{twice}");
        }
        let many: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
        assert_eq!(many.join(",").parse::<By>(), Err(ByError::TooMany { fields: 9 }));
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

    #[test]
    fn keys_of_several_fields_are_told_apart_and_come_back() {
        let parser = Parser::new("user,agent".parse().unwrap());
        let key = |user: &str, agent: &str| {
            let line = format!(r#"{{"ip":"::1","ts":1,"user":"{user}","agent":"{agent}"}}"#);
            parser.parse(line.as_bytes()).unwrap().key.into_owned()
        };
        assert_eq!(key("a,b", "c"), b"a%2Cb,c");
        assert_ne!(key("a,b", "c"), key("a", "b,c"));
        for (user, agent) in [("a,b", "c"), ("%2C", "%25,%"), ("100%", "%2"), ("%252C", ",,")] {
            let key = key(user, agent);
            let found: Vec<Cow<'_, [u8]>> = parts(&key).collect();
            assert_eq!(found, [user.as_bytes(), agent.as_bytes()]);
        }
        let missing = parser.parse(br#"{"ip":"::1","ts":1,"user":"a"}"#);
        assert_eq!(missing, Err(Reason::NoField(By::Field("agent".into()))));
        let clf = b"::1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 17";
        let all = Parser::new(By::All);
        assert_eq!(&*all.parse(clf).unwrap().key, b"all");
        assert_eq!(&*all.parse(br#"{"ip":"::1","ts":1}"#).unwrap().key, b"all");
    }

    #[test]
    fn costs_are_whole_numbers_of_at_least_one() {
        let parser = Parser::new(By::Ip).with_cost(By::Field("n".into()));
        let cost = |text: &str| {
            let line = format!(r#"{{"ip":"::1","ts":1,"n":{text}}}"#);
            parser.parse(line.as_bytes()).map(|parsed| parsed.cost)
        };
        for (text, found) in [
            ("17", Some(17)),
            ("\"17\"", Some(17)),
            ("4294967295", Some(u32::MAX)),
            ("0", None),
            ("-1", None),
            ("1.5", None),
            ("null", None),
            ("\"many\"", None),
        ] {
            assert_eq!(cost(text), Ok(found), "{text}");
        }
        assert_eq!(cost("4294967296"), Err(Reason::Cost));
        assert!(Reason::Cost.to_string().contains("4294967295"));
        let clf = b"::1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 17";
        let parser = Parser::new(By::Ip).with_cost(By::Field("bytes".into()));
        assert_eq!(parser.parse(clf).unwrap().cost, Some(17));
        assert_eq!(Parser::new(By::Ip).parse(clf).unwrap().cost, Some(1));
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
