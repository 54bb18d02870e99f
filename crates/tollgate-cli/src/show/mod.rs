//! Output for people and machines: standard output, durations, decisions.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use indicatif::ProgressStyle;
use jiff::Timestamp;
use serde::Serialize;
use tollgate::Time;
pub(crate) use tollgate::wire::{Wait, duration};

pub(crate) mod decision;

/// The width of a table in columns: enough for the numbers; a long limit takes several lines.
const TABLE_COLUMNS: u16 = 100;

/// Standard output. A closed pipe (`| head`) is not an error: the remaining output is discarded,
/// and the command ends as usual.
#[derive(Debug)]
pub(crate) struct Output {
    open: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { open: true }
    }

    /// Whether the pipe is still open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Writes text; removes its colours where they are not wanted.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        if !self.open {
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.open = false;
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Writes one line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.text(&format!("{}\n", text.as_ref()))
    }

    /// Writes one JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string(value)?)
    }
}

/// A table of at most [`TABLE_COLUMNS`]: the first column is text, the others are numbers.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = texts(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The same with text in all columns.
pub(crate) fn texts<const N: usize>(header: [&str; N]) -> Table {
    let line = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(line)).set_header(header);
    // The width is fixed, since without a terminal it is unknown, and the output should be the
    // same.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_COLUMNS);
    table
}

/// Wraps text into lines. Each but the first is indented; the first continues a line that is
/// already indented. Words are never broken.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    const COLUMNS: usize = 97;
    let width = COLUMNS.saturating_sub(indent);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.chars().count() > width {
            lines.push_str(&format!("\n{:indent$}", ""));
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.chars().count();
    }
    lines
}

/// The style of a progress bar. The template is known to be valid; otherwise the default style is
/// used.
pub(crate) fn bar(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Prints a line on stderr; errors are ignored.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a note on stderr; errors are ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "note: {text}");
}

/// A store's time in readable form, in UTC.
pub(crate) fn time(us: u64) -> String {
    i64::try_from(us)
        .ok()
        .and_then(|us| Timestamp::from_microsecond(us).ok())
        .map_or_else(|| format!("{us} us after the epoch"), |time| time.to_string())
}

/// The distance of `time` from `now`, in words.
pub(crate) fn distance(time: Time, now: Time) -> String {
    let us = time.as_micros().abs_diff(now.as_micros());
    let length = duration(Duration::from_micros(us));
    if time > now { format!("in {length}") } else { format!("{length} ago") }
}

/// `1 unit`, `5 units`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(1_500_000), "1970-01-01T00:00:01.5Z");
        assert_eq!(time(u64::MAX), "18446744073709551615 us after the epoch");
    }
}
