//! Output for people and machines: tables, JSON, remarks and errors.

use std::io::{self, Write as _};

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use indicatif::ProgressStyle;
use serde::Serialize;

/// How wide a table is, in columns, as those of the program `tollgate`.
const TABLE_COLUMNS: u16 = 100;

/// Writes text. A reader that went away (`| head`) is not an error.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Writes one JSON object on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    text(&format!("{}\n", serde_json::to_string(value)?))
}

/// Writes what was measured: as one JSON object, or as text.
pub(crate) fn figures<T: Serialize>(
    as_json: bool,
    figures: &T,
    in_words: impl FnOnce(&T) -> String,
) -> Result<()> {
    if as_json { json(figures) } else { text(&in_words(figures)) }
}

/// A table of at most [`TABLE_COLUMNS`]: the first column is text, the others are numbers.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let line = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(line)).set_header(header);
    // Without a terminal the library cannot know a width, and the output should be the same.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_COLUMNS);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The style of a progress bar: a template that is known to be sound; if it were not, the default
/// one would do.
pub(crate) fn bar(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A line on stderr for people, beside what was asked for; dropped when nobody reads it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "note: {text}");
}

/// Warns when this build measures nothing.
pub(crate) fn warn_of_debug() {
    if cfg!(debug_assertions) {
        note("this build is not optimised: figures need `cargo run --profile dist`");
    }
}

/// An error and its causes.
pub(crate) fn error(error: &anyhow::Error) {
    let mut stderr = io::stderr().lock();
    let mut said = error.to_string();
    let _ = writeln!(stderr, "error: {said}");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // A cause whose text is in the error above it is left out.
        if !said.contains(&cause) {
            let _ = writeln!(stderr, "  because: {cause}");
        }
        said = cause;
    }
}
