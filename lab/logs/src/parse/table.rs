//! Lines of columns. Those of load balancers and proxies have fixed places; a header names the
//! columns of others.

use std::borrow::Cow;

use super::client::{self, Client};
use super::column::{Column, Kind};
use super::format::{Format, Hints};
use super::line::Reason;
use super::names::{CLIENT, FORWARDED, TIME};
use crate::time;

/// The most columns of a line.
const MAX_COLUMNS: usize = 256;

/// How a line is split into its columns.
#[derive(Debug)]
enum Split {
    /// At blanks, except within `"..."` and `[...]`. Parts in `{...}` are left out.
    Words,
    /// At tabs if there is one, else at blanks.
    Blanks,
    /// At each of these bytes, with quotes as RFC 4180 has them.
    Csv(u8, Box<csv_core::Reader>),
}

/// Where the time is.
#[derive(Debug, Clone, Copy)]
enum TimeAt {
    One(usize),
    /// A date and a time of day, in UTC.
    Two(usize, usize),
}

/// The columns of a format.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) format: Format,
    split: Split,
    names: Vec<String>,
    time: Option<TimeAt>,
    client: Option<usize>,
    forwarded: Option<usize>,
    /// The place of each column of the parser.
    columns: Vec<Option<usize>>,
    /// How many columns a line must have.
    needed: usize,
}

/// The values of a line.
#[derive(Debug)]
pub(super) struct Row<'a> {
    values: Vec<Cow<'a, [u8]>>,
}

/// The columns with fixed places, with the names that this crate gives them.
const FIXED: [(Format, &str); 6] = [
    (
        Format::Alb,
        "type time elb client target_host request_processing_time target_processing_time \
         response_processing_time status target_status_code received_bytes bytes request agent",
    ),
    (
        Format::Elb,
        "time elb client backend request_processing_time backend_processing_time \
         response_processing_time status backend_status_code received_bytes bytes request agent",
    ),
    (
        Format::S3,
        "bucket_owner bucket time client user request_id operation key request status error_code \
         bytes object_size total_time turn_around_time referer agent",
    ),
    (
        Format::Envoy,
        "time request status response_flags received_bytes bytes duration upstream_service_time \
         x_forwarded_for agent request_id authority upstream_host",
    ),
    (
        Format::Envoy,
        "time request status response_flags response_code_details termination_details \
         transport_failure_reason received_bytes bytes duration upstream_service_time \
         x_forwarded_for agent request_id authority upstream_host upstream_cluster \
         upstream_local_address downstream_local_address client requested_server_name route_name",
    ),
    (
        Format::Haproxy,
        "client time frontend backend timers status bytes request_cookie response_cookie \
         termination connections queues request",
    ),
];

/// The place of the second form of Envoy's lines in [`FIXED`]: Istio's.
const ISTIO: usize = 4;

/// The columns of the formats with fixed places, made when the first line of each comes.
#[derive(Debug, Default)]
pub(super) struct Fixed([Option<Table>; FIXED.len()]);

impl Fixed {
    /// The place of the columns of a line of this format, for [`Self::get`], and its values.
    pub(super) fn row<'a>(
        &mut self,
        format: Format,
        line: &'a [u8],
        (columns, hints): (&[Column], &Hints),
    ) -> Option<(usize, Result<Option<Row<'a>>, Reason>)> {
        let first = FIXED.iter().position(|(it, _)| *it == format)?;
        // Istio has words behind the flags, and Envoy a number.
        let is_istio = format == Format::Envoy
            && words(line, 5).last().is_some_and(|it| !it.iter().all(u8::is_ascii_digit));
        let place = if is_istio { ISTIO } else { first };
        let (format, names) = FIXED.get(place)?;
        let table = self.0.get_mut(place)?.get_or_insert_with(|| {
            let names = names.split_ascii_whitespace().map(str::to_owned).collect();
            Table::new(*format, Split::Words, names, columns, hints)
        });
        Some((place, table.row(line)))
    }

    pub(super) fn get(&self, place: usize) -> Option<&Table> {
        self.0.get(place)?.as_ref()
    }
}

impl Table {
    fn new(
        format: Format,
        split: Split,
        names: Vec<String>,
        columns: &[Column],
        hints: &Hints,
    ) -> Self {
        let plain: Vec<String> = names.iter().map(|name| letters(name)).collect();
        let place = |wanted: &str| {
            let exact = names.iter().position(|name| name == wanted);
            exact.or_else(|| plain.iter().position(|name| *name == letters(wanted)))
        };
        let first = |known: &[&str]| known.iter().find_map(|name| place(name));
        let time = match &hints.time_field {
            Some(name) => place(name).map(TimeAt::One),
            None => match (place("date"), place("time")) {
                (Some(date), Some(time)) => Some(TimeAt::Two(date, time)),
                _ => first(&TIME).map(TimeAt::One),
            },
        };
        let (client, forwarded) = match &hints.client_field {
            Some(name) => (place(name), None),
            None => (first(&CLIENT), first(&FORWARDED)),
        };
        let of = |column: &Column| column.names.iter().find_map(|name| place(name));
        let columns: Vec<Option<usize>> = columns.iter().map(of).collect();
        let times = match time {
            None => [None, None],
            Some(TimeAt::One(at)) => [Some(at), None],
            Some(TimeAt::Two(date, time)) => [Some(date), Some(time)],
        };
        let needed = times.into_iter().flatten().max().map_or(0, |last| last + 1);
        Self { format, split, names, time, client, forwarded, columns, needed }
    }

    /// The columns that a line `#Fields:` names, or `#fields` of Zeek.
    pub(super) fn of_directive(text: &[u8], columns: &[Column], hints: &Hints) -> Self {
        let names = String::from_utf8_lossy(text);
        let names: Vec<String> = names.split_ascii_whitespace().map(str::to_owned).collect();
        // CloudFront and Zeek write tabs, IIS blanks.
        Self::new(Format::W3c, Split::Blanks, names, columns, hints)
    }

    /// The columns that the first line of a log names; `None` for a line that is not a header. A
    /// header names a time, or the caller knows of it.
    pub(super) fn of_header(line: &[u8], columns: &[Column], hints: &Hints) -> Option<Self> {
        let count = |mark: u8| memchr::memchr_iter(mark, line).count();
        let mark = [b',', b'\t', b';'].into_iter().max_by_key(|mark| count(*mark))?;
        let reader = csv_core::ReaderBuilder::new().delimiter(mark).build();
        let mut split = Split::Csv(mark, Box::new(reader));
        let names = split.of(line);
        let names: Vec<String> =
            names.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
        let is_name = |name: &String| {
            let is_letter = |c: char| c.is_alphanumeric() || " _-.:@()/#[]".contains(c);
            name.chars().any(char::is_alphabetic)
                && name.len() <= 128
                && name.chars().all(is_letter)
        };
        if names.len() < 2 || !names.iter().all(is_name) {
            return None;
        }
        let table = Self::new(Format::Csv, split, names, columns, hints);
        let is_said = hints.format == Some(Format::Csv) || hints.time_field.is_some();
        (table.time.is_some() || is_said).then_some(table)
    }

    /// The values of a line; `None` for the header again, as in the next one of several files.
    ///
    /// # Errors
    /// There are fewer columns than those that every event needs.
    pub(super) fn row<'a>(&mut self, line: &'a [u8]) -> Result<Option<Row<'a>>, Reason> {
        let values = self.split.of(line);
        let is_header = values.len() == self.names.len()
            && self.names.iter().zip(&values).all(|(name, it)| name.as_bytes() == it.trim_ascii());
        if is_header {
            return Ok(None);
        }
        if values.len() < self.needed { Err(Reason::FewColumns) } else { Ok(Some(Row { values })) }
    }

    /// The time of a row, and whether it has a zone.
    pub(super) fn at(&self, row: &Row<'_>) -> Result<(u64, bool), Reason> {
        match self.time.ok_or_else(|| Reason::NoTimeColumn(self.listed()))? {
            TimeAt::One(at) => Ok(time::parse_any(row.get(at).trim_ascii())?),
            TimeAt::Two(date, time) => {
                let text = [row.get(date), b"T", row.get(time), b"Z"].concat();
                Ok((time::parse(&text)?, true))
            }
        }
    }

    pub(super) fn client<'a>(&self, row: &Row<'a>) -> Result<Client<'a>, Reason> {
        if self.client.is_none() && self.forwarded.is_none() {
            return Err(Reason::NoClientColumn(self.listed()));
        }
        let name = || self.client.and_then(|at| self.names.get(at)).cloned().unwrap_or_default();
        let forwarded = || self.forwarded.and_then(|at| row.value(at));
        client::client(name, self.client.and_then(|at| row.value(at)), forwarded)
    }

    /// The value of the column of the parser with this index; `None` when it is absent.
    pub(super) fn value<'a>(
        &self,
        row: &Row<'a>,
        index: usize,
        kind: Kind,
    ) -> Option<Cow<'a, [u8]>> {
        let place = self.columns.get(index).copied().flatten()?;
        Some(kind.cut(row.value(place)?)).filter(|value| !value.is_empty())
    }

    fn listed(&self) -> String {
        const MAX_SHOWN: usize = 300;
        crate::text::printable(self.names.join(", ").as_bytes(), MAX_SHOWN)
    }
}

impl<'a> Row<'a> {
    fn get(&self, at: usize) -> &[u8] {
        self.values.get(at).map_or(b"", |value| value)
    }

    /// A value, unless it is empty or `-`.
    fn value(&self, at: usize) -> Option<Cow<'a, [u8]>> {
        self.values.get(at).filter(|value| !matches!(&***value, b"" | b"-")).cloned()
    }
}

impl Split {
    fn of<'a>(&mut self, line: &'a [u8]) -> Vec<Cow<'a, [u8]>> {
        let has = |mark: u8| memchr::memchr(mark, line).is_some();
        let mark = match self {
            Self::Words => {
                return words(line, MAX_COLUMNS).into_iter().map(Cow::Borrowed).collect();
            }
            Self::Csv(_, reader) if has(b'"') => return quoted(line, reader),
            Self::Csv(mark, _) => *mark,
            Self::Blanks if has(b'\t') => b'\t',
            Self::Blanks => b' ',
        };
        let values = line.split(|byte| *byte == mark).take(MAX_COLUMNS);
        values.map(Cow::Borrowed).collect()
    }
}

/// The first words of a line.
fn words(line: &[u8], max: usize) -> Vec<&[u8]> {
    let mut rest = line.trim_ascii();
    let mut words = Vec::with_capacity(max.min(24));
    while let Some(first) = rest.first().filter(|_| words.len() < max) {
        let (word, tail) = match first {
            // Without a closing quote the text is cut, as in a common log.
            b'"' => super::clf::quoted(rest).unwrap_or_default(),
            b'[' => until(rest, b']'),
            b'{' => until(rest, b'}'),
            _ => rest.split_at(memchr::memchr(b' ', rest).unwrap_or(rest.len())),
        };
        if *first != b'{' {
            words.push(word);
        }
        rest = tail.trim_ascii_start();
    }
    words
}

/// The text between the first byte and this mark, and the text after it.
fn until(text: &[u8], mark: u8) -> (&[u8], &[u8]) {
    match memchr::memchr(mark, text) {
        Some(end) => (&text[1..end], &text[end + 1..]),
        None => (text, b""),
    }
}

/// The columns of a line with quotes.
fn quoted<'a>(line: &[u8], reader: &mut csv_core::Reader) -> Vec<Cow<'a, [u8]>> {
    reader.reset();
    let mut text = vec![0; line.len() + 1];
    let mut ends = [0; MAX_COLUMNS];
    let (_, _, written, most) = reader.read_record(line, &mut text, &mut ends);
    // A line without an end is one when nothing follows.
    let rest = text.get_mut(written..).unwrap_or_default();
    let (.., last) = reader.read_record(b"", rest, ends.get_mut(most..).unwrap_or_default());
    let ended = most + last;
    let mut from = 0;
    let mut values = Vec::with_capacity(ended);
    for end in ends.iter().take(ended) {
        values.push(Cow::Owned(text.get(from..*end).unwrap_or_default().to_vec()));
        from = *end;
    }
    values
}

/// The letters and digits of a name, in lower case: `Client IP` and `client_ip` are one.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
