//! `sqlite`: the store beside a bare loop.

use crate::json;

#[test]
fn the_bench_of_the_file_compares_with_a_bare_loop() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    let json = json(&["sqlite", "--checks", "100", "--dir", dir, "--json"]);
    for figure in ["decisions_per_second", "bare_per_second", "denials_per_second", "ratio"] {
        assert!(json[figure].as_f64().unwrap() > 0.0, "{json}");
    }
    // Its files are gone.
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}
