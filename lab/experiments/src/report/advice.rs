//! An advice for people: an HTML page, and the curve as text.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::html::{NAME, figure, page};
use crate::chart::trade;
use crate::figure::{bytes, parts, plural, real, span};
use tollgate_logs::advise::{
    Advice, AdvisedLimit, Busiest, BusyClient, CurvePoint, Group, Outlier, Why, WindowAdvice,
};
use tollgate_logs::text::printable;
use tollgate_logs::time::show;

/// The lines of a curve as text.
const LINES: u32 = 12;
/// The most outliers that are named.
const OUTLIERS: usize = 5;
/// The places of a dot in a line.
const PLACES: usize = 32;

/// An advice as one HTML page: the recommendation, the curves, the limits of each strategy, and the
/// object of `--json` in the element `#results`. Like [`super::html`] it needs nothing else.
#[must_use]
pub fn advice_html(advice: &Advice) -> String {
    let title = format!("A limit by {}", printable(advice.by.as_bytes(), NAME));
    let body = html! {
        p class="lead" { (lead(advice)) }
        p { (advice.recommended.reason) }
        @if !advice.recommended.doubts.is_empty() {
            h2 { "Too little to rely on" }
            ul { @for doubt in &advice.recommended.doubts { li { (doubt) } } }
        }
        @if let Some(it) = &advice.checked {
            h2 {
                "In force: " (it.limit)
                @if it.holds { " held" } @else { " did not hold" }
            }
            (of_groups("Denied by the limit in force", &it.groups))
        }
        (figure(&trade(advice)))
        @if !advice.recommended.groups.is_empty() {
            h2 { "Who is denied" }
            (of_groups("Who is denied", &advice.recommended.groups))
        }
        @if !advice.rates.is_empty() { (of_rates(advice)) }
        h2 { "The busiest clients" }
        ul { @for client in &advice.busiest { li { (busy_client(client)) } } }
        p { (page_views(advice.page_views)) "." }
        @for window in &advice.windows { (of_window(window)) }
        h2 { "Facts that are not in the log" }
        ul { @for line in &advice.cannot_know { li { (line) } } }
        h2 { "The policy file" }
        pre { (advice.recommended.policy) }
    };
    page((&title, &advice.recommended.limit), &body, advice)
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
        ["longest wait", "units in an hour at worst", "clients denied", "outliers denied"];
    html! {
        h2 { "A rate with a burst" }
        div class="table" role="region" aria-label="rates" tabindex="0" {
            table {
                (head("limit", &TITLES))
                tbody { @for row in &advice.rates { tr {
                    th scope="row" { (row.rate) " burst " (row.burst) }
                    td { (span(row.wait_us)) }
                    td { (row.worst_hour) }
                    td { (row.clients_denied) }
                    td { (row.outliers_denied) }
                } } }
            }
        }
    }
}

/// The kinds of clients under a limit.
fn of_groups(label: &str, groups: &[Group]) -> Markup {
    const TITLES: [&str; 5] =
        ["clients", "requests", "burst in units", "clients denied", "requests denied"];
    html! {
        div class="table" role="region" aria-label=(label) tabindex="0" {
            table {
                (head("who", &TITLES))
                tbody { @for row in groups { tr {
                    th scope="row" { (group_name(row.why)) }
                    td { (row.clients) }
                    td { (row.requests) }
                    td { (row.burst) }
                    td { (row.clients_denied) }
                    td { (row.requests_denied) }
                } } }
            }
        }
    }
}

/// The largest page views of clients in words.
#[must_use]
pub fn page_views(it: Busiest) -> String {
    format!(
        "The largest page view of a client (requests at most 2 s apart): p50 {}, p90 {}, p99 {}, \
         most {}",
        it.p50, it.p90, it.p99, it.max
    )
}

fn head(first: &str, titles: &[&str]) -> Markup {
    html! { thead { tr {
        th scope="col" { (first) }
        @for title in titles { th scope="col" { (title) } }
    } } }
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
            "The demand of clients at their busiest, in units: p50 " (busiest.p50) ", p90 "
            (busiest.p90) ", p99 " (busiest.p99) ", p99.9 " (busiest.p99_9) ", most "
            (busiest.max) "."
        }
        @if !window.outliers.is_empty() {
            @let all = outliers(&window.window, &window.outliers, window.outliers_count);
            p { "Outliers: " (all) "." }
        }
        // With a burst the limits are of no window.
        @if window.limits.iter().any(|row| row.limit.is_some()) {
            div class="table" role="region" aria-label=(window.window) tabindex="0" {
                table {
                    (head("strategy", &TITLES))
                    tbody { @for row in &window.limits { (of_limit(row)) } }
                }
            }
        }
    }
}

const TITLES: [&str; 6] =
    ["units", "units at its worst", "clients denied", "outliers denied", "memory", "Redis"];

fn of_limit(row: &AdvisedLimit) -> Markup {
    let numbers = [
        row.units.to_string(),
        row.worst_window.to_string(),
        row.clients_denied.to_string(),
        row.outliers_denied.to_string(),
        bytes(row.bytes_memory),
        bytes(row.bytes_redis),
    ];
    html! { tr {
        th scope="row" { (row.strategy) }
        @for number in numbers { td { @if row.limit.is_some() { (number) } @else { "-" } } }
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
    let mut points = sampled(curve.points);
    let outliers = recommended.outliers_denied;
    points.retain(|(units, ..)| *units != recommended.units);
    points.push((recommended.units, recommended.clients_denied + outliers, outliers));
    points.sort_unstable();
    let wide = |number: u64| number.to_string().len();
    let most = points.iter().map(|(units, ..)| wide(*units)).max().unwrap_or(1).max(5);
    let count = wide(advice.clients);
    let units = if advice.rates.is_empty() { "units" } else { "burst" };
    let mut text = format!("{units:>most$}  clients ever denied\n");
    let _ = writeln!(text, "{:most$}  (of {}, on a logarithmic scale)", "", advice.clients);
    for (units, denied, outliers) in points {
        let place = place(denied, advice.clients);
        let dot = format!("{:place$}●", "");
        let share = parts(denied, advice.clients);
        let outliers = match outliers {
            0 => String::new(),
            outliers => format!(", {}", plural(outliers, "outlier")),
        };
        let mark = if units == recommended.units { "  <- recommended" } else { "" };
        let _ = writeln!(
            text,
            "{units:>most$} |{dot:<PLACES$}  {denied:>count$}, {share}{outliers}{mark}"
        );
    }
    text
}

/// At most [`LINES`] points of a curve, at even distances on a logarithmic scale.
fn sampled(curve: &[CurvePoint]) -> Vec<(u64, u64, u64)> {
    let most = curve.last().map_or(1, |last| last.units);
    let at = |line: u32| {
        let units = libm::pow(real(most.max(1)), f64::from(line) / f64::from(LINES - 1));
        // The last line is the last point, whatever was rounded.
        curve.iter().rev().find(|it| line == LINES - 1 || real(it.units) <= units * 1.000_001)
    };
    let point = |it: &CurvePoint| (it.units, it.clients, it.outliers);
    let mut points: Vec<_> = (0..LINES).filter_map(at).map(point).collect();
    points.dedup();
    points
}

/// The place of a dot: the first for nobody, and the others on a logarithmic scale.
fn place(denied: u64, clients: u64) -> usize {
    let decades = libm::log10(real(clients.max(10)));
    let furthest = u32::try_from(PLACES - 1).unwrap_or(1);
    let at = |place: &u32| {
        let reached = f64::from(*place - 1) / f64::from(furthest - 1) * decades;
        libm::log10(real(denied)) <= reached + 1e-9
    };
    if denied == 0 {
        return 0;
    }
    let place = (1..=furthest).find(at).unwrap_or(furthest);
    usize::try_from(place).unwrap_or(0)
}
