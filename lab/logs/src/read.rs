//! Reads a log into ordered events, with a summary of the lines that were read and those that were
//! not.

use std::num::NonZeroUsize;
use std::path::Path;

use crate::describe::Descriptions;
use crate::error::Error;
use crate::event::{ClientId, Clients, Event};
use crate::order::{Ordered, Sorter, Sorting};
use crate::parse::{By, Hints, Parsed, Parser, Reason};
use crate::repeats::{Repeat, Repeats};
use crate::source::Lines;
use crate::text;

/// How many of the unparsed lines are shown.
pub const SHOWN_UNPARSED: usize = 3;

/// The most characters of such a line that are shown.
const SHOWN_CHARS: usize = 120;

/// Unpacked bytes between two calls of the progress function: about 50 calls a second.
const PROGRESS_BYTES: u64 = 4 << 20;

/// How to read a log.
///
/// # Examples
/// ```
/// use std::path::Path;
/// use tollgate_logs::{Lines, Reading};
///
/// let log: &[u8] =
///     b"::1 - - [17/May/2015:10:05:04 +0000]\n::1 - - [17/May/2015:10:05:03 +0000]\n";
/// let lines = Lines::from_reader(log, Path::new("-"), None)?;
/// let traffic = Reading::default().read_lines(lines, |_progress| ())?;
/// assert_eq!((traffic.summary.events, traffic.summary.out_of_order), (2, 1));
/// let stamps: Result<Vec<u64>, _> = traffic.ordered.iter()?.map(|e| e.map(|e| e.at_us)).collect();
/// assert_eq!(stamps?, [1_431_857_103_000_000, 1_431_857_104_000_000]);
/// # Ok::<(), tollgate_logs::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Reading {
    /// The field by which clients are distinguished.
    pub by: By,
    /// How events are sorted.
    pub sorting: Sorting,
    /// The field of the costs; without one each event has a cost of 1.
    pub cost: Option<By>,
    /// A field whose values are looked at one by one: the clients of the traffic are then pairs of
    /// a value and a client. Paths are those of endpoints.
    pub each: Option<By>,
    /// The format of the log, and the names of its fields, as far as they are known.
    pub hints: Hints,
    /// Whether the requests of clients are described.
    pub describes: bool,
    /// The most clients that are looked at. Beyond that the traffic is that of a sample of them:
    /// see [`Clients::one_in`]. Without a bound all clients are taken.
    pub max_clients: Option<NonZeroUsize>,
}

/// The progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Compressed bytes of the source that were read.
    pub bytes_read: u64,
    /// All compressed bytes of the source; `None` for a pipe.
    pub total_bytes: Option<u64>,
    /// Lines that were read.
    pub lines: u64,
}

/// The content of a log.
#[derive(Debug)]
#[non_exhaustive]
pub struct Traffic {
    /// Counts and problems.
    pub summary: Summary,
    /// The names of the clients.
    pub clients: Clients,
    /// The events in order.
    pub ordered: Ordered,
    /// The most frequent values of the clients' requests, if they are described.
    pub descriptions: Option<Descriptions>,
}

/// Statistics of a log. `lines` = `events` + `unparsed` + `headers`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// All lines.
    pub lines: u64,
    /// Unpacked bytes of all lines, including line ends.
    pub bytes: u64,
    /// Lines that are events.
    pub events: u64,
    /// Events without a usable cost, which cost 1: their field of costs is missing, 0 or no whole
    /// number.
    pub without_cost: u64,
    /// Events with an earlier timestamp than the event before them in the file.
    pub out_of_order: u64,
    /// Lines that belong to the format and are no events, such as the names of columns.
    pub headers: u64,
    /// Lines that are not events.
    pub unparsed: u64,
    /// The first of these, at most [`SHOWN_UNPARSED`].
    pub first_unparsed: Vec<Unparsed>,
    /// Those of them whose client is no address, while clients are counted by their addresses.
    pub not_addresses: u64,
    /// The first values of these, at most [`SHOWN_UNPARSED`], and the field that has them.
    pub first_not_addresses: Vec<String>,
    /// The name of that field.
    pub not_address_field: String,
    /// Events whose time has no zone, and is taken as UTC.
    pub without_zone: u64,
    /// Events whose client is an address that a proxy passed on.
    pub forwarded: u64,
    /// The pairs of files with the same lines.
    pub repeats: Vec<Repeat>,
    /// The earliest and the latest timestamp of the log, in microseconds since the Unix epoch.
    pub first_last_us: Option<(u64, u64)>,
    /// Distinct values of the `--by` field.
    pub clients: usize,
    /// Whether every timestamp is a whole second. The requests of a second then seem simultaneous,
    /// so a limit over less than some seconds denies more of them than it would have denied.
    /// [`Traffic::spread`] makes the opposite assumption.
    pub whole_seconds: bool,
}

/// A line that is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unparsed {
    /// The number of the line, from 1.
    pub line: u64,
    /// The problem with it.
    pub reason: Reason,
    /// Its beginning in printable form.
    pub text: String,
}

impl Reading {
    /// Reads with this `--by` option, and with defaults otherwise.
    #[must_use]
    pub fn by(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// Sets how events are sorted.
    #[must_use]
    pub fn with_sorting(mut self, sorting: Sorting) -> Self {
        self.sorting = sorting;
        self
    }

    /// Sets the field of the costs.
    #[must_use]
    pub fn with_cost(mut self, cost: Option<By>) -> Self {
        self.cost = cost;
        self
    }

    /// Looks at each value of a field.
    #[must_use]
    pub fn with_each(mut self, each: Option<By>) -> Self {
        self.each = each;
        self
    }

    /// Sets the facts about the log.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// Describes the requests of clients.
    #[must_use]
    pub fn with_descriptions(mut self) -> Self {
        self.describes = true;
        self
    }

    /// Sets the most clients that are looked at.
    #[must_use]
    pub fn with_max_clients(mut self, max: NonZeroUsize) -> Self {
        self.max_clients = Some(max);
        self
    }

    /// Reads the log at `path`, `-` for standard input, to its end. `progress` is called every few
    /// megabytes and once at the end.
    ///
    /// # Errors
    /// The log cannot be read to its end, a temporary file fails, or there are more than
    /// [`Clients::MAX`] clients.
    pub fn read(&self, path: &Path, progress: impl FnMut(Progress)) -> Result<Traffic, Error> {
        self.read_lines(Lines::open(path)?, progress)
    }

    /// Reads an open log, as [`Self::read`] does.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_lines(
        &self,
        lines: Lines,
        progress: impl FnMut(Progress),
    ) -> Result<Traffic, Error> {
        let parser = match &self.each {
            None => Parser::new(self.by.clone()),
            Some(each) => Parser::of_each(each, &self.by),
        };
        let parser = parser.with_hints(self.hints.clone());
        let parser = match &self.cost {
            Some(cost) => parser.with_cost(cost.clone()),
            None => parser,
        };
        let parser = if self.describes { parser.with_signs() } else { parser };
        let max = self.max_clients.map(NonZeroUsize::get);
        let id_of = |clients: &mut Clients, event: &Parsed<'_>| match max {
            None => clients.intern(&event.key).map(Some),
            Some(max) => clients.intern_sampled(&event.key, max),
        };
        let descriptions = self.describes.then(|| Descriptions::new(&self.hints));
        read_with((parser, descriptions), self.sorting.clone(), lines, id_of, progress)
    }
}

/// Reads an open log; `id_of` gives each event its client, or leaves it out.
pub(crate) fn read_with(
    (mut parser, mut descriptions): (Parser, Option<Descriptions>),
    sorting: Sorting,
    mut lines: Lines,
    mut id_of: impl FnMut(&mut Clients, &Parsed<'_>) -> Result<Option<ClientId>, Error>,
    mut progress: impl FnMut(Progress),
) -> Result<Traffic, Error> {
    let mut clients = Clients::new();
    let mut sorter = Sorter::new(sorting);
    let mut summary = Summary::default();
    let mut repeats = Repeats::default();
    let has_several = lines.paths().len() > 1;
    let mut next_progress = PROGRESS_BYTES;
    let mut file = 0;
    while let Some(line) = lines.next_line()? {
        summary.lines += 1;
        if line.file != file {
            file = line.file;
            parser.begin_file();
            descriptions.iter_mut().for_each(Descriptions::begin_file);
        }
        if has_several {
            repeats.see(file, line.text);
        }
        match if line.is_whole { parser.parse(line.text) } else { Err(Reason::TooLong) } {
            Ok(None) => {
                summary.headers += 1;
                descriptions.iter_mut().for_each(|all| all.pass(line.text));
            }
            Ok(Some(event)) => {
                summary.count(&event);
                if let Some(client) = id_of(&mut clients, &event)? {
                    let number = u32::try_from(summary.lines).unwrap_or(u32::MAX);
                    let new = Event::new(event.at_us, client).on_line(number);
                    descriptions.iter_mut().for_each(|all| all.see(client, event.signs, line.text));
                    sorter.push(new.with_cost(event.cost.unwrap_or(1)))?;
                }
            }
            Err(reason) => summary.refuse(reason, line.text),
        }
        if lines.unpacked_bytes() >= next_progress {
            next_progress = lines.unpacked_bytes() + PROGRESS_BYTES;
            progress(Progress::new(&lines, summary.lines));
        }
    }
    progress(Progress::new(&lines, summary.lines));
    let stats = sorter.stats();
    let summary = Summary {
        bytes: lines.unpacked_bytes(),
        out_of_order: stats.out_of_order,
        first_last_us: stats.first_last_us,
        clients: clients.len(),
        whole_seconds: stats.whole_seconds,
        repeats: repeats.found(lines.paths()),
        ..summary
    };
    drop(lines);
    Ok(Traffic { summary, clients, ordered: sorter.finish()?, descriptions })
}

impl Summary {
    fn count(&mut self, event: &Parsed<'_>) {
        self.events += 1;
        self.without_cost += u64::from(event.cost.is_none());
        self.without_zone += u64::from(!event.has_zone);
        self.forwarded += u64::from(event.is_forwarded);
    }

    fn refuse(&mut self, reason: Reason, text: &[u8]) {
        self.unparsed += 1;
        if let Reason::NotAddress { field, value } = &reason {
            self.not_addresses += 1;
            let known = &mut self.first_not_addresses;
            if known.len() < SHOWN_UNPARSED && !known.contains(value) {
                known.push(value.clone());
                self.not_address_field.clone_from(field);
            }
        }
        if self.first_unparsed.len() < SHOWN_UNPARSED {
            let text = text::printable(text, SHOWN_CHARS);
            self.first_unparsed.push(Unparsed { line: self.lines, reason, text });
        }
    }
}

impl Progress {
    fn new(lines: &Lines, count: u64) -> Self {
        let (bytes_read, total_bytes) = (lines.bytes_read(), lines.total_bytes());
        Self { bytes_read, total_bytes, lines: count }
    }
}

impl Traffic {
    /// The same traffic with every event moved to a seeded position within its second, see
    /// [`Ordered::spread`]. The summary still describes the log.
    ///
    /// # Errors
    /// [`Error::NothingToSpread`] when the timestamps are finer than seconds: moving such events
    /// would discard information. [`Error::Temporary`] when a temporary file fails.
    pub fn spread(self, seed: u64) -> Result<Self, Error> {
        if !self.summary.whole_seconds && self.summary.events > 0 {
            return Err(Error::NothingToSpread);
        }
        Ok(Self { ordered: self.ordered.spread(seed)?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MAX_LINE;

    fn read(log: &[u8], by: &str) -> Traffic {
        let lines = Lines::from_reader(std::io::Cursor::new(log.to_vec()), Path::new("x"), None);
        Reading::by(by.parse().unwrap()).read_lines(lines.unwrap(), |_| ()).unwrap()
    }

    #[test]
    fn counts_and_shows_the_lines_that_do_not_parse() {
        let mut log = b"\
            ::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n\
            \x1b]0;evil\x07\n\
            {\"ip\":\"::2\",\"ts\":1431857102.5}\n\
            \n\
            ::1 - - [31/Feb/2015:10:05:03 +0000]\n\
            nonsense\n"
            .to_vec();
        log.extend(std::iter::repeat_n(b'y', MAX_LINE + 1));
        let traffic = read(&log, "ip");
        let summary = &traffic.summary;
        assert_eq!((summary.lines, summary.events, summary.unparsed), (7, 2, 5));
        assert_eq!((summary.out_of_order, summary.clients, summary.whole_seconds), (1, 2, false));
        assert_eq!(summary.bytes, log.len() as u64);
        let shown: Vec<(u64, &str)> =
            summary.first_unparsed.iter().map(|u| (u.line, u.text.as_str())).collect();
        let third = "::1 - - [31/Feb/2015:10:05:03 +0000]";
        assert_eq!(shown, [(2, "\\x1b]0;evil\\x07"), (4, ""), (5, third)]);
        assert_eq!(summary.first_unparsed[1].reason, Reason::Blank);
        assert!(matches!(traffic.spread(1), Err(Error::NothingToSpread)));
    }

    #[test]
    fn a_log_without_events_is_no_error() {
        let traffic = read(b"", "ip").spread(7).unwrap();
        assert_eq!((traffic.summary.lines, traffic.summary.first_last_us), (0, None));
        assert!(traffic.ordered.is_empty() && traffic.clients.is_empty());
        let long = read(&vec![b'x'; MAX_LINE + 1], "ip").summary;
        assert_eq!((long.lines, long.first_unparsed[0].reason.clone()), (1, Reason::TooLong));
        assert_eq!(long.first_unparsed[0].text, format!("{}...", "x".repeat(120)));
    }

    #[test]
    fn progress_comes_to_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big.log");
        let line = b"::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n";
        std::fs::write(&path, line.repeat(200_000)).unwrap();
        let mut calls = Vec::new();
        Reading::default().read(&path, |progress| calls.push(progress)).unwrap();
        assert!(calls.len() > 2 && calls.is_sorted_by_key(|p| (p.bytes_read, p.lines)));
        let last = calls.last().unwrap();
        assert_eq!((Some(last.bytes_read), last.lines), (last.total_bytes, 200_000));
    }
}
