//! Costs of several units over HTTP and the Redis protocol.

use serde_json::{Value, json};

use crate::holds::{done, on_both, on_memory, refused};
use crate::redis_client::command;
use crate::resp::ask::of;
use crate::{FILE, Service, here};

const LIMIT: &str = "60/h, 100000/h of tokens via sliding_log, 3 at once hold 2m";

/// The remaining amount of each unit.
fn left(said: &Value) -> Vec<(String, u64)> {
    let each = said["limits"].as_array().unwrap().iter();
    each.map(|it| (it["unit"].as_str().unwrap().to_owned(), it["remaining"].as_u64().unwrap()))
        .collect()
}

#[tokio::test]
async fn an_estimate_of_several_units_is_held_and_what_was_used_is_charged() {
    for (service, _folder) in on_both().await {
        let client = &mut service.client().await;
        let question = |cost: Value| json!({ "subject": "bob", "limit": LIMIT, "cost": cost });
        let with = |mut question: Value, field: &str, value: Value| {
            question.as_object_mut().unwrap().insert(field.to_owned(), value);
            question
        };
        let estimate = || question(json!({ "requests": 1, "tokens": 4_000 }));
        let reserve =
            |at_end: &str| with(with(estimate(), "ttl", json!("1m")), "at_end", json!(at_end));
        let one_of_each = || question(json!({ "requests": 1, "slots": 1 }));
        let peek = || with(one_of_each(), "kind", json!("acquire"));
        let all = |requests: u64, tokens: u64, slots: u64| {
            let named = [("requests", requests), ("tokens", tokens), ("slots", slots)];
            named.map(|(unit, left)| (unit.to_owned(), left)).to_vec()
        };
        let held = done(client, "/v1/reserve", reserve("nothing")).await;
        assert_eq!(left(&held), all(59, 96_000, 2));
        let commit = json!({ "hold": held["hold"], "actual": { "tokens": 1_312 } });
        let settled = done(client, "/v1/commit", commit.clone()).await;
        assert_eq!(settled["actual"], json!({ "tokens": 1_312 }));
        assert_eq!(settled["limits"][1]["remaining"], 98_688);
        let again = done(client, "/v1/commit", commit).await;
        let before = json!({ "already": true, "actual": { "tokens": 1_312 }, "limits": [] });
        assert_eq!(again, before);
        // What is not named is the estimate, where the end would charge it.
        let held = done(client, "/v1/reserve", reserve("charge")).await;
        let commit = json!({ "hold": held["hold"], "actual": { "tokens": 0 } });
        assert_eq!(done(client, "/v1/commit", commit).await["actual"], 1);
        assert_eq!(left(&done(client, "/v1/peek", peek()).await), all(59, 98_688, 3));
        let charge = question(json!({ "tokens": 688 }));
        assert_eq!(done(client, "/v1/charge", charge).await["cost"], json!({ "tokens": 688 }));
        assert_eq!(left(&done(client, "/v1/peek", peek()).await), all(59, 98_000, 3));
        let wrong = [
            (json!({ "tokens": -1 }), "tokens"),
            (json!({ "Tokens": 1 }), "not the name of a unit"),
            (json!({}), "no unit is named"),
            (json!({ "tokens": 1_u64 << 41 }), "too large"),
            (json!("1"), "or an object of units and their amounts"),
        ];
        let held = done(client, "/v1/reserve", reserve("charge")).await;
        for (actual, says) in wrong {
            let commit = json!({ "hold": held["hold"], "actual": actual });
            refused(client, "/v1/commit", commit, 400, says).await;
        }
        let unknown = json!({ "hold": held["hold"], "actual": { "token": 1 } });
        refused(client, "/v1/commit", unknown, 400, "no limit counts `token`").await;
    }
}

#[tokio::test]
async fn a_part_of_some_units_is_given_back() {
    for (service, _folder) in on_both().await {
        let client = &mut service.client().await;
        let cost = json!({ "requests": 1, "tokens": 800 });
        let limit = "60/h, 100000/h of tokens via sliding_log";
        let question = json!({ "subject": "bob", "limit": limit, "receipt": true, "cost": cost });
        let checked = done(client, "/v1/check", question).await;
        let part = |units: Value| json!({ "receipt": checked["receipt"], "units": units });
        for (units, already, given, left) in [
            (json!({ "tokens": 300 }), false, [0, 300], json!({ "requests": 1, "tokens": 500 })),
            (json!(1), false, [1, 0], json!({ "tokens": 500 })),
            (json!({ "requests": 1 }), true, [0, 0], json!({ "tokens": 500 })),
            (json!({ "requests": 1, "tokens": 800 }), false, [0, 500], json!(0)),
        ] {
            let said = done(client, "/v1/refund", part(units)).await;
            assert_eq!(said, json!({ "already": already, "given": given, "left": left }));
        }
        let wrong = [
            (json!({ "tokens": 801 }), "not a part of the charged `requests=1,tokens=800`"),
            (json!({ "bytes": 1 }), "not a part of the charged"),
            (json!({ "tokens": 0 }), "not a part of the charged"),
            (json!(0), "not a part of the charged"),
            (json!("1"), "or an object of units and their amounts"),
        ];
        for (units, says) in wrong {
            refused(client, "/v1/refund", part(units), 400, says).await;
        }
    }
}

#[tokio::test]
async fn an_administrator_changes_some_units() {
    let service = Service::with(|options| options.admin = Some(here())).await;
    let (client, admin) = (&mut service.client().await, &mut service.admin().await);
    let question = |more: Value| {
        let mut question = json!({ "subject": "bob", "limit": LIMIT });
        let more = more.as_object().unwrap().clone();
        question.as_object_mut().unwrap().extend(more);
        question
    };
    let charge = question(json!({ "cost": { "requests": 9, "tokens": 800 } }));
    done(client, "/v1/charge", charge).await;
    for (by, changed) in [
        (json!({ "tokens": 300 }), [0, 300, 0]),
        (json!({ "requests": 2, "tokens": -600 }), [2, -600, 0]),
        (json!(1), [1, 0, 0]),
        (json!(-3), [-3, 0, 0]),
    ] {
        let said = done(admin, "/v1/admin/adjust", question(json!({ "by": by }))).await;
        assert_eq!(said, json!({ "changed": changed }));
    }
    for (by, says) in [
        (json!({ "bytes": 1 }), "no limit counts `bytes`"),
        (json!({ "tokens": 0 }), "an adjustment of tokens=0 is out of range"),
        (json!({ "tokens": -(1_i64 << 41) }), "too large"),
        (json!({}), "no unit is named"),
        (json!("1"), "or an object of units and their amounts"),
        (json!(1_u64 << 63), "or an object of units and their amounts"),
    ] {
        let by = question(json!({ "by": by }));
        refused(admin, "/v1/admin/adjust", by, 400, says).await;
    }
}

#[tokio::test]
async fn words_of_the_redis_protocol_name_units() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let set = &b"60/h via gcra, 100000/h of tokens via gcra"[..];
    let cost = &b"requests=1,tokens=4000"[..];
    let reserve = [&b"TOLLGATE.RESERVE"[..], b"bob", set, b"COST", cost, b"TTL", b"60000"];
    redis.send(&command(&reserve)).await;
    let held = redis.reply().await;
    let hold = of(&held, "hold");
    let hold = hold.trim_matches('"');
    let said = redis.ask(&format!("TOLLGATE.COMMIT {hold} tokens=-1")).await;
    assert!(said.starts_with("(ERR ") && said.contains("not an amount"), "{said}");
    let said = redis.ask(&format!("TOLLGATE.COMMIT {hold} tokens=1312")).await;
    assert!(said.contains(r#""actual", ["tokens", 1312]"#), "{said}");
    let charge = [&b"TOLLGATE.CHARGE"[..], b"bob", set, b"COST", b"tokens=688"];
    redis.send(&command(&charge)).await;
    let said = redis.reply().await;
    assert!(said.contains(r#""cost", ["tokens", 688]"#) && said.contains("98000"), "{said}");
    let check = [&b"TOLLGATE.CHECK"[..], b"bob", set, b"COST", cost, b"RECEIPT"];
    redis.send(&command(&check)).await;
    let receipt = of(&redis.reply().await, "receipt");
    let receipt = receipt.trim_matches('"');
    let said = redis.ask(&format!("TOLLGATE.REFUND {receipt} tokens=1000")).await;
    let left = r#""left", ["requests", 1, "tokens", 3000]"#;
    assert!(said.contains(left) && said.contains(r#""given", [0, 1000]"#), "{said}");
    let said = redis.ask(&format!("TOLLGATE.REFUND {receipt} tokens=x")).await;
    assert!(said.starts_with("(ERR ") && said.contains("not an amount"), "{said}");
}
