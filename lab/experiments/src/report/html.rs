//! The HTML page: one self-contained file without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use super::measure::{self, Measure};
use super::{
    backend_in_words, backend_of, counts, denied_in_words, nodes_in_words, queue_in_words, stopped,
    summary, with_denied,
};
use crate::chart::{self, Chart, Look, Width, page_colours};
use crate::experiment::results::{CaseResult, Group, GroupResult, Results};
use crate::figure::{length, plural, span};
use tollgate_logs::text::printable;
use tollgate_logs::time::show;

/// The content security policy: the page may load nothing, and the browser enforces it.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// The most characters of a displayed name; the JSON contains all of it.
pub(super) const NAME: usize = 120;

/// Results as one HTML page: findings, charts, every measure, how it was made, and the results as
/// JSON in the element `#results`.
///
/// It needs no other file, no network and no script, follows the light or dark setting of the
/// reader's system, and is readable on a phone. All given texts, such as names, are escaped.
///
/// # Examples
/// ```no_run
/// use tollgate_experiments::experiment::results::Results;
///
/// fn write(results: &Results) -> std::io::Result<()> {
///     std::fs::write("report.html", tollgate_experiments::report::html(results))
/// }
/// ```
#[must_use]
pub fn html(results: &Results) -> String {
    let body = html! {
        p class="lead" { (summary(results)) }
        @if let Some(stopped) = stopped(results) { p class="stopped" { (stopped) } }
        (findings(&results.findings))
        // Pictures before tables: a reader sees the one line that matters, and then looks it up.
        @for (_, chart) in &chart::all(results) { (figure(chart)) }
        (denied(results))
        (measures(results))
        (limits(results))
        (queues(results))
        (nodes(results))
        (groups(results))
        (made(results))
    };
    let title = name(&results.name);
    page((&title, &title), &body, results)
}

/// A page with this title and this heading, and an object as JSON in the element `#results`.
pub(super) fn page(
    (title, heading): (&str, &str),
    body: &Markup,
    results: &impl Serialize,
) -> String {
    let style = page_colours() + include_str!("page.css");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                main {
                    h1 { (heading) }
                    (body)
                }
                script type="application/json" id="results" { (PreEscaped(json(results))) }
            }
        }
    }
    .into_string()
}

fn name(text: &str) -> String {
    printable(text.as_bytes(), NAME)
}

/// A name in a table: on one line while it is short.
fn tag(text: &str) -> Markup {
    html! { div class="tag" { (name(text)) } }
}

/// The results as JSON that cannot end its element: `<` occurs only in strings, and is escaped.
fn json(results: &impl Serialize) -> String {
    // Keys are fixed texts and values are plain, so writing cannot fail.
    serde_json::to_string(results).unwrap_or_default().replace('<', "\\u003c")
}

fn findings(findings: &[String]) -> Markup {
    html! {
        @if !findings.is_empty() {
            ul class="findings" aria-label="findings" {
                @for finding in findings { li { (printable(finding.as_bytes(), 1_000)) } }
            }
        }
    }
}

/// The denials of the most denied clients of each case.
fn denied(results: &Results) -> Markup {
    html! {
        @if with_denied(results).next().is_some() {
            h2 { "Denied most often" }
            p class="lead" {
                "The denials of each of them. The longest wait is the longest of a denial."
            }
            div id="denied" {
                @for case in with_denied(results) {
                    details class="clients" {
                        summary { strong { (name(&case.name)) } ": " (denied_in_words(case, 3)) }
                        (clients(results, case))
                    }
                }
            }
        }
    }
}

fn clients(results: &Results, case: &CaseResult) -> Markup {
    let when = |us: u64| match results.start_us {
        Some(start_us) => show((start_us.saturating_add(us)) / 1_000_000 * 1_000_000),
        None => span(us),
    };
    let label = format!("denied most often by {}", name(&case.name));
    html! {
        div class="table" role="region" aria-label=(label) tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "client" }
                    th scope="col" { "denied" }
                    th scope="col" { "admitted" }
                    th scope="col" { "first denial" }
                    th scope="col" { "last denial" }
                    th scope="col" { "longest wait" }
                } }
                tbody { @for it in &case.most_denied { tr {
                    th scope="row" { (tag(&it.client)) }
                    td data-label="denied" { (it.denied) }
                    td data-label="admitted" { (it.admitted) }
                    td data-label="first denial" { (when(it.first_us)) }
                    td data-label="last denial" { (when(it.last_us)) }
                    td data-label="longest wait" {
                        (it.longest_wait_us.map_or_else(|| "no wait helps".into(), span))
                    }
                } } }
            }
        }
    }
}

/// A chart at both widths: text in a wide one scaled to a phone would be too small.
pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        h2 { (chart.title()) }
        figure {
            figcaption { (chart.says()) }
            @for (class, width) in [("wide", Width::Wide), ("narrow", Width::Narrow)] {
                div class=(class) { (PreEscaped(chart.svg(Look::in_page(width)))) }
            }
        }
    }
}

/// One row per measure and one column per case, so that a measure is compared along its row.
fn measures(results: &Results) -> Markup {
    let measures = measure::applicable(results);
    html! {
        h2 { "Measures" }
        @if results.cases.is_empty() {
            p { "No case was begun." }
        } @else {
            div class="table" role="region" aria-label="measures" tabindex="0" {
                table id="measures" {
                    thead { tr {
                        th scope="col" { "measure" }
                        @for case in &results.cases { th scope="col" { (tag(&case.name)) } }
                    } }
                    tbody { @for measure in &measures { (row(results, measure)) } }
                }
            }
            details {
                summary { "What they mean" }
                dl { @for measure in &measures { dt { (measure.title) } dd { (measure.means) } } }
            }
        }
    }
}

fn row(results: &Results, measure: &Measure) -> Markup {
    html! {
        tr {
            th scope="row" title=(measure.means) { (measure.title) }
            @for case in &results.cases {
                @let value = (measure.value)(case);
                @let name = printable(case.name.as_bytes(), usize::MAX);
                @let over = measure.id == "peak" && is_over(results, case);
                td.broken[over] data-case=(name) data-measure=(measure.id) data-label=(name)
                    data-value=(value.exact()) { (value.shown()) }
            }
        }
    }
}

/// Whether more was admitted than the resource can take.
fn is_over(results: &Results, case: &CaseResult) -> bool {
    let units = results.capacity.as_ref().map(|capacity| capacity.units);
    units.zip(case.peak).is_some_and(|(units, peak)| peak > units)
}

fn limits(results: &Results) -> Markup {
    let limits: Vec<_> = results
        .cases
        .iter()
        .flat_map(|case| case.limits.iter().map(move |limit| (case, limit)))
        .collect();
    html! {
        @if !limits.is_empty() {
            h2 { "Limits, and whether they held" }
            div class="table" role="region" aria-label="limits" tabindex="0" {
                table id="limits" {
                    thead { tr {
                        th scope="col" { "case" }
                        th scope="col" class="words" { "limit" }
                        th scope="col" class="words" { "counts" }
                        th scope="col" { "peak, units" }
                        th scope="col" { "promised, units" }
                        th scope="col" { "holds" }
                    } }
                    tbody { @for (case, limit) in limits { tr {
                        th scope="row" { (tag(&case.name)) }
                        td class="words" data-label="limit" { (tag(&limit.limit)) }
                        td class="words" data-label="counts" { (tag(&counts(limit))) }
                        td data-label="peak, units" { (limit.peak) }
                        td data-label="promised, units" { (limit.promise) }
                        td.broken[!limit.holds] data-label="holds" {
                            @if limit.holds { "yes" } @else { "no" }
                        }
                    } } }
                }
            }
        }
    }
}

fn queues(results: &Results) -> Markup {
    html! {
        @if results.cases.iter().any(|case| case.queue.is_some()) {
            h2 { "Queues" }
            dl {
                @for case in &results.cases {
                    @if let Some(queue) = &case.queue {
                        dt { (name(&case.name)) }
                        dd { (queue_in_words(queue)) }
                    }
                }
            }
        }
    }
}

fn nodes(results: &Results) -> Markup {
    html! {
        @if results.cases.iter().any(|case| case.nodes.is_some()) {
            h2 { "Nodes" }
            dl {
                @for case in &results.cases {
                    @if let Some(nodes) = &case.nodes {
                        dt { (name(&case.name)) }
                        dd { (nodes_in_words(nodes)) }
                    }
                }
            }
        }
    }
}

/// The results of each group, if there are several groups.
fn groups(results: &Results) -> Markup {
    let [admitted, _] = results.words();
    html! {
        @if results.groups.len() > 1 && !results.cases.is_empty() {
            h2 { "Groups of clients" }
            div class="table" role="region" aria-label="groups" tabindex="0" {
                table id="groups" {
                    thead { tr {
                        th scope="col" { "case" }
                        th scope="col" class="words" { "group" }
                        th scope="col" { "requests" }
                        th scope="col" { "attempts" }
                        th scope="col" { (admitted) }
                        th scope="col" { "never served" }
                        th scope="col" { "longest wait" }
                    } }
                    tbody { @for case in &results.cases {
                        @for (group, got) in asking(results, case) { tr {
                            th scope="row" { (tag(&case.name)) }
                            td class="words" data-label="group" { (tag(&group.name)) }
                            td data-label="requests" { (got.requests) }
                            td data-label="attempts" { (got.attempts) }
                            td data-label=(admitted) { (got.admitted) }
                            td data-label="never served" { (got.never_served) }
                            td data-label="longest wait" {
                                (got.longest_wait_us.map_or_else(|| "-".into(), span))
                            }
                        } }
                    } }
                }
            }
        }
    }
}

/// The groups with requests in a case: in some experiments each test has its own.
fn asking<'r>(
    results: &'r Results,
    case: &'r CaseResult,
) -> impl Iterator<Item = (&'r Group, &'r GroupResult)> {
    results.groups.iter().zip(&case.groups).filter(|(_, got)| got.requests > 0)
}

fn made(results: &Results) -> Markup {
    let group =
        |group: &Group| format!("{}: {}", name(&group.name), plural(group.clients, "client"));
    html! {
        h2 { "How it was made" }
        dl {
            dt { "experiment" } dd { (name(&results.name)) }
            // Nothing of a log is by chance.
            @if results.start_us.is_none() { dt { "seed" } dd { (results.seed) } }
            dt { "duration" } dd { (span(results.duration_us)) }
            dt { "one bucket" } dd { (span(results.bucket_us)) }
            @if let Some(live) = &results.live {
                dt { "in real time on" } dd { (name(&live.store)) }
                @if let Some(operation) = live.operation_us {
                    dt { "operation that is protected" } dd { (length(operation)) }
                }
            }
            @if let Some(capacity) = &results.capacity {
                dt { "capacity" } dd { (name(&capacity.text)) }
            }
            @if let Some(backend) = backend_of(results) {
                dt { "backend" } dd { (backend_in_words(backend)) }
            }
            @if !results.groups.is_empty() {
                dt { "groups" }
                dd { (results.groups.iter().map(group).collect::<Vec<_>>().join(", ")) }
            }
        }
        p class="lead" {
            @if results.live.is_some() {
                "It ran in real time: the questions follow from the experiment and its seed, and \
                 the answers from the store and the machines of that day. "
            } @else {
                "Every number follows from the experiment and its seed; none from a machine's \
                 clock. "
            }
            "All of them are in this file, as JSON in the element #results."
        }
    }
}
