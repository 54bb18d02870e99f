//! The chart of one edge of a window, from close by.

use super::Chart;
use super::axis::Across;
use super::label::list;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Bucket, CaseResult, Results, Zoom};
use crate::figure::span;

/// Admitted and denied attempts around the first edge that a workload attacks. `None` without one.
#[must_use]
pub fn edge(results: &Results) -> Option<Chart> {
    let zoom = results.zoom?;
    let buckets = || results.cases.iter().flat_map(|case| &case.zoom);
    let all = |bucket: &Bucket| bucket.admitted.saturating_add(bucket.denied);
    let key = |ink, text: &str| Key { shape: Shape::Area, ink, text: text.into() };
    Some(Chart {
        title: format!("The edge after {}, from close by", span(zoom.edge_us)),
        says: says(results, zoom),
        across: Across::Around { reach_us: zoom.reach_us },
        scale: Scale::Count {
            unit: format!("attempts per {}", span(zoom.bucket_us)),
            top: buckets().map(all).max().unwrap_or(0),
        },
        keys: vec![key(Ink::Admitted, "admitted"), key(Ink::Denied, "denied")],
        panels: results.cases.iter().map(|case| panel(case, zoom)).collect(),
        below: None,
        is_low: false,
    })
}

fn panel(case: &CaseResult, zoom: Zoom) -> Panel {
    let series = |value: &dyn Fn(&Bucket) -> u64| Series {
        column_us: zoom.bucket_us,
        values: case.zoom.iter().map(value).collect(),
    };
    let [before, after] = sides(case);
    Panel {
        name: case.name.clone(),
        note: format!("{before} admitted before, {after} after"),
        rows: Vec::new(),
        marks: vec![
            // Admitted attempts are drawn over all attempts, so the visible rest was denied.
            Mark::Area {
                ink: Ink::Denied,
                series: series(&|it| it.admitted.saturating_add(it.denied)),
            },
            Mark::Area { ink: Ink::Admitted, series: series(&|it| it.admitted) },
        ],
    }
}

/// The attempts that were admitted before the edge, and from it on.
fn sides(case: &CaseResult) -> [u64; 2] {
    let (before, after) = case.zoom.split_at(case.zoom.len() / 2);
    [before, after].map(|side| side.iter().map(|bucket| bucket.admitted).sum())
}

/// The cases that let most through on both sides together, and those that let the fewest.
fn says(results: &Results, zoom: Zoom) -> String {
    let both = |case: &CaseResult| sides(case).iter().sum::<u64>();
    let cases = || results.cases.iter();
    let Some((most, least)) = cases().map(both).max().zip(cases().map(both).min()) else {
        return "No case was finished.".into();
    };
    let of = |sum: u64| -> Vec<&str> {
        cases().filter(|case| both(case) == sum).map(|case| &*case.name).collect()
    };
    let within = span(zoom.reach_us.saturating_mul(2));
    if most == least {
        return format!("Within {within} around the edge every case let {most} through.");
    }
    format!(
        "Within {within} around the edge {} let {most} through, and {} {least}.",
        list(&of(most)),
        list(&of(least))
    )
}
