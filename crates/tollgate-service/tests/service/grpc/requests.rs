//! The id of a request, given by a descriptor: asking again under it charges nothing more.

use tollgate_service::Options;
use tonic::Code;

use super::{RULES, service_with};
use crate::grpc_client::{request, summary};
use crate::{FILE, Service};

fn reads_ids(options: &mut Options) {
    options.auth.request_id_header = Some("X-Request-Id".to_owned());
}

async fn reading(rules: &str) -> Service {
    service_with(rules, reads_ids).await
}

#[tokio::test]
async fn a_request_that_envoy_asks_about_twice_is_charged_once() {
    let service = reading(RULES).await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    for (id, remaining) in [("a", 2), ("a", 2), ("b", 1), ("a", 2), ("b", 1)] {
        let said = wire.summary("shop", &["user=1", &format!("tollgate-request-id={id}")]).await;
        assert_eq!(said, format!("OK: OK {remaining}, OK 0"), "{id}");
    }
    // It may be anywhere, and alone it asks nothing.
    assert_eq!(wire.summary("shop", &["tollgate-request-id=b", "user=1"]).await, "OK: OK 0, OK 1");
    assert_eq!(wire.summary("shop", &["tollgate-request-id=b"]).await, "OK: OK 0");
    // Other descriptors, other hits or another user are other questions.
    assert_eq!(wire.summary("shop", &["user=2", "tollgate-request-id=b"]).await, "OK: OK 2, OK 0");
    assert_eq!(
        wire.summary("shop", &["2 user=2", "tollgate-request-id=b"]).await,
        "OK: OK 0, OK 0"
    );
    // Two that ask the same are both charged, and once.
    for _ in 0..2 {
        let said = wire.summary("shop", &["user=3", "user=3", "tollgate-request-id=c"]).await;
        assert!(["OK: OK 2, OK 1, OK 0", "OK: OK 1, OK 2, OK 0"].contains(&&*said), "{said}");
    }
    assert_eq!(wire.summary("shop", &["0 user=3"]).await, "OK: OK 1");
    // The charge at the end of a stream has no such descriptor, and is as always.
    assert_eq!(wire.summary("shop", &["user=3"]).await, "OK: OK 0");
    let page = client.get("/metrics").await.text;
    assert!(page.contains("tollgate_repeated_answers_total 6"), "{page}");
    assert!(page.contains("tollgate_overused_request_ids_total 0"), "{page}");

    let long = format!("tollgate-request-id={}", "i".repeat(253));
    for (descriptors, says) in [
        (["user=1", "tollgate-request-id="], "1 to 252 bytes, not 0"),
        (["user=1", &long], "1 to 252 bytes, not 253"),
        (["tollgate-request-id=x", "tollgate-request-id=y"], "descriptors[1]: the request has"),
    ] {
        let (code, why) = wire.refused(&request("shop", &descriptors)).await;
        assert_eq!(code, Code::InvalidArgument, "{why}");
        assert!(why.contains(says), "{why}");
    }
    // The same as JSON.
    let question = r#"{"domain": "shop", "descriptors": [
        {"entries": [{"key": "user", "value": "json"}]},
        {"entries": [{"key": "tollgate-request-id", "value": "a"}]}]}"#;
    for _ in 0..2 {
        let reply = client.ask("POST", "/json", &[], question).await;
        assert_eq!(reply.json()["statuses"][0]["limitRemaining"], 2, "{}", reply.text);
    }
}

/// A caller that can choose the id pays once in all. It is read only from trusted proxies, and
/// where the operator allows it.
#[tokio::test]
async fn an_id_of_nobody_who_is_trusted_is_not_read() {
    for is_named in [false, true] {
        let service = service_with(RULES, |options| {
            if is_named {
                reads_ids(options);
                options.auth.trust = "192.0.2.0/24".parse().unwrap();
            }
        })
        .await;
        let (wire, mut client) = (service.wire().await, service.client().await);
        for remaining in [2, 1, 0] {
            let said = wire.summary("shop", &["user=1", "tollgate-request-id=a"]).await;
            assert_eq!(said, format!("OK: OK {remaining}, OK 0"), "{is_named}");
        }
        let question = r#"{"domain": "shop", "descriptors": [
            {"entries": [{"key": "user", "value": "1"}]},
            {"entries": [{"key": "tollgate-request-id", "value": "a"}]}]}"#;
        let reply = client.ask("POST", "/json", &[], question).await;
        assert_eq!(reply.status.as_u16(), 429, "{}", reply.text);
    }
}

/// All or nothing also applies here: an answer that was refunded for another descriptor is not
/// repeated.
#[tokio::test]
async fn ids_under_all_or_nothing() {
    let service = reading(&format!("meaning: tollgate\n{RULES}")).await;
    let wire = service.wire().await;
    let both = ["user=1", "path=/a/b", "tollgate-request-id=a"];
    for _ in 0..3 {
        assert_eq!(wire.summary("shop", &both).await, "OK: OK 2, OK 1, OK 0");
    }
    let costly = ["user=2", "2 path=/a/b", "tollgate-request-id=b"];
    for _ in 0..3 {
        let said = wire.summary("shop", &costly).await;
        assert!(said.starts_with("OVER: OK 3, OVER"), "{said}");
    }
    assert_eq!(wire.summary("shop", &["0 user=2"]).await, "OK: OK 3");
    // An undone charge is made where there is room again.
    assert_eq!(wire.summary("shop", &["-1 path=/a/b"]).await, "OK: OK 2");
    assert_eq!(wire.summary("shop", &costly).await, "OK: OK 2, OK 0, OK 0");
    assert_eq!(wire.summary("shop", &["0 user=2"]).await, "OK: OK 2");
}

#[tokio::test]
async fn an_id_for_all_requests_is_charged_after_a_while() {
    let service = reading(RULES).await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    let asked = ["user=1", "tollgate-request-id=constant"];
    let mut admitted = 0;
    for _ in 0..40 {
        let answer = wire.ask(&request("shop", &asked)).await.unwrap();
        admitted += usize::from(summary(&answer).starts_with("OK"));
    }
    assert_eq!(admitted, 3 + 16);
    let page = client.get("/metrics").await.text;
    assert!(page.contains("tollgate_repeated_answers_total 16"), "{page}");
    assert!(page.contains("tollgate_overused_request_ids_total 23"), "{page}");
}

#[tokio::test]
async fn policies_answer_under_an_id_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("policies.toml");
    std::fs::write(&config, FILE).unwrap();
    let service = service_with(RULES, |options| {
        reads_ids(options);
        options.config = Some(config);
    })
    .await;
    let wire = service.wire().await;
    let asked = "remote_address=192.0.2.9,path=/pages/1";
    for (id, remaining) in [("a", 4), ("a", 4), ("b", 3), ("a", 4)] {
        let said = wire.summary("web", &[asked, &format!("tollgate-request-id={id}")]).await;
        assert_eq!(said, format!("OK: OK {remaining}, OK 0"), "{id}");
    }
    // Both of these meet the policy for the same address.
    for _ in 0..2 {
        let other = "remote_address=192.0.2.9,path=/pages/2";
        let said = wire.summary("web", &[asked, other, "tollgate-request-id=c"]).await;
        assert!(["OK: OK 2, OK 1, OK 0", "OK: OK 1, OK 2, OK 0"].contains(&&*said), "{said}");
    }
}
