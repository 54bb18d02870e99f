//! `judge` as people use it: a window that is judged by its own documentation, a script on a Redis,
//! the report, and wrong usage.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tollgate_testbed::{RedisServer, SKIPPED, redis_program};

use crate::Place;

/// The window of the server below, and the units that it admits in one.
const WINDOW_US: u128 = 200_000;
const UNITS: u64 = 5;

type Counts = Arc<Mutex<HashMap<String, (u128, u64)>>>;

/// A server as people write it: a counter for each window of the clock, and Retry-After.
fn fixed_windows() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Counts::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = Arc::clone(&counts);
            thread::spawn(move || answer(&stream, &counts));
        }
    });
    address
}

fn answer(stream: &TcpStream, counts: &Counts) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        // The time is read under the lock: a thread that reads it before may go back to an old
        // window, and admits too many.
        let mut counts = counts.lock().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let window = now / WINDOW_US;
        let count = counts.entry(first).or_insert((window, 0));
        if count.0 != window {
            *count = (window, 0);
        }
        let left = UNITS - count.1;
        count.1 += u64::from(left > 0);
        let head = if left > 0 { "200 OK" } else { "429 Too Many Requests" };
        let mut reply = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n");
        reply += &format!("ratelimit-remaining: {}\r\n", left.saturating_sub(1));
        if left == 0 {
            reply += "retry-after: 1\r\n";
        }
        let mut out = stream;
        if out.write_all(format!("{reply}\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn row<'r>(report: &'r Value, promise: &str) -> &'r Value {
    let rows = report["verdicts"].as_array().unwrap();
    rows.iter().find(|row| row["promise"] == promise).unwrap()
}

#[test]
fn a_fixed_window_is_judged_by_what_it_promises() {
    let place = Place::new();
    let url = format!("http://{}/?user={{subject}}", fixed_windows());
    let page = place.path().join("report.html");
    let args = ["judge", "--http", &url, "--json", "--report", page.to_str().unwrap(), "-l"];
    // By its own documentation it admits 2N across an edge.
    let own = "5/200ms via fixed_window";
    let (code, out, err) = place.run(&[&args[..], &[own][..]].concat());
    assert_eq!(code, 0, "{out} {err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(row(&report, "bound")["verdict"], "kept");
    assert_eq!(row(&report, "waits")["verdict"], "kept");
    let most = report["most_admitted"][0]["admitted"].as_u64().unwrap();
    assert!((6..=10).contains(&most), "{report:#}");
    let open = report["not_decided"].to_string();
    assert!(open.contains("none has the limiter's time"), "{open}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h1>http://127.0.0.1") && html.contains("edges of windows"), "{html}");

    // "5 in 200 ms" means more to whoever writes no more than that.
    let (code, out, err) = place.run(&[&args[..], &["5/200ms"][..]].concat());
    assert_eq!(code, 1, "{out} {err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let bound = row(&report, "bound");
    assert_eq!(bound["verdict"], "broken", "{report:#}");
    let calls = bound["history"].as_array().unwrap().len();
    assert!((6..=10).contains(&calls), "the smallest history: {bound:#}");
}

pub(super) const SCRIPT: &str = "
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {count <= tonumber(ARGV[1]) and 1 or 0, redis.call('PTTL', KEYS[1])}";

#[test]
fn a_script_on_a_redis_is_judged() {
    let place = Place::new();
    if redis_program().is_none() {
        println!("{SKIPPED}");
        return;
    }
    let server = RedisServer::start();
    let address = format!("127.0.0.1:{}", server.port());
    let file = place.path().join("limit.lua");
    fs::write(&file, SCRIPT).unwrap();
    let limit = "5/200ms anchor first-hit via fixed_window";
    let args = ["judge", "-l", limit, "--redis", &address, "--script", file.to_str().unwrap()];
    let more = ["--ask", "1 {subject} 5 200", "--allowed", "item:0=1", "--retry-after", "item:1"];
    let args = [&args[..], &more, &["--wait-in", "ms", "--precision", "2ms"]].concat();
    let (code, out, err) = place.run(&args);
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.contains("KEPT") && out.contains("clients at once asked"), "{out}");

    // The same for half of the limit.
    let args: Vec<&str> =
        args.iter().map(|word| if *word == limit { "2/200ms" } else { *word }).collect();
    let (code, out, _) = place.run(&args);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("BROKEN") && out.contains("bound: "), "{out}");
}

#[test]
fn wrong_usage_and_what_cannot_be_asked_exit_with_2() {
    let place = Place::new();
    let limit = ["judge", "-l", "5/s"];
    for (args, why) in [
        (&["--http", "http://192.0.2.7:80/{subject}"][..], "--i-may-load 192.0.2.7"),
        (&["--http", "ftp://localhost/{subject}"], "http://HOST:PORT/PATH"),
        (&["--http", "https://192.0.2.7/{subject}"], "--i-may-load 192.0.2.7"),
        (&["--grpc", "192.0.2.7:80", "--ask", "a b={subject}"], "--i-may-load 192.0.2.7"),
        (&["--grpc", "127.0.0.1:1", "--ask", "a b={subject}"], "cannot be reached"),
        (&["--grpc", "127.0.0.1:1", "--ask", "a {subject}"], "DOMAIN KEY=VALUE"),
        (&["--grpc", "127.0.0.1:1"], "--ask is missing"),
        (&["--http", "http://127.0.0.1:1/{subject}"], "cannot be reached"),
        (&["--http", "http://127.0.0.1:1/"], "has no `{subject}`"),
        (&["--resp", "127.0.0.1:1"], "--ask is missing"),
        (&["--resp", "127.0.0.1:1", "--ask", "GET {subject}"], "--allowed is missing"),
        (&["--command", "tollgate-is-not-this"], "cannot be started"),
        (&["--command", "echo hello"], "its first line is `hello`"),
        (&["--command", "true"], "the program ended"),
        (&["--command", "echo '{\"judge\":2}'"], "version 2"),
        (&["--command", "echo '{\"judge\":1,\"clock\":true}'"], "cannot be asked"),
        (&["--command", "true", "--promise", "definition"], "names no strategy"),
        (&[], "required"),
    ] {
        let start = Instant::now();
        let (code, out, err) = place.run(&[&limit[..], args].concat());
        assert_eq!(code, 2, "{args:?}: {out} {err}");
        assert!(err.contains(why), "{args:?}: {err}");
        assert!(start.elapsed() < Duration::from_secs(30), "{args:?}");
    }
}
