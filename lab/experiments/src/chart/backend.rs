//! The charts of a backend: requests in flight, their latency, and the finished and denied ones.

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{BackendBucket, BackendResult, Bucket, CaseResult, Results};
use crate::figure::{length, plural, real, span};

type OfBackend<'r> = (&'r CaseResult, &'r BackendResult);

/// The cases in front of a backend; `None` for an experiment without one.
fn backends(results: &Results) -> Option<Vec<OfBackend<'_>>> {
    let backends = results.cases.iter().filter_map(|case| Some((case, case.backend.as_ref()?)));
    let backends: Vec<_> = backends.collect();
    (!backends.is_empty()).then_some(backends)
}

fn key(shape: Shape, ink: Ink, text: &str) -> Key {
    Key { shape, ink, text: text.into() }
}

/// A chart with these marks for each case, and the slow phases behind them.
struct Sketch<'r> {
    title: &'static str,
    says: String,
    scale: Scale,
    keys: Vec<Key>,
    note: fn(&OfBackend<'_>) -> String,
    marks: &'r dyn Fn(&OfBackend<'_>) -> Vec<Mark>,
}

fn chart(results: &Results, backends: &[OfBackend<'_>], sketch: Sketch<'_>) -> Chart {
    let Sketch { title, says, scale, mut keys, note, marks } = sketch;
    let timeline = Timeline::new(results, COLUMNS);
    let panel = |of: &OfBackend<'_>| {
        let (case, backend) = of;
        let slow = backend.slow.iter();
        let bands = slow.map(|it| Mark::Band {
            from_us: it.from_us,
            until_us: it.until_us.min(timeline.end_us),
        });
        let marks = bands.chain(marks(of)).collect();
        Panel { name: case.name.clone(), note: note(of), rows: Vec::new(), marks }
    };
    let slow = backends.first().into_iter().flat_map(|(_, backend)| &backend.slow);
    let slow: Vec<String> = slow.map(|phase| length(phase.work_us)).collect();
    if !slow.is_empty() {
        let text = format!("work takes {}", slow.join(", "));
        keys.push(key(Shape::Area, Ink::Band, &text));
    }
    Chart {
        title: title.into(),
        says,
        across: Across::time(timeline.end_us, results),
        scale,
        keys,
        panels: backends.iter().map(panel).collect(),
        below: None,
        is_low: false,
    }
}

/// How many requests are in flight at the backend over time, on a logarithmic scale. `None` for an
/// experiment without one.
#[must_use]
pub fn in_flight(results: &Results) -> Option<Chart> {
    let backends = backends(results)?;
    let timeline = Timeline::new(results, COLUMNS);
    let servers = backends.iter().map(|(_, backend)| u64::from(backend.servers)).max()?;
    let most = |(_, backend): &OfBackend<'_>| backend.in_flight_max;
    let marks = |(_, backend): &OfBackend<'_>| {
        let values = timeline.highest(&backend.buckets, |bucket| bucket.in_flight);
        let series = Series { column_us: timeline.column_us, values };
        let servers = real(u64::from(backend.servers));
        vec![Mark::Line { ink: Ink::Waiting, series }, Mark::Level(servers)]
    };
    let says = compare(&backends, most, |count| count.to_string());
    let sketch = Sketch {
        title: "How many requests are in flight at the backend",
        says: says.map_or_else(String::new, |says| format!("Most in flight: {says}.")),
        scale: Scale::Counts {
            unit: format!(
                "requests, at most in each {}, on a logarithmic scale",
                span(timeline.column_us)
            ),
            top: backends.iter().map(most).max().unwrap_or(0).max(servers),
        },
        keys: vec![
            key(Shape::Line, Ink::Waiting, "waiting or worked on"),
            key(Shape::Dashes, Ink::Text, &plural(servers, "server")),
        ],
        note: |(_, backend)| format!("at most {}", backend.in_flight_max),
        marks: &marks,
    };
    Some(chart(results, &backends, sketch))
}

/// The latency of the backend's finished requests, over time, on a logarithmic scale. `None` for an
/// experiment without a backend, or where nothing was done.
#[must_use]
pub fn service(results: &Results) -> Option<Chart> {
    let backends = backends(results)?;
    let timeline = Timeline::new(results, COLUMNS);
    let buckets = || backends.iter().flat_map(|(_, backend)| &backend.buckets);
    let least_us = buckets().map(|bucket| bucket.p50_us).filter(|us| *us > 0).min()?;
    let top_us = buckets().map(|bucket| bucket.p99_us).max()?;
    let marks = |(_, backend): &OfBackend<'_>| {
        let series = |value: fn(&BackendBucket) -> u64| Series {
            column_us: timeline.column_us,
            values: timeline.highest(&backend.buckets, value),
        };
        vec![
            Mark::Line { ink: Ink::Admitted, series: series(|bucket| bucket.p50_us) },
            Mark::Line { ink: Ink::Text, series: series(|bucket| bucket.p99_us) },
        ]
    };
    let p99 = |(_, backend): &OfBackend<'_>| backend.latency_us.as_ref().map_or(0, |it| it.p99);
    let says = compare(&backends, p99, span);
    let sketch = Sketch {
        title: "How long requests take that are done",
        says: says.map_or_else(String::new, |says| format!("99 of 100 were done within {says}.")),
        scale: Scale::Times {
            unit: format!("time, of each {}, on a logarithmic scale", span(results.bucket_us)),
            least_us,
            top_us,
        },
        keys: vec![
            key(Shape::Line, Ink::Admitted, "half took no longer (p50)"),
            key(Shape::Line, Ink::Text, "99 of 100 took no longer (p99)"),
        ],
        note: |(_, backend)| match &backend.latency_us {
            None => "nothing was done".into(),
            Some(it) => {
                format!("in all: half within {}, 99 of 100 within {}", span(it.p50), span(it.p99))
            }
        },
        marks: &marks,
    };
    Some(chart(results, &backends, sketch))
}

/// The requests that the backend has served, and those that the limits denied, over time. `None`
/// for an experiment without a backend.
#[must_use]
pub fn served(results: &Results) -> Option<Chart> {
    let backends = backends(results)?;
    let timeline = Timeline::new(results, COLUMNS);
    let done = backends.iter().flat_map(|(_, backend)| &backend.buckets).map(|it| it.done);
    let denied = backends.iter().flat_map(|(case, _)| &case.buckets).map(|it| it.denied);
    let top = done.chain(denied).max().unwrap_or(0);
    let marks = |(case, backend): &OfBackend<'_>| {
        let series = |values: Vec<u64>| Series { column_us: timeline.column_us, values };
        let done = timeline.highest(&backend.buckets, |bucket| bucket.done);
        let denied = timeline.highest(&case.buckets, |bucket: &Bucket| bucket.denied);
        vec![
            Mark::Area { ink: Ink::Admitted, series: series(done) },
            Mark::Line { ink: Ink::Denied, series: series(denied) },
        ]
    };
    let denied = |(case, _): &OfBackend<'_>| case.denied;
    let says = compare(&backends, denied, |count| count.to_string());
    let sketch = Sketch {
        title: "Done by the backend, and denied by the limits",
        says: says.map_or_else(String::new, |says| format!("Denied: {says}.")),
        scale: Scale::Count { unit: format!("requests per {}", span(results.bucket_us)), top },
        keys: vec![
            key(Shape::Area, Ink::Admitted, "done"),
            key(Shape::Line, Ink::Denied, "denied"),
        ],
        note: |(case, backend)| format!("{} done, {} denied", backend.done, case.denied),
        marks: &marks,
    };
    Some(chart(results, &backends, sketch))
}

/// The cases with the minimum and the maximum of a figure; the first of equal ones.
fn compare(
    backends: &[OfBackend<'_>],
    value: impl Fn(&OfBackend<'_>) -> u64,
    says: impl Fn(u64) -> String,
) -> Option<String> {
    let least = backends.iter().min_by_key(|of| value(of))?;
    let most = backends.iter().rev().max_by_key(|of| value(of))?;
    let told = |of: &OfBackend<'_>| format!("{} with {}", says(value(of)), name(&of.0.name));
    if value(least) == value(most) {
        return Some(format!("{} in every case", says(value(least))));
    }
    Some(format!("{}, and {}", told(least), told(most)))
}
