//! The report as text, for a terminal or a log: without colours, only letters and blocks.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, TableStyle};

use super::measure::{self, Measure};
use super::paragraph::paragraph;
use super::{
    backend_in_words, backend_of, bars, counts, denied_in_words, nodes_in_words, queue_in_words,
    stopped, summary, with_denied,
};
use crate::experiment::results::{CaseResult, Results};
use tollgate_logs::text::printable;

/// A narrower text has no room for a table; a wider one is hard to read.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=160;
/// How many of the most denied clients are named per case.
const DENIED: usize = 5;
/// The most characters in a line of a case's name above a column.
const NAME: usize = 16;

/// Results as text with about this many columns (40 to 160): findings, a block chart for each
/// case, the table of measures, and the limits.
///
/// # Examples
/// ```no_run
/// use tollgate_experiments::experiment::results::Results;
///
/// fn show(results: &Results) {
///     print!("{}", tollgate_experiments::report::text(results, 80));
/// }
/// ```
#[must_use]
pub fn text(results: &Results, width: usize) -> String {
    let width = width.clamp(*WIDTH.start(), *WIDTH.end());
    let mut out = format!("{}\n", printable(results.name.as_bytes(), width.saturating_sub(3)));
    paragraph(&mut out, width, "", &format!("{} Seed {}.", summary(results), results.seed));
    if let Some(stopped) = stopped(results) {
        paragraph(&mut out, width, "", stopped);
    }
    if !results.findings.is_empty() {
        out.push('\n');
    }
    for finding in &results.findings {
        paragraph(&mut out, width, "- ", &printable(finding.as_bytes(), 1_000));
    }
    bars::draw(&mut out, results, width);
    tables(&mut out, results, width);
    denied(&mut out, results, width);
    limits(&mut out, results, width);
    out
}

/// One row per measure and one column per case, in as many tables as the width requires.
fn tables(out: &mut String, results: &Results, width: usize) {
    let measures = measure::applicable(results);
    let side = measures.iter().map(|measure| measure.title.len()).max().unwrap_or(0) + 2;
    let lines = results.cases.iter().flat_map(|case| head(case).lines().map(width_of).max());
    let column = lines.max().unwrap_or(0).max(9) + 2;
    let across = (width.saturating_sub(side) / column).max(1);
    for cases in results.cases.chunks(across) {
        let _ = writeln!(out, "\n{}", table(&measures, cases).trim_fmt());
    }
    if results.cases.is_empty() {
        out.push_str("\nNo case was begun.\n");
    }
}

fn table(measures: &[&Measure], cases: &[CaseResult]) -> Table {
    let mut table = Table::new();
    let header = std::iter::once(String::new()).chain(cases.iter().map(head));
    table.load_style(TableStyle::new()).set_header(header);
    for measure in measures {
        let values = cases.iter().map(|case| (measure.value)(case).shown());
        table.add_row(std::iter::once(measure.title.to_owned()).chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn width_of(line: &str) -> usize {
    line.chars().count()
}

/// A case's name above a column, in as many lines as necessary.
fn head(case: &CaseResult) -> String {
    let name = full(case);
    let mut lines = vec![String::new()];
    for word in name.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for (place, part) in letters.chunks(NAME).enumerate() {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = part,
                Some(line) if place == 0 && width_of(line) + 1 + width_of(&part) <= NAME => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines.join("\n")
}

/// The full name of a case, where there is room.
fn full(case: &CaseResult) -> String {
    printable(case.name.as_bytes(), 120)
}

/// The most denied clients of each case.
fn denied(out: &mut String, results: &Results, width: usize) {
    for (place, case) in with_denied(results).enumerate() {
        if place == 0 {
            out.push_str("\nDenied most often:\n");
        }
        paragraph(out, width, "- ", &format!("{}: {}", full(case), denied_in_words(case, DENIED)));
    }
}

fn limits(out: &mut String, results: &Results, width: usize) {
    if results.cases.iter().any(|case| !case.limits.is_empty() || case.queue.is_some()) {
        out.push('\n');
    }
    if let Some(backend) = backend_of(results) {
        paragraph(out, width, "- ", &format!("the backend: {}", backend_in_words(backend)));
    }
    for case in &results.cases {
        if let Some(queue) = &case.queue {
            let line = format!("{}: a queue: {}", full(case), queue_in_words(queue));
            paragraph(out, width, "- ", &line);
        }
        if let Some(nodes) = &case.nodes {
            let line = format!("{}: {}", full(case), nodes_in_words(nodes));
            paragraph(out, width, "- ", &line);
        }
        for limit in &case.limits {
            let held = if limit.holds { "holds" } else { "DOES NOT HOLD" };
            let (name, text) = (full(case), printable(limit.limit.as_bytes(), 80));
            let (counts, peak, promise) = (counts(limit), limit.peak, limit.promise);
            let line = format!("{name}: {text}, {counts}: peak {peak}, promised {promise}: {held}");
            paragraph(out, width, "- ", &line);
        }
    }
}
