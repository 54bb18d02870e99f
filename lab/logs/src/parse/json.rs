//! JSON lines: one object per line; only the needed fields are parsed.
//!
//! Numbers are kept as the text in the line, so that no float is involved.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use foldhash::fast::FixedState;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::client::{self, Client};
use super::column::{Column, Kind, MAX_COLUMNS};
use super::format::Hints;
use super::line::Reason;
use super::names::{CLIENT, FORWARDED, MESSAGE, TIME};
use crate::time;

/// The roles of fields, as indices: these, and the columns after them. A value of the client's role
/// is an address. Other texts under its names have a role of their own.
const CLIENT_ROLE: usize = 0;
const TIME_ROLE: usize = 1;
const FORWARDED_ROLE: usize = 2;
const MESSAGE_ROLE: usize = 3;
const TEXT_ROLE: usize = 4;
const COLUMN_ROLE: usize = 5;
const ROLES: usize = COLUMN_ROLE + MAX_COLUMNS;

/// A role that a value may have, and its rank among those of the role: the first one is the best.
#[derive(Debug, Clone, Copy)]
struct Place {
    role: usize,
    rank: usize,
}

/// A path, or the beginning of one up to a dot.
#[derive(Debug, Default)]
struct Name {
    places: Vec<Place>,
    /// Whether longer paths begin with it.
    leads: bool,
}

/// The paths for the columns of a parser. A line has many names, so each is looked up once.
#[derive(Debug)]
pub(super) struct Fields {
    names: HashMap<String, Name, FixedState>,
    /// The paths of the client, by rank.
    clients: Vec<Cow<'static, str>>,
}

/// The values of a line.
#[derive(Debug)]
pub(super) struct Record<'a> {
    best: [Option<(usize, &'a str)>; ROLES],
}

impl<'a> Record<'a> {
    fn text(&self, role: usize) -> Option<Cow<'a, [u8]>> {
        let (_, raw) = self.best.get(role).copied().flatten()?;
        Some(match scalar(raw) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }

    /// The value of the column with this index; `None` when it is absent.
    pub(super) fn value(&self, index: usize, kind: Kind) -> Option<Cow<'a, [u8]>> {
        let value = kind.cut(self.text(COLUMN_ROLE + index)?);
        Some(value).filter(|value| !value.is_empty())
    }

    /// The time, and whether it has a zone.
    pub(super) fn at(&self) -> Result<(u64, bool), Reason> {
        let text = self.text(TIME_ROLE).ok_or(Reason::JsonNoTime)?;
        Ok(time::parse_any(&text)?)
    }

    pub(super) fn client(&self, fields: &Fields) -> Result<Client<'a>, Reason> {
        let peer = self.text(CLIENT_ROLE).or_else(|| self.text(TEXT_ROLE));
        let field = || {
            let rank = self.best.get(TEXT_ROLE).copied().flatten().map_or(0, |(rank, _)| rank);
            fields.clients.get(rank).map_or_else(String::new, |name| name.clone().into_owned())
        };
        let client = client::client(field, peer, || self.text(FORWARDED_ROLE));
        client.map_err(|reason| match reason {
            Reason::NoClient => Reason::JsonNoClient,
            reason => reason,
        })
    }

    /// The line inside of this one, if it has no client of its own.
    pub(super) fn message(&self) -> Option<Cow<'a, [u8]>> {
        let has_client = self.best.get(CLIENT_ROLE).is_some_and(Option::is_some);
        self.text(MESSAGE_ROLE).filter(|_| !has_client)
    }
}

impl Fields {
    /// At most [`MAX_COLUMNS`] columns.
    pub(super) fn new(columns: &[Column], hints: &Hints) -> Self {
        let known = |given: &Option<String>, names: &'static [&'static str]| match given {
            Some(name) => vec![Cow::Owned(name.clone())],
            None => names.iter().copied().map(Cow::Borrowed).collect::<Vec<_>>(),
        };
        let clients = known(&hints.client_field, &CLIENT);
        let mut all = Self { names: HashMap::default(), clients: clients.clone() };
        all.add(CLIENT_ROLE, &clients);
        all.add(TIME_ROLE, &known(&hints.time_field, &TIME));
        if hints.client_field.is_none() {
            all.add(FORWARDED_ROLE, &known(&None, &FORWARDED));
        }
        all.add(MESSAGE_ROLE, &known(&None, &MESSAGE));
        for (column, role) in columns.iter().zip(COLUMN_ROLE..ROLES) {
            all.add(role, &column.names);
        }
        all
    }

    fn add(&mut self, role: usize, paths: &[Cow<'static, str>]) {
        for (rank, path) in paths.iter().enumerate() {
            for (dot, _) in path.match_indices('.') {
                self.names.entry(path[..dot].to_owned()).or_default().leads = true;
            }
            let name = self.names.entry(path.clone().into_owned()).or_default();
            name.places.push(Place { role, rank });
        }
    }

    /// Parses a line that begins with `{`.
    pub(super) fn parse<'a>(&self, text: &'a str) -> Result<Record<'a>, Reason> {
        let mut values = Values { best: [None; ROLES] };
        collect(text, self, "", &mut values)?;
        Ok(Record { best: values.best })
    }
}

/// The best value so far for each role, as text of the line.
#[derive(Debug)]
struct Values<'a> {
    best: [Option<(usize, &'a str)>; ROLES],
}

impl<'a> Values<'a> {
    /// Keeps the value if it is usable and no better path had one. It is not if it is empty, `-`,
    /// null, an object, or an array other than of texts. Of two fields with one name the last wins,
    /// as in most JSON parsers.
    fn offer(&mut self, place: Place, raw: &'a str) {
        let is_list = raw.starts_with('[') && !raw.starts_with("[\"");
        if matches!(raw, "\"\"" | "\"-\"" | "null") || raw.starts_with('{') || is_list {
            return;
        }
        let is_text =
            place.role == CLIENT_ROLE && client::address(scalar(raw).as_bytes()).is_none();
        let best = &mut self.best[if is_text { TEXT_ROLE } else { place.role }];
        if best.is_none_or(|(rank, _)| place.rank <= rank) {
            *best = Some((place.rank, raw));
        }
    }
}

/// The text of a string, without quotes and escapes; a number or a bool as written; of a list of
/// texts the first, as Caddy writes headers.
fn scalar(raw: &str) -> Cow<'_, str> {
    if raw.starts_with('[') {
        let texts = serde_json::from_str::<Vec<String>>(raw).unwrap_or_default();
        return Cow::Owned(texts.into_iter().next().unwrap_or_default());
    }
    let Some(inner) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Cow::Borrowed(raw);
    };
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    // It was parsed as JSON before, so only a lone surrogate can fail now.
    serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(inner), Cow::Owned)
}

/// Parses an object, to which a path leads: empty, or with a dot at its end.
fn collect<'a>(
    text: &'a str,
    fields: &Fields,
    path: &str,
    values: &mut Values<'a>,
) -> Result<(), Reason> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let object = Object { key: Key { fields, path }, values };
    object
        .deserialize(&mut reader)
        .and_then(|()| reader.end())
        .map_err(|error| Reason::Json { column: error.column(), cut: error.is_eof() })
}

struct Object<'p, 'a> {
    key: Key<'p>,
    values: &'p mut Values<'a>,
}

impl<'a> DeserializeSeed<'a> for Object<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Object { key, values } = self;
        while let Some(found) = map.next_key_seed(key)? {
            let Some((path, name)) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw = map.next_value::<&RawValue>()?.get();
            for place in &name.places {
                values.offer(*place, raw);
            }
            if name.leads && raw.starts_with('{') {
                // It was parsed as JSON just now, so this cannot fail.
                let _ = collect(raw, key.fields, &format!("{path}."), values);
            }
        }
        Ok(())
    }
}

/// Parses the name of a field in an object: its path, and `None` when no path begins with it.
#[derive(Clone, Copy)]
struct Key<'p> {
    fields: &'p Fields,
    path: &'p str,
}

impl<'p, 'a> DeserializeSeed<'a> for Key<'p> {
    type Value = Option<(&'p str, &'p Name)>;

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Option<(&'p str, &'p Name)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let found = match self.path {
            "" => self.fields.names.get_key_value(name),
            path => self.fields.names.get_key_value(&format!("{path}{name}")),
        };
        Ok(found.map(|(path, name)| (path.as_str(), name)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{By, Parser, Reason};
    use crate::time::TimeError;

    fn read(line: &[u8], by: &str) -> Result<(u64, String), Reason> {
        let mut parser = Parser::new(by.parse().unwrap());
        let parsed = parser.parse(line)?.unwrap();
        Ok((parsed.at_us, String::from_utf8(parsed.key.into_owned()).unwrap()))
    }

    fn check(line: &str, by: &str, key: &str) {
        assert_eq!(
            read(line.as_bytes(), by),
            Ok((1_431_857_103_250_000, key.into())),
            "{line} by {by}"
        );
    }

    #[test]
    fn finds_client_and_time_under_their_usual_names() {
        for line in [
            r#"{"remote_addr":"::1","time":"2015-05-17T10:05:03.25Z"}"#,
            r#"{"time_local":"17/May/2015:10:05:03.25 +0000","client_ip":"::1"}"#,
            r#" { "ts" : 1431857103.25 , "request": {"remote_ip": "::1", "uri": "/"} }"#,
            r#"{"@timestamp":"1431857103250","client":{"ip":"::1"}}"#,
            r#"{"msec":1431857103250000,"ip":"::1","host":"www.x.org"}"#,
            r#"{"timestamp":1.43185710325e9,"remote_host":"::1","client":null,"ip":"-"}"#,
            r#"{"ts":1431857103.25,"ip":"web.example","client":"::1","host":"2001:db8::1"}"#,
            r#"{"timestamp":1431857103250,"ip":"[::1]:99"}"#,
            r#"{"time":"2015-05-17T12:05:03.25+02:00","ip":"x","ip":"\u003a:1"}"#,
        ] {
            check(line, "ip", "::1");
        }
        check(r#"{"ts":1431857103.25,"remote_addr":"1.2.3.4:567"}"#, "ip", "1.2.3.4");
    }

    #[test]
    fn takes_any_field_by_its_path() {
        let line = r#"{"ts":1431857103.25,"ip":"::1","user":"ann","n":42,"ok":true,"a":{"b":{"c":
            "deep"},"b.d":1},"x.y":"flat","request":"GET /p/q?r HTTP/1.1","tab":"a\tb"}"#;
        for (by, key) in [
            ("user", "ann"),
            ("path", "/p/q"),
            ("n", "42"),
            ("ok", "true"),
            ("a.b.c", "deep"),
            ("a.b.d", "1"),
            ("x.y", "flat"),
            ("tab", "a\tb"),
            ("ts", "1431857103.25"),
        ] {
            check(line, by, key);
        }
        check(r#"{"ts":1431857103.25,"ip":"::1","url":"http://h/p?q"}"#, "path", "/p");
        check(r#"{"ts":1431857103.25,"ip":"::1","remote_user":"bob"}"#, "user", "bob");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_cost_the_line() {
        let line = b"{\"ts\":1431857103.25,\"ip\":\"::1\",\"agent\":\"\xe9\xff\"}";
        assert_eq!(read(line, "ip"), Ok((1_431_857_103_250_000, "::1".into())));
        assert_eq!(read(line, "agent").unwrap().1, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, by, reason) in [
            (r#"{"ts":1}"#, "ip", Reason::JsonNoClient),
            (r#"{"ip":"::1"}"#, "ip", Reason::JsonNoTime),
            (r#"{"ip":"::1","ts":{}}"#, "ip", Reason::JsonNoTime),
            (r#"{"ip":"::1","ts":1}"#, "user", Reason::NoField(By::User)),
            (r#"{"ip":"::1","ts":1,"user":"-"}"#, "user", Reason::NoField(By::User)),
            (
                r#"{"ip":"::1","ts":1,"a":{"b":[1]}}"#,
                "a.b",
                Reason::NoField(By::Field("a.b".into())),
            ),
            (r#"{"ip":"::1","ts":true}"#, "ip", TimeError::Form.into()),
            (r#"{"ip":"::1","ts":-5}"#, "ip", TimeError::BeforeEpoch.into()),
            (r#"{"ip":"::1","ts":1"#, "ip", Reason::Json { column: 18, cut: true }),
            (r#"{"ip":'::1'}"#, "ip", Reason::Json { column: 7, cut: false }),
            (r#"{"ip":"::1","ts":1} x"#, "ip", Reason::Json { column: 21, cut: false }),
            ("{}", "ip", Reason::JsonNoTime),
            ("{", "ip", Reason::Json { column: 1, cut: true }),
        ] {
            assert_eq!(read(line.as_bytes(), by), Err(reason), "{line}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_or_read_but_never_a_crash() {
        let deep = "{\"a\":".repeat(30_000);
        assert!(read(deep.as_bytes(), "a.a").is_err());
        let arrays =
            format!("{{\"ip\":\"::1\",\"ts\":1,\"x\":{}{}}}", "[".repeat(9_999), "]".repeat(9_999));
        let _ = read(arrays.as_bytes(), "ip");
        let path = ["a"; 128].join(".");
        let line = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
        let _ = read(line.as_bytes(), &path);
    }
}
