//! Questions: by policies, under limits of the caller, in batches; peeks, refunds, explanations;
//! and invalid ones.

use http::StatusCode;
use serde_json::{Value, json};
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, CallerLimits};
use tollgate_testbed::{RedisServer, redis_or_skip};

use crate::redis_client::command;
use crate::{FILE, Service, gate_of, here};

mod caller_limits;
mod receipts;
mod responses;
mod waiting;

#[tokio::test]
async fn inline_limits_are_counted_exactly() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "user:42", "limit": "3/1h via sliding_log"}"#;
    for remaining in [2, 1, 0] {
        let said = client.check(question).await;
        assert_eq!(said["allowed"], true);
        assert_eq!((&said["outcome"], &said["authority"]), (&json!("allowed"), &json!("store")));
        assert_eq!(said["remaining"], remaining);
        assert_eq!(said["limits"][0]["subject"], "user:42");
        assert_eq!(said["limits"][0]["policy"], Value::Null);
    }
    let said = client.check(question).await;
    assert_eq!((&said["allowed"], &said["outcome"]), (&json!(false), &json!("denied")));
    let wait = said["retry_after"]["seconds"].as_f64().unwrap();
    assert!((3_590.0..=3_600.0).contains(&wait), "{wait}");
    // The same limits in another form are the same count, on the command line too.
    let said = client.check(r#"{"on": [{"subject": "user:42", "limit": ["3/h"]}]}"#).await;
    assert_eq!(said["allowed"], false);
    // A cost that can never pass is reported as such.
    let said = client.check(r#"{"subject": "user:43", "limit": "3/h", "cost": 4}"#).await;
    assert_eq!((&said["outcome"], &said["retry_after"]), (&json!("never"), &Value::Null));
}

/// A user's text is a value, and never another's count or a second dimension.
#[tokio::test]
async fn a_subject_is_taken_literally() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let mut written = async |question: Value| {
        let limit = json!({ "limit": "1/h" });
        let mut all = question.as_object().unwrap().clone();
        all.extend(limit.as_object().unwrap().clone());
        client.check(&Value::Object(all).to_string()).await["limits"][0]["subject"].clone()
    };
    for (typed, subject) in [
        ("1", "user:1"),
        ("%31", "user:%2531"),
        ("1,role:admin", "user:1%2Crole:admin"),
        ("1, ", "user:1%2C%20"),
        ("a:b", "user:a:b"),
        ("%", "user:%25"),
    ] {
        let text = json!({ "subject": format!("user:{typed}") });
        assert_eq!(written(text).await, subject, "{typed}");
        let object = json!({ "subject": { "user": typed } });
        assert_eq!(written(object).await, subject, "{typed}");
    }
    let two = json!({ "subject": { "user": "1,role:admin", "tenant": 12 } });
    assert_eq!(written(two).await, "tenant:12,user:1%2Crole:admin");
    for text in ["user:1", "role:admin,user:1", "user:%31", "tenant:12,user:1%2Crole:admin"] {
        let read = json!({ "written_subject": text });
        assert_eq!(written(read).await, text.replace("%31", "1"), "{text}");
    }
}

#[tokio::test]
async fn several_subjects_are_all_or_nothing() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let both = r#"{"on": [{"subject": "resource:12", "limit": "5/10m"},
                          {"subject": "consumer:1", "limit": "3/10m"}], "shard": "12"}"#;
    for allowed in [true, true, true, false, false] {
        assert_eq!(client.check(both).await["allowed"], allowed);
    }
    let said = client.post("/v1/peek", r#"{"subject": "resource:12", "limit": "5/10m"}"#).await;
    assert_eq!(said.json()["remaining"], 2, "a denial charges nothing");
}

/// One key for all checks lets in 16 more than the limit, over HTTP and RESP together.
#[tokio::test]
async fn one_idempotency_key_for_all_checks_is_charged() {
    let service = Service::with(|options| options.resp = vec![here()]).await;
    let (mut client, mut redis) = (service.client().await, service.redis().await);
    let question = r#"{"subject": "team:7", "limit": "9/h", "idempotency_key": "a constant"}"#;
    let id = command(&[b"TOLLGATE.CHECK", b"team:7", b"9/h", b"ID", b"a constant"]);
    let (mut admitted, mut repeated) = (0, 0);
    for _ in 0..20 {
        let said = client.check(question).await;
        admitted += usize::from(said["allowed"] == true);
        repeated += usize::from(said["repeated"] == true);
        redis.send(&id).await;
        let said = redis.reply().await;
        admitted += usize::from(said.contains(r#""allowed", 1"#));
        repeated += usize::from(said.contains(r#""repeated", 1"#));
    }
    assert_eq!((admitted, repeated), (9 + 16, 16));
    let page = client.get("/metrics").await.text;
    for line in ["tollgate_repeated_answers_total 16", "tollgate_overused_request_ids_total 23"] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[tokio::test]
async fn policies_answer_for_a_request_that_is_described() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let login = r#"{"fields": {"ip": "192.0.2.7", "method": "POST", "path": "/login"}}"#;
    for outcome in ["allowed", "allowed", "denied"] {
        let said = client.check(login).await;
        assert_eq!((&said["outcome"], &said["policy"]), (&json!(outcome), &json!("login")));
    }
    // One address in another form, one path in another form: one count.
    let same = r#"{"fields": {"ip": "::ffff:192.0.2.7", "method": "POST", "path": "//login/"}}"#;
    assert_eq!(client.check(same).await["outcome"], "denied");
    // By name, whatever the conditions.
    let named = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}}"#;
    assert_eq!(client.check(named).await["outcome"], "denied");
    // None applies but the one in shadow.
    for shadow in ["allowed", "denied"] {
        let said = client.check(r#"{"fields": {"ip": "192.0.2.8"}}"#).await;
        assert_eq!((&said["outcome"], &said["allowed"]), (&json!("no_policy"), &json!(true)));
        assert_eq!(said["shadows"][0]["outcome"], shadow);
    }
    let banned = r#"{"fields": {"ip": "192.0.2.7", "header.x-bad": "yes"}}"#;
    assert_eq!(client.check(banned).await["outcome"], "banned");
    let missing = client.check(r#"{"policy": "login"}"#).await;
    assert_eq!((&missing["outcome"], &missing["missing"]), (&json!("missing"), &json!("ip")));
    // A number is a text; the policy's own cost is from it.
    let dear = r#"{"fields": {"ip": "192.0.2.7", "host": "DEAR.example", "field.weight": 7}}"#;
    assert_eq!(client.check(dear).await["granted"], 7);
    // A host in any of its forms.
    for host in ["dear.example:443", "dear.example.", "Dear.Example.:80"] {
        let dear = format!(r#"{{"fields": {{"ip": "192.0.2.8", "host": "{host}"}}}}"#);
        assert_eq!(client.check(&dear).await["policy"], "dear", "{host}");
    }
}

#[tokio::test]
async fn an_ipv6_network_is_one_client() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for (address, outcome) in [
        ("2001:db8::1", "allowed"),
        ("2001:db8::2", "allowed"),
        ("2001:db8:0:0:ffff::3", "denied"),
        ("2001:db8:0:1::1", "allowed"),
    ] {
        let question = format!(r#"{{"policy": "login", "fields": {{"ip": "{address}"}}}}"#);
        assert_eq!(client.check(&question).await["outcome"], outcome, "{address}");
    }
}

#[tokio::test]
async fn a_batch_is_decided_item_by_item() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let batch = r#"{"checks": [
        {"subject": "a", "limit": "1/h"},
        {"subject": "a", "limit": "1/h"},
        {"policy": "nobody"},
        {"subject": "b", "limit": "1/h", "cost": "2"},
        {"subject": "b", "limit": "1/h"}]}"#;
    let said = client.check(batch).await;
    let results = said["results"].as_array().unwrap();
    let allowed: Vec<&Value> = results.iter().map(|item| &item["allowed"]).collect();
    assert_eq!(allowed, [&json!(true), &json!(false), &Value::Null, &Value::Null, &json!(true)]);
    assert_eq!(results[2]["problem"]["status"], 404);
    assert_eq!(results[2]["problem"]["field"], "checks[2].policy");
    assert_eq!(results[3]["problem"]["field"], "checks[3].cost");
}

#[tokio::test]
async fn a_batch_is_bounded_in_all_that_it_says() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let limits: Vec<String> =
        (1..=32).map(|seconds| format!("\"9/{seconds}s via gcra\"")).collect();
    let item = format!(r#"{{"subject": "a", "limit": [{}]}}"#, limits.join(","));
    let batch = format!(r#"{{"checks": [{}]}}"#, vec![item; 60].join(","));
    let said = client.check(&batch).await;
    let results = said["results"].as_array().unwrap();
    let answered = results.iter().filter(|result| result["problem"].is_null()).count();
    assert_eq!(answered, 1_024 / 32 + 1);
    assert!(said["results"][59]["problem"]["detail"].as_str().unwrap().contains("1024 limits"));
    // A text that is too long for a receipt is refused before the charge.
    let long = "\u{e9}".repeat(512);
    let parts: Vec<String> =
        (0..16).map(|n| format!(r#"{{"subject": "{long}{n}", "limit": "9/h"}}"#)).collect();
    let parts: Vec<String> = parts.iter().map(|part| part.replace(&long, &long[..1_000])).collect();
    let ask = |receipt| format!(r#"{{"on": [{}], "receipt": {receipt}}}"#, parts.join(","));
    let reply = client.post("/v1/check", &ask(true)).await;
    assert_eq!(
        (reply.status, reply.json()["field"].clone()),
        (StatusCode::BAD_REQUEST, json!("receipt"))
    );
    assert_eq!(client.check(&ask(false)).await["remaining"], 8);
}

#[tokio::test]
async fn a_subject_of_any_name_has_a_receipt_that_comes_back() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for subject in ["shard", "%25", "a,b:c"] {
        let ask = format!(r#"{{"written_subject": "{subject}", "limit": "5/h", "receipt": true}}"#);
        let receipt = client.check(&ask).await["receipt"].clone();
        let reply = client.post("/v1/refund", &json!({ "receipt": receipt }).to_string()).await;
        assert_eq!(reply.json()["given"], json!([1]), "{subject}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_peek_changes_nothing() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "user:1", "limit": "1/h"}"#;
    for _ in 0..3 {
        let reply = client.post("/v1/peek", question).await;
        assert_eq!(reply.json()["allowed"], true);
    }
    assert_eq!(client.check(question).await["allowed"], true);
    assert_eq!(client.post("/v1/peek", question).await.json()["allowed"], false);
    let login = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}}"#;
    for _ in 0..3 {
        assert_eq!(client.post("/v1/peek", login).await.json()["remaining"], 2);
    }
    assert!(
        service.gate.counters().policies().iter().all(|(_, counters)| counters.iter().count() == 0)
    );
}

#[tokio::test]
async fn a_denial_may_have_a_status() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "user:1", "limit": "1/h"}"#;
    let path = "/v1/check?deny_status=429";
    assert_eq!(client.post(path, question).await.status, StatusCode::OK);
    let reply = client.post(path, question).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reply.json()["allowed"], false);
    assert_eq!(reply.header("retry-after"), Some("3600"));
    for wrong in ["200", "400", "404", "503", "x", "", "4290", "+429", "0429"] {
        let reply = client.post(&format!("/v1/check?deny_status={wrong}"), question).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert_eq!(reply.json()["field"], "deny_status");
    }
    let twice = client.post("/v1/check?deny_status=429&deny_status=403", question).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    let batch = r#"{"checks": [{"subject": "a", "limit": "1/h"}]}"#;
    assert_eq!(client.post(path, batch).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn what_makes_no_sense_is_told_with_its_place() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for (body, status, field, says) in [
        ("", 400, None, "the body is empty"),
        (" \n", 400, None, "the body is empty"),
        ("x", 400, None, "expected value"),
        ("{", 400, None, "EOF"),
        ("[]", 400, None, "should be an object"),
        (r#"["login"]"#, 400, None, "should be an object"),
        (r#"{"on": [["a", "1/h"]]}"#, 400, Some("on[0]"), "should be an object"),
        (r#"{"checks": [], "cost": 1}"#, 400, Some("checks"), "unknown field"),
        ("{}", 400, None, "empty request"),
        (r#"{"subject": "a", "limit": "1/h"} x"#, 400, None, "trailing characters"),
        (r#"{"subject": "a", "limt": "1/h"}"#, 400, Some("limt"), "unknown field `limt`"),
        (r#"{"subject": "a", "subject": "b", "limit": "1/h"}"#, 400, None, "duplicate field"),
        (r#"{"subject": "a"}"#, 400, Some("limit"), "`limit` is missing"),
        (r#"{"limit": "1/h"}"#, 400, Some("subject"), "`subject` is missing"),
        (r#"{"subject": 1, "limit": "1/h"}"#, 400, Some("subject"), "expected a text"),
        (r#"{"subject": {}, "limit": "1/h"}"#, 400, Some("subject"), "a subject is missing"),
        (r#"{"subject": {"a b": "1"}, "limit": "1/h"}"#, 400, Some("subject"), "a b"),
        (r#"{"subject": {"a": ["1"]}, "limit": "1/h"}"#, 400, Some("subject"), "expected a text"),
        (r#"{"subject": {"a": "1", "a": "2"}, "limit": "1/h"}"#, 400, Some("subject"), "twice"),
        (r#"{"written_subject": "a:%", "limit": "1/h"}"#, 400, Some("written_subject"), "escape"),
        (
            r#"{"subject": "a", "written_subject": "a", "limit": "1/h"}"#,
            400,
            Some("written_subject"),
            "not both",
        ),
        (r#"{"on": [{"limit": "1/h"}]}"#, 400, Some("on[0].subject"), "`subject` is missing"),
        (r#"{"subject": "a", "limit": "1/parsec"}"#, 400, Some("limit"), "parsec"),
        (r#"{"subject": "", "limit": "1/h"}"#, 400, Some("subject"), "is empty"),
        (r#"{"subject": "a", "limit": []}"#, 400, Some("limit"), "limit"),
        (r#"{"subject": "a", "limit": "1/h", "cost": 0}"#, 400, None, "at least 1"),
        (
            r#"{"subject": "a", "limit": "1/h", "cost": 1.0}"#,
            400,
            Some("cost"),
            "expected a whole number of 0",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "cost": 1e3}"#,
            400,
            Some("cost"),
            "expected a whole number of 0",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "cost": -1}"#,
            400,
            Some("cost"),
            "expected a whole number of 0",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "cost": "1"}"#,
            400,
            Some("cost"),
            "expected a whole number of 0",
        ),
        (r#"{"subject": "a", "limit": "1/h", "cost": 1099511627777}"#, 400, None, "2^40"),
        (r#"{"policy": "login", "cost": 0}"#, 400, Some("cost"), "2^40"),
        (r#"{"policy": "dear", "cost": 2}"#, 400, Some("cost"), "sets the cost"),
        (r#"{"policy": "logins"}"#, 404, Some("policy"), "there is no policy `logins`"),
        (r#"{"policy": "login", "subject": "a"}"#, 400, None, "not both"),
        (r#"{"policy": "login", "shard": "1"}"#, 400, Some("shard"), "leave it out"),
        (r#"{"fields": {"ipp": "1.2.3.4"}}"#, 400, Some("fields"), "did you mean `ip`"),
        (r#"{"fields": {"ip": "1.2.3.4:80"}}"#, 400, Some("fields"), "is not an address"),
        (r#"{"fields": {"ip": "1.2.3.4", "ip": "1.2.3.5"}}"#, 400, Some("fields"), "given twice"),
        (r#"{"fields": {"header.A": "1", "header.a": "2"}}"#, 400, Some("fields"), "given twice"),
        (r#"{"fields": {"field.x": 1.5}}"#, 400, Some("fields"), "whole number"),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": "no"}"#,
            400,
            Some("on_failure"),
            "deny",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": "local"}"#,
            400,
            Some("on_failure"),
            "do not set `nodes`",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": {"local": "0 %"}}"#,
            400,
            Some("on_failure.local"),
            "a share of nothing",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": {"local": 0.25}}"#,
            400,
            Some("on_failure"),
            "expected a text",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": {"locl": "1/4"}}"#,
            400,
            Some("on_failure"),
            "the one key `local`",
        ),
        (
            r#"{"subject": "a", "limit": "1/h", "on_failure": {}}"#,
            400,
            Some("on_failure"),
            "missing field `local`",
        ),
        (
            r#"{"subject": "a", "limit": "1/366d", "on_failure": {"local": "1/4"}}"#,
            400,
            None,
            "more than 366 days",
        ),
        (r#"{"subject": "a", "limit": "1/h", "cost": null}"#, 400, Some("cost"), "null"),
        (r#"{"policy": null, "fields": {}}"#, 400, Some("policy"), "null"),
        (r#"{"subject": "a", "limit": ["", "5/s"]}"#, 400, Some("limit"), "empty text"),
        (r#"{"fields": {"path": "/login?next=1"}}"#, 400, Some("fields"), "more than a path"),
        (r#"{"fields": {"path": "/login/../x"}}"#, 400, Some("fields"), "differ in reading"),
        (r#"{"fields": {"path": "/%2flogin"}}"#, 400, Some("fields"), "--escaped-slashes"),
        (r#"{"fields": {"path": "/\\login"}}"#, 400, Some("fields"), "--escaped-slashes keep"),
        (r#"{"fields": {"path": "/login;x"}}"#, 400, Some("fields"), "--path-parameters"),
        (r#"{"fields": {"path": "/login%00"}}"#, 400, Some("fields"), "zero byte"),
        (r#"{"on": []}"#, 400, Some("on"), "empty list"),
        (r#"{"on": [{"subject": "a", "limit": "x"}]}"#, 400, Some("on[0].limit"), "x"),
        (r#"{"subject": "a", "limit": "1/h", "on": []}"#, 400, Some("on"), "lists all subjects"),
        (r#"{"checks": []}"#, 400, Some("checks"), "empty list"),
        (r#"{"checks": {}}"#, 400, Some("checks"), "unknown field"),
    ] {
        let reply = client.post("/v1/check", body).await;
        assert_eq!(reply.status.as_u16(), status, "{body}: {}", reply.text);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{body}");
        let problem = reply.json();
        assert!(problem["detail"].as_str().unwrap().contains(says), "{body}: {problem}");
        if let Some(field) = field {
            let found = problem["field"].as_str().unwrap_or_default();
            assert!(found.starts_with(field), "{body}: {problem}");
        }
    }
    // Too long, by one byte.
    let long = |key: &str| format!(r#"{{"{key}": "{}"}}"#, "a".repeat(1_025));
    for body in [
        long("subject"),
        long("limit"),
        long("policy"),
        format!(r#"{{"fields": {}}}"#, long("user")),
        format!(r#"{{"fields": {{"{}": "1"}}}}"#, "a".repeat(1_025)),
    ] {
        let reply = client.post("/v1/check", &body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert!(reply.text.contains("1024 bytes"), "{}", reply.text);
    }
    let fits = format!(r#"{{"fields": {{"ip": "1.2.3.4", "user": "{}"}}}}"#, "a".repeat(1_024));
    assert_eq!(client.post("/v1/check", &fits).await.status, StatusCode::OK);
    let items = |number| vec![r#"{"subject": "a", "limit": "9/h"}"#; number].join(",");
    let reply = client.post("/v1/check", &format!(r#"{{"checks": [{}]}}"#, items(257))).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.text.contains("at most 256 items"), "{}", reply.text);
    let said = client.check(&format!(r#"{{"checks": [{}]}}"#, items(256))).await;
    assert_eq!(said["results"].as_array().unwrap().len(), 256);
    let not_utf8 = http::Request::post("/v1/check").header("host", "a");
    let body = bytes::Bytes::from_static(b"{\"subject\": \"\xff\"}");
    let reply = client.send(not_utf8.body(http_body_util::Full::new(body)).unwrap()).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.text.contains("not UTF-8"), "{}", reply.text);
}

#[tokio::test]
async fn an_unknown_policy_is_never_an_allow() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for path in ["/v1/check", "/v1/peek"] {
        let reply = client.post(path, r#"{"policy": "Login", "fields": {"ip": "1.2.3.4"}}"#).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
        assert!(reply.json().get("allowed").is_none());
    }
}

#[tokio::test]
async fn a_request_is_explained() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let said = client.get("/v1/explain?ip=192.0.2.7&method=GET&path=%2Flogin").await.json();
    let policies = said["policies"].as_array().unwrap();
    let of = |name: &str| policies.iter().find(|policy| policy["policy"] == name).unwrap();
    assert_eq!(of("login")["applies"], false);
    assert_eq!(of("login")["fails"]["field"], "method");
    assert_eq!(of("login")["why"], "`method` is `GET`");
    assert_eq!(of("dear")["why"], "`host` is absent");
    assert_eq!((&of("trial")["applies"], &of("trial")["shadow"]), (&json!(true), &json!(true)));
    assert_eq!(said["answer"]["outcome"], "no_policy");
    let said = client.get("/v1/explain?ip=192.0.2.7&path=/pages/1").await.json();
    assert_eq!(said["answer"]["policy"], "pages");
    assert_eq!(said["answer"]["remaining"], 5, "explaining charges nothing");
    let reply = client.get("/v1/explain?iq=1").await;
    assert_eq!(
        (reply.status, reply.json()["field"].clone()),
        (StatusCode::BAD_REQUEST, json!("iq"))
    );
    let said = client.get("/v1/policies").await.json();
    assert_eq!(said["match"], "first");
    assert_eq!(said["policies"][0]["name"], "login");
    assert_eq!(said["policies"][0]["limits"][0]["limit"], "2/h via sliding_log");
    assert_eq!(said["revision"], service.gate.current().revision().to_string());
}

/// The process's clock decides which policy applies, and the explanation says what it shows.
#[tokio::test]
async fn a_policy_by_the_time_is_explained() {
    let policy = |name: &str, when: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\nwhen = {{ {when} }}\n\
             limits = [{{ subject = \"ip\", limit = \"9/h\" }}]\n"
        )
    };
    let text = format!(
        "version = 1\nmatch = \"first\"\n{}{}",
        policy("am", "time = \"00:00-12:00 Asia/Tokyo\""),
        policy("pm", "time = \"12:00-00:00 Asia/Tokyo\""),
    );
    let gate = gate_of(&text, AnyStore::Memory(tollgate::MemoryStore::new()));
    let service = Service::start_with(gate, |_| {}).await;
    let mut client = service.client().await;
    let said = client.get("/v1/explain?ip=192.0.2.7").await.json();
    let policies = said["policies"].as_array().unwrap();
    let applying: Vec<_> = policies.iter().filter(|policy| policy["applies"] == true).collect();
    assert_eq!(applying.len(), 1, "{said}");
    assert_eq!(said["answer"]["policy"], applying[0]["policy"]);
    let other = policies.iter().find(|policy| policy["applies"] == false).unwrap();
    assert_eq!(other["fails"]["field"], "time");
    let span = other["fails"]["any_of"][0].as_str().unwrap();
    assert!(span.ends_with(":00 Asia/Tokyo"), "{said}");
    // The hour of the clock in that zone, which is in the half of the other policy.
    let why = other["why"].as_str().unwrap();
    let hour: u8 = why.trim_end_matches('`')[why.len() - 6..][..2].parse().unwrap();
    assert_eq!(hour < 12, other["policy"] == "pm", "{said}");
    let said = client.get("/v1/policies").await.json();
    assert_eq!(said["policies"][1]["when"][0]["any_of"][0], "12:00-00:00 Asia/Tokyo");
}

/// A caller that asks for one list of many policies gets no answer of megabytes.
#[tokio::test]
async fn policies_are_listed_page_by_page() {
    let one = |i| {
        format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"allow\"\n\
             when = {{ path = \"/{i}\" }}\nlimits = [{{ subject = \"ip\", limit = \"9/h\" }}]\n"
        )
    };
    let many: String = (0..250).map(one).collect();
    let gate = gate_of(
        &format!("version = 1\nmatch = \"first\"\n{many}"),
        AnyStore::Memory(tollgate::MemoryStore::new()),
    );
    let service = Service::start_with(gate, |_| {}).await;
    let mut client = service.client().await;
    let (mut names, mut pages, mut asked) = (Vec::new(), Vec::new(), "/v1/policies".to_owned());
    loop {
        let page = client.get(&asked).await.json();
        assert_eq!(page["revision"], service.gate.current().revision().to_string());
        let policies = page["policies"].as_array().unwrap();
        pages.push(policies.len());
        names.extend(policies.iter().map(|it| it["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(names.last().map(String::as_str), Some(next));
        asked = format!("/v1/policies?after={next}");
    }
    assert_eq!(pages, [100, 100, 50]);
    assert_eq!(names, (0..250).map(|i| format!("p{i}")).collect::<Vec<_>>());
    for (query, status, field) in [
        ("count=250", 200, None),
        ("count=1000", 200, None),
        ("count=0", 400, Some("count")),
        ("count=1001", 400, Some("count")),
        ("count=ten", 400, Some("count")),
        ("after=p250", 404, Some("after")),
        ("page=2", 400, Some("page")),
    ] {
        let reply = client.get(&format!("/v1/policies?{query}")).await;
        let said = reply.json();
        assert_eq!((reply.status.as_u16(), said["field"].as_str()), (status, field), "{query}");
        if status == 200 {
            assert_eq!(
                (said["policies"].as_array().unwrap().len(), said["next"].is_null()),
                (250, true)
            );
        }
    }
    let last = client.get("/v1/policies?after=p249&count=7").await.json();
    assert_eq!((last["policies"].clone(), last["next"].is_null()), (json!([]), true));
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_are_told() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for (method, path, status, allow) in [
        ("GET", "/v1/check", 405, Some("POST")),
        ("PUT", "/v1/peek", 405, Some("POST")),
        ("GET", "/v1/refund", 405, Some("POST")),
        ("POST", "/v1/policies", 405, Some("GET")),
        ("POST", "/metrics", 405, Some("GET")),
        ("GET", "/v1/checks", 404, None),
        ("GET", "/v1/admin/reset", 404, None),
        ("POST", "/v1/admin/reset", 404, None),
        ("GET", "//v1/check", 404, None),
        ("HEAD", "/healthz", 200, None),
        ("GET", "/", 200, None),
        ("GET", "/readyz", 200, None),
    ] {
        let reply = client.ask(method, path, &[], "").await;
        assert_eq!(reply.status.as_u16(), status, "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}
