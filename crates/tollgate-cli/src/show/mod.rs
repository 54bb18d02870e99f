//! Output for people and machines: standard output, durations, decisions.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use tollgate::Time;
pub(crate) use tollgate::wire::{Wait, duration};

pub(crate) mod decision;
mod page;
mod table;
mod verbosity;
mod width;

pub(crate) use page::page;
pub(crate) use table::{Table, table, texts};
pub(crate) use verbosity::{Verbosity, is_quiet, is_verbose, set_verbosity};
pub(crate) use width::{columns, wrapped};

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

    /// Writes text for people, whose wide lines are wrapped.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        self.exact(&width::fitted(text, columns()))
    }

    /// Writes text as it is: scripts, files, commands to copy. Removes its colours where they are
    /// not wanted.
    pub(crate) fn exact(&mut self, text: &str) -> Result<()> {
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

    /// Writes one line of text for people, wrapped if it is wide.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.text(&format!("{}\n", text.as_ref()))
    }

    /// Writes one JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.exact(&format!("{}\n", serde_json::to_string(value)?))
    }
}

/// The style of a progress bar. The template is known to be valid; otherwise the default style is
/// used.
pub(crate) fn bar(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A progress bar on stderr, if that is a terminal and `--quiet` is absent.
pub(crate) fn progress(length: Option<u64>) -> ProgressBar {
    match (verbosity::verbosity(), length) {
        (Verbosity::Quiet, _) => ProgressBar::hidden(),
        (_, Some(length)) => ProgressBar::new(length),
        (_, None) => ProgressBar::new_spinner(),
    }
}

/// Prints a line on stderr; errors are ignored.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a note on stderr, unless `--quiet` is given; errors are ignored.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        let _ = writeln!(anstream::stderr().lock(), "note: {text}");
    }
}

/// Whether a wait is printed: on a terminal, where somebody watches, or with `--verbose`.
pub(crate) fn says_waits() -> bool {
    match verbosity::verbosity() {
        Verbosity::Quiet => false,
        Verbosity::Usual => std::io::stderr().is_terminal(),
        Verbosity::Verbose => true,
    }
}

/// Prints a step of the work on stderr if `--verbose` is given; errors are ignored.
pub(crate) fn step(text: &str) {
    if is_verbose() {
        say(text);
    }
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
