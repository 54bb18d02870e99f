//! The busiest and the most denied subjects, through every front.

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::MemoryStore;
use tollgate_policy::{Format, Policies};
use tollgate_service::{AnyStore, Denials, EnvoyRules, Metrics, Options, Subjects};

use crate::client::Client;
use crate::redis_client::line;
use crate::{FILE, Service, here};

/// A service that shows subjects as its log of denials does.
async fn service(denials: Option<Denials>, change: impl FnOnce(&mut Options)) -> Service {
    let metrics = Metrics::with(denials, None);
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    let gate = metrics.gate(policies, AnyStore::Memory(MemoryStore::new())).unwrap();
    Service::start_with(gate, |options| {
        options.admin = Some(here());
        options.metrics = metrics;
        change(options);
    })
    .await
}

fn log(subjects: Subjects) -> Option<Denials> {
    Some(Denials::new(subjects, Some(b"a key")).unwrap())
}

async fn top(admin: &mut Client, query: &str) -> Value {
    let reply = admin.get(&format!("/v1/admin/top{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{query}: {}", reply.text);
    reply.json()
}

/// The rows, each as a subject, a policy and a count without an error.
fn rows(top: &Value) -> Vec<(&str, Option<&str>, u64)> {
    let subjects = top["subjects"].as_array().unwrap().iter();
    let row = |one: &'_ Value| assert_eq!(one["error"], 0, "{one}");
    let rows = subjects.inspect(|one| row(one)).map(|one| {
        let count = one["count"].as_u64().unwrap();
        (one["subject"].as_str().unwrap(), one["policy"].as_str(), count)
    });
    rows.collect()
}

#[tokio::test]
async fn who_asks_most_and_who_is_denied_most_is_listed() {
    let service = service(log(Subjects::Plain), |_| {}).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let nobody = top(&mut admin, "").await;
    assert_eq!((&nobody["by"], &nobody["observed"]), (&json!("asked"), &json!(0)));
    assert_eq!(nobody["subjects"], json!([]));
    let login = |ip: u8| format!(r#"{{"policy": "login", "fields": {{"ip": "192.0.2.{ip}"}}}}"#);
    for (ip, times) in [(1, 5), (2, 2), (3, 1)] {
        for _ in 0..times {
            client.check(&login(ip)).await;
        }
    }
    // The items of a batch, one by one; nothing is counted for a peek.
    let own = r#"{"subject": "user:ann", "limit": "3/h"}"#;
    let batch = format!(r#"{{"checks": [{}]}}"#, [own; 7].join(","));
    assert_eq!(client.post("/v1/check", &batch).await.status, StatusCode::OK);
    assert_eq!(client.post("/v1/peek", own).await.status, StatusCode::OK);
    // The subject of the limit that decides.
    let both = r#"{"on": [{"subject": "user:bob", "limit": "9/h"},
                          {"subject": "team:1", "limit": "1/h"}]}"#;
    for allowed in [true, false] {
        assert_eq!(client.check(both).await["allowed"], allowed);
    }
    // A policy in shadow denies nobody, and a ban is not a decision of a limit.
    client.check(r#"{"policy": "trial", "fields": {"ip": "192.0.2.9"}}"#).await;
    client
        .check(r#"{"policy": "banned", "fields": {"ip": "192.0.2.9", "header.x-bad": "yes"}}"#)
        .await;

    let asked = top(&mut admin, "").await;
    let login = Some("login");
    let expected = [
        ("user:ann", None, 7),
        ("ip:192.0.2.1", login, 5),
        ("team:1", None, 2),
        ("ip:192.0.2.2", login, 2),
        ("ip:192.0.2.3", login, 1),
    ];
    assert_eq!(rows(&asked), expected, "{asked}");
    assert_eq!((&asked["observed"], &asked["others_at_most"]), (&json!(17), &json!(0)));
    assert!(asked["span_ms"].as_u64().unwrap() < 120_000, "{asked}");
    let denied = top(&mut admin, "?by=denied&n=2").await;
    assert_eq!(rows(&denied), [("user:ann", None, 4), ("ip:192.0.2.1", login, 3)], "{denied}");
    let sums = ["by", "observed", "others_at_most"].map(|key| denied[key].clone());
    assert_eq!(sums, [json!("denied"), json!(8), json!(1)]);
    assert!(admin.get("/").await.text.contains("GET  /v1/admin/top"));
    let page = client.get("/metrics").await.text;
    assert!(page.contains(r#"endpoint="/v1/admin/top""#), "{page}");
}

#[tokio::test]
async fn calls_over_the_redis_protocol_are_counted_one_by_one() {
    let service = service(log(Subjects::Plain), |options| options.resp = vec![here()]).await;
    let mut redis = service.redis().await;
    // Many together, of several subjects: two are admitted of each.
    let names = ["a", "b", "a", "c", "a", "b", "a", "b", "a"];
    let calls: Vec<u8> =
        names.iter().flat_map(|name| line(&format!("CL.THROTTLE {name} 1 1 3600"))).collect();
    redis.send(&calls).await;
    for name in names {
        let reply = redis.reply().await;
        assert!(reply.starts_with('['), "{name}: {reply}");
    }
    let mut admin = service.admin().await;
    let asked = top(&mut admin, "?by=asked").await;
    assert_eq!(rows(&asked), [("a", None, 5), ("b", None, 3), ("c", None, 1)], "{asked}");
    let denied = top(&mut admin, "?by=denied").await;
    assert_eq!(rows(&denied), [("a", None, 3), ("b", None, 1)], "{denied}");
    assert_eq!(denied["observed"], 4);
}

#[tokio::test]
async fn calls_under_envoys_rules_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let text = "domain: shop\ndescriptors:\n  - key: user\n    limit: 1/h via sliding_log\n";
    std::fs::write(&rules, text).unwrap();
    let service = service(log(Subjects::Plain), |options| {
        options.envoy.rules = EnvoyRules::Files(rules);
        options.grpc = vec![here()];
    })
    .await;
    let mut client = service.client().await;
    let ask =
        r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}"#;
    for status in [200, 429, 429] {
        assert_eq!(client.post("/json", ask).await.status.as_u16(), status);
    }
    let mut admin = service.admin().await;
    for (by, count) in [("asked", 3), ("denied", 2)] {
        let found = top(&mut admin, &format!("?by={by}")).await;
        assert_eq!(rows(&found), [("envoy:shop|user=ann", None, count)], "{found}");
    }
}

#[tokio::test]
async fn subjects_are_hashed_as_in_the_log() {
    let own = r#"{"subject": "user:ann", "limit": "3/h"}"#;
    let key = Some(b"0123456789abcdef".to_vec());
    let mut hashes = Vec::new();
    // With a log; and without one, with a secret and without.
    for (denials, key) in
        [(log(Subjects::Hashed), None), (None, key.clone()), (None, key), (None, None)]
    {
        let service = service(denials, |options| options.key_secret = key).await;
        service.client().await.check(own).await;
        let found = top(&mut service.admin().await, "").await;
        let hash = found["subjects"][0]["subject"].as_str().unwrap().to_owned();
        assert!(hash.len() == 16 && hash.bytes().all(|it| it.is_ascii_hexdigit()), "{hash}");
        hashes.push(hash);
    }
    let [logged, secret, again, random] = &hashes[..] else { panic!("{hashes:?}") };
    assert_eq!(secret, again);
    assert!(logged != secret && random != secret && random != logged, "{hashes:?}");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let service = service(log(Subjects::Plain), |_| {}).await;
    let mut admin = service.admin().await;
    for (query, field, says) in [
        ("by=admitted", "by", "asked or denied"),
        ("by=", "by", "asked or denied"),
        ("n=0", "n", "1 to 100"),
        ("n=101", "n", "1 to 100"),
        ("n=ten", "n", "1 to 100"),
        ("n=1&n=2", "n", "comes twice"),
        ("count=1", "count", "by, n"),
    ] {
        let reply = admin.get(&format!("/v1/admin/top?{query}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}: {}", reply.text);
        let problem = reply.json();
        assert_eq!(problem["field"], field, "{query}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{query}: {problem}");
    }
    let posted = admin.post("/v1/admin/top", "{}").await.status;
    assert_eq!(posted, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(top(&mut admin, "?by=denied&n=100").await["by"], "denied");
}
