//! A page of tables: of whatever was measured elsewhere and belongs into the same form.

use maud::html;
use serde::Serialize;

use super::html::page;

/// A part of the page: a heading, and a table or a text below it.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The names of the columns; the first one is that of the rows.
    pub header: Vec<String>,
    /// The rows, with a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// A text that is shown as it is.
    pub code: Option<String>,
}

/// Tables as one HTML page: a title and a heading, a sentence, the sections, and `json` in the
/// element `#results`. Like [`super::html`] it needs nothing else, and all texts are escaped.
///
/// ```
/// use tollgate_experiments::report::{Section, tables_html};
///
/// let row = vec!["bound".to_owned(), "kept".to_owned()];
/// let header = vec!["promise".to_owned(), "verdict".to_owned()];
/// let section = Section { title: "Verdicts".into(), header, rows: vec![row], code: None };
/// let page = tables_html(("Judged", "a limiter"), "It kept all.", &[section], &"json");
/// assert!(page.contains("<td>kept</td>"), "{page}");
/// ```
#[must_use]
pub fn tables_html(
    titles: (&str, &str),
    lead: &str,
    sections: &[Section],
    json: &impl Serialize,
) -> String {
    let body = html! {
        p class="lead" { (lead) }
        @for Section { title, header, rows, code } in sections {
            h2 { (title) }
            @if let Some(code) = code { pre { (code) } }
            @if !rows.is_empty() {
                div class="table" role="region" aria-label=(title) tabindex="0" {
                    table {
                        thead { tr { @for name in header { th scope="col" { (name) } } } }
                        tbody { @for row in rows { tr {
                            @for (place, cell) in row.iter().enumerate() {
                                @if place == 0 {
                                    th scope="row" { (cell) }
                                } @else {
                                    td class=[(cell == "broken").then_some("broken")] { (cell) }
                                }
                            }
                        } } }
                    }
                }
            }
        }
    };
    page(titles, &body, json)
}
