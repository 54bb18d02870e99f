//! The page of a race.

use maud::html;
use serde::Serialize;

use super::html::{figure, page};
use crate::chart;
use crate::experiment::RaceResults;

/// How a race was run: simulated with this seed, or on real servers.
#[must_use]
pub fn race_in_words(seed: Option<u64>) -> String {
    match seed {
        Some(seed) => format!("simulated: within 5 ms, 1 ms from the server, seed {seed}"),
        None => "on Redis: real clients, each over a connection of its own".to_owned(),
    }
}

/// A race as one HTML page: the picture, the numbers, how it was run, and `json` in the element
/// `#results`. A simulated race has a seed. Like [`super::html`] it needs nothing else.
#[must_use]
pub fn race_html(results: &RaceResults, seed: Option<u64>, json: &impl Serialize) -> String {
    let RaceResults { limit, clients, check_then_increment, overshoot, atomic, .. } = *results;
    let rows = [
        ("check, then increment", check_then_increment, overshoot),
        ("one atomic check", atomic, atomic.saturating_sub(limit)),
    ];
    let title = format!("A race of {clients} clients for {limit} places");
    let body = html! {
        p class="lead" { (limit) " may pass in 10 s; " (race_in_words(seed)) "." }
        (figure(&chart::race(results)))
        h2 { "Why" }
        p {
            "A client gets through if it reads the counter before others have added to it. In the \
             time between, all clients see room. An atomic check reads and adds in one step, so \
             there is no time between."
        }
        h2 { "Measures" }
        div class="table" role="region" aria-label="measures" tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "form" }
                    th scope="col" { "asked" }
                    th scope="col" { "got through" }
                    th scope="col" { "too many" }
                } }
                tbody { @for (form, through, too_many) in rows { tr {
                    th scope="row" { (form) }
                    td data-label="asked" { (clients) }
                    td data-label="got through" { (through) }
                    td.broken[too_many > 0] data-label="too many" { (too_many) }
                } } }
            }
        }
        p class="lead" {
            @if seed.is_some() {
                "Every number follows from the seed. "
            } @else {
                "The clients and the server were real, so the first row differs from run to run. "
            }
            "All of them are in this file, as JSON in the element #results."
        }
    };
    page((&title, &title), &body, json)
}
