//! What was admitted and denied, over time.

use super::Chart;
use super::columns::{COLUMNS, Timeline};
use super::label::list;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Bucket, CaseResult, Results};
use crate::figure::{ratio, real, span};
use crate::text::printable;

/// Admitted and denied attempts over time, with the capacity's share of a bucket as a line where
/// the experiment has a capacity.
#[must_use]
pub fn over_time(results: &Results) -> Chart {
    let timeline = Timeline::new(results, COLUMNS);
    let level = results
        .capacity
        .as_ref()
        .map(|capacity| real(capacity.units) * ratio(results.bucket_us, capacity.window_us));
    let panels: Vec<_> = results.cases.iter().map(|case| panel(case, timeline, level)).collect();
    Chart {
        title: "Admitted and denied over time".into(),
        says: says(results),
        end_us: timeline.end_us,
        scale: Scale::Count { unit: unit(results, timeline), top: top(results, level) },
        keys: keys(results, level),
        panels,
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

fn top(results: &Results, level: Option<f64>) -> u64 {
    let buckets = results.cases.iter().flat_map(|case| &case.buckets);
    let highest = buckets.map(|bucket| bucket.admitted.max(bucket.denied)).max().unwrap_or(0);
    match (&results.capacity, level) {
        // Room for the line; it may lie between two counts.
        (Some(capacity), Some(level)) if level > real(highest) => {
            let share = u128::from(capacity.units) * u128::from(results.bucket_us);
            let share = share.div_ceil(u128::from(capacity.window_us.max(1)));
            u64::try_from(share).unwrap_or(u64::MAX)
        }
        _ => highest,
    }
}

fn keys(results: &Results, level: Option<f64>) -> Vec<Key> {
    let mut keys = vec![
        Key { shape: Shape::Area, ink: Ink::Admitted, text: "admitted".into() },
        Key { shape: Shape::Line, ink: Ink::Denied, text: "denied".into() },
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
