//! Checks of callers that wait: their denials count for no ban. The operator allows that.

use serde_json::{Value, json};
use tollgate::MemoryStore;
use tollgate_service::AnyStore;

use crate::holds::{done, refused};
use crate::redis_client::command;
use crate::{Service, gate_of, here};

const BANS: &str = "version = 1\nmatch = \"all\"\n\
    [[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    limits = [{ subject = \"ip\", limit = \"1/h, ban 10m after 2 denials in 1m\" }]\n\
    [[policies]]\nname = \"trial\"\nshadow = true\non_failure = \"deny\"\n\
    limits = [{ subject = \"user\", absent = \"skip\", limit = \"1/h, ban 10m after 2 denials in 1m\" }]\n";

async fn on_memory(caller_waiting: bool) -> Service {
    let gate = gate_of(BANS, AnyStore::Memory(MemoryStore::new()));
    Service::start_with(gate, |options| {
        (options.caller_waiting, options.resp) = (caller_waiting, vec![here()]);
        options.admin = Some(here());
    })
    .await
}

/// Whether the ban of these limits runs.
fn is_banned(said: &Value) -> bool {
    said["limits"][1]["admits"] == false
}

/// A command of a caller that waits so.
fn waits_by(words: [&str; 4], how: &str) -> Vec<u8> {
    let all: Vec<&[u8]> = words.iter().chain(&["WAITING", how]).map(|it| it.as_bytes()).collect();
    command(&all)
}

#[tokio::test]
async fn a_check_that_waits_counts_for_no_ban() {
    let service = on_memory(true).await;
    let (client, mut redis) = (&mut service.client().await, service.redis().await);
    let inline = json!({ "subject": "bob", "limit": "1/h, ban 10m after 2 denials in 1m" });
    let by_policy = json!({ "fields": { "ip": "192.0.2.7" } });
    let line = ["TOLLGATE.CHECK", "bob", "1/h", "ban 10m after 2 denials in 1m"];
    let request = ["TOLLGATE.REQUEST", "api", "ip", "192.0.2.7"];
    for (question, line) in [(inline, line), (by_policy, request)] {
        let ask = |more: Value| {
            let mut question = question.as_object().unwrap().clone();
            question.extend(more.as_object().unwrap().clone());
            Value::Object(question)
        };
        let waits = ask(json!({ "waiting": "again" }));
        assert_eq!(done(client, "/v1/check", waits.clone()).await["allowed"], true);
        for _ in 0..4 {
            let said = done(client, "/v1/check", waits.clone()).await;
            assert!(said["allowed"] == false && !is_banned(&said), "{said}");
            let batch = done(client, "/v1/check", json!({ "checks": [waits] })).await;
            assert!(!is_banned(&batch["results"][0]), "{batch}");
            redis.send(&waits_by(line, "AGAIN")).await;
            let said = redis.reply().await;
            assert!(said.contains(r#""allowed", 0"#), "{said}");
        }
        // A caller that does not wait is banned as always.
        assert!(!is_banned(&done(client, "/v1/check", ask(json!({}))).await));
        assert!(is_banned(&done(client, "/v1/check", ask(json!({}))).await));
        let in_line = ask(json!({ "waiting": "in_line" }));
        refused(client, "/v1/check", in_line, 400, "no slot to wait in line for").await;
        refused(client, "/v1/peek", waits.clone(), 400, "is not waited for").await;
        refused(client, "/v1/charge", waits, 400, "is not waited for").await;
        redis.send(&waits_by(line, "IN_LINE")).await;
        let said = redis.reply().await;
        assert!(said.contains("no slot to wait in line for"), "{said}");
    }
}

#[tokio::test]
async fn a_policy_in_shadow_bans_nobody_who_waits() {
    let service = on_memory(true).await;
    let (client, mut admin) = (&mut service.client().await, service.admin().await);
    let ask = |more: Value| {
        let mut ask = json!({ "policy": "trial", "fields": { "user": "ann" } });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    for (more, banned) in [(json!({ "waiting": "again" }), false), (json!({}), true)] {
        for _ in 0..4 {
            let said = done(client, "/v1/check", ask(more.clone())).await;
            let shadow = &said["shadows"][0];
            assert_eq!((&said["allowed"], &shadow["unit"]), (&json!(true), &json!("requests")));
        }
        let body = json!({ "subject": "user:ann", "policy": "trial" }).to_string();
        let said = admin.post("/v1/admin/peek", &body).await.json();
        assert_eq!(is_banned(&said["answer"]), banned, "{said}");
    }
}

#[tokio::test]
async fn who_waits_says_so_where_that_is_allowed() {
    let service = on_memory(false).await;
    let (client, mut redis) = (&mut service.client().await, service.redis().await);
    let waits = json!({ "subject": "bob", "limit": "9/h", "waiting": "again" });
    refused(client, "/v1/check", waits.clone(), 403, "--caller-waiting off").await;
    refused(client, "/v1/peek", waits, 403, "--caller-waiting off").await;
    for line in ["TOLLGATE.CHECK bob 9/h WAITING AGAIN", "TOLLGATE.REQUEST * WAITING AGAIN"] {
        let said = redis.ask(line).await;
        assert!(said.starts_with("(NOPERM "), "{line}: {said}");
    }
}
