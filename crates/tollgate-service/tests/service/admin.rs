//! Administrators: a separate listener, a token, corrections.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::Policies;
use tollgate_service::{AnyStore, Options, Server, StartError};

use crate::{FILE, Service, gate_of, here};

#[tokio::test]
async fn counts_are_looked_at_and_corrected() {
    let service = Service::with(|options| options.admin = Some(here())).await;
    let mut client = service.client().await;
    let mut admin = service.admin().await;
    let whose = r#"{"subject": "user:1", "limit": "2/h"}"#;
    for allowed in [true, true, false] {
        assert_eq!(client.check(whose).await["allowed"], allowed);
    }
    let held = admin.post("/v1/admin/inspect", whose).await.json();
    assert_eq!(held["held"]["written_under"], "2/h via sliding_log");
    assert_eq!(held["held"]["logs"][0].as_array().unwrap().len(), 2);
    let by = r#"{"subject": "user:1", "limit": "2/h", "by": 1}"#;
    assert_eq!(admin.post("/v1/admin/adjust", by).await.json(), json!({ "changed": [1] }));
    for allowed in [true, false] {
        assert_eq!(client.check(whose).await["allowed"], allowed);
    }
    for was_there in [true, false] {
        let said = admin.post("/v1/admin/reset", whose).await.json();
        assert_eq!(said, json!({ "was_there": was_there }));
    }
    assert_eq!(admin.post("/v1/admin/inspect", whose).await.json(), json!({ "held": Value::Null }));
    // The count of a policy is another one.
    let login = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}, "cost": 2}"#;
    for allowed in [true, false] {
        assert_eq!(client.check(login).await["allowed"], allowed);
    }
    let of_policy = r#"{"policy": "login", "subject": "ip:192.0.2.7", "limit": "2/h"}"#;
    assert_eq!(admin.post("/v1/admin/reset", of_policy).await.json()["was_there"], true);
    assert_eq!(client.check(login).await["allowed"], true);
    // Its limits may be left out.
    let of_policy = r#"{"policy": "login", "subject": "ip:192.0.2.7"}"#;
    let held = admin.post("/v1/admin/inspect", of_policy).await.json();
    assert_eq!(held["held"]["written_under"], "2/h via sliding_log");
    for was_there in [true, false] {
        assert_eq!(admin.post("/v1/admin/reset", of_policy).await.json()["was_there"], was_there);
    }
    assert_eq!(client.check(login).await["allowed"], true);
    let index = admin.get("/").await;
    assert!(index.text.contains("POST /v1/admin/reset"), "{}", index.text);
    for line in index.text.lines().filter(|line| line.contains('{')) {
        let example = &line[line.find('{').unwrap()..=line.rfind('}').unwrap()];
        serde_json::from_str::<Value>(example).unwrap_or_else(|why| panic!("{why}: {line}"));
    }
    for (path, body, says) in [
        ("reset", r#"{"policy": "login", "subject": "user:1"}"#, "by these dimensions"),
        ("reset", r#"{"policy": "login"}"#, "`subject` is missing"),
        ("adjust", whose, "`by` is missing"),
        ("reset", by, "only an adjustment"),
        ("reset", "{}", "lists all subjects"),
        ("adjust", r#"{"subject": "user:1", "limit": "2/h", "by": 0}"#, "out of range"),
        ("inspect", r#"{"policy": "a b", "subject": "user:1", "limit": "2/h"}"#, "1 to 64"),
    ] {
        let reply = admin.post(&format!("/v1/admin/{path}"), body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}: {}", reply.text);
        assert!(reply.text.contains(says), "{path} {body}: {}", reply.text);
    }
    let nobody = r#"{"policy": "logins", "subject": "ip:192.0.2.7"}"#;
    let reply = admin.post("/v1/admin/reset", nobody).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND, "{}", reply.text);
    assert_eq!(admin.get("/v1/admin/reset").await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(admin.post("/v1/check", whose).await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.get("/readyz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_in_a_browser_is_no_administrator() {
    let service = Service::with(|options| options.admin = Some(here())).await;
    let mut admin = service.admin().await;
    let whose = r#"{"subject": "user:1", "limit": "2/h"}"#;
    for header in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let reply = admin.ask("POST", "/v1/admin/reset", &[header], whose).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(admin.post("/v1/admin/reset", whose).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_is_asked_for_where_there_is_one() {
    let token = "0123456789abcdef";
    let service = Service::with(|options| {
        options.admin = Some(here());
        options.admin_token = Some(token.to_owned());
    })
    .await;
    let mut admin = service.admin().await;
    let whose = r#"{"subject": "user:1", "limit": "2/h"}"#;
    let bearer = |text: &str| format!("Bearer {text}");
    for wrong in [
        bearer(""),
        bearer("0123456789abcde"),
        bearer("0123456789abcdeg"),
        bearer("0123456789abcdef "),
        format!("Basic {token}"),
        token.to_owned(),
    ] {
        let headers = [("authorization", wrong.as_str())];
        let reply = admin.ask("POST", "/v1/admin/reset", &headers, whose).await;
        // Blanks at the end of a header do not belong to its value.
        let expected = if wrong.ends_with("f ") { 200 } else { 401 };
        assert_eq!(reply.status.as_u16(), expected, "{wrong}");
    }
    assert_eq!(admin.post("/v1/admin/reset", whose).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(admin.get("/metrics").await.status, StatusCode::UNAUTHORIZED);
    let right = bearer(token);
    let twice = [("authorization", right.as_str()), ("authorization", right.as_str())];
    assert_eq!(admin.ask("POST", "/v1/admin/reset", &twice, whose).await.status.as_u16(), 401);
    let reply = admin.ask("POST", "/v1/admin/reset", &twice[..1], whose).await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn a_service_that_would_be_open_to_the_world_does_not_start() {
    for (address, token, starts) in [
        ("0.0.0.0:0", None, false),
        ("[::]:0", None, false),
        (":0", None, false),
        ("0.0.0.0:0", Some("0123456789abcdef"), true),
        ("0.0.0.0:0", Some("0123456789abcde"), false),
        ("127.0.0.1:0", Some("short"), false),
        ("127.0.0.1:0", None, true),
    ] {
        let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
        let mut options = Options::new(vec![here()]);
        options.admin = Some(address.parse().unwrap());
        options.admin_token = token.map(str::to_owned);
        match Server::start(gate, options).await {
            Ok(_) => assert!(starts, "{address} {token:?}"),
            Err(StartError::Options(why)) => {
                assert!(
                    !starts && why.to_lowercase().contains("token"),
                    "{address} {token:?}: {why}"
                );
            }
            Err(other) => panic!("{address}: {other}"),
        }
    }
}

#[tokio::test]
async fn the_file_is_read_again_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policies.toml");
    std::fs::write(&path, FILE).unwrap();
    let policies = Policies::load(&path).unwrap();
    let gate = tollgate_policy::Gate::new(policies, AnyStore::Memory(MemoryStore::new())).unwrap();
    let service = Service::start_with(gate, |options| {
        options.admin = Some(here());
        options.config = Some(path.clone());
    })
    .await;
    let mut admin = service.admin().await;
    let same = admin.post("/v1/admin/reload", "").await.json();
    assert_eq!(same["revision"], service.gate.current().revision().to_string());
    assert!(same["revision"].as_str().unwrap().starts_with("1-"));
    std::fs::write(&path, FILE.replace("2/h", "4/h")).unwrap();
    let newer = admin.post("/v1/admin/reload", "").await.json();
    assert!(newer["revision"].as_str().unwrap().starts_with("2-"), "{newer}");
    std::fs::write(&path, FILE.replace("2/h", "4/parsec")).unwrap();
    let reply = admin.post("/v1/admin/reload", "").await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(reply.text.contains("parsec"), "{}", reply.text);
    assert!(service.gate.current().revision().to_string().starts_with("2-"));
    // Policies of a program have no file.
    let service = Service::with(|options| options.admin = Some(here())).await;
    let mut admin = service.admin().await;
    assert_eq!(admin.post("/v1/admin/reload", "").await.status, StatusCode::CONFLICT);
}

/// A slot whose holder is gone is given back by hand.
#[tokio::test]
async fn open_holds_are_shown_and_given_back() {
    let clock = ManualClock::at_micros(1_763_632_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let gate = gate_of(FILE, AnyStore::Memory(store));
    let service = Service::start_with(gate, |options| options.admin = Some(here())).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let whose = r#"{"subject": "job", "limit": "2 at once hold 1h"}"#;
    for allowed in [true, true, false] {
        assert_eq!(client.post("/v1/acquire", whose).await.json()["allowed"], allowed);
        clock.advance(Duration::from_millis(1_500));
    }
    let held = admin.post("/v1/admin/inspect", whose).await.json();
    let (held, holds) = (&held["held"], &held["held"]["holds"]);
    assert_eq!((&held["open"], holds.as_array().map(Vec::len)), (&json!(2), Some(2)));
    let stuck = &holds[0];
    assert_eq!((&stuck["kind"], &stuck["cost"]), (&json!("acquire"), &json!(1)));
    assert_eq!(stuck["end_us"], json!(1_763_635_600_000_000_u64), "{holds}");
    let ages = [json!({"seconds": 4.5, "text": "4.5s"}), json!({"seconds": 3, "text": "3s"})];
    assert_eq!([&stuck["age"], &holds[1]["age"]], [&ages[0], &ages[1]], "{holds}");
    let body = json!({ "hold": stuck["hold"] }).to_string();
    assert_eq!(admin.post("/v1/admin/release", &body).await.json(), json!({ "released": true }));
    assert_eq!(admin.post("/v1/admin/inspect", whose).await.json()["held"]["open"], 1);
    assert_eq!(client.post("/v1/acquire", whose).await.json()["allowed"], true);
    for (body, status) in [(r#"{"hold": "tgh1"}"#, 404), (r#"{"subject": "job"}"#, 400)] {
        assert_eq!(admin.post("/v1/admin/release", body).await.status.as_u16(), status, "{body}");
    }
}
