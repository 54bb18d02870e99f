//! `judge` calls none of ours broken: each strategy, on each store, by HTTP and the Redis protocol.

use std::thread;

use serde_json::Value;

use crate::Place;
use crate::redis;
use crate::serving::Serving;

/// The limits, short enough that a judgement of all its waits takes seconds.
const LIMITS: [&str; 6] = [
    "5/200ms via gcra",
    "5/200ms burst 8 via token_bucket",
    "5/200ms via fixed_window",
    "5/200ms via sliding_log",
    "5/200ms precision 20ms via sliding_window",
    "3/100ms via gcra, 8/500ms anchor first-hit via fixed_window",
];

/// Judges a service by HTTP or by the Redis protocol.
fn judged(place: &Place, serving: &Serving, limits: &str, by_http: bool) -> (i32, Value, String) {
    let (url, body, resp, words);
    let mut args = vec!["judge", "--json", "-l", limits, "--within", "40s", "--clients", "8"];
    if by_http {
        url = format!("http://{}/v1/check", serving.address());
        let fields = r#""subject": "{subject}", "cost": {cost}, "idempotency_key": "{id}""#;
        body = format!(r#"{{{fields}, "limit": "{limits}"}}"#);
        args.extend(["--http", &url, "--body", &body, "--allowed", "json:/allowed=true"]);
        args.extend(["--remaining", "json:/remaining", "--decided-at", "json:/at_us"]);
        args.extend(["--retry-after", "json:/retry_after/seconds"]);
    } else {
        resp = serving.line_after("redis      ").to_owned();
        words = format!("TOLLGATE.CHECK {{subject}} \"{limits}\" COST {{cost}} ID {{id}}");
        args.extend(["--resp", &resp, "--ask", &words]);
    }
    let (code, out, err) = place.run(&args);
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

/// Nothing is broken, and the exact answers were decided.
fn is_kept(store: &str, limits: &str, by_http: bool, (code, report, err): &(i32, Value, String)) {
    let case = format!("{store}, {limits}, by HTTP: {by_http}");
    assert_eq!(*code, 0, "{case}: {err}\n{report:#}");
    let rows = report["verdicts"].as_array().unwrap();
    for promise in ["bound", "decisions", "waits", "remaining", "denials are free"] {
        let row = rows.iter().find(|row| row["promise"] == promise).unwrap();
        assert_eq!(row["verdict"], "kept", "{case}: {row}");
        assert!(row["checked"].as_u64().unwrap() > 10, "{case}: {row}");
    }
    let flood = &report["flood"];
    assert!(flood["asked"].as_u64().unwrap() > 100, "{case}: {flood}");
}

/// Judges a service on a store, whatever it is, by both.
fn on(store: &str, cases: &[(usize, bool)]) {
    let place = Place::new();
    let serving = Serving::start(&place, &["--resp", "127.0.0.1:0", "--store", store]);
    thread::scope(|scope| {
        for &(limits, by_http) in cases {
            let (place, serving) = (&place, &serving);
            scope.spawn(move || {
                let judged = judged(place, serving, LIMITS[limits], by_http);
                is_kept(store, LIMITS[limits], by_http, &judged);
            });
        }
    });
}

#[test]
fn none_of_ours_in_memory_is_called_broken() {
    on("memory://", &[(0, true), (2, false), (5, false)]);
}

#[test]
fn none_of_ours_in_sqlite_is_called_broken() {
    let place = Place::new();
    on(&place.store(), &[(1, false), (3, true)]);
}

#[test]
fn none_of_ours_on_redis_is_called_broken() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    on(&url, &[(0, false), (1, true), (4, false)]);
}
