//! The chart of the units admitted in the last window of the capacity.

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::{list, name};
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Capacity, CaseResult, Results};
use crate::figure::{length, real};

/// The units admitted in the last window of the capacity at every moment, with a line for the
/// capacity. `None` for an experiment without a capacity.
#[must_use]
pub fn occupancy(results: &Results) -> Option<Chart> {
    let capacity = results.capacity.as_ref()?;
    let timeline = Timeline::new(results, COLUMNS);
    let window = length(capacity.window_us);
    let panels = results.cases.iter().map(|case| panel(case, capacity, timeline)).collect();
    let peak = results.cases.iter().map(peak_of).max().unwrap_or(0);
    let key = |shape, ink, text: String| Key { shape, ink, text };
    Some(Chart {
        title: format!("Admitted in the last {window}, against the capacity"),
        says: says(results, capacity),
        across: Across::time(timeline.end_us, results),
        scale: Scale::Count {
            unit: format!("admitted in the last {window}"),
            top: peak.max(capacity.units),
        },
        keys: vec![
            key(Shape::Area, Ink::Admitted, "within the capacity".into()),
            key(Shape::Area, Ink::Over, "above it".into()),
            key(Shape::Dashes, Ink::Text, format!("capacity: {} in {window}", capacity.units)),
        ],
        panels,
        below: None,
        is_low: false,
    })
}

fn panel(case: &CaseResult, capacity: &Capacity, timeline: Timeline) -> Panel {
    let series = Series {
        column_us: timeline.column_us,
        values: timeline.highest(&case.buckets, |bucket| bucket.occupancy),
    };
    let level = real(capacity.units);
    let peak = peak_of(case);
    Panel {
        name: case.name.clone(),
        note: match peak.checked_sub(capacity.units) {
            Some(over @ 1..) => format!("at most {peak}: {over} too many"),
            _ => format!("at most {peak}"),
        },
        rows: Vec::new(),
        marks: vec![
            Mark::Area { ink: Ink::Admitted, series: series.clone() },
            Mark::Above { ink: Ink::Over, level, series },
            Mark::Level(level),
        ],
    }
}

/// The most units in any window of the capacity: the exact peak if the case has one, else the most
/// that a bucket saw.
fn peak_of(case: &CaseResult) -> u64 {
    let seen = case.buckets.iter().map(|bucket| bucket.occupancy).max();
    case.peak.or(seen).unwrap_or(0)
}

fn says(results: &Results, capacity: &Capacity) -> String {
    let window = length(capacity.window_us);
    let units = capacity.units;
    let cases = || results.cases.iter();
    let Some(most) = cases().map(peak_of).max() else {
        return "No case was finished.".into();
    };
    let (held, mut over): (Vec<_>, Vec<_>) = cases().partition(|case| peak_of(case) <= units);
    if over.is_empty() {
        return format!(
            "Every case kept to {units} in {window}; the most that got through is {most}."
        );
    }
    over.sort_by_key(|case| core::cmp::Reverse(peak_of(case)));
    let each =
        over.iter().map(|case| format!("{} let {} through", name(&case.name), peak_of(case)));
    let each = each.collect::<Vec<_>>().join(", ");
    let mut says = format!("Where {units} are allowed in {window}, {each}");
    if !held.is_empty() {
        let names: Vec<&str> = held.iter().map(|case| &*case.name).collect();
        says.push_str(&format!("; {} kept to it", list(&names)));
    }
    says.push('.');
    says
}
