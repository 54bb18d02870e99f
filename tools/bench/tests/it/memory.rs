//! `memory`: both sides, and the figures of each.

use crate::json;

#[test]
fn the_bench_compares_two_sides() {
    let args = ["memory", "--keys", "1,2000", "--threads", "1,2", "--calls", "10000"];
    let json = json(&[&args[..], &["--runs", "3", "--json"]].concat());
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        for side in ["tollgate", "governor"] {
            assert!(row[format!("{side}_ns")].as_f64().unwrap() > 0.0, "{row}");
            let admitted = row[format!("{side}_admitted")].as_f64().unwrap();
            assert!((admitted - 0.9).abs() < 0.02, "{row}");
        }
    }
    for row in json["owned"].as_array().unwrap() {
        for way in ["now", "within"]
            .map(|way| [format!("{way}_ns"), format!("{way}_ratio")])
            .as_flattened()
        {
            assert!(row[way].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert_eq!(json["owned"].as_array().unwrap().len(), 14);
    assert_eq!(json["bytes"][0]["side"], "tollgate");
    assert_eq!(json["bytes"][1]["keys"], 2000);
}
