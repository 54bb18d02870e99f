//! `serve --record`: what was asked, as `advise`, `replay` and `diff` read it.

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
    // Over a restart it goes on in the same file. A log of one second would say nothing.
    let began = Instant::now();
    for wait in [Duration::ZERO, Duration::from_millis(1_100)] {
        while began.elapsed() < wait {
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
        // A peek is no check; a cost above the limit is one that is never admitted.
        client.ask("POST", "/v1/peek", r#"{"subject": "team:7", "limit": "9/h"}"#).unwrap();
        client.check(r#"{"fields": {"user": "ann", "ip": "192.0.2.9"}, "cost": 9}"#).unwrap();
        drop(client);
        serving.end();
    }
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str, value: &str| lines.iter().filter(|it| it[key] == value).count();
    assert_eq!((lines.len(), of("policy", "login"), of("team", "7")), (34, 32, 2));
    assert_eq!((of("user", "u,5"), of("ip", "192.0.2.5"), of("outcome", "denied")), (10, 10, 6));
    let mode = std::fs::metadata(log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "subjects are personal data");

    for (by, clients, requests) in
        [("ip", 7, 34), ("user", 6, 32), ("subject", 7, 34), ("policy,user", 6, 32)]
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
