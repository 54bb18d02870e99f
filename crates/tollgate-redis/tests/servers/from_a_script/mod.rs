//! The table of `docs/from-a-script.md`: the same questions to handwritten patterns and to limits.
//!
//! Both sides run on one real Redis, by a clock that is driven here, so that the figures are the
//! same each time. `cargo xtask from-a-script` writes the table, and the test compares it.

mod driven;
mod questions;

use std::path::Path;

use tollgate_testbed::redis_or_skip;

use self::driven::Driven;

/// The file into which `cargo xtask from-a-script` has the table written.
const INTO: &str = "TOLLGATE_TABLE_INTO";

const BEGIN: &str = "<!-- generated: cargo xtask from-a-script -->\n";

/// A question to both sides.
struct Row {
    /// The section of the page with the pattern.
    pattern: &'static str,
    question: String,
    theirs: String,
    limit: String,
    ours: String,
}

fn table(rows: &[Row]) -> String {
    let mut table = "| pattern | question | its answer | limit | Tollgate's answer |\n\
                     | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for Row { pattern, question, theirs, limit, ours } in rows {
        let row = format!("| {pattern} | {question} | {theirs} | `{limit}` | {ours} |\n");
        table.push_str(&row);
    }
    table
}

#[test]
fn the_table_of_the_page_is_what_both_sides_answer() {
    let server = redis_or_skip!();
    let again = || {
        server.command(&[b"FLUSHALL"]);
        table(&questions::all(&mut Driven::new(&server)))
    };
    let mut table = again();
    if let Ok(file) = std::env::var(INTO) {
        std::fs::write(file, &table).unwrap();
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-a-script.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, part) = page.split_once(BEGIN).expect("the page has no table");
    let (part, _) = part.split_once("<!-- end -->").expect("the table has no end");
    // A machine that stops within a script for milliseconds makes a key older there, but not twice.
    if part != table {
        table = again();
    }
    assert_eq!(part, table, "stale: run `cargo xtask from-a-script`");
}
