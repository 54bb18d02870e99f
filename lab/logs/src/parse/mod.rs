//! Parses one line of a log into a client, a time and a cost.
//!
//! The format is detected line by line: see [`Format`]. The prefixes of programs that collect lines
//! are taken off first. A line is an event when the client, the time and the `--by` field can be
//! parsed, whatever follows them.

mod by;
mod clf;
mod client;
mod column;
mod endpoint;
mod format;
mod json;
mod line;
pub mod names;
mod signs;
mod table;
#[cfg(test)]
mod tests;
mod wrapped;

use std::borrow::Cow;

pub use self::by::{By, ByError, MAX_BY, MAX_FIELD};
pub(crate) use self::column::Column;
use self::column::{Kind, MAX_COLUMNS};
pub use self::format::{Format, Hints};
pub use self::line::{Parsed, Reason};
pub use self::signs::Signs;
use self::table::{Fixed, Row, Table};

/// The client of all requests, if they are counted together.
const ALL: &[u8] = b"all";

/// How deep lines are inside of each other: a line of JSON in one of a container in one of syslog.
const MAX_DEPTH: usize = 3;

/// Parses lines for one `--by` option.
///
/// # Examples
/// ```
/// use tollgate_logs::parse::Parser;
/// let mut parser = Parser::new("path".parse().unwrap());
/// let line = br#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 17"#;
/// let parsed = parser.parse(line).unwrap().unwrap();
/// assert_eq!((parsed.at_us, &*parsed.key), (1_431_857_103_000_000, &b"/a"[..]));
///
/// let mut parser = Parser::new("ip,path".parse().unwrap()).with_cost("bytes".parse().unwrap());
/// let parsed = parser.parse(line).unwrap().unwrap();
/// assert_eq!((&*parsed.key, parsed.cost), (&b"::1,/a"[..], Some(17)));
/// ```
#[derive(Debug)]
pub struct Parser {
    by: By,
    /// The parts of the key (none to count all requests together), and then the others.
    columns: Vec<Column>,
    others: Others,
    hints: Hints,
    json: json::Fields,
    fixed: Fixed,
    /// The columns that a header of this file named.
    header: Option<Table>,
    /// Whether this file had a line that was not blank.
    has_begun: bool,
}

/// The places of the columns that are not parts of the key.
#[derive(Debug, Clone, Copy)]
struct Others {
    /// The number of parts of the key.
    parts: usize,
    /// The cost.
    cost: Option<usize>,
    /// The status; the agent is behind it.
    signs: Option<usize>,
}

/// A parsed line.
#[derive(Clone, Copy)]
enum Values<'r, 'a> {
    Clf(&'r clf::Head<'a>),
    Json(&'r json::Fields, &'r json::Record<'a>),
    Row(&'r Table, &'r Row<'a>),
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

    /// A parser whose keys are pairs: the value of `each`, which is not [`By::All`] and whose paths
    /// are those of endpoints, and the client. All requests together are no client, so with
    /// [`By::All`] a key is the value alone.
    #[must_use]
    pub fn of_each(each: &By, by: &By) -> Self {
        let clients = if *by == By::All { &[] } else { by.fields() };
        let both: Vec<By> = each.fields().iter().chain(clients).cloned().collect();
        let parts = each.fields().iter().map(Column::each);
        let columns = parts.chain(clients.iter().map(Column::required)).collect();
        Self::of_columns(By::Several(both), columns)
    }

    /// A parser whose key has these columns, at most 19 of them.
    pub(crate) fn of_columns(by: By, columns: Vec<Column>) -> Self {
        debug_assert!(columns.len() + 3 <= MAX_COLUMNS, "room for a cost and two signs");
        let others = Others { parts: columns.len(), cost: None, signs: None };
        Self::with(by, columns, others, Hints::default())
    }

    fn with(by: By, columns: Vec<Column>, others: Others, hints: Hints) -> Self {
        let json = json::Fields::new(&columns, &hints);
        let fixed = Fixed::default();
        Self { by, columns, others, hints, json, fixed, header: None, has_begun: false }
    }

    /// The same parser, which also takes the cost from a field.
    #[must_use]
    pub fn with_cost(self, by: By) -> Self {
        self.with_cost_column(Column::optional(&by))
    }

    /// The same parser, which takes the cost from this column.
    pub(crate) fn with_cost_column(self, column: Column) -> Self {
        let Self { by, mut columns, others, hints, .. } = self;
        let others = Others { cost: Some(columns.len()), ..others };
        columns.push(column);
        Self::with(by, columns, others, hints)
    }

    /// The same parser, which also looks for the [`Signs`] of robots and scanners, by the status
    /// and the agent.
    #[must_use]
    pub fn with_signs(self) -> Self {
        let Self { by, mut columns, others, hints, .. } = self;
        let others = Others { signs: Some(columns.len()), ..others };
        let named = |name: &str| Column::optional(&By::Field(name.to_owned()));
        columns.extend([named("status"), named("agent")]);
        Self::with(by, columns, others, hints)
    }

    /// The same parser, with facts about the log.
    #[must_use]
    pub fn with_hints(self, hints: Hints) -> Self {
        Self::with(self.by, self.columns, self.others, hints)
    }

    /// The parser's `--by` option.
    #[must_use]
    pub const fn by(&self) -> &By {
        &self.by
    }

    /// Begins another file, whose header may be another one.
    pub fn begin_file(&mut self) {
        self.has_begun = false;
    }

    /// Parses one line, without its end; `None` for a line that belongs to the format, such as a
    /// header.
    ///
    /// # Errors
    /// [`Reason`] explains why the line is not an event.
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<Parsed<'a>>, Reason> {
        let parsed = self.parse_at(line, MAX_DEPTH);
        self.has_begun |= parsed != Err(Reason::Blank);
        parsed
    }

    fn parse_at<'a>(&mut self, line: &'a [u8], depth: usize) -> Result<Option<Parsed<'a>>, Reason> {
        let mut line = line.trim_ascii_start();
        if self.header.as_ref().is_none_or(|it| it.format == Format::W3c) {
            for _ in 0..wrapped::MAX_PREFIXES {
                let Some(rest) = wrapped::unwrapped(line) else { break };
                line = rest;
            }
        }
        match line.first() {
            None => Err(Reason::Blank),
            Some(b'{') => match std::str::from_utf8(line) {
                Ok(text) => self.parse_json(text, depth),
                // Some servers copy bytes of a request that are not UTF-8 into other fields; they
                // must not make the line invalid.
                Err(_) => {
                    let text = String::from_utf8_lossy(line);
                    let parsed = self.parse_json(&text, depth)?;
                    Ok(parsed.map(Parsed::into_owned))
                }
            },
            Some(_) => self.parse_text(line),
        }
    }

    fn parse_json<'a>(
        &mut self,
        text: &'a str,
        depth: usize,
    ) -> Result<Option<Parsed<'a>>, Reason> {
        let record = self.json.parse(text)?;
        if let Some(message) = record.message().filter(|_| depth > 0) {
            // Collectors keep the end of the line in it.
            let inner = self.parse_at(message.trim_ascii_end(), depth - 1);
            let inner = inner.map(|parsed| parsed.map(Parsed::into_owned));
            if inner.is_ok() || self.hints.format.is_some_and(|format| format != Format::Json) {
                return inner;
            }
            let own = self
                .is_of(Format::Json)
                .and_then(|()| self.parsed(Values::Json(&self.json, &record)).map(Some));
            return own.or(inner);
        }
        self.is_of(Format::Json)?;
        self.parsed(Values::Json(&self.json, &record)).map(Some)
    }

    /// Parses a line of text: of columns that a header named, of a format with fixed columns, or a
    /// common or combined one.
    fn parse_text<'a>(&mut self, line: &'a [u8]) -> Result<Option<Parsed<'a>>, Reason> {
        if let Some(directive) = line.strip_prefix(b"#") {
            let zeek = || directive.strip_prefix(b"fields\t");
            if let Some(names) = directive.strip_prefix(b"Fields:").or_else(zeek) {
                self.header = Some(Table::of_directive(names, &self.columns, &self.hints));
            }
            return Ok(None);
        }
        if !self.has_begun {
            let head = clf::Head::parse(line);
            if head.is_ok() || format_of(line, None).is_some() {
                // That of the file before, which had another format.
                self.header = None;
            } else if self.is_of(Format::Csv).is_ok()
                && let Some(header) = Table::of_header(line, &self.columns, &self.hints)
            {
                self.header = Some(header);
                return Ok(None);
            }
        }
        if let Some(row) = self.header.as_mut().map(|table| table.row(line)) {
            return self.of_row(self.header.as_ref(), row);
        }
        let head = clf::Head::parse(line);
        let fixed = format_of(line, head.as_ref().ok())
            .and_then(|format| self.fixed.row(format, line, (&self.columns, &self.hints)));
        if let Some((place, row)) = fixed {
            return self.of_row(self.fixed.get(place), row);
        }
        self.is_of(Format::Combined)?;
        self.parsed(Values::Clf(&head?)).map(Some)
    }

    /// The event of a row of this table; `None` for a header.
    fn of_row<'a>(
        &self,
        table: Option<&Table>,
        row: Result<Option<Row<'a>>, Reason>,
    ) -> Result<Option<Parsed<'a>>, Reason> {
        let (Some(table), Some(row)) = (table, row.transpose()) else { return Ok(None) };
        self.is_of(table.format)?;
        self.parsed(Values::Row(table, &row?)).map(Some)
    }

    /// # Errors
    /// The lines are said to have another format.
    fn is_of(&self, format: Format) -> Result<(), Reason> {
        match self.hints.format {
            Some(asked) if asked != format => Err(Reason::OtherFormat(asked)),
            _ => Ok(()),
        }
    }

    fn parsed<'a>(&self, values: Values<'_, 'a>) -> Result<Parsed<'a>, Reason> {
        let (at_us, has_zone) = match values {
            Values::Clf(head) => (head.at_us, head.has_zone),
            Values::Json(_, record) => record.at()?,
            Values::Row(table, row) => table.at(row)?,
        };
        let mut is_forwarded = false;
        let Others { parts, cost: cost_column, signs } = self.others;
        let key = match self.columns.get(..parts).unwrap_or_default() {
            [] => Cow::Borrowed(ALL),
            [one] if one.is_required => {
                self.value(values, 0, &mut is_forwarded)?.unwrap_or_default()
            }
            several => {
                let mut all = Vec::with_capacity(several.len());
                for index in 0..several.len() {
                    all.push(self.value(values, index, &mut is_forwarded)?.unwrap_or_default());
                }
                Cow::Owned(joined(all.iter().map(|value| &**value)))
            }
        };
        let cost = match cost_column {
            None => Some(1),
            Some(index) => {
                let value = self.value(values, index, &mut false)?;
                value.and_then(|value| cost(&value)).transpose()?
            }
        };
        let signs = match signs {
            None => Signs::default(),
            Some(index) => {
                let value = |index| self.value(values, index, &mut false);
                let (status, agent) = (value(index)?, value(index + 1)?);
                Signs::of(&status.unwrap_or_default(), &agent.unwrap_or_default())
            }
        };
        Ok(Parsed { at_us, key, cost, has_zone, is_forwarded, signs })
    }

    /// The value of a column; `None` where it is absent and not required.
    fn value<'a>(
        &self,
        values: Values<'_, 'a>,
        index: usize,
        is_forwarded: &mut bool,
    ) -> Result<Option<Cow<'a, [u8]>>, Reason> {
        let Some(column) = self.columns.get(index) else { return Ok(None) };
        let value = match values {
            _ if column.kind == Kind::Ip => self.client(values).map(|(client, forwarded)| {
                *is_forwarded |= forwarded;
                Some(client)
            }),
            Values::Json(_, record) => Ok(record.value(index, column.kind)),
            Values::Row(table, row) => Ok(table.value(row, index, column.kind)),
            Values::Clf(head) => match column.clf {
                Some(field) => head.field(field).map(|value| match value {
                    b"" | b"-" => None,
                    value => Some(Cow::Borrowed(value)),
                }),
                None => Err(Reason::UnknownField(column.by.to_string())),
            },
        };
        match value {
            Ok(None) if column.is_required => Err(Reason::NoField(column.by.clone())),
            Err(_) if !column.is_required => Ok(None),
            value => Ok(value?.map(|value| column.kind.formed(value))),
        }
    }

    fn client<'a>(&self, values: Values<'_, 'a>) -> Result<client::Client<'a>, Reason> {
        match values {
            Values::Json(fields, record) => record.client(fields),
            Values::Row(table, row) => table.client(row),
            Values::Clf(head) => match self.hints.client_field.as_deref() {
                None => head.client(),
                Some(name) => {
                    let field = clf::Field::named(name);
                    let field = field.ok_or_else(|| Reason::UnknownField(name.to_owned()))?;
                    let text = Some(head.field(field)?).filter(|text| !matches!(*text, b"" | b"-"));
                    client::client(|| name.to_owned(), text.map(Cow::Borrowed), || None)
                }
            },
        }
    }
}

/// The format of a line whose columns have fixed places. `head` is the line as a common log.
fn format_of(line: &[u8], head: Option<&clf::Head<'_>>) -> Option<Format> {
    const KINDS: [&[u8]; 6] = [b"http ", b"https ", b"h2 ", b"grpcs ", b"ws ", b"wss "];
    match line.first()? {
        b'[' if line.get(1..).is_some_and(wrapped::is_date) => return Some(Format::Envoy),
        b'0'..=b'9' if wrapped::begins_with_time(line) => return Some(Format::Elb),
        b'g' | b'h' | b'w' => {
            let kind = KINDS.iter().find(|kind| line.starts_with(kind));
            if kind.is_some_and(|kind| wrapped::begins_with_time(&line[kind.len()..])) {
                return Some(Format::Alb);
            }
        }
        _ => {}
    }
    let head = head.filter(|head| !head.has_request())?;
    let rest = head.rest().trim_ascii_start();
    // Its time has milliseconds and no zone, and names of a frontend and a server follow.
    if !head.has_zone && memchr::memchr(b'/', rest).is_some() {
        return Some(Format::Haproxy);
    }
    // An owner, a bucket, the time and the client.
    clf::begins_with_address(rest).then_some(Format::S3)
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

/// For a fuzz target: parses the lines of a log with every kind of `--by` option. It must not
/// panic, and an event must have a client and a time that a store accepts.
///
/// # Panics
/// The parser violates one of these guarantees.
pub fn fuzz_line(log: &[u8]) {
    let name = log.get(..log.len().min(8)).map(String::from_utf8_lossy).unwrap_or_default();
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
        let mut parser = Parser::new(by).with_cost(By::Field("bytes".into()));
        // The first one may be a header.
        for line in log.split(|byte| *byte == b'\n') {
            match parser.parse(line) {
                Ok(None) => {}
                Ok(Some(parsed)) => {
                    assert!(!parsed.key.is_empty() && parsed.cost != Some(0));
                    assert!(parsed.at_us < crate::time::END_US);
                }
                Err(reason) => assert!(!reason.to_string().is_empty()),
            }
        }
    }
    let _ = crate::time::parse(log);
}
