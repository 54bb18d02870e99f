//! `redis`: its output, and its leftovers on a server.

use tollgate_testbed::redis_or_skip;

use crate::{bench, json, run, said_by};

const TINY: [&str; 10] =
    ["--checks", "100", "--runs", "1", "--depth", "8", "--entries", "1000", "--tasks", "4"];

#[test]
fn a_server_of_its_own_is_measured() {
    // Only to see whether there is one.
    let _server = redis_or_skip!();
    let (code, out, err) = run(&[&["redis"][..], &TINY].concat());
    assert_eq!(code, 0, "{out}{err}");
    for line in ["\n gcra ", "gcra by hand", "two sorted sets", "bytes per event", "two threads"] {
        assert!(out.contains(line), "{line:?} is missing: {out}");
    }
}

#[test]
fn a_given_server_is_left_as_it_was() {
    let server = redis_or_skip!();
    let url = server.url();
    let given = ["redis", "--json", "--store", &url];
    let json = json(&[&given[..], &TINY].concat());
    assert!(json["server"].as_str().unwrap().contains(' '), "{json}");
    let rows = json["rows"].as_array().unwrap();
    for bar in [1.0, 1.25, 1.6, 2.0, 3.0, 8.0] {
        assert!(rows.iter().any(|row| row["at_most"] == bar), "no row is at most {bar}: {json}");
    }
    for strategy in tollgate::Strategy::RATES {
        let costs = json["costs"].as_array().unwrap();
        assert!(costs.iter().any(|cost| cost["what"] == strategy.name()), "{strategy}: {json}");
    }
    assert_eq!(json["clients"].as_array().unwrap().len(), 2);
    // Bytes do not depend on the machine.
    assert!(json["bytes_per_event"].as_f64().unwrap() <= 16.5, "{json}");
    assert_eq!(server.keys().len(), 0, "keys were left behind");
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let mut command = bench(&[&["redis"][..], &TINY].concat());
    command.env("TOLLGATE_REDIS_SERVER", "none/redis-server");
    let (code, _, err) = said_by(command);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no redis-server can be started") && err.contains("--store"), "{err}");
}
