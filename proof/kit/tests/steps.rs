//! A sample of every history of small limits beside the oracle: `cargo run --release -p
//! tollgate-proof --example steps` does the whole.

use tollgate_proof::steps::{Reach, Row, rows, rows_in_a_store, rows_with_holds};

fn none_differs(rows: &[Row]) {
    for row in rows {
        println!("{}: {} limits, {:?} in {:.1?}", row.name, row.limits, row.size, row.took);
        assert!(row.different.is_none(), "{}", row.different.as_deref().unwrap_or_default());
        assert!(row.limits > 0 && row.size.steps > 1_000, "{row:?}");
    }
}

#[test]
fn counts_alone() {
    let rows = rows(&Reach::sample(), |_| {});
    assert_eq!(rows.len(), 8);
    none_differs(&rows);
}

#[test]
fn counts_with_open_holds() {
    none_differs(&rows_with_holds(2, |_| {}));
}

#[test]
fn each_history_by_itself() {
    none_differs(&rows_in_a_store(2, |_| {}));
}
