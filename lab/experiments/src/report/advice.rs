//! An advice for people: an HTML page, and the curve as text.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::html::{NAME, POLICY, figure};
use crate::chart::{page_colours, trade};
use crate::figure::span;
use tollgate_logs::advise::{Advice, AdvisedLimit, BusyClient, Outlier, Why, WindowAdvice};
use tollgate_logs::text::printable;
use tollgate_logs::time::show;

/// The lines of a curve as text.
const LINES: usize = 12;
/// The most outliers that are named.
const OUTLIERS: usize = 5;
/// The longest bar, in blocks.
const BAR: u64 = 40;

/// An advice as one HTML page: the recommendation, the curves, the limits of each strategy, and the
/// object of `--json` in the element `#results`. Like [`super::html`] it needs nothing else.
#[must_use]
pub fn advice_html(advice: &Advice) -> String {
    let style = page_colours() + include_str!("page.css");
    let title = format!("A limit by {}", printable(advice.by.as_bytes(), NAME));
    // Keys are fixed texts and values are plain, so writing cannot fail.
    let json = serde_json::to_string(advice).unwrap_or_default().replace('<', "\\u003c");
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
                    h1 { (advice.recommended.limit) }
                    p class="lead" { (lead(advice)) }
                    p { (advice.recommended.reason) }
                    (figure(&trade(advice)))
                    @if !advice.rates.is_empty() { (of_rates(advice)) }
                    h2 { "The busiest clients" }
                    ul { @for client in &advice.busiest { li { (busy_client(client)) } } }
                    @for window in &advice.windows { (of_window(window)) }
                    h2 { "Facts that are not in the log" }
                    ul { @for line in &advice.cannot_know { li { (line) } } }
                    h2 { "The policy file" }
                    pre { (advice.recommended.policy) }
                }
                script type="application/json" id="results" { (PreEscaped(json)) }
            }
        }
    }
    .into_string()
}

fn lead(advice: &Advice) -> String {
    let second = |us: u64| show(us / 1_000_000 * 1_000_000);
    format!(
        "{} requests of {} clients by {}, {} to {}. {} of them, the busiest first, make half of \
         the \
         load. At most {} may be denied.",
        advice.requests,
        advice.clients,
        printable(advice.by.as_bytes(), NAME),
        second(advice.first_us),
        second(advice.last_us),
        advice.half_of_load,
        advice.target
    )
}

/// The rates with their bursts.
fn of_rates(advice: &Advice) -> Markup {
    const TITLES: [&str; 4] =
        ["longest wait", "in an hour at worst", "clients denied", "outliers denied"];
    html! {
        h2 { "A rate with a burst" }
        div class="table" role="region" aria-label="rates" tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "limit" }
                    @for title in TITLES { th scope="col" { (title) } }
                } }
                tbody { @for row in &advice.rates { tr {
                    th scope="row" { (row.rate) " burst " (row.burst) }
                    td data-label=(TITLES[0]) { (span(row.wait_us)) }
                    td data-label=(TITLES[1]) { (row.worst_hour) }
                    td data-label=(TITLES[2]) { (row.clients_denied) }
                    td data-label=(TITLES[3]) { (row.outliers_denied) }
                } } }
            }
        }
    }
}

/// A busy client, with the statuses, agents and paths of its requests.
fn busy_client(client: &BusyClient) -> Markup {
    let values = |values: &[(String, u64)]| {
        let each: Vec<String> =
            values.iter().map(|(value, count)| format!("{value} ({count})")).collect();
        each.join(", ")
    };
    html! {
        b { (printable(client.client.as_bytes(), NAME)) } ": " (client.requests) " requests"
        @if let Some(it) = &client.description {
            @if let Some(kind) = it.kind { ", " (kind.one()) }
            @if it.looked_at < client.requests { ", of which " (it.looked_at) " were looked at" }
            @for (what, all) in
                [("status", &it.statuses), ("agent", &it.agents), ("path", &it.paths)]
            {
                @if !all.is_empty() { br; (what) " " (values(all)) }
            }
        }
    }
}

fn of_window(window: &WindowAdvice) -> Markup {
    let busiest = window.busiest;
    html! {
        h2 { "Any " (window.window) }
        p {
            "The demand of clients at their busiest: p50 " (busiest.p50) ", p90 " (busiest.p90)
            ", p99 " (busiest.p99) ", p99.9 " (busiest.p99_9) ", most " (busiest.max) "."
        }
        @if !window.outliers.is_empty() {
            @let all = outliers(&window.window, &window.outliers, window.outliers_count);
            p { "Outliers: " (all) "." }
        }
        div class="table" role="region" aria-label=(window.window) tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "strategy" }
                    @for title in TITLES { th scope="col" { (title) } }
                } }
                tbody { @for row in &window.limits { (of_limit(row)) } }
            }
        }
    }
}

const TITLES: [&str; 6] =
    ["units", "at its worst", "clients denied", "outliers denied", "memory", "Redis"];

fn of_limit(row: &AdvisedLimit) -> Markup {
    let numbers = [
        row.units,
        row.worst_window,
        row.clients_denied,
        row.outliers_denied,
        row.bytes_memory,
        row.bytes_redis,
    ];
    html! { tr {
        th scope="row" { (row.strategy) }
        @for (title, number) in TITLES.iter().zip(numbers) {
            td data-label=(title) {
                @if row.limit.is_some() { (number) } @else { "-" }
            }
        }
    } }
}

/// A kind of clients in words.
#[must_use]
pub const fn group_name(why: Option<Why>) -> &'static str {
    match why {
        None => "ordinary",
        Some(Why::Scanner) => "scanners",
        Some(Why::Robot) => "robots",
        Some(_) => "much busier",
    }
}

/// Outliers of a window in words; `count` is their number in all.
#[must_use]
pub fn outliers(window: &str, outliers: &[Outlier], count: u64) -> String {
    let each = outliers.iter().take(OUTLIERS).map(|it| {
        let name = printable(it.client.as_bytes(), 60);
        format!("{name} ({}, {} in {window}, {} in all)", it.why.one(), it.busiest, it.requests)
    });
    let mut all = each.collect::<Vec<_>>().join(", ");
    let more = count.saturating_sub(outliers.len().min(OUTLIERS) as u64);
    if more > 0 {
        let _ = write!(all, " and {more} more");
    }
    all
}

/// The curve of the recommended limit as text: at some numbers of units, how many clients are ever
/// denied.
#[must_use]
pub fn advice_curve(advice: &Advice) -> String {
    let recommended = &advice.recommended;
    let curves = advice.curves();
    let Some(curve) = curves.iter().find(|it| it.of == recommended.window) else {
        return String::new();
    };
    let last = curve.points.len().saturating_sub(1);
    let lines = LINES.min(curve.points.len());
    let mut points: Vec<(u64, u64)> = (0..lines)
        .filter_map(|n| curve.points.get(n * last / lines.saturating_sub(1).max(1)).copied())
        .collect();
    let chosen = recommended.clients_denied + recommended.outliers_denied;
    points.retain(|(units, _)| *units != recommended.units);
    points.push((recommended.units, chosen));
    points.sort_unstable();
    let digits = |number: u64| number.to_string().len();
    let wide = points.iter().map(|(units, _)| digits(*units)).max().unwrap_or(1).max(5);
    let units = if advice.rates.is_empty() { "units" } else { "burst" };
    let mut text = format!("{units:>wide$}  clients ever denied\n");
    for (units, denied) in points {
        // Rounded up: nobody and one are not the same.
        let blocks = (denied * BAR).div_ceil(advice.clients.max(1));
        let bar = "█".repeat(usize::try_from(blocks).unwrap_or(0));
        let gap = if bar.is_empty() { "" } else { " " };
        let mark = if units == recommended.units { " <- recommended" } else { "" };
        let _ = writeln!(text, "{units:>wide$}  {bar}{gap}{denied}{mark}");
    }
    text
}
