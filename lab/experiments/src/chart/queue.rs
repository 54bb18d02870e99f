//! The charts of queues: accepted and refused offers, depth, and waiting times.

use super::Chart;
use super::axis::{Across, Unit};
use super::columns::{COLUMNS, Timeline};
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use crate::experiment::results::{Bucket, CaseResult, Latency, QueueBucket, QueueResult, Results};
use crate::figure::{length, plural, real, span};

type OfQueue<'r> = (&'r CaseResult, &'r QueueResult);

/// The cases with queues; `None` for an experiment without one.
fn queues(results: &Results) -> Option<Vec<OfQueue<'_>>> {
    let queues = results.cases.iter().filter_map(|case| Some((case, case.queue.as_ref()?)));
    let queues: Vec<_> = queues.collect();
    (!queues.is_empty()).then_some(queues)
}

fn key(shape: Shape, ink: Ink, text: &str) -> Key {
    Key { shape, ink, text: text.into() }
}

/// Accepted offers and all offers over time, with the rate of the workers. `None` for an experiment
/// without a queue.
#[must_use]
pub fn offers(results: &Results) -> Option<Chart> {
    let queues = queues(results)?;
    let timeline = Timeline::new(results, COLUMNS);
    let buckets = queues.iter().flat_map(|(case, _)| &case.buckets);
    let offered = |bucket: &_| all_offers(bucket);
    let top = buckets.map(offered).max().unwrap_or(0);
    // A worker rate above all offers would flatten the rest.
    let can_do = |queue: &QueueResult| {
        let jobs = f64::from(queue.workers) * real(results.bucket_us) / real(queue.work_us.max(1));
        (jobs <= real(top)).then_some(jobs)
    };
    let panel = |(case, queue): &OfQueue<'_>| {
        let mut marks = vec![
            // Accepted offers are drawn over all offers, so the visible rest was refused.
            area(Ink::Denied, timeline, timeline.highest(&case.buckets, offered)),
            area(Ink::Admitted, timeline, timeline.highest(&case.buckets, |it| it.admitted)),
        ];
        marks.extend(can_do(queue).map(Mark::Level));
        let note = format!("{} accepted, {} refused", case.admitted, case.denied);
        Panel { name: case.name.clone(), note, rows: Vec::new(), marks }
    };
    let mut keys =
        vec![key(Shape::Area, Ink::Admitted, "accepted"), key(Shape::Area, Ink::Denied, "refused")];
    if queues.iter().any(|(_, queue)| can_do(queue).is_some()) {
        keys.push(key(Shape::Dashes, Ink::Text, "what the workers can do"));
    }
    let bucket = length(results.bucket_us);
    let coarse = format!(": the most of each {}", span(timeline.column_us));
    let coarse = if timeline.is_coarse() { coarse.as_str() } else { "" };
    Some(Chart {
        title: "Offered and accepted jobs".into(),
        says: says_offers(&queues),
        across: Across::time(timeline.end_us, results),
        scale: Scale::Count { unit: format!("offers per {bucket}{coarse}"), top },
        keys,
        panels: queues.iter().map(panel).collect(),
        below: None,
        is_low: false,
    })
}

/// The depth of queues over time, with their bounds. `None` for an experiment without a queue.
#[must_use]
pub fn depth(results: &Results) -> Option<Chart> {
    let queues = queues(results)?;
    let timeline = Timeline::new(results, COLUMNS);
    let deepest = queues.iter().map(|(_, queue)| queue.depth_max).max().unwrap_or(0);
    // A bound far above the depth would flatten the rest.
    let near = deepest.saturating_mul(4).max(10);
    let bounds = queues.iter().map(|(_, queue)| queue.bound).filter(|bound| *bound <= near);
    let bound = bounds.max();
    let panel = |(case, queue): &OfQueue<'_>| {
        let depths = timeline.highest(&queue.buckets, |bucket| bucket.depth);
        let mut marks = vec![area(Ink::Waiting, timeline, depths)];
        marks.extend((queue.bound <= near).then(|| Mark::Level(real(queue.bound))));
        let note = match (queue.depth_max, queue.depth_mean) {
            (0, _) => "no job waits".into(),
            (most, None) => format!("at most {most} of {}", queue.bound),
            (most, Some(mean)) => {
                format!("at most {most} of {}, {mean:.1} on average", queue.bound)
            }
        };
        Panel { name: case.name.clone(), note, rows: Vec::new(), marks }
    };
    let all = queues.iter().any(|(_, queue)| queue.counts == "all");
    let what = if all { "waiting, and in flight where the bound counts these" } else { "waiting" };
    let mut keys = vec![key(Shape::Area, Ink::Waiting, what)];
    if bound.is_some() {
        keys.push(key(Shape::Dashes, Ink::Text, "the bound"));
    }
    Some(Chart {
        title: "How many jobs wait".into(),
        says: says_depth(&queues) + &says_full(results, &queues),
        across: Across::time(timeline.end_us, results),
        scale: Scale::Count {
            unit: format!("jobs, at most in each {}", span(timeline.column_us)),
            top: deepest.max(bound.unwrap_or(0)),
        },
        keys,
        panels: queues.iter().map(panel).collect(),
        below: None,
        is_low: false,
    })
}

/// How long jobs waited in queues, over time. `None` for an experiment without a queue, or without
/// a delivered job.
#[must_use]
pub fn waits(results: &Results) -> Option<Chart> {
    let queues = queues(results)?;
    let waited = |(_, queue): &OfQueue<'_>| queue.waited_us.as_ref().map(|waited| waited.max);
    let top_us = queues.iter().filter_map(waited).max()?;
    let timeline = Timeline::new(results, COLUMNS);
    let panel = |(case, queue): &OfQueue<'_>| {
        let longest = |bucket: &QueueBucket| bucket.waited_us;
        let of = |it: &Latency| {
            format!("half no longer than {}, 99 of 100 than {}", span(it.p50), span(it.p99))
        };
        Panel {
            name: case.name.clone(),
            note: queue.waited_us.as_ref().map_or_else(|| "no job was taken".into(), of),
            rows: Vec::new(),
            marks: vec![area(Ink::Waiting, timeline, timeline.highest(&queue.buckets, longest))],
        }
    };
    let unit = Unit::for_length(top_us).name;
    Some(Chart {
        title: "How long jobs waited".into(),
        says: says_waits(&queues),
        across: Across::time(timeline.end_us, results),
        scale: Scale::Time {
            unit: format!("{unit}, the longest of each {}", span(timeline.column_us)),
            top_us,
        },
        keys: vec![key(Shape::Area, Ink::Waiting, "from accepted to taken by a worker")],
        panels: queues.iter().map(panel).collect(),
        below: None,
        is_low: false,
    })
}

fn area(ink: Ink, timeline: Timeline, values: Vec<u64>) -> Mark {
    Mark::Area { ink, series: Series { column_us: timeline.column_us, values } }
}

fn all_offers(bucket: &Bucket) -> u64 {
    bucket.admitted.saturating_add(bucket.denied)
}

fn says_offers(queues: &[OfQueue<'_>]) -> String {
    let of = |(case, queue): &OfQueue<'_>| {
        let (accepted, refused) = (queue.accepted_per_s?, queue.refused_per_s?);
        Some(format!("{} {accepted:.1} and {refused:.1}", name(&case.name)))
    };
    let said = first_and_last(queues, of);
    if said.is_empty() {
        return "It was stopped before it was steady.".into();
    }
    format!("Accepted and refused a second, once it is steady: {}.", said.join("; "))
}

fn says_depth(queues: &[OfQueue<'_>]) -> String {
    let of = |(case, queue): &OfQueue<'_>| {
        let (name, mean) = (name(&case.name), queue.depth_mean?);
        Some(if queue.depth_max == 0 {
            format!("{name}: no job waits")
        } else {
            let (most, bound) = (queue.depth_max, queue.bound);
            format!("{name}: {mean:.1} jobs on average, and at most {most} where {bound} may be")
        })
    };
    let said = first_and_last(queues, of);
    if said.is_empty() { String::new() } else { format!("{}.", said.join("; ")) }
}

/// The offers that found the queue full, where no chart of offers shows them.
fn says_full(results: &Results, queues: &[OfQueue<'_>]) -> String {
    let [(case, queue)] = queues else { return String::new() };
    if results.cases.len() == 1 || case.denied == 0 {
        return String::new();
    }
    let rate = f64::from(queue.workers) * 1e6 / real(queue.work_us.max(1));
    let does = if queue.workers == 1 { "does" } else { "do" };
    format!(
        " The queue was full for {} of {} offers: {} {does} {rate:.1} jobs a second.",
        case.denied,
        case.attempts,
        plural(u64::from(queue.workers), "worker")
    )
}

/// A sentence that compares the first and the last case.
fn first_and_last(
    queues: &[OfQueue<'_>],
    of: impl Fn(&OfQueue<'_>) -> Option<String>,
) -> Vec<String> {
    match queues {
        [first, .., last] => [first, last].into_iter().filter_map(of).collect(),
        _ => queues.iter().filter_map(of).collect(),
    }
}

fn says_waits(queues: &[OfQueue<'_>]) -> String {
    let waited = queues
        .iter()
        .filter_map(|(case, queue)| Some((queue.waited_us.as_ref()?.p99, &*case.name)));
    let Some(((least, quick), (most, slow))) = waited.clone().min().zip(waited.max()) else {
        return String::new();
    };
    if least == most {
        return format!("99 of 100 jobs waited no longer than {}.", span(most));
    }
    format!(
        "99 of 100 jobs waited no longer than {} with {}, and {} with {}.",
        span(least),
        name(quick),
        span(most),
        name(slow)
    )
}
