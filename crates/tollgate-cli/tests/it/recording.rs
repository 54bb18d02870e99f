//! `serve --record`: the questions, as `advise`, `replay` and `diff` read them.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Place;
use crate::serving::Serving;

const POLICIES: &str = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                        limits = [{ subject = [\"ip\", \"user\"], absent = \"deny\", limit = \"3/h\" }]\n";

#[test]
fn what_was_asked_is_a_log_for_advise_and_replay() {
    let place = Place::new();
    let [policies, log] = ["p.toml", "checks.jsonl"].map(|name| place.path().join(name));
    std::fs::write(&policies, POLICIES).unwrap();
    let [policies, log] = [&policies, &log].map(|path| path.to_str().unwrap());
    let args = ["--config", policies, "--record", log];
    // Over a restart it goes on in the same file. A log of one second would say nothing, so the
    // second service is asked a second after the first has written its last line.
    let mut ended = None::<Instant>;
    for _ in 0..2 {
        while ended.is_some_and(|it| it.elapsed() < Duration::from_millis(1_100)) {
            std::thread::yield_now();
        }
        let serving = Serving::start(&place, &args);
        let mut client = serving.client();
        for user in 1..=5 {
            for _ in 0..user {
                let ip = format!(r#""ip": "192.0.2.{user}", "user": "u,{user}""#);
                client.check(&format!(r#"{{"policy": "login", "fields": {{{ip}}}}}"#)).unwrap();
            }
        }
        client.check(r#"{"subject": "team:7", "limit": "9/h"}"#).unwrap();
        // A peek is not a check; a cost above the limit is never admitted.
        client.ask("POST", "/v1/peek", r#"{"subject": "team:7", "limit": "9/h"}"#).unwrap();
        client.check(r#"{"fields": {"user": "ann", "ip": "192.0.2.9"}, "cost": 9}"#).unwrap();
        drop(client);
        serving.end();
        ended = Some(Instant::now());
    }
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str, value: &str| lines.iter().filter(|it| it[key] == value).count();
    assert_eq!((lines.len(), of("policy", "login"), of("team", "7")), (34, 32, 2));
    assert_eq!((of("user", "u,5"), of("ip", "192.0.2.5"), of("outcome", "denied")), (10, 10, 6));
    let mode = std::fs::metadata(log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "subjects are personal data");

    for (by, clients, requests) in
        [("ip", 6, 32), ("user", 6, 32), ("subject", 7, 34), ("policy,user", 6, 32)]
    {
        let args = ["advise", log, "--by", by, "--json", "--deny-clients", "0%"];
        let (code, out, error) = place.run(&args);
        assert_eq!(code, 0, "{by}: {error}");
        let advice: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(advice["clients"], clients, "{by}: {advice}");
        assert_eq!(advice["requests"], requests, "{by}: {advice}");
    }
    // The busiest asked ten times, and nobody is denied under that.
    let advice =
        place.json(&["advise", log, "--json", "--deny-clients", "0%", "--outliers", "keep"]);
    let limit = advice["recommended"]["limit"].as_str().unwrap();
    let replayed = place.json(&["replay", log, "--json", "--limit", limit]);
    assert_eq!(replayed["strategies"][0]["denied"], 0, "{limit}: {replayed}");
}

/// A request that its proxy asks about again is one line; its repeats are marked and counted
/// separately.
#[test]
fn a_repeated_answer_is_recorded_once() {
    let place = Place::new();
    let [policies, log] = ["p.toml", "checks.jsonl"].map(|name| place.path().join(name));
    let text = POLICIES.replace("[\"ip\", \"user\"], absent = \"deny\"", "\"ip\"");
    std::fs::write(&policies, text).unwrap();
    let [policies, log] = [&policies, &log].map(|path| path.to_str().unwrap());
    let args = ["--config", policies, "--record", log, "--log", "json"];
    let ids = ["--request-id-header", "X-Request-Id"];
    let serving = Serving::start(&place, &[&args[..], &ids].concat());
    let mut client = serving.client();
    let mut statuses = Vec::new();
    // One is charged, and repeated 16 times; then two more are. Others are denied.
    for id in [vec!["one"; 20], vec!["two"; 2]].concat() {
        let headers = format!("X-Request-Id: {id}\r\nX-Forwarded-For: 192.0.2.7\r\n");
        let (status, head, _) = client.whole_with(&headers, "GET", "/v1/auth", "").unwrap();
        let is_marked = head.to_ascii_lowercase().contains("tollgate-repeated: 1");
        statuses.push((status, is_marked));
    }
    let expected =
        [vec![(200, false)], vec![(200, true); 16], vec![(200, false); 2], vec![(429, false); 3]];
    assert_eq!(statuses, expected.concat());
    let (_, page) = client.ask("GET", "/metrics", "").unwrap();
    for line in ["tollgate_repeated_answers_total 16", "tollgate_overused_request_ids_total 3"] {
        assert!(page.contains(line), "{line}: {page}");
    }
    drop(client);
    let said = serving.end();
    let text = std::fs::read_to_string(log).unwrap();
    let outcomes: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["allowed", "allowed", "allowed", "denied", "denied", "denied"]);
    // Nor is it logged: the three denials are, which nothing remembers.
    assert_eq!(said.matches(r#""message":"denied""#).count(), 3, "{said}");
    assert_eq!(said.matches("one id in `x-request-id` more than 16 times").count(), 1, "{said}");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_it_serves() {
    let place = Place::new();
    for (args, says) in [
        (&["--record", "/nowhere/checks"][..], "--record: /nowhere/checks cannot be written"),
        (&["--record", "/dev/null", "--record-max", "10"], "`10` is too small: the least is 1MiB"),
        (&["--record-max", "1GiB"], "--record <FILE>"),
    ] {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--admin", "off"], args].concat();
        let (code, _, error) = place.run(&all);
        assert!(code == 2 && error.contains(says), "{args:?}: {error}");
    }
}
