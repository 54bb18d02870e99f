//! Bans and exemptions by administrators, at one service and in every other.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::MemoryStore;
use tollgate_redis::RedisStore;
use tollgate_service::AnyStore;
use tollgate_sqlite::SqliteStore;
use tollgate_testbed::RedisServer;

use crate::client::Client;
use crate::{FILE, Service, gate_of, here};

const LOGIN: &str = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}}"#;

async fn service(store: AnyStore) -> Service {
    Service::start_with(gate_of(FILE, store), |options| options.admin = Some(here())).await
}

async fn ruled(admin: &mut Client, act: &str, body: &Value) -> Value {
    let reply = admin.post(&format!("/v1/admin/{act}"), &body.to_string()).await;
    assert_eq!(reply.status, StatusCode::OK, "{act} {body}: {}", reply.text);
    reply.json()
}

#[tokio::test]
async fn an_administrator_bans_and_exempts() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    for allowed in [true, true, false] {
        assert_eq!(client.check(LOGIN).await["allowed"], allowed);
    }
    let exempt = json!({"when": {"ip": ["192.0.2.7"]}, "policy": "login", "for": "1h"});
    let told = ruled(&mut admin, "exempt", &exempt).await;
    assert_eq!(told["ruled"]["left_ms"], 3_600_000);
    let free = client.check(LOGIN).await;
    assert_eq!([&free["outcome"], &free["authority"]], ["unlimited", "ruling"]);
    let ban =
        json!({"when": {"ip": "192.0.2.0/24"}, "for": "1d", "reason": "a scan", "policy": "login"});
    ruled(&mut admin, "ban", &ban).await;
    assert_eq!(client.check(LOGIN).await["outcome"], "unlimited");
    let list = admin.get("/v1/admin/rulings").await.json();
    let [banned, freed] = &list["rulings"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(
        [&banned["effect"], &banned["reason"], &freed["effect"]],
        ["ban", "a scan", "exempt"]
    );
    assert_eq!(banned["when"], json!({"ip": ["192.0.2.0/24"]}));
    let lift = json!({"when": {"ip": "192.0.2.7"}, "policy": "login"});
    let told = ruled(&mut admin, "lift", &json!({"when": {"ip": "192.0.2.7"}})).await;
    assert_eq!(told, json!({ "was_there": false, "others": ["login"] }));
    for was_there in [true, false] {
        let told = ruled(&mut admin, "lift", &lift).await;
        assert_eq!(told, json!({ "was_there": was_there, "others": [] }));
    }
    let denied = client.check(LOGIN).await;
    assert_eq!([&denied["outcome"], &denied["authority"]], ["banned", "ruling"]);
    assert_eq!(denied["policy"], "login");
    // A proxy's request: this machine's address, and no policy that applies.
    assert_eq!(client.get("/v1/auth").await.status, StatusCode::OK);
    ruled(&mut admin, "ban", &json!({"when": {"ip": "127.0.0.1"}, "for": "1h"})).await;
    let refused = client.get("/v1/auth").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    // Inline limits are about no request.
    let own = client.check(r#"{"subject": "ip:127.0.0.1", "limit": "9/h"}"#).await;
    assert_eq!(own["outcome"], "allowed");
    // An IPv6 client counts by its network, and is banned by its address.
    ruled(&mut admin, "ban", &json!({"when": {"ip": "2001:db8::1"}, "for": "1h"})).await;
    for (ip, outcome) in [("2001:db8::1", "banned"), ("2001:db8::2", "allowed")] {
        let login = format!(r#"{{"policy": "login", "fields": {{"ip": "{ip}"}}}}"#);
        assert_eq!(client.check(&login).await["outcome"], outcome, "{ip}");
    }
}

/// A hold by its id is settled as it was asked for: nothing was held of an exempt client, and what
/// was held before a ban or an exemption is charged.
#[tokio::test]
async fn a_hold_by_its_id_is_settled_whatever_was_ruled_since() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let body = |id: u64, more: Value| {
        let mut body = json!({"policy": "login", "fields": {"ip": "192.0.2.7"}});
        body["id"] = json!(format!("{id:032}"));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let mut settle = async |act: &str, id: u64, more: Value| {
        let reply = client.post(&format!("/v1/{act}"), &body(id, more)).await;
        (reply.status.as_u16(), reply.json())
    };
    let rule = json!({"when": {"ip": "192.0.2.7"}, "policy": "login", "for": "1h"});
    let (ttl, one) = (json!({"ttl": "60s"}), json!({"actual": 1}));
    for id in [1, 2] {
        assert_eq!(settle("reserve", id, ttl.clone()).await.0, 200);
    }
    ruled(&mut admin, "exempt", &rule).await;
    let (status, reserved) = settle("reserve", 3, ttl.clone()).await;
    assert_eq!((status, &reserved["hold"]), (200, &Value::Null));
    let nothing = json!({"already": false, "actual": 0, "limits": []});
    assert_eq!(settle("commit", 3, one.clone()).await, (200, nothing));
    assert_eq!(settle("release", 3, json!({})).await, (200, json!({"released": true})));
    assert_eq!(settle("renew", 3, ttl.clone()).await.0, 409);
    let (status, committed) = settle("commit", 1, one.clone()).await;
    assert_eq!((status, &committed["actual"]), (200, &json!(1)));
    ruled(&mut admin, "ban", &rule).await;
    assert_eq!(settle("reserve", 4, ttl.clone()).await.1["outcome"], "banned");
    assert_eq!(settle("commit", 4, one.clone()).await.0, 409, "it was denied");
    let (status, committed) = settle("commit", 2, one).await;
    assert_eq!((status, &committed["actual"]), (200, &json!(1)));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let mut admin = service.admin().await;
    for (act, body, field, says) in [
        ("ban", r#"{"for": "1h"}"#, "when", "`when` is missing"),
        ("ban", r#"{"when": {}, "for": "1h"}"#, "when", "no condition"),
        ("ban", r#"{"when": {"ip": []}, "for": "1h"}"#, "when", "has no value"),
        ("ban", r#"{"when": {"ip": "10.1.2.3/8"}, "for": "1h"}"#, "when", "bits beyond"),
        ("ban", r#"{"when": {"ipp": "10.1.2.3"}, "for": "1h"}"#, "when", "did you mean `ip`"),
        ("ban", r#"{"when": {"ip": 7}, "for": "1h"}"#, "when.ip", "a text, or a list of texts"),
        ("ban", r#"{"when": {"ip": "::1", "ip": "::2"}, "for": "1h"}"#, "when", "given twice"),
        ("ban", r#"{"when": {"ip": "::1"}}"#, "for", "a ruling has an end"),
        ("ban", r#"{"when": {"ip": "::1"}, "for": "ever"}"#, "for", "a duration up to 366d"),
        ("ban", r#"{"when": {"ip": "::1"}, "for": "400d"}"#, "for", "a duration up to 366d"),
        ("exempt", r#"{"when": {"ip": "::1"}, "until": "1h"}"#, "until", "unknown field"),
        ("lift", r#"{"when": {"ip": "::1"}, "for": "1h"}"#, "for", "no `for`"),
    ] {
        let reply = admin.post(&format!("/v1/admin/{act}"), body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}: {}", reply.text);
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
        let place = problem["field"].as_str().unwrap_or_default();
        assert!(place.starts_with(field), "{body}: at {place}: {detail}");
    }
    let nobody = r#"{"when": {"ip": "::1"}, "policy": "nobody", "for": "1h"}"#;
    assert_eq!(admin.post("/v1/admin/ban", nobody).await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.get("/v1/admin/ban").await.status, StatusCode::METHOD_NOT_ALLOWED);
    let posted = admin.post("/v1/admin/rulings", "{}").await.status;
    assert_eq!(posted, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(admin.get("/v1/admin/rulings").await.json(), json!({ "rulings": [] }));
}

/// Two services over one store: a ruling by the first applies at the second.
async fn is_seen_within_a_second(first: AnyStore, second: AnyStore) {
    let (first, second) = (service(first).await, service(second).await);
    let (mut client, mut admin) = (second.client().await, first.admin().await);
    let about = json!({"when": {"ip": "192.0.2.7"}});
    for (act, outcome) in [("ban", "banned"), ("lift", "allowed")] {
        let mut body = about.clone();
        if act == "ban" {
            body["for"] = "1h".into();
        }
        ruled(&mut admin, act, &body).await;
        let began = Instant::now();
        while client.post("/v1/peek", LOGIN).await.json()["outcome"] != outcome {
            assert!(began.elapsed() < Duration::from_secs(20), "{act} is not seen");
        }
        println!("{act} seen after {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn every_service_on_one_redis_sees_it() {
    let server = RedisServer::start();
    let store = async || AnyStore::from(RedisStore::connect(&server.url()).await.unwrap());
    is_seen_within_a_second(store().await, store().await).await;
}

#[tokio::test]
async fn every_service_on_one_file_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.db");
    let store = || AnyStore::from(SqliteStore::open(path.to_str().unwrap()).unwrap());
    is_seen_within_a_second(store(), store()).await;
}

/// A service that begins knows them from its first answer on.
#[tokio::test]
async fn a_ban_outlasts_a_restart_where_counts_do() {
    let store = MemoryStore::new();
    let first = service(AnyStore::Memory(store.clone())).await;
    let ban = json!({"when": {"ip": "192.0.2.7"}, "for": "1h"});
    ruled(&mut first.admin().await, "ban", &ban).await;
    first.server.end().await;
    let mut file = Vec::new();
    store.save(&mut file).unwrap();
    let (restored, _) = MemoryStore::builder().restore(&file[..]).unwrap();
    let second = service(AnyStore::Memory(restored)).await;
    assert_eq!(second.client().await.check(LOGIN).await["outcome"], "banned");
}

/// The digits of `k-99` under the secret of the test below.
fn hash_of(key: &str) -> String {
    let hashing = tollgate_tower::identity::Hashing::keyed("0123456789abcdef").unwrap();
    hashing.hash(key.as_bytes()).into()
}

const KEYS: &str = r#"
    version = 1
    [[policies]]
    name = "keys"
    on_failure = "deny"
    [[policies.limits]]
    subject = "api_key"
    limit = "2/h"
    absent = "deny"
    [[policies.limits.overrides]]
    when = { api_key = ["k-17", "hash:HASH-OF-18"] }
    limit = "unlimited"
"#;

#[tokio::test]
async fn an_api_key_is_one_key_in_policies_rulings_corrections_and_questions() {
    let file = KEYS.replace("HASH-OF-18", &hash_of("k-18"));
    let gate = gate_of(&file, AnyStore::Memory(MemoryStore::new()));
    let service = Service::start_with(gate, |options| {
        options.admin = Some(here());
        options.auth.api_key_header = Some("X-Api-Key".to_owned());
        options.key_secret = Some(b"0123456789abcdef".to_vec());
    })
    .await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let (yes, no) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    for (key, statuses) in
        [("k-17", [yes; 3]), ("k-18", [yes; 3]), ("k-99", [yes, yes, no]), ("k-1", [yes, yes, no])]
    {
        for status in statuses {
            assert_eq!(
                client.ask("GET", "/v1/auth", &[("x-api-key", key)], "").await.status,
                status
            );
        }
    }
    // A question that names the key meets the same count, and so does its hash.
    for key in ["k-99".to_owned(), format!("hash:{}", hash_of("k-99"))] {
        let asked = json!({"policy": "keys", "fields": {"api_key": key}}).to_string();
        assert_eq!(client.check(&asked).await["outcome"], "denied", "{key}");
    }
    // An administrator corrects and bans by the key, or by its hash.
    let hash = format!("api_key:hash:{}", hash_of("k-1"));
    for (subject, key) in [("api_key:k-99", "k-99"), (hash.as_str(), "k-1")] {
        let body = json!({"policy": "keys", "subject": subject}).to_string();
        let reset = admin.post("/v1/admin/reset", &body).await.json();
        assert_eq!(reset, json!({"was_there": true}), "{subject}");
        assert_eq!(client.ask("GET", "/v1/auth", &[("x-api-key", key)], "").await.status, yes);
    }
    for (value, key) in [("k-99".to_owned(), "k-99"), (format!("hash:{}", hash_of("k-1")), "k-1")] {
        let about = json!({"when": {"api_key": value}, "for": "1h"});
        let told = ruled(&mut admin, "ban", &about).await;
        let hashed = json!({"api_key": [format!("hash:{}", hash_of(key))]});
        assert_eq!((&told["ruled"]["when"], told.get("warning")), (&hashed, None));
        let banned = client.ask("GET", "/v1/auth", &[("x-api-key", key)], "").await;
        assert_eq!(banned.status, StatusCode::FORBIDDEN, "{key}");
        let lifted = ruled(&mut admin, "lift", &json!({"when": {"api_key": value}})).await;
        assert_eq!(lifted, json!({"was_there": true, "others": []}));
    }
    // Logs may show a key or a hash: the caller says which.
    for (path, body) in [
        ("ban", json!({"when": {"api_key": hash_of("k-1")}, "for": "1h"})),
        ("reset", json!({"policy": "keys", "subject": format!("api_key:{}", hash_of("k-1"))})),
        ("ban", json!({"when": {"api_key": "hash:123"}, "for": "1h"})),
        ("ban", json!({"when": {"api_key": "k-*"}, "for": "1h"})),
    ] {
        let refused = admin.post(&format!("/v1/admin/{path}"), &body.to_string()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(refused.text.contains("hash"), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_ban_that_no_request_of_a_proxy_can_meet_says_so() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let mut admin = service.admin().await;
    for (field, option) in [("api_key", "--api-key-header"), ("user", "--user-header")] {
        let about = json!({"when": {field: "k-99"}, "for": "1h"});
        let told = ruled(&mut admin, "ban", &about).await;
        let warning = told["warning"].as_str().unwrap();
        assert!(warning.contains(option), "{warning}");
    }
}
