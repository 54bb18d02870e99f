//! `judge` calls none of ours broken: each strategy, on each store, by HTTP, gRPC and the Redis
//! protocol.

use std::fs;
use std::thread;

use serde_json::Value;

use crate::Place;
use crate::lent::lent_cluster_or_skip;
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

/// The protocol of a judgement.
#[derive(Clone, Copy, Debug)]
enum Door {
    Http,
    Redis,
    Grpc,
}

/// The exit code, the report and the errors of a judgement of a service by these limits. `rule` is
/// the number of those that count by gRPC.
fn judged(
    place: &Place,
    serving: &Serving,
    (limits, rule): (&str, usize),
    door: Door,
) -> (i32, Value, String) {
    let (url, body, address, words);
    let mut args = vec!["judge", "--json", "-l", limits, "--within", "40s", "--clients", "8"];
    match door {
        Door::Http => {
            url = format!("http://{}/v1/check", serving.address());
            let fields = r#""subject": "{subject}", "cost": {cost}, "idempotency_key": "{id}""#;
            body = format!(r#"{{{fields}, "limit": "{limits}"}}"#);
            args.extend(["--http", &url, "--body", &body, "--allowed", "json:/allowed=true"]);
            args.extend(["--remaining", "json:/remaining", "--decided-at", "json:/at_us"]);
            args.extend(["--retry-after", "json:/retry_after/seconds"]);
        }
        Door::Redis => {
            address = serving.line_after("redis      ").to_owned();
            words = format!("TOLLGATE.CHECK {{subject}} \"{limits}\" COST {{cost}} ID {{id}}");
            args.extend(["--resp", &address, "--ask", &words]);
        }
        Door::Grpc => {
            address = serving.line_after("grpc       ").to_owned();
            let id = "tollgate-request-id={id}";
            words = format!("shop rule-{rule}={{subject}} ; {id} hits_addend={{cost}}");
            args.extend(["--grpc", &address, "--ask", &words]);
        }
    }
    let (code, out, err) = place.run(&args);
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

/// Nothing is broken, and the exact answers were decided.
fn is_kept(case: &str, (code, report, err): &(i32, Value, String)) {
    assert_eq!(*code, 0, "{case}: {err}\n{report:#}");
    let rows = report["verdicts"].as_array().unwrap();
    let once = "charged once";
    for promise in ["bound", "decisions", "waits", "remaining", "denials are free", once] {
        let row = rows.iter().find(|row| row["promise"] == promise).unwrap();
        assert_eq!(row["verdict"], "kept", "{case}: {row}");
        assert!(row["checked"].as_u64().unwrap() > 10, "{case}: {row}");
    }
    let flood = &report["flood"];
    assert!(flood["asked"].as_u64().unwrap() > 100, "{case}: {flood}");
}

/// The rules of gRPC: one for each of the limits, by its number.
fn rules(place: &Place) -> String {
    let rule = |(number, limits)| format!("  - {{ key: rule-{number}, limit: \"{limits}\" }}\n");
    let rules: String = LIMITS.iter().enumerate().map(rule).collect();
    let file = place.path().join("rules.yaml");
    fs::write(&file, format!("domain: shop\nmeaning: tollgate\ndescriptors:\n{rules}")).unwrap();
    file.display().to_string()
}

/// A service on a store, with all of its doors.
fn serving(place: &Place, store: &str) -> Serving {
    let (rules, here) = (rules(place), "127.0.0.1:0");
    let grpc = ["--grpc", here, "--envoy-config", &rules, "--request-id-header", "X-Request-Id"];
    Serving::start(place, &[&["--resp", here, "--store", store], &grpc[..]].concat())
}

/// Judges a service on a store by each of these, at the same time.
fn on(store: &str, cases: &[(usize, Door)]) {
    let place = Place::new();
    let serving = serving(&place, store);
    thread::scope(|scope| {
        for &(rule, door) in cases {
            let (place, serving) = (&place, &serving);
            scope.spawn(move || {
                let judged = judged(place, serving, (LIMITS[rule], rule), door);
                is_kept(&format!("{store}, {}, {door:?}", LIMITS[rule]), &judged);
            });
        }
    });
}

#[test]
fn none_of_ours_in_memory_is_called_broken() {
    on("memory://", &[(0, Door::Http), (2, Door::Redis), (5, Door::Redis), (0, Door::Grpc)]);
}

#[test]
fn none_of_ours_in_sqlite_is_called_broken() {
    let place = Place::new();
    on(&place.store(), &[(1, Door::Redis), (3, Door::Http), (1, Door::Grpc)]);
}

#[test]
fn none_of_ours_on_redis_is_called_broken() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    on(&url, &[(0, Door::Redis), (1, Door::Http), (4, Door::Redis)]);
}

/// Each subject lies on one of three nodes, so that the judge asks all of them.
#[test]
fn none_of_ours_on_a_cluster_is_called_broken() {
    let cluster = lent_cluster_or_skip!();
    on(&cluster.url(), &[(0, Door::Http), (3, Door::Redis), (5, Door::Http), (1, Door::Grpc)]);
    let held: Vec<usize> = (0..3).map(|node| cluster.count_keys(node)).collect();
    assert!(held.iter().all(|held| *held > 0), "{held:?}");
}

/// Rules that count less than is stated, and more.
#[test]
fn another_limit_than_is_stated_is_found_by_grpc() {
    let place = Place::new();
    let serving = serving(&place, "memory://");
    for (limits, promise) in [("3/200ms via gcra", "bound"), ("7/200ms via gcra", "decisions")] {
        let (code, report, err) = judged(&place, &serving, (limits, 0), Door::Grpc);
        assert_eq!(code, 1, "{limits}: {err}\n{report:#}");
        let rows = report["verdicts"].as_array().unwrap();
        let row = rows.iter().find(|row| row["promise"] == promise).unwrap();
        assert_eq!(row["verdict"], "broken", "{limits}: {report:#}");
    }
}
