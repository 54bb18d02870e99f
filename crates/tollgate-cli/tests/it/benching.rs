//! `bench redis`, in sizes that measure nothing: that it runs, what it prints, what it leaves.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::Place;
use crate::redis::Redis;

const TINY: [&str; 10] =
    ["--checks", "100", "--runs", "1", "--depth", "8", "--entries", "1000", "--tasks", "4"];

#[test]
fn a_server_of_its_own_is_measured() {
    let place = Place::new();
    // Only to see whether there is one.
    if Redis::start(place.path(), &[]).is_none() {
        return;
    }
    let (code, out, err) = place.run(&[&["bench", "redis"][..], &TINY].concat());
    assert_eq!(code, 0, "{out}{err}");
    for line in ["\n gcra ", "gcra by hand", "two sorted sets", "bytes per event", "two threads"] {
        assert!(out.contains(line), "{line:?} is missing: {out}");
    }
}

#[test]
fn a_given_server_is_left_as_it_was() {
    let place = Place::new();
    let Some((_server, url)) = Redis::start(place.path(), &[]) else { return };
    let given = ["bench", "redis", "--json", "--store", &url];
    let json = place.json(&[&given[..], &TINY].concat());
    assert!(json["server"].as_str().unwrap().contains(' '), "{json}");
    let rows = json["rows"].as_array().unwrap();
    for bar in [1.0, 1.25, 1.6, 2.0, 3.0, 8.0] {
        assert!(rows.iter().any(|row| row["at_most"] == bar), "no row is at most {bar}: {json}");
    }
    for strategy in tollgate::Strategy::ALL {
        let costs = json["costs"].as_array().unwrap();
        assert!(costs.iter().any(|cost| cost["what"] == strategy.name()), "{strategy}: {json}");
    }
    assert_eq!(json["clients"].as_array().unwrap().len(), 2);
    // Bytes are no matter of the machine.
    assert!(json["bytes_per_event"].as_f64().unwrap() <= 16.5, "{json}");
    let mut stream = UnixStream::connect(place.path().join("redis.sock")).unwrap();
    stream.write_all(b"DBSIZE\r\n").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b":0\r\n", "keys were left behind");
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let place = Place::new();
    let mut command = place.tollgate(&[&["bench", "redis"][..], &TINY].concat());
    let output = command.env("TOLLGATE_REDIS_SERVER", place.path().join("none")).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("no redis-server can be started") && err.contains("--store"), "{err}");
}
