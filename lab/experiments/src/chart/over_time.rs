//! The chart of admitted and denied attempts over time.

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::list;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Bucket, CaseResult, Results};
use crate::figure::span;

/// Denials are drawn up to this multiple of the highest admitted value.
const CUT: u64 = 2;

/// Admitted and denied attempts over time.
///
/// The chart has no line for the capacity: a strategy that keeps to 100 in 10 s may admit them
/// within one second, and would seem to admit ten times too many. [`occupancy`](super::occupancy)
/// shows the capacity.
#[must_use]
pub fn over_time(results: &Results) -> Chart {
    let timeline = Timeline::new(results, COLUMNS);
    let heights = Heights::new(results);
    let panels: Vec<_> = results.cases.iter().map(|case| panel(case, timeline)).collect();
    Chart {
        title: "Admitted and denied over time".into(),
        says: says(results),
        across: Across::time(timeline.end_us, results),
        scale: Scale::Count { unit: unit(results, timeline), top: heights.top },
        keys: keys(&heights),
        panels,
        below: None,
        is_low: false,
    }
}

fn panel(case: &CaseResult, timeline: Timeline) -> Panel {
    let series = |value: fn(&Bucket) -> u64| Series {
        column_us: timeline.column_us,
        values: timeline.highest(&case.buckets, value),
    };
    let marks = vec![
        Mark::Area { ink: Ink::Admitted, series: series(|bucket| bucket.admitted) },
        Mark::Line { ink: Ink::Denied, series: series(|bucket| bucket.denied) },
    ];
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

/// The highest drawn values. There can be a thousand times as many denials as admitted attempts,
/// which would flatten the latter. Denials beyond [`CUT`] times as many are cut off, and the legend
/// states it.
struct Heights {
    top: u64,
    /// The most denied, if it is above `top`.
    cut: Option<u64>,
}

impl Heights {
    fn new(results: &Results) -> Self {
        let highest = |value: fn(&Bucket) -> u64| {
            let buckets = results.cases.iter().flat_map(|case| &case.buckets);
            buckets.map(value).max().unwrap_or(0)
        };
        let denied = highest(|bucket| bucket.denied);
        let admitted = highest(|bucket| bucket.admitted);
        let room = if admitted == 0 { denied } else { admitted.saturating_mul(CUT) };
        Self { top: denied.min(room).max(admitted), cut: (denied > room).then_some(denied) }
    }
}

fn keys(heights: &Heights) -> Vec<Key> {
    let cut = heights.cut.map(|most| format!(", up to {most}: cut at the top"));
    vec![
        Key { shape: Shape::Area, ink: Ink::Admitted, text: "admitted".into() },
        Key {
            shape: Shape::Line,
            ink: Ink::Denied,
            text: format!("denied{}", cut.unwrap_or_default()),
        },
    ]
}

/// A sentence on the busiest bucket of the burstiest case, and of the least bursty one.
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
