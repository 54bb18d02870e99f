//! The examples of `docs/proof.md`.

use tollgate_proof::history::{Bounds, History, Promise, Verdict, check};

/// The page; in a package, which holds its own folder alone, there is none.
fn page() -> Option<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof.md");
    std::fs::read_to_string(path).ok()
}

#[test]
fn the_history_on_the_page_has_the_report_on_the_page() {
    let Some(page) = page() else { return };
    let blocks: Vec<&str> = page.split("```text\n").skip(1).collect();
    let block = |position: usize| blocks[position].split_once("```").unwrap().0;
    let history: History = block(0).parse().unwrap();
    let report = check(&history, &Bounds::default()).to_string();
    assert!(report.starts_with(block(1)), "{report}");
    let holds: History = block(2).parse().unwrap();
    let report = check(&holds, &Bounds::default());
    assert_eq!(report.verdict(Promise::Holds), Verdict::Held, "{report}");
}
