//! The results of an experiment for people: an HTML page, and text for a terminal.

mod advice;
mod bars;
mod html;
mod measure;
mod paragraph;
mod race;
mod tables;
mod text;

pub use crate::figure::{bytes, span};
pub use advice::{advice_curve, advice_html, group_name, outliers, page_views};
pub use html::html;
pub use race::{race_html, race_in_words};
pub use tables::{Section, tables_html};
pub use text::text;

use crate::experiment::results::{
    BackendResult, CaseResult, LimitResult, NodesResult, QueueResult, Results,
};
use crate::figure::{length, plural};
use tollgate_logs::text::printable;
use tollgate_logs::time::show;

/// A sentence on what was tried, the same in every report.
fn summary(results: &Results) -> String {
    let cases = plural(u64::try_from(results.cases.len()).unwrap_or(u64::MAX), "case");
    let clients = results.groups.iter().map(|group| group.clients).fold(0, u64::saturating_add);
    let clients = plural(clients, "client");
    let traffic = span(results.duration_us);
    let from = results.start_us.map(|start_us| {
        let until_us = start_us.saturating_add(results.duration_us);
        let second = |us: u64| show(us / 1_000_000 * 1_000_000);
        format!(", {} to {},", second(start_us), second(until_us))
    });
    let from = from.unwrap_or_default();
    let capacity = results.capacity.as_ref().map(|capacity| {
        format!(", with a capacity of {} in {}", capacity.units, length(capacity.window_us))
    });
    let live = results
        .live
        .as_ref()
        .map(|live| format!(", in real time on {}", printable(live.store.as_bytes(), 80)));
    format!(
        "{cases} over {traffic} of traffic{from} from {clients}{}{}.",
        capacity.unwrap_or_default(),
        live.unwrap_or_default()
    )
}

/// The subjects of a limit.
fn counts(limit: &LimitResult) -> String {
    match &*limit.per {
        "resource" => "all clients together".into(),
        per => format!("each {} by itself", printable(per.as_bytes(), 40)),
    }
}

/// The cases with denials, if there is more than one client to name.
fn with_denied(results: &Results) -> impl Iterator<Item = &CaseResult> {
    let clients = results.groups.iter().map(|group| group.clients).fold(0, u64::saturating_add);
    results.cases.iter().filter(move |case| clients > 1 && !case.most_denied.is_empty())
}

/// The most denied clients of a case, with their denials.
fn denied_in_words(case: &CaseResult, most: usize) -> String {
    let each = case.most_denied.iter().take(most).map(|it| {
        format!("{} ({})", printable(it.client.as_bytes(), 60), plural(it.denied, "time"))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The settings of a queue, in words.
fn queue_in_words(queue: &QueueResult) -> String {
    let counts = if queue.counts == "all" { "wait or are in flight" } else { "wait" };
    let rate = queue.rate.as_ref().map(|rate| printable(rate.as_bytes(), 80));
    let rate = rate.map(|rate| format!(", no more than {rate}"));
    format!(
        "at most {} {counts}; {} of {} a job{}",
        queue.bound,
        plural(u64::from(queue.workers), "worker"),
        length(queue.work_us),
        rate.unwrap_or_default()
    )
}

/// The backend that all cases of an experiment share, if it has one.
fn backend_of(results: &Results) -> Option<&BackendResult> {
    results.cases.iter().find_map(|case| case.backend.as_ref())
}

/// The settings of a backend, in words.
fn backend_in_words(backend: &BackendResult) -> String {
    let slow = backend.slow.iter().map(|phase| {
        let (from, until) = (length(phase.from_us), length(phase.until_us));
        format!("; {} from {from} to {until}", length(phase.work_us))
    });
    format!(
        "one queue in front of {}, {} a request{}",
        plural(u64::from(backend.servers), "server"),
        length(backend.work_us),
        slow.collect::<String>()
    )
}

/// The settings of nodes, in words.
fn nodes_in_words(nodes: &NodesResult) -> String {
    let leases = match &nodes.leases[..] {
        [] => "without leases".to_owned(),
        leases => format!("each with a lease of {}", leases.join(" and of ")),
    };
    let way = nodes.round_trip_us.map(|us| format!(", {} from the store and back", span(us)));
    let clocks = nodes.clock_error_ppm.filter(|ppm| *ppm > 0);
    let clocks =
        clocks.map(|ppm| format!(", with clocks up to {}% off", f64::from(ppm) / 10_000.0));
    format!(
        "{}{}, {leases}{}; without the store: {}",
        plural(u64::from(nodes.number), "node"),
        way.unwrap_or_default(),
        clocks.unwrap_or_default(),
        nodes.on_failure
    )
}

/// The note on incomplete results.
fn stopped(results: &Results) -> Option<&'static str> {
    (!results.complete).then_some("Stopped before its end: the last case was cut.")
}

#[cfg(test)]
mod tests;
