//! A block chart for each case, all on one scale.

use std::fmt::Write as _;

use super::paragraph::paragraph;
use crate::chart::Timeline;
use crate::experiment::results::{Bucket, Results};
use crate::figure::span;
use tollgate_logs::text::printable;

/// The lines of a chart.
const LINES: u32 = 4;
/// A block from empty to full, in eighths.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the occupancy of the capacity's window or, without a capacity, the admitted attempts; the
/// depth of queues; and the requests in flight at a backend.
pub(super) fn draw(out: &mut String, results: &Results, width: usize) {
    let level = results.capacity.as_ref().map(|capacity| capacity.units);
    let value = |bucket: &Bucket| if level.is_some() { bucket.occupancy } else { bucket.admitted };
    let series = results.cases.iter().map(|case| {
        let values = case.buckets.iter().map(value).collect();
        (case.name.as_str(), values)
    });
    let [admitted, _] = results.words();
    let what = match &results.capacity {
        Some(capacity) => format!("Admitted in the last {}", span(capacity.window_us)),
        None if admitted == "accepted" => format!("Accepted per {}", span(results.bucket_us)),
        None => format!("Admitted per {}", span(results.bucket_us)),
    };
    let level = level.map(|level| (level, "capacity"));
    bars(out, results, width, Bars { what, level, series: series.collect() });

    let queues = results.cases.iter().filter_map(|case| Some((case, case.queue.as_ref()?)));
    let series = queues.clone().map(|(case, queue)| {
        let values = queue.buckets.iter().map(|bucket| bucket.depth).collect();
        (case.name.as_str(), values)
    });
    // A bound far above the depth would flatten the rest.
    let deepest = queues.clone().map(|(_, queue)| queue.depth_max).max().unwrap_or(0);
    let mut bounds = queues.map(|(_, queue)| queue.bound);
    let first = bounds.next().filter(|bound| *bound <= deepest.saturating_mul(4));
    let level = first.filter(|first| bounds.all(|bound| bound == *first));
    let level = level.map(|level| (level, "bound"));
    let what = "Depth of the queue".to_owned();
    bars(out, results, width, Bars { what, level, series: series.collect() });

    let backends = results.cases.iter().filter_map(|case| Some((case, case.backend.as_ref()?)));
    let series = backends.map(|(case, backend)| {
        let values = backend.buckets.iter().map(|bucket| bucket.in_flight).collect();
        (case.name.as_str(), values)
    });
    let what = "In flight at the backend".to_owned();
    bars(out, results, width, Bars { what, level: None, series: series.collect() });
}

/// Charts on one scale.
struct Bars<'r> {
    what: String,
    /// A marked level, and its name.
    level: Option<(u64, &'static str)>,
    /// The name of each case, with a value for each bucket.
    series: Vec<(&'r str, Vec<u64>)>,
}

fn bars(out: &mut String, results: &Results, width: usize, bars: Bars<'_>) {
    let Bars { what, level, series } = bars;
    if series.is_empty() {
        return;
    }
    let highest = series.iter().flat_map(|(_, values)| values).max().copied();
    let scale = Scale::new(highest.unwrap_or(0), level.map(|(level, _)| level));
    let labels: Vec<_> = (0..LINES).rev().map(|line| scale.label(line)).collect();
    let side = labels.iter().map(String::len).max().unwrap_or(0);
    let timeline = Timeline::new(results, width.saturating_sub(side + 3));

    let mark = level.map_or_else(String::new, |(level, is)| format!("; ┄ is the {is}, {level}"));
    let column = span(timeline.column_us);
    out.push('\n');
    paragraph(out, width, "", &format!("{what}: a column is the most of {column}{mark}"));
    for (name, values) in &series {
        let columns = timeline.highest(values, |value| *value);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n{}", printable(name.as_bytes(), width.saturating_sub(3)));
        for (line, label) in (0..LINES).rev().zip(&labels) {
            let blocks = scale.blocks(&columns, line);
            let _ = writeln!(out, "{label:>side$} │{}", blocks.trim_end());
        }
        let end = span(timeline.end_us);
        let drawn = columns.len().saturating_sub(1);
        let _ = writeln!(out, "{:>side$} └0{end:─>drawn$}", "");
    }
}

/// The vertical scale of a chart.
struct Scale {
    top: u64,
    /// The line whose upper edge is the capacity, and the capacity.
    level: Option<(u32, u64)>,
}

impl Scale {
    /// A scale up to at least `highest`. If possible, the level is at the edge of a line:
    /// everything drawn above that line is then above the level.
    fn new(highest: u64, level: Option<u64>) -> Self {
        let highest = highest.max(level.unwrap_or(0)).max(1);
        let Some(level) = level else { return Self { top: highest, level: None } };
        let height = u128::from(level) * u128::from(LINES);
        let lines = height / u128::from(highest);
        let top = height.checked_div(lines).and_then(|top| u64::try_from(top).ok());
        let mut scale = Self { top: top.unwrap_or(highest).max(highest), level: None };
        let line = scale.eighths(level).div_ceil(8).saturating_sub(1);
        scale.level = Some((line, level));
        scale
    }

    /// A value in eighths of a line; more than 0 is at least 1.
    fn eighths(&self, value: u64) -> u32 {
        let height = u128::from(value.min(self.top)) * u128::from(8 * LINES);
        u32::try_from(height.div_ceil(u128::from(self.top))).unwrap_or(8 * LINES)
    }

    fn label(&self, line: u32) -> String {
        match self.level {
            Some((at, level)) if at == line => level.to_string(),
            _ if line + 1 == LINES => self.top.to_string(),
            _ => String::new(),
        }
    }

    /// One line of a chart; the level is marked where no block covers it.
    fn blocks(&self, columns: &[u64], line: u32) -> String {
        let empty = if self.level.is_some_and(|(at, _)| at == line) { '┄' } else { ' ' };
        let block = |value: &u64| match self.eighths(*value).saturating_sub(8 * line) {
            0 => empty,
            eighths => {
                let full = usize::try_from(eighths.min(8)).unwrap_or(8);
                BLOCKS.get(full).copied().unwrap_or('█')
            }
        };
        columns.iter().map(block).collect()
    }
}
