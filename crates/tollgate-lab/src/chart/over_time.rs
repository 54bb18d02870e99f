//! What was admitted and denied, over time.

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::list;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Bucket, CaseResult, Results};
use crate::figure::{real, span};
use crate::text::printable;

/// How many times as high as what is admitted denials are drawn.
const CUT: u64 = 4;

/// Admitted and denied attempts over time, with the capacity's share of a bucket as a line where
/// the experiment has a capacity.
#[must_use]
pub fn over_time(results: &Results) -> Chart {
    let timeline = Timeline::new(results, COLUMNS);
    let level = level(results);
    let heights = Heights::new(results, level);
    let panels: Vec<_> = results.cases.iter().map(|case| panel(case, timeline, level)).collect();
    Chart {
        title: "Admitted and denied over time".into(),
        says: says(results),
        across: Across::Time { end_us: timeline.end_us },
        scale: Scale::Count { unit: unit(results, timeline), top: heights.top },
        keys: keys(results, &heights, level),
        panels,
        below: None,
        is_low: false,
    }
}

fn panel(case: &CaseResult, timeline: Timeline, level: Option<f64>) -> Panel {
    let series = |value: fn(&Bucket) -> u64| Series {
        column_us: timeline.column_us,
        values: timeline.highest(&case.buckets, value),
    };
    let mut marks = vec![
        Mark::Area { ink: Ink::Admitted, series: series(|bucket| bucket.admitted) },
        Mark::Line { ink: Ink::Denied, series: series(|bucket| bucket.denied) },
    ];
    marks.extend(level.map(Mark::Level));
    Panel {
        name: case.name.clone(),
        note: format!("{} admitted, {} denied", case.admitted, case.denied),
        rows: Vec::new(),
        marks,
    }
}

fn unit(results: &Results, timeline: Timeline) -> String {
    let bucket = span(results.bucket_us);
    if timeline.is_coarse() {
        format!("attempts per {bucket}: the most of each {}", span(timeline.column_us))
    } else {
        format!("attempts per {bucket}")
    }
}

/// What the capacity is for one bucket, if it were spread evenly.
fn level(results: &Results) -> Option<f64> {
    let capacity = results.capacity.as_ref().filter(|capacity| capacity.window_us > 0)?;
    Some(real(capacity.units) * real(results.bucket_us) / real(capacity.window_us))
}

/// The highest of what is drawn. Denials can be a thousand times as many as what is let through,
/// which they would press flat; beyond [`CUT`] times as many they are cut, and the legend says so.
struct Heights {
    top: u64,
    /// The most denied, if it is above `top`.
    cut: Option<u64>,
}

impl Heights {
    fn new(results: &Results, level: Option<f64>) -> Self {
        let highest = |value: fn(&Bucket) -> u64| {
            let buckets = results.cases.iter().flat_map(|case| &case.buckets);
            buckets.map(value).max().unwrap_or(0)
        };
        let denied = highest(|bucket| bucket.denied);
        // Room for the line, which may lie between two counts.
        let admitted = highest(|bucket| bucket.admitted).max(level.map_or(0, ceil));
        let room = if admitted == 0 { denied } else { admitted.saturating_mul(CUT) };
        Self { top: denied.min(room).max(admitted), cut: (denied > room).then_some(denied) }
    }
}

/// The next whole number: a count that is only drawn.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn ceil(level: f64) -> u64 {
    level.ceil() as u64
}

fn keys(results: &Results, heights: &Heights, level: Option<f64>) -> Vec<Key> {
    let cut = heights.cut.map(|most| format!(", up to {most}: cut at the top"));
    let mut keys = vec![
        Key { shape: Shape::Area, ink: Ink::Admitted, text: "admitted".into() },
        Key {
            shape: Shape::Line,
            ink: Ink::Denied,
            text: format!("denied{}", cut.unwrap_or_default()),
        },
    ];
    if let (Some(capacity), Some(level)) = (&results.capacity, level) {
        let text = printable(capacity.text.as_bytes(), 24);
        // Two decimals and no zeros behind them.
        let level = format!("{level:.2}");
        let level = level.trim_end_matches('0').trim_end_matches('.');
        keys.push(Key {
            shape: Shape::Dashes,
            ink: Ink::Text,
            text: format!("capacity {text}: {level} per {}", span(results.bucket_us)),
        });
    }
    keys
}

/// The busiest bucket of the case that is the most uneven, and of the one that is the least.
fn says(results: &Results) -> String {
    let busiest =
        |case: &CaseResult| case.buckets.iter().map(|bucket| bucket.admitted).max().unwrap_or(0);
    let bucket = span(results.bucket_us);
    let peaks: Vec<_> = results.cases.iter().map(|case| (busiest(case), &*case.name)).collect();
    let (Some(&(most, _)), Some(&(least, _))) = (peaks.iter().max(), peaks.iter().min()) else {
        return "No case was finished.".into();
    };
    let of = |peak| -> Vec<_> {
        peaks.iter().filter(|(most, _)| *most == peak).map(|(_, name)| *name).collect()
    };
    if most == least {
        return format!("In its busiest {bucket}, every case let {most} through.");
    }
    format!(
        "In its busiest {bucket}, {} let {most} through; {} never more than {least}.",
        list(&of(most)),
        list(&of(least)),
    )
}
