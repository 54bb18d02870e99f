//! Holds over HTTP: reserve and commit, acquire, renew and release.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::{ManualClock, MemoryStore};
use tollgate_service::{AnyStore, Options};

use crate::client::{Client, Reply};
use crate::{FILE, Service, gate_of, here};

/// Policies with slots, one of which lets others pass when the store fails.
pub(crate) const JOBS: &str = r#"
    version = 1
    match = "all"
    [[policies]]
    name = "jobs"
    on_failure = "allow"
    when = { field.kind = "job" }
    limits = [{ subject = "user", absent = "deny", limit = "2 at once hold 10s" }]
    [[policies]]
    name = "trial"
    on_failure = "allow"
    shadow = true
    when = { field.kind = "job" }
    limits = [{ subject = "user", absent = "deny", limit = "1 at once" }]
"#;

async fn post(client: &mut Client, path: &str, body: &Value) -> Reply {
    client.post(path, &body.to_string()).await
}

/// The 200 answer of a path.
pub(crate) async fn done(client: &mut Client, path: &str, body: Value) -> Value {
    let reply = post(client, path, &body).await;
    assert_eq!(reply.status, StatusCode::OK, "{path} {body}: {}", reply.text);
    reply.json()
}

/// Expects that a path refuses, with this status and text.
pub(crate) async fn refused(client: &mut Client, path: &str, body: Value, status: u16, says: &str) {
    let reply = post(client, path, &body).await;
    assert_eq!(reply.status.as_u16(), status, "{path} {body}: {}", reply.text);
    assert!(reply.text.contains(says), "{path} {body}: {}", reply.text);
}

/// A service over memory with a manual clock, which also speaks the Redis protocol.
pub(crate) async fn on_memory(policies: &str) -> (Service, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let gate = gate_of(policies, AnyStore::Memory(store));
    let resp = |options: &mut Options| options.resp = vec![here()];
    (Service::start_with(gate, resp).await, clock)
}

/// A service over memory, and one over a file.
pub(crate) async fn on_both() -> Vec<(Service, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("counts.db").display());
    let file = AnyStore::open(&url).await.unwrap();
    let resp = |options: &mut Options| options.resp = vec![here()];
    let file = Service::start_with(gate_of(FILE, file), resp).await;
    vec![(Service::with(resp).await, None), (file, Some(folder))]
}

pub(crate) fn remaining(said: &Value) -> u64 {
    said["remaining"].as_u64().unwrap()
}

#[tokio::test]
async fn an_estimate_is_held_and_what_was_used_is_charged() {
    for (service, _folder) in on_both().await {
        let client = &mut service.client().await;
        let limit = "1000/h via fixed_window";
        let question =
            |cost: u64| json!({ "subject": "bob", "limit": limit, "cost": cost, "ttl": "1m" });
        let first = done(client, "/v1/reserve", question(800)).await;
        assert_eq!((&first["allowed"], remaining(&first)), (&json!(true), 200));
        assert!(first["hold"].is_string() && first["fence"].as_u64().unwrap() > 0, "{first}");
        assert_eq!(first["ends_after"]["seconds"], 60);
        let second = post(client, "/v1/reserve?deny_status=429", &question(300)).await;
        assert_eq!(second.status, StatusCode::TOO_MANY_REQUESTS);
        // A commit lets others in earlier, so the answer gives no time.
        assert_eq!(second.header("retry-after"), None);
        let denied = second.json();
        assert_eq!((&denied["until_hold"], &denied["hold"]), (&json!(true), &Value::Null));
        assert!(denied["retry_after"]["seconds"].as_f64().unwrap() <= 60.0);
        let path = "/v1/reserve?deny_status=429&retry_after=any";
        let asked = post(client, path, &question(300)).await;
        let seconds: u64 = asked.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");

        let commit = json!({ "hold": first["hold"], "actual": 300 });
        let settled = done(client, "/v1/commit", commit.clone()).await;
        assert_eq!((&settled["already"], &settled["actual"]), (&json!(false), &json!(300)));
        let entry = &settled["limits"][0];
        let full = "1000/h anchor epoch via fixed_window";
        assert_eq!(entry["remaining"], 700);
        assert_eq!(
            (&entry["subject"], &entry["policy"], &entry["identity"], &entry["fits"]),
            (&json!("bob"), &Value::Null, &json!("fixed_window/1h"), &json!(true))
        );
        assert_eq!((&entry["limit"], &entry["cut"]), (&json!(full), &json!(0)));
        assert_eq!(entry["retry_after"]["seconds"], 0);
        assert!(entry["reset_after"]["seconds"].as_f64().unwrap() > 0.0, "{entry}");
        let again = done(client, "/v1/commit", commit).await;
        assert_eq!(again, json!({ "already": true, "actual": 300, "limits": [] }));
        let other = json!({ "hold": first["hold"], "actual": 900 });
        assert_eq!(done(client, "/v1/commit", other).await["actual"], 300, "the first counts");
        let peek = json!({ "subject": "bob", "limit": "1000/h via fixed_window" });
        assert_eq!(remaining(&done(client, "/v1/peek", peek).await), 700);
        // It was settled, and has nothing to release or to renew.
        let hold = &first["hold"];
        refused(client, "/v1/release", json!({ "hold": hold }), 409, "nothing was charged").await;
        let renew = json!({ "hold": hold, "ttl": "1m" });
        refused(client, "/v1/renew", renew, 409, "not open").await;
        // An unused hold is released twice.
        let unused = done(client, "/v1/reserve", question(700)).await;
        for _ in 0..2 {
            done(client, "/v1/release", json!({ "hold": unused["hold"] })).await;
        }
    }
}

#[tokio::test]
async fn slots_are_taken_renewed_and_released() {
    for (service, _folder) in on_both().await {
        let client = &mut service.client().await;
        let question = json!({ "subject": "backend", "limit": ["2 at once hold 1m", "9/h"] });
        let first = done(client, "/v1/acquire", question.clone()).await;
        let second = done(client, "/v1/acquire", question.clone()).await;
        assert!(second["fence"].as_u64() > first["fence"].as_u64(), "{second}");
        let third = done(client, "/v1/acquire", question.clone()).await;
        assert_eq!(
            (&third["allowed"], &third["until_hold"], &third["hold"]),
            (&json!(false), &json!(true), &Value::Null)
        );
        let renewed = done(client, "/v1/renew", json!({ "hold": first["hold"] })).await;
        assert_eq!(renewed["fence"], first["fence"]);
        // The new text and the old one are the same hold, and twice is as once.
        for hold in [&renewed["hold"], &renewed["hold"], &first["hold"]] {
            let said = done(client, "/v1/release", json!({ "hold": hold })).await;
            assert_eq!(said, json!({ "released": true }));
        }
        let peek = json!({ "subject": "backend", "limit": ["2 at once hold 1m", "9/h"] });
        let left = done(client, "/v1/peek", peek).await;
        assert_eq!(left["limits"][0]["remaining"], 1, "the other slot is still taken");
        let fourth = done(client, "/v1/acquire", question.clone()).await;
        assert_eq!(fourth["allowed"], true);
        // The rate limit beside the slots was charged three times, and keeps that.
        assert_eq!(fourth["limits"][1]["remaining"], 6);
        let units = json!({ "hold": second["hold"], "actual": 5 });
        refused(client, "/v1/commit", units, 400, "released without units").await;
        let none = json!({ "hold": second["hold"], "actual": 0 });
        assert_eq!(done(client, "/v1/commit", none).await["actual"], 0);
    }
}

/// A client asks to wait where the operator allows it, and keeps its place in line by its id.
#[tokio::test]
async fn who_waits_is_not_banned_and_stands_in_line_where_that_is_allowed() {
    let limit = "1 at once, ban 10m after 2 denials in 1m";
    let ask =
        |id: &str, how: &str| json!({ "subject": "job", "limit": limit, "id": id, "waiting": how });
    let [first, second] = ["a".repeat(16), "b".repeat(16)];
    let service = Service::start().await;
    let client = &mut service.client().await;
    refused(client, "/v1/acquire", ask(&first, "again"), 403, "--caller-waiting off").await;
    refused(client, "/v1/acquire", ask(&first, "soon"), 400, "say `again`").await;
    let service = Service::with(|options| options.caller_waiting = true).await;
    let client = &mut service.client().await;
    let by_id = json!({ "subject": "job", "limit": limit, "id": first, "waiting": "again" });
    refused(client, "/v1/release", by_id, 400, "is not waited for").await;
    let open = done(client, "/v1/acquire", json!({ "subject": "job", "limit": limit })).await;
    for _ in 0..4 {
        assert_eq!(done(client, "/v1/acquire", ask(&first, "in_line")).await["allowed"], false);
        let behind = done(client, "/v1/acquire", ask(&second, "in_line")).await;
        assert_eq!((&behind["allowed"], &behind["ahead"]), (&json!(false), &json!(1)));
        let again = done(client, "/v1/acquire", ask(&"c".repeat(16), "again")).await;
        assert_eq!(again["allowed"], false);
    }
    done(client, "/v1/release", json!({ "hold": open["hold"] })).await;
    // Nobody overtakes.
    let behind = done(client, "/v1/acquire", ask(&second, "in_line")).await;
    assert_eq!((&behind["allowed"], &behind["until_hold"]), (&json!(false), &json!(true)));
    // A caller that leaves the line blocks nobody.
    let leave = json!({ "subject": "job", "limit": limit, "id": first });
    done(client, "/v1/release", leave).await;
    assert_eq!(done(client, "/v1/acquire", ask(&second, "in_line")).await["allowed"], true);
    let no_id = json!({ "subject": "job", "limit": limit, "waiting": "in_line" });
    refused(client, "/v1/acquire", no_id, 400, "keeps its place by an id").await;
}

#[tokio::test]
async fn a_hold_that_has_ended_charges_nothing() {
    let (service, clock) = on_memory(FILE).await;
    let client = &mut service.client().await;
    let reserve = |more: Value| {
        let mut question = json!({ "subject": "bob", "limit": "10/h", "cost": 4, "ttl": "10s" });
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        question
    };
    let peek = json!({ "subject": "bob", "limit": "10/h" });
    let late = done(client, "/v1/reserve", reserve(json!({}))).await;
    clock.advance(Duration::from_secs(9));
    let renewed = done(client, "/v1/renew", json!({ "hold": late["hold"], "ttl": "10s" })).await;
    clock.advance(Duration::from_micros(9_999_999));
    assert_eq!(remaining(&done(client, "/v1/peek", peek.clone()).await), 6);
    // The end is not part of the hold.
    clock.advance(Duration::from_micros(1));
    let commit = json!({ "hold": renewed["hold"], "actual": 4 });
    refused(client, "/v1/commit", commit, 409, "nothing was charged").await;
    let renew = json!({ "hold": renewed["hold"], "ttl": "10s" });
    refused(client, "/v1/renew", renew, 409, "others may have what it kept").await;
    assert_eq!(remaining(&done(client, "/v1/peek", peek.clone()).await), 10);
    // An end that charges is reported.
    let charging = done(client, "/v1/reserve", reserve(json!({ "at_end": "charge" }))).await;
    clock.advance(Duration::from_secs(10));
    let commit = json!({ "hold": charging["hold"], "actual": 1 });
    refused(client, "/v1/commit", commit, 409, "that charged the estimate").await;
    assert_eq!(remaining(&done(client, "/v1/peek", peek.clone()).await), 6);
    // After a reset there is nothing to settle.
    let reset = done(client, "/v1/reserve", reserve(json!({}))).await;
    let limits: tollgate::LimitSet = "10/h".parse().unwrap();
    let settled = done(client, "/v1/reserve", reserve(json!({ "cost": 1 }))).await;
    let settled = json!({ "hold": settled["hold"], "actual": 3 });
    done(client, "/v1/commit", settled.clone()).await;
    service.gate.admin().reset(tollgate::Ask::new("bob").under(&limits)).await.unwrap();
    let commit = json!({ "hold": reset["hold"], "actual": 4 });
    refused(client, "/v1/commit", commit, 409, "nothing was charged").await;
    let again = done(client, "/v1/commit", settled).await;
    assert_eq!((&again["already"], &again["actual"]), (&json!(true), &json!(3)), "{again}");
    assert_eq!(remaining(&done(client, "/v1/peek", peek).await), 10);
}

/// A policy that reserves, with the time and the effect of its end.
const TOKENS: &str = r#"
    version = 1
    [[policies]]
    name = "tokens"
    on_failure = "deny"
    cost = { reserve = 30, max = 50, hold = "20s", at_end = "AT_END" }
    limits = [{ subject = "user", absent = "deny", limit = "100/h via fixed_window" }]
"#;

#[tokio::test]
async fn a_policy_says_how_long_its_estimate_is_held_and_what_the_end_charges() {
    for (at_end, charged) in [("charge", 30), ("nothing", 0)] {
        let (service, clock) = on_memory(&TOKENS.replace("AT_END", at_end)).await;
        let client = &mut service.client().await;
        let ask = |user: &str, more: Value| {
            let mut ask = json!({ "policy": "tokens", "fields": { "user": user } });
            ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ask
        };
        let held = done(client, "/v1/reserve", ask("bob", json!({}))).await;
        assert_eq!((remaining(&held), &held["ends_after"]["seconds"]), (70, &json!(20)), "{held}");
        // The request's setting takes precedence.
        let terms = json!({ "ttl": "5s", "cost": 10, "at_end": "nothing" });
        let held = done(client, "/v1/reserve", ask("ann", terms)).await;
        assert_eq!((remaining(&held), &held["ends_after"]["seconds"]), (90, &json!(5)), "{held}");
        let terms = json!({ "ttl": "5s", "cost": 10, "at_end": "charge" });
        done(client, "/v1/reserve", ask("eve", terms)).await;
        clock.advance(Duration::from_secs(25));
        for (user, left) in [("bob", 100 - charged), ("ann", 100), ("eve", 90)] {
            let peek = done(client, "/v1/peek", ask(user, json!({ "cost": 1 }))).await;
            assert_eq!(remaining(&peek), left, "{at_end}: {user}");
        }
    }
    // An estimate above the policy's maximum is reported.
    let (service, _) = on_memory(&TOKENS.replace("AT_END", "charge")).await;
    let client = &mut service.client().await;
    let ask = json!({ "policy": "tokens", "fields": { "user": "bob" }, "cost": 51 });
    let denied = done(client, "/v1/reserve", ask).await;
    assert_eq!((&denied["outcome"], &denied["hold"]), (&json!("never"), &Value::Null), "{denied}");
    let says = denied["error"].as_str().unwrap();
    assert!(
        says.contains("above the `max` of the policy") && says.contains("at most 50"),
        "{says}"
    );
    // Another policy does not say how long.
    let (service, _) = on_memory(FILE).await;
    let client = &mut service.client().await;
    let body = json!({ "fields": { "ip": "192.0.2.1", "path": "/pages/1" } });
    refused(client, "/v1/reserve", body, 400, "`ttl` is missing").await;
    // Where nothing would be held, no time is needed.
    let banned = json!({ "ip": "192.0.2.1", "header.x-bad": "yes" });
    for (fields, outcome) in [(json!({ "user": "bob" }), "no_policy"), (banned, "banned")] {
        let answer = done(client, "/v1/reserve", json!({ "fields": fields })).await;
        assert_eq!((&answer["outcome"], &answer["hold"]), (&json!(outcome), &Value::Null));
    }
}

#[tokio::test]
async fn one_hold_more_than_a_count_can_have_is_a_refusal_of_its_own() {
    let (service, _) = on_memory(FILE).await;
    let client = &mut service.client().await;
    let terms =
        json!({ "subject": "bob", "limit": "9999/h via gcra", "ttl": "60s", "at_end": "charge" });
    for _ in 0..1_000 {
        done(client, "/v1/reserve", terms.clone()).await;
    }
    let says = "1000 holds that charge at their end are open on one count";
    let reply = post(client, "/v1/reserve", &terms).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["field"]), (409, &Value::Null));
    assert!(reply.text.contains(says), "{}", reply.text);
    let allow = {
        let mut allow = terms.clone();
        allow["on_failure"] = json!("allow");
        allow
    };
    refused(client, "/v1/reserve", allow, 409, says).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let service = Service::start().await;
    let client = &mut service.client().await;
    let question = |more: Value| {
        let mut question = json!({ "subject": "bob", "limit": "9/h" });
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        question
    };
    for (more, says) in [
        (json!({}), "`ttl` is missing"),
        (json!({ "ttl": "soon" }), "\"field\":\"ttl\""),
        (json!({ "ttl": null }), "null"),
        (json!({ "ttl": "1us" }), "too short for a hold: a hold lasts 1ms to 366d"),
        (json!({ "ttl": "1m", "at_end": "release" }), "not an effect of an end"),
        (json!({ "ttl": "1m", "cost": 0 }), "at least 1"),
        (json!({ "ttl": "1m", "cost": 1_u64 << 53 }), "too large"),
        (json!({ "ttl": "1m", "receipt": true }), "its own receipt"),
        (json!({ "ttl": "1m", "idempotency_key": "k" }), "not remembered"),
        (json!({ "ttl": "1m", "on_failure": { "local": "1/4" } }), "holds nothing"),
        (
            json!({ "ttl": "1h", "limit": "9/h, 2 at once hold 1m" }),
            "a hold of 1h is longer than a slot of `2 at once hold 1m` lasts: give 1ms to 1m",
        ),
    ] {
        refused(client, "/v1/reserve", question(more), 400, says).await;
    }
    for (more, says) in [
        (json!({}), "no slots to acquire"),
        (json!({ "limit": "2 at once", "ttl": "1m" }), "is for POST /v1/reserve"),
    ] {
        refused(client, "/v1/acquire", question(more), 400, says).await;
    }
    let slots = question(json!({ "limit": "2 at once" }));
    for path in ["/v1/check", "/v1/check?deny_status=429"] {
        refused(client, path, slots.clone(), 400, "POST /v1/acquire").await;
        refused(client, path, question(json!({ "ttl": "1m" })), 400, "/v1/reserve").await;
    }
    assert_eq!(remaining(&done(client, "/v1/peek", slots.clone()).await), 2, "none is lost");

    let held = done(client, "/v1/reserve", question(json!({ "ttl": "1m" }))).await;
    let hold = held["hold"].as_str().unwrap();
    for actual in [json!(1_u64 << 53), json!((1_u64 << 40) + 1)] {
        let commit = json!({ "hold": hold, "actual": actual });
        refused(client, "/v1/commit", commit, 400, "\"field\":\"actual\"").await;
    }
    for actual in [json!(-1), json!(1.5), json!("1"), Value::Null] {
        let commit = json!({ "hold": hold, "actual": actual });
        refused(client, "/v1/commit", commit, 400, "\"field\":\"actual\"").await;
    }
    refused(client, "/v1/commit", json!({ "hold": hold }), 400, "missing field").await;
    // Every letter is part of the signature, so that nobody settles the hold of another.
    let receipt = client.check(r#"{"subject": "bob", "limit": "9/h", "receipt": true}"#).await;
    let receipt = receipt["receipt"].as_str().unwrap().to_owned();
    for strange in ["", "AAAA", &hold[1..], &hold[..hold.len() - 2], &receipt] {
        for (path, more) in [
            ("/v1/commit", json!({ "actual": 1 })),
            ("/v1/renew", json!({ "ttl": "1m" })),
            ("/v1/release", json!({})),
        ] {
            let mut body = json!({ "hold": strange });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            refused(client, path, body, 404, "not a hold of this service").await;
        }
    }
    refused(client, "/v1/refund", json!({ "receipt": hold }), 404, "not a receipt").await;
    let renew = json!({ "hold": hold });
    refused(client, "/v1/renew", renew, 400, "give a `ttl`").await;
    let commit = json!({ "hold": hold, "actual": 0 });
    assert_eq!(done(client, "/v1/commit", commit).await["actual"], 0);
    let reply = client.get("/v1/reserve").await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    let hold = json!({ "hold": hold });
    refused(client, "/v1/release?deny_status=429", hold, 400, "nothing is denied here").await;
}

#[tokio::test]
async fn policies_with_slots_are_acquired_and_never_only_checked() {
    let (service, clock) = on_memory(JOBS).await;
    let client = &mut service.client().await;
    let job = json!({ "fields": { "field.kind": "job", "user": "7" } });
    // Its failure rule lets others pass, which is no reason to admit this.
    for _ in 0..2 {
        let said = done(client, "/v1/check", job.clone()).await;
        assert_eq!((&said["allowed"], &said["outcome"]), (&json!(false), &json!("failed_closed")));
        assert!(said["error"].as_str().unwrap().contains("acquire a slot"), "{said}");
    }
    let first = done(client, "/v1/acquire", job.clone()).await;
    assert_eq!((&first["allowed"], &first["policy"]), (&json!(true), &json!("jobs")));
    assert_eq!(first["shadows"], json!([]), "a slot in shadow would never be released");
    assert_eq!(first["ends_after"]["seconds"], 10);
    let second = done(client, "/v1/acquire", job.clone()).await;
    let denied = post(client, "/v1/acquire?deny_status=429", &job).await;
    assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.header("tollgate-hold"), None);
    assert_eq!(remaining(&done(client, "/v1/peek", job.clone()).await), 0);
    done(client, "/v1/release", json!({ "hold": first["hold"] })).await;
    assert_eq!(done(client, "/v1/acquire", job.clone()).await["allowed"], true);
    clock.advance(Duration::from_secs(10));
    refused(client, "/v1/renew", json!({ "hold": second["hold"] }), 409, "not open").await;
    assert_eq!(remaining(&done(client, "/v1/peek", job.clone()).await), 2);
    // Without a policy there is nothing to hold.
    let other = json!({ "fields": { "user": "7" } });
    let said = done(client, "/v1/acquire", other).await;
    assert_eq!((&said["outcome"], &said["hold"]), (&json!("no_policy"), &Value::Null));

    let page = client.get("/metrics").await.text;
    for line in [
        "tollgate_decisions_total{policy=\"jobs\",outcome=\"allowed\",authority=\"store\"} 3",
        "tollgate_decisions_total{policy=\"jobs\",outcome=\"denied\",authority=\"store\"} 1",
        "tollgate_holds_placed_total{kind=\"acquire\"} 3",
        "tollgate_holds_placed_total{kind=\"reserve\"} 0",
        "tollgate_holds_open 1\n",
        "tollgate_hold_calls_total{result=\"settled\"} 1",
        "tollgate_hold_calls_total{result=\"not_open\"} 1",
        "tollgate_http_requests_total{endpoint=\"/v1/acquire\",status=\"2xx\"} 4",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn a_hold_is_in_a_header_for_proxies() {
    let service = Service::start().await;
    let client = &mut service.client().await;
    let question = json!({ "subject": "a", "limit": "1 at once" });
    let reply = post(client, "/v1/acquire", &question).await;
    assert_eq!(reply.header("tollgate-hold"), reply.json()["hold"].as_str());
    // One that is longer than proxies take is in the body alone.
    let question = json!({ "subject": "b".repeat(900), "limit": "1 at once", "cost": 1 });
    let on = |letter: &str| json!({ "subject": letter.repeat(900), "limit": "1 at once" });
    let long = json!({ "on": [on("c"), on("d")] });
    let reply = post(client, "/v1/acquire", &question).await;
    assert!(reply.header("tollgate-hold").is_some(), "{}", reply.text);
    let reply = post(client, "/v1/acquire", &long).await;
    assert!(reply.json()["hold"].as_str().unwrap().len() > 2_048, "{}", reply.text);
    assert_eq!(reply.header("tollgate-hold"), None);
}

#[tokio::test]
async fn a_commit_beyond_the_estimate_is_owed_and_counted() {
    let (service, _clock) = on_memory(FILE).await;
    let client = &mut service.client().await;
    let question = json!({ "subject": "bob", "limit": "10/h via gcra", "cost": 4, "ttl": "10s" });
    let held = done(client, "/v1/reserve", question.clone()).await;
    let commit = json!({ "hold": held["hold"], "actual": 17 });
    let settled = done(client, "/v1/commit", commit).await;
    assert_eq!(settled["limits"][0]["remaining"], 0);
    assert_eq!(
        (&settled["limits"][0]["fits"], &settled["limits"][0]["cut"]),
        (&json!(false), &json!(0))
    );
    let denied = post(client, "/v1/reserve?deny_status=429", &question).await;
    assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
    // No hold is open, so that this wait is exact, and told.
    assert!(denied.header("retry-after").is_some(), "{}", denied.text);
    assert_eq!(denied.json()["until_hold"], false);
    let page = client.get("/metrics").await.text;
    for line in [
        "tollgate_hold_overruns_total 1",
        r#"tollgate_hold_overrun_units_total{unit="requests"} 13"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn units_beyond_the_max_of_a_policy_are_counted() {
    let policy = r#"
        version = 1
        [[policies]]
        name = "tokens"
        on_failure = "deny"
        cost = { reserve = 5, commit = "header.x-used", max = 20, hold = "2m" }
        limits = [{ subject = "ip", absent = "deny", limit = "100/h via sliding_log" }]
    "#;
    let (service, _clock) = on_memory(policy).await;
    let client = &mut service.client().await;
    let question = json!({ "fields": { "ip": "192.0.2.7" }, "ttl": "10s" });
    let held = done(client, "/v1/reserve", question).await;
    let commit = json!({ "hold": held["hold"], "actual": 33 });
    assert_eq!(done(client, "/v1/commit", commit).await["actual"], 20);
    let page = client.get("/metrics").await.text;
    assert!(page.contains(r#"tollgate_hold_cut_units_total{unit="requests"} 13"#), "{page}");
}

#[tokio::test]
async fn a_hold_with_an_id_of_the_caller_is_one_and_is_released_by_it() {
    for (service, _folder) in on_both().await {
        let client = &mut service.client().await;
        let with =
            |id: &str| json!({ "subject": "backend", "limit": "2 at once hold 1m", "id": id });
        let (one, two) = (with("b1946ac92492d2347c6235b4d2611184"), with(&"x".repeat(256)));
        let first = done(client, "/v1/acquire", one.clone()).await;
        let again = done(client, "/v1/acquire", one.clone()).await;
        assert_eq!((&again["fence"], remaining(&again)), (&first["fence"], 1));
        for _ in 2..=16 {
            done(client, "/v1/acquire", one.clone()).await;
        }
        refused(client, "/v1/acquire", one.clone(), 409, "16 times again").await;
        let reserve = json!({ "subject": "backend", "limit": "2 at once hold 1m",
                              "id": "b1946ac92492d2347c6235b4d2611184", "ttl": "5s" });
        refused(client, "/v1/reserve", reserve, 409, "asked for otherwise").await;
        // Released before it was acquired, and twice.
        for _ in 0..2 {
            assert_eq!(done(client, "/v1/release", two.clone()).await["released"], true);
        }
        refused(client, "/v1/acquire?deny_status=429", two, 409, "released or committed").await;
        let renewed = done(client, "/v1/renew", one.clone()).await;
        assert_eq!((&renewed["hold"], &renewed["fence"]), (&Value::Null, &Value::Null));
        assert!(renewed["end_us"].as_u64().unwrap() > 0);
        for _ in 0..2 {
            assert_eq!(done(client, "/v1/release", one.clone()).await["released"], true);
        }
        let peek = json!({ "subject": "backend", "limit": "2 at once hold 1m" });
        assert_eq!(remaining(&done(client, "/v1/peek", peek).await), 2);
        // Units are reserved and committed by an id likewise, and by its signed text.
        let mut units = json!({ "subject": "bob", "limit": "100/h", "cost": 70, "ttl": "1m",
                                "id": "0123456789abcdef" });
        let held = done(client, "/v1/reserve", units.clone()).await;
        let units = units.as_object_mut().unwrap();
        units.remove("ttl");
        units.remove("cost");
        units.insert("actual".to_owned(), json!(30));
        let settled = done(client, "/v1/commit", json!(units)).await;
        assert_eq!(settled["limits"][0]["remaining"], 70);
        let signed = json!({ "hold": held["hold"], "actual": 30 });
        assert_eq!(done(client, "/v1/commit", signed).await["already"], true);
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_refused_and_never_repeated() {
    let service = Service::start().await;
    let client = &mut service.client().await;
    let question =
        |id: &str| json!({ "subject": "backend", "limit": "2 at once hold 1m", "id": id });
    for length in [0, 15, 257] {
        let says = format!("has {length} bytes");
        for path in ["/v1/acquire", "/v1/release"] {
            refused(client, path, question(&"s".repeat(length)), 400, &says).await;
        }
    }
    let secret = post(client, "/v1/acquire", &question("a secret of sixteen")).await;
    assert_eq!(secret.status, StatusCode::BAD_REQUEST);
    assert!(!secret.text.contains("sixteen"), "{}", secret.text);
    let mut check = question("0123456789abcdef");
    refused(client, "/v1/check", check.clone(), 400, "nothing is held here").await;
    check.as_object_mut().unwrap().insert("hold".to_owned(), json!("x"));
    refused(client, "/v1/release", check, 400, "unknown field").await;
    // That of another limit or subject is another hold.
    let acquire = question("0123456789abcdef");
    done(client, "/v1/acquire", acquire).await;
    for other in [
        json!({ "subject": "other", "limit": "2 at once hold 1m", "id": "0123456789abcdef" }),
        json!({ "subject": "backend", "limit": "x: 2 at once hold 1m", "id": "0123456789abcdef" }),
    ] {
        done(client, "/v1/release", other).await;
    }
    let peek = json!({ "subject": "backend", "limit": "2 at once hold 1m" });
    assert_eq!(remaining(&done(client, "/v1/peek", peek).await), 1);
}

/// Only a wait that somebody shortens by settling is left out of `Retry-After`. The clock is at 40
/// s before the end of a minute.
#[tokio::test]
async fn a_wait_that_no_hold_lengthens_is_told() {
    let (service, _clock) = on_memory(JOBS).await;
    let client = &mut service.client().await;
    let limit = "10/m via fixed_window";
    let ask = |cost: u64| json!({ "subject": "bob", "limit": limit, "cost": cost });
    let mut held = ask(1);
    held["ttl"] = json!("20s");
    done(client, "/v1/reserve", held).await;
    done(client, "/v1/check", ask(9)).await;
    let denied = post(client, "/v1/check?deny_status=429", &ask(5)).await;
    assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.header("retry-after"), Some("40"));
    let said = denied.json();
    assert_eq!((&said["until_hold"], &said["unit"]), (&json!(false), &json!("requests")));
    // Beside a ban, too, whose denial has the capacity of the limit beside it.
    let ask = json!({
        "subject": "job",
        "limit": "2 at once hold 1m, ban 2m after 1 denials in 1m",
    });
    for remaining in [1, 0] {
        let taken = done(client, "/v1/acquire", ask.clone()).await;
        let numbers = [&taken["limit"], &taken["remaining"], &taken["unit"]];
        assert_eq!(numbers, [&json!(2), &json!(remaining), &json!("slots")]);
    }
    let denied = post(client, "/v1/acquire?deny_status=429", &ask).await;
    assert_eq!(denied.header("retry-after"), Some("120"));
    let said = denied.json();
    let numbers = [&said["limit"], &said["remaining"], &said["unit"], &said["until_hold"]];
    assert_eq!(numbers, [&json!(2), &json!(0), &json!("slots"), &json!(false)]);
    // Without a decision there is neither.
    let nobody = json!({ "fields": { "path": "/" } });
    assert_eq!(done(client, "/v1/check", nobody).await["unit"], Value::Null);
}

/// The answer to a late holder is to charge without a check.
#[tokio::test]
async fn what_nobody_holds_is_charged_without_a_check() {
    let (service, clock) = on_memory(JOBS).await;
    let client = &mut service.client().await;
    let limit = "1000/h debt 200 via gcra";
    let ask = |cost: u64| json!({ "subject": "bob", "limit": limit, "cost": cost });
    let mut held = ask(800);
    held["ttl"] = json!("20s");
    let hold = done(client, "/v1/reserve", held).await["hold"].clone();
    clock.advance(Duration::from_secs(20));
    let commit = json!({ "hold": hold, "actual": 900 });
    refused(client, "/v1/commit", commit, 409, "nothing was charged").await;
    let said = done(client, "/v1/charge", ask(900)).await;
    assert_eq!((&said["cost"], &said["limits"][0]["fits"]), (&json!(900), &json!(true)));
    // Beyond the limit it is debt, and beyond the maximum debt it is cut.
    let said = done(client, "/v1/charge", ask(900)).await;
    let entry = &said["limits"][0];
    let numbers = [&entry["fits"], &entry["cut"], &entry["remaining"]];
    assert_eq!(numbers, [&json!(false), &json!(600), &json!(0)]);
    assert_eq!((&entry["subject"], &entry["identity"]), (&json!("bob"), &json!("gcra/1h")));
    assert!(entry["retry_after"]["seconds"].as_f64().unwrap() > 3_600.0, "{entry}");
    assert_eq!(done(client, "/v1/check", ask(1)).await["allowed"], false);
    // Several counts, and a policy, whose slots are not taken.
    let pair =
        json!([{ "subject": "a", "limit": "9/h" }, { "subject": "b", "limit": ["5/h", "8/m"] }]);
    let said = done(client, "/v1/charge", json!({ "on": pair, "cost": 2 })).await;
    let each = said["limits"].as_array().unwrap().iter();
    let each: Vec<_> = each.map(|it| (it["subject"].clone(), remaining(it))).collect();
    assert_eq!(each, [(json!("a"), 7), (json!("b"), 3), (json!("b"), 6)]);
    let fields = json!({ "kind": "job", "user": "ann" });
    let fields = json!({ "fields": { "field.kind": fields["kind"], "user": fields["user"] } });
    let said = done(client, "/v1/charge", fields).await;
    let entry = &said["limits"][0];
    assert_eq!((&entry["policy"], &entry["remaining"]), (&json!("jobs"), &json!(2)));
    let none = done(client, "/v1/charge", json!({ "fields": { "path": "/" }, "cost": 3 })).await;
    assert_eq!(none, json!({ "cost": 3, "limits": [] }));
    for (key, value, says) in [
        ("receipt", json!(true), "no receipt"),
        ("idempotency_key", json!("a"), "not remembered"),
        ("on_failure", json!("allow"), "no `on_failure`"),
        ("deadline", json!("5ms"), "no `deadline`"),
        ("ttl", json!("5s"), "POST /v1/reserve"),
        ("cost", json!(0), "cost"),
    ] {
        let mut question = ask(1);
        question[key] = value;
        refused(client, "/v1/charge", question, 400, says).await;
    }
}

/// A peek looks ahead to the question then: a reserve takes one slot, whatever it costs.
#[tokio::test]
async fn a_peek_looks_ahead_to_a_check_a_reserve_or_an_acquire() {
    let (service, _clock) = on_memory(JOBS).await;
    let client = &mut service.client().await;
    let peek = |kind: &str, cost: u64| {
        let limit = "20 at once, 100000/m via gcra";
        json!({ "subject": "bob", "limit": limit, "cost": cost, "kind": kind })
    };
    let reserve = done(client, "/v1/peek", peek("reserve", 800)).await;
    let numbers = [&reserve["allowed"], &reserve["limit"], &reserve["remaining"]];
    assert_eq!(numbers, [&json!(true), &json!(20), &json!(20)]);
    for (kind, cost) in [("acquire", 800), ("check", 800)] {
        let never = done(client, "/v1/peek", peek(kind, cost)).await;
        assert_eq!((&never["allowed"], &never["retry_after"]), (&json!(false), &Value::Null));
        assert_eq!((&never["unit"], &never["limit"]), (&json!("slots"), &json!(20)));
    }
    assert_eq!(done(client, "/v1/peek", peek("acquire", 20)).await["allowed"], true);
    // A reserve beyond the rate says what is left of that, and not of the slots.
    let beyond = done(client, "/v1/peek", peek("reserve", 100_001)).await;
    let numbers = [&beyond["unit"], &beyond["limit"], &beyond["remaining"]];
    assert_eq!(numbers, [&json!("requests"), &json!(100_000), &json!(100_000)]);
    // By a policy, a peek and an explanation look ahead to its kind of question.
    let job = json!({ "fields": { "field.kind": "job", "user": "ann" }, "kind": "acquire" });
    let said = done(client, "/v1/peek", job).await;
    assert_eq!((&said["allowed"], &said["unit"]), (&json!(true), &json!("slots")));
    refused(client, "/v1/peek", peek("hold", 1), 400, "`check`, `reserve` or `acquire`").await;
    refused(client, "/v1/check", peek("reserve", 1), 400, "only a peek has a `kind`").await;
    refused(client, "/v1/charge", peek("reserve", 1), 400, "only a peek has a `kind`").await;
    let mut acquire = peek("acquire", 1);
    refused(client, "/v1/acquire", acquire.clone(), 400, "only a peek has a `kind`").await;
    acquire["limit"] = json!("9/h");
    refused(client, "/v1/peek", acquire, 400, "no slots to acquire").await;
}
