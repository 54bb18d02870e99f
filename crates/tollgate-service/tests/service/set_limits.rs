//! Limits that administrators set for some requests, at one service and in every other.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::MemoryStore;
use tollgate_policy::{Format, Policies};
use tollgate_redis::RedisStore;
use tollgate_service::AnyStore;
use tollgate_sqlite::SqliteStore;
use tollgate_testbed::redis_or_skip;

use crate::client::Client;
use crate::{Service, gate_of, here};

/// Periods in which nothing comes back while a test runs.
const FILE: &str = r#"
    version = 1
    match = "all"
    [[policies]]
    name = "api"
    on_failure = "deny"
    [[policies.limits]]
    subject = "field.tenant"
    absent = "skip"
    limit = "short: 100/30d via gcra, 1000/60d via token_bucket"
    [[policies]]
    name = "pages"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "10/30d, long: 50/60d" }]
"#;

async fn service(store: AnyStore) -> Service {
    Service::start_with(gate_of(FILE, store), |options| options.admin = Some(here())).await
}

/// Sets limits of `api` for tenant 12.
async fn set(admin: &mut Client, limits: Value) -> Value {
    let body = json!({"when": {"field.tenant": "12"}, "policy": "api", "limits": limits,
                      "for": "1h"});
    let reply = admin.post("/v1/admin/set", &body.to_string()).await;
    assert_eq!(reply.status, StatusCode::OK, "{body}: {}", reply.text);
    reply.json()
}

async fn check(client: &mut Client, tenant: &str, cost: u64) -> Value {
    let body = json!({"policy": "api", "fields": {"field.tenant": tenant}, "cost": cost});
    client.check(&body.to_string()).await
}

/// The outcome, what remains, and the place of the limit that binds.
fn numbers(said: &Value) -> (&str, u64, u64) {
    let number = |name: &str| said[name].as_u64().unwrap_or_else(|| panic!("{name}: {said}"));
    (said["outcome"].as_str().unwrap(), number("remaining"), number("binding"))
}

/// The same counts go on under other numbers and under none.
async fn a_count_goes_on(store: AnyStore) {
    let service = service(store).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    assert_eq!(numbers(&check(&mut client, "12", 100).await), ("allowed", 0, 0));
    assert_eq!(numbers(&check(&mut client, "12", 1).await), ("denied", 0, 0));
    let told = set(&mut admin, json!({"short": "500/30d"})).await;
    let limits = json!({"short": "500/30d burst 500 via gcra"});
    assert_eq!((&told["ruled"]["effect"], &told["ruled"]["limits"]), (&"set".into(), &limits));
    assert_eq!(numbers(&check(&mut client, "12", 100).await), ("allowed", 300, 0));
    assert_eq!(numbers(&check(&mut client, "13", 1).await), ("allowed", 99, 0));
    set(&mut admin, json!({"short": "150/30d"})).await;
    assert_eq!(numbers(&check(&mut client, "12", 1).await), ("denied", 0, 0));
    set(&mut admin, json!({"short": "unlimited"})).await;
    let said = check(&mut client, "12", 600).await;
    assert_eq!(numbers(&said), ("allowed", 200, 1));
    let [open, counted] = &said["limits"].as_array().unwrap()[..] else { panic!("{said}") };
    assert_eq!(
        [&open["identity"], &open["limit"], &open["unit"]],
        ["short", "unlimited", "requests"]
    );
    assert_eq!(counted["limit"], "1000/60d burst 1000 refill greedy via token_bucket");
    assert_eq!(numbers(&check(&mut client, "12", 201).await), ("denied", 200, 1));
    // The 200 from before are all that counts under the limit that did not.
    set(&mut admin, json!({"short": "220/30d"})).await;
    assert_eq!(numbers(&check(&mut client, "12", 21).await), ("denied", 20, 0));
    set(&mut admin, json!({"short": "unlimited", "token_bucket/60d": "unlimited"})).await;
    let said = check(&mut client, "12", 5_000).await;
    assert_eq!([&said["outcome"], &said["authority"]], ["unlimited", "ruling"]);
    let lift = json!({"when": {"field.tenant": "12"}, "policy": "api"}).to_string();
    assert_eq!(admin.post("/v1/admin/lift", &lift).await.json()["was_there"], true);
    assert_eq!(numbers(&check(&mut client, "12", 1).await), ("denied", 0, 0));
}

#[tokio::test]
async fn a_count_goes_on_in_memory() {
    a_count_goes_on(AnyStore::Memory(MemoryStore::new())).await;
}

#[tokio::test]
async fn a_count_goes_on_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.db");
    a_count_goes_on(AnyStore::from(SqliteStore::open(path.to_str().unwrap()).unwrap())).await;
}

#[tokio::test]
async fn a_count_goes_on_in_redis() {
    let server = redis_or_skip!();
    a_count_goes_on(AnyStore::from(RedisStore::connect(&server.url()).await.unwrap())).await;
}

/// Lists, explanations, peeks and headers have the limits in force.
#[tokio::test]
async fn it_is_shown() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let body = json!({"when": {"ip": "127.0.0.1"}, "policy": "pages", "for": "1h", "reason": "paid",
                      "limits": {"sliding_log/30d": "unlimited", "long": "70/60d"}});
    let set = admin.post("/v1/admin/set", &body.to_string()).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.text);
    let list = admin.get("/v1/admin/rulings").await.json();
    let one = &list["rulings"][0];
    let limits = json!({"long": "70/60d via sliding_log", "sliding_log/30d": "unlimited"});
    assert_eq!(
        (&one["effect"], &one["policy"], &one["reason"]),
        (&"set".into(), &"pages".into(), &"paid".into())
    );
    assert_eq!((&one["limits"], one.get("no_effect")), (&limits, None));
    let reply = client.get("/v1/auth").await;
    let header = |name: &str| reply.headers[name].to_str().unwrap().to_owned();
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(header("ratelimit-policy"), r#""pages/long";q=70;w=5184000"#);
    assert!(header("ratelimit").starts_with(r#""pages/long";r=69;"#), "{}", header("ratelimit"));
    let explained = admin.get("/v1/admin/explain?ip=127.0.0.1").await.json();
    let why = |explained: &Value, place: usize| explained["policies"][place]["why"].clone();
    let words = "every condition holds, under set limits: long = 70/60d via sliding_log, \
                 sliding_log/30d = unlimited";
    assert_eq!([why(&explained, 0), why(&explained, 1)], ["every condition holds", words]);
    assert_eq!(explained["answer"]["limit"], 70);
    let peek = json!({"policy": "pages", "subject": "ip:127.0.0.1"}).to_string();
    let peeked = admin.post("/v1/admin/peek", &peek).await.json();
    assert_eq!([&peeked["answer"]["limit"], &peeked["answer"]["remaining"]], [70, 69]);
    // Of another client nothing is set.
    let explained = admin.get("/v1/admin/explain?ip=192.0.2.1").await.json();
    assert_eq!(why(&explained, 1), "every condition holds");
    assert_eq!(explained["answer"]["limit"], 10);
    // Under other policies it has no effect, and is shown so.
    let other = Policies::parse(&FILE.replace("long: ", "longer: "), Format::Toml).unwrap();
    service.gate.replace(other);
    let list = admin.get("/v1/admin/rulings").await.json();
    let no_effect = list["rulings"][0]["no_effect"].as_str().unwrap();
    assert!(
        no_effect.contains("the policy `pages` has no limit `long`: did you mean `longer`?"),
        "{no_effect}"
    );
    let explained = admin.get("/v1/admin/explain?ip=127.0.0.1").await.json();
    assert_eq!(why(&explained, 1), "every condition holds");
    assert_eq!(explained["answer"]["limit"], 10);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let mut admin = service.admin().await;
    let whole = json!({"when": {"field.tenant": "12"}, "policy": "api", "for": "1h",
                       "limits": {"short": "5/30d"}});
    let with = |name: &str, value: Value| {
        let mut body = whole.clone();
        match value.is_null() {
            true => drop(body.as_object_mut().unwrap().remove(name)),
            false => body[name] = value,
        }
        body.to_string()
    };
    let limit = |name: &str, text: &str| with("limits", json!({ name: text }));
    let twice =
        whole.to_string().replace(r#"{"short":"5/30d"}"#, r#"{"short":"5/30d","short":"6/30d"}"#);
    for (act, body, field, says) in [
        ("set", with("policy", Value::Null), "policy", "`policy` is missing"),
        ("set", with("limits", Value::Null), "limits", "`limits` is missing"),
        ("set", with("limits", json!({})), "limits", "no limit is set"),
        ("set", with("limits", json!("5/30d")), "limits", "limits by their names"),
        ("set", twice, "limits", "the limit `short` is given twice"),
        ("set", with("for", Value::Null), "for", "a ruling has an end"),
        ("set", with("for", json!("400d")), "for", "a duration up to 366d"),
        ("set", with("when", json!({})), "when", "no condition"),
        ("set", limit("shrot", "5/30d"), "limits.shrot", "did you mean `short`?"),
        ("set", limit("short", "5/31d"), "limits.short", "counts as `gcra/30d`, and `5/31d"),
        ("set", limit("short", "5/30d via fixed_window"), "limits.short", "`fixed_window/30d`"),
        ("set", limit("short", "five"), "limits.short", "`five` is not a limit"),
        ("set", limit("short", "5/30d of -requests"), "limits.short", "write `unlimited`"),
        ("ban", whole.to_string(), "limits", "only `set` takes `limits`"),
        ("lift", with("for", Value::Null), "limits", "no `limits`"),
    ] {
        let reply = admin.post(&format!("/v1/admin/{act}"), &body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}: {}", reply.text);
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
        assert_eq!(problem["field"], field, "{body}: {detail}");
    }
    let mistyped = with("when", json!({"field.tennant": "12"}));
    let refused = admin.post("/v1/admin/set", &mistyped).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("did you mean `field.tenant`?"), "{}", refused.text);
    // One wrong limit beside a right one: neither is set.
    let both = with("limits", json!({"short": "5/30d", "token_bucket/60d": "5/h"}));
    assert_eq!(admin.post("/v1/admin/set", &both).await.status, StatusCode::BAD_REQUEST);
    let unknown = admin.post("/v1/admin/set", &with("policy", json!("apis"))).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.text.contains("did you mean `api`?"), "{}", unknown.text);
    assert_eq!(admin.get("/v1/admin/rulings").await.json(), json!({ "rulings": [] }));
}

/// A process that has cached denials lets the client go on as soon as it knows of the raise.
#[tokio::test]
async fn a_raise_drops_cached_denials() {
    let server = redis_or_skip!();
    let store = async || {
        let store = AnyStore::from(RedisStore::connect(&server.url()).await.unwrap());
        store.caching_denials(1_000, Duration::from_secs(600))
    };
    let (first, second) = (service(store().await).await, service(store().await).await);
    let (mut admin, mut client) = (first.admin().await, second.client().await);
    assert_eq!(check(&mut client, "12", 100).await["outcome"], "allowed");
    let authorities = [
        check(&mut client, "12", 1).await["authority"].clone(),
        check(&mut client, "12", 1).await["authority"].clone(),
    ];
    assert_eq!(authorities, ["store", "deny_cache"]);
    set(&mut admin, json!({"short": "102/30d"})).await;
    let began = Instant::now();
    while check(&mut client, "12", 1).await["outcome"] == "denied" {
        assert!(began.elapsed() < Duration::from_secs(20), "the raise is not seen");
    }
    println!("the raise was seen after {:?}", began.elapsed());
    assert_eq!(numbers(&check(&mut client, "12", 1).await), ("allowed", 0, 0));
    assert_eq!(check(&mut client, "12", 1).await["outcome"], "denied");
}

/// A ruling about the same requests is replaced, and the answer has it.
#[tokio::test]
async fn an_answer_says_what_was_replaced() {
    let service = service(AnyStore::Memory(MemoryStore::new())).await;
    let mut admin = service.admin().await;
    let first = set(&mut admin, json!({"short": "500/30d"})).await;
    assert_eq!(first.get("replaced"), None);
    let second = set(&mut admin, json!({"token_bucket/60d": "9/60d"})).await;
    let replaced = &second["replaced"];
    assert_eq!(
        (&replaced["effect"], &replaced["limits"]),
        (&"set".into(), &json!({"short": "500/30d burst 500 via gcra"}))
    );
    let ban = json!({"when": {"field.tenant": "12"}, "policy": "api", "for": "1h"}).to_string();
    let banned = admin.post("/v1/admin/ban", &ban).await.json();
    assert!(banned["replaced"]["limits"].get("short").is_none(), "{banned}");
    assert!(banned["replaced"]["limits"].get("token_bucket/60d").is_some(), "{banned}");
    // A field that only callers know may be banned.
    let ban = json!({"when": {"field.tennant": "12"}, "for": "1h"}).to_string();
    let warning = admin.post("/v1/admin/ban", &ban).await.json()["warning"].to_string();
    assert!(warning.contains("no policy reads `field.tennant`: did you mean"), "{warning}");
}
