//! The report as text, for a terminal or a log: no colours, only letters and blocks.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, TableStyle};

use super::measure::{self, Measure};
use super::{counts, stopped, summary};
use crate::chart::Timeline;
use crate::experiment::results::{Bucket, CaseResult, Results};
use crate::figure::span;
use crate::text::printable;

/// Less is not enough for a table, and more is not read in one look.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=160;
/// The most characters of a case's name in a table.
const NAME: usize = 16;
/// Lines of a chart.
const LINES: u32 = 4;

/// Results as text of about so many columns (40 to 160): findings, the table of measures, the
/// limits, and a chart of blocks for each case.
///
/// # Examples
/// ```no_run
/// # fn results() -> tollgate_lab::experiment::results::Results { unimplemented!() }
/// print!("{}", tollgate_lab::report::text(&results(), 80));
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
    tables(&mut out, results, width);
    limits(&mut out, results, width);
    bars(&mut out, results, width);
    out
}

/// Words in lines, the first after `mark`, the others below it.
fn paragraph(out: &mut String, width: usize, mark: &str, text: &str) {
    let indent = " ".repeat(mark.chars().count());
    let (mut line, mut used) = (mark.to_owned(), mark.chars().count());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if !is_empty && used + 1 + chars > width {
            out.push_str(&line);
            out.push('\n');
            (line, used, is_empty) = (indent.clone(), indent.len(), true);
        }
        if !is_empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += chars;
        is_empty = false;
    }
    out.push_str(&line);
    out.push('\n');
}

/// Measures down the side and cases across: as many as the width takes, then the next.
fn tables(out: &mut String, results: &Results, width: usize) {
    let measures = measure::of(results);
    let side = measures.iter().map(|measure| measure.title.len()).max().unwrap_or(0) + 2;
    let names = results.cases.iter().map(|case| short(case).chars().count());
    let column = names.max().unwrap_or(0).max(9) + 2;
    let across = (width.saturating_sub(side) / column).max(1);
    for cases in results.cases.chunks(across) {
        let _ = writeln!(out, "\n{}", table(&measures, cases).trim_fmt());
    }
    if results.cases.is_empty() {
        out.push_str("\nNo case was finished.\n");
    }
}

fn table(measures: &[&Measure], cases: &[CaseResult]) -> Table {
    let mut table = Table::new();
    let header = std::iter::once(String::new()).chain(cases.iter().map(short));
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

fn short(case: &CaseResult) -> String {
    printable(case.name.as_bytes(), NAME)
}

fn limits(out: &mut String, results: &Results, width: usize) {
    out.push('\n');
    for case in &results.cases {
        for limit in &case.limits {
            let held = if limit.holds { "holds" } else { "DOES NOT HOLD" };
            let (name, text) = (short(case), printable(limit.limit.as_bytes(), 80));
            let (counts, peak, promise) = (counts(limit), limit.peak, limit.promise);
            let line = format!("{name}: {text}, {counts}: peak {peak}, promised {promise}: {held}");
            paragraph(out, width, "- ", &line);
        }
    }
}

/// A chart for each case, all on one scale: how full the window of the capacity was or, without a
/// capacity, what was admitted.
fn bars(out: &mut String, results: &Results, width: usize) {
    let level = results.capacity.as_ref().map(|capacity| capacity.units);
    let value = |bucket: &Bucket| if level.is_some() { bucket.occupancy } else { bucket.admitted };
    let what = match &results.capacity {
        Some(capacity) => format!("Admitted in the last {}", span(capacity.window_us)),
        None => format!("Admitted per {}", span(results.bucket_us)),
    };
    let all = results.cases.iter().flat_map(|case| &case.buckets);
    let top = scale(all.map(value).max().unwrap_or(0).max(1), level);
    let labels = [top.to_string(), level.map_or_else(String::new, |level| level.to_string())];
    let side = labels.iter().map(String::len).max().unwrap_or(0);
    let timeline = Timeline::new(results, width.saturating_sub(side + 3));
    let mark = level.map_or_else(String::new, |level| format!("; ┄ is the capacity, {level}"));
    let column = span(timeline.column_us);
    out.push('\n');
    paragraph(out, width, "", &format!("{what}: a column is the most of {column}{mark}"));
    for case in &results.cases {
        let columns = timeline.highest(&case.buckets, value);
        let _ = writeln!(out, "\n{}", printable(case.name.as_bytes(), width.saturating_sub(3)));
        for line in (0..LINES).rev() {
            let label = label_of(line, top, level);
            let blocks = blocks(&columns, line, top, level);
            let _ = writeln!(out, "{label:>side$} │{}", blocks.trim_end());
        }
        let end = span(timeline.end_us);
        let drawn = columns.len().saturating_sub(1);
        let _ = writeln!(out, "{:>side$} └0{end:─>drawn$}", "");
    }
}

/// What the height of a chart stands for: at least `top`, and so that the level is where a line
/// ends, if it can be. Then all that is drawn above that line is above the level.
fn scale(top: u64, level: Option<u64>) -> u64 {
    let Some(level) = level else { return top };
    let top = top.max(level);
    let lines = u128::from(level) * u128::from(LINES) / u128::from(top);
    let height = (u128::from(level) * u128::from(LINES)).checked_div(lines);
    height.and_then(|height| u64::try_from(height).ok()).unwrap_or(top).max(top)
}

/// The line of a chart where a value ends.
fn line_of(value: u64, top: u64) -> u32 {
    let eighths = eighths_of(value, top);
    eighths.div_ceil(8).saturating_sub(1)
}

/// A value in eighths of a line, of which a chart has `8 * LINES`; more than 0 is at least 1.
fn eighths_of(value: u64, top: u64) -> u32 {
    let height = u128::from(value.min(top)) * u128::from(8 * LINES);
    u32::try_from(height.div_ceil(u128::from(top.max(1)))).unwrap_or(8 * LINES)
}

fn label_of(line: u32, top: u64, level: Option<u64>) -> String {
    match level {
        Some(level) if line == line_of(level, top) => level.to_string(),
        _ if line + 1 == LINES => top.to_string(),
        _ => String::new(),
    }
}

/// One line of a chart; where it has no block, the line of the level is marked.
fn blocks(columns: &[u64], line: u32, top: u64, level: Option<u64>) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let empty = match level {
        Some(level) if line == line_of(level, top) => '┄',
        _ => ' ',
    };
    let block = |value: &u64| match eighths_of(*value, top).saturating_sub(8 * line).min(8) {
        0 => empty,
        eighths => {
            usize::try_from(eighths).ok().and_then(|n| BLOCKS.get(n)).copied().unwrap_or('█')
        }
    };
    columns.iter().map(block).collect()
}
