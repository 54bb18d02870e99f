//! Which inline limits callers may give.

use super::*;

/// The operator chooses which inline limits callers may give.
#[tokio::test]
async fn callers_give_the_limits_that_they_may() {
    let single = r#"{"subject": "user:1", "limit": "5/1h"}"#;
    let several = r#"{"subject": "user:1", "limit": "5/1h, 9/1d"}"#;
    let of_two =
        r#"{"on": [{"subject": "a", "limit": "5/1h"}, {"subject": "b", "limit": "5/1h"}]}"#;
    let by_policies = r#"{"fields": {"ip": "192.0.2.7"}}"#;
    let all = [single, several, of_two, by_policies];
    for (allowed, expected) in [
        (CallerLimits::default(), [200, 200, 200, 200]),
        (CallerLimits::Single, [200, 403, 403, 200]),
        (CallerLimits::Off, [403, 403, 403, 200]),
    ] {
        let service = Service::with(|options| options.caller_limits = allowed).await;
        let mut client = service.client().await;
        for (question, status) in all.into_iter().zip(expected) {
            for path in ["/v1/check", "/v1/peek"] {
                let reply = client.post(path, question).await;
                assert_eq!(reply.status, status, "{allowed:?} {path} {question}: {}", reply.text);
            }
        }
        if expected[1] == 403 {
            let reply = client.post("/v1/check", several).await;
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("--caller-limits"), "{detail}");
        }
    }
}

/// On Redis each shape costs a script, and other numbers cost nothing.
#[tokio::test(flavor = "multi_thread")]
async fn callers_give_no_shapes_without_number() {
    let server = redis_or_skip!();
    let url = format!("{}?deadline=30s&scripts=10", server.url());
    let store = AnyStore::from(RedisStore::connect(&url).await.unwrap());
    let allowed = CallerLimits::Several { shapes: 3 };
    let service = Service::start_with(gate_of(FILE, store), |it| it.caller_limits = allowed).await;
    let mut client = service.client().await;
    let mut ask = async |limit: String| {
        let question = format!(r#"{{"subject": "user:1", "limit": "{limit}"}}"#);
        client.post("/v1/check", &question).await
    };
    let before = scripts(&server);
    // Each strategy first, so that three shapes are three.
    for other in ["gcra", "token_bucket", "fixed_window"] {
        for number in 1..=60 {
            let limit = format!("{number}/1h via gcra, {number}/1d via {other}");
            assert_eq!(ask(limit).await.status, 200);
        }
    }
    let refused = ask("5/1h via gcra, 9/1d via sliding_log".into()).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("--caller-shapes"), "{}", refused.text);
    // A shape that came, and one limit alone, are taken as before.
    assert_eq!(ask("61/1h via gcra, 5/1d via token_bucket".into()).await.status, 200);
    for number in 1..=60 {
        assert_eq!(ask(format!("{number}/1h via sliding_log")).await.status, 200);
    }
    let held = scripts(&server) - before;
    assert!(held <= 10 + 4, "{held} scripts");
}

/// How many scripts a server holds.
fn scripts(server: &RedisServer) -> u64 {
    server.info("memory")["number_of_cached_scripts"].parse().unwrap()
}
