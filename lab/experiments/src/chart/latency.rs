//! The chart of latencies in real time.

use super::Chart;
use super::axis::Across;
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use super::raster::ROWS;
use crate::experiment::results::{CaseResult, Latency, Results};
use crate::figure::span;
use tollgate_logs::text::printable;

/// Percentiles of each case's latencies, one row per case, on one axis. `None` for simulated time,
/// which has no latencies.
#[must_use]
pub fn latency(results: &Results) -> Option<Chart> {
    let answered: Vec<_> = results.cases.iter().filter_map(with_latency).collect();
    let least = answered.iter().map(|(_, latency)| latency.p50).min()?;
    let most = answered.iter().map(|(_, latency)| latency.max).max()?;
    let key = |shape, ink, text: &str| Key { shape, ink, text: text.into() };
    Some(Chart {
        title: "How long answers took".into(),
        says: says(&answered),
        across: Across::took(least, most),
        scale: Scale::Rows { unit: "case".into() },
        keys: vec![
            key(Shape::Dot, Ink::Admitted, "half took no longer (p50)"),
            key(Shape::Low, Ink::Waiting, "99 of 100 took no longer (p99)"),
            key(Shape::High, Ink::Denied, "999 of 1,000 took no longer (p99.9)"),
            key(Shape::Line, Ink::Muted, "up to the longest"),
        ],
        // As many rows per panel as have room for their names.
        panels: answered.chunks(ROWS).map(panel).collect(),
        below: None,
        is_low: false,
    })
}

fn with_latency(case: &CaseResult) -> Option<(&CaseResult, &Latency)> {
    Some((case, case.live.as_ref()?.latency_us.as_ref()?))
}

fn panel(cases: &[(&CaseResult, &Latency)]) -> Panel {
    let marks = |ink, shape, from: fn(&Latency) -> u64, to: fn(&Latency) -> u64| {
        let runs = cases.iter().enumerate().map(|(row, (_, latency))| Run {
            row,
            from_us: from(latency),
            to_us: to(latency),
        });
        Mark::Moments { ink, shape, runs: runs.collect() }
    };
    Panel {
        name: "Latency".into(),
        note: "from due to answered".into(),
        rows: cases.iter().map(|(case, _)| printable(case.name.as_bytes(), usize::MAX)).collect(),
        marks: vec![
            marks(Ink::Muted, Shape::Line, |it| it.p50, |it| it.max),
            marks(Ink::Admitted, Shape::Dot, |it| it.p50, |it| it.p50),
            marks(Ink::Waiting, Shape::Low, |it| it.p99, |it| it.p99),
            marks(Ink::Denied, Shape::High, |it| it.p99_9, |it| it.p99_9),
        ],
    }
}

fn says(answered: &[(&CaseResult, &Latency)]) -> String {
    let by = |it: &&(&CaseResult, &Latency)| it.1.p99;
    let ends = answered.iter().min_by_key(by).zip(answered.iter().max_by_key(by));
    let Some(((fast, quick), (slow, long))) = ends else { return String::new() };
    if fast.name == slow.name {
        return format!("99 of 100 answers took no more than {}.", span(quick.p99));
    }
    format!(
        "99 of 100 answers took no more than {} with {}, and {} with {}.",
        span(quick.p99),
        name(&fast.name),
        span(long.p99),
        name(&slow.name)
    )
}
