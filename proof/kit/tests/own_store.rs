//! The store of the page on stores of one's own passes the kit, and the page shows it whole.
#![allow(clippy::unwrap_used)] // tests may

use tollgate::ManualClock;
use tollgate_proof::conformance::sweeping;

#[path = "../examples/own_store.rs"]
#[allow(unreachable_pub, missing_docs)]
mod own_store;

use own_store::MapStore;

tollgate_proof::conformance_tests!(
    sweeping(MapStore::new, |store: &MapStore<ManualClock>| store.sweep())
);

#[test]
fn the_page_shows_the_store_that_is_tested() {
    let page = include_str!("../../../docs/stores.md");
    let source = include_str!("../examples/own_store.rs");
    assert!(page.contains(&format!("```rust\n{source}```\n")), "write the file into the page");
}
