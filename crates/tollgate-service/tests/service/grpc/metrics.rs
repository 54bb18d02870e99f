//! The metrics of envoyproxy/ratelimit, on request.

use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, EnvoyRules};
use tollgate_testbed::redis_or_skip;

use super::{service, service_with};
use crate::grpc_client::request;
use crate::{FILE, Service, gate_of, here};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 10 }
    descriptors:
      - key: path
        value: /a.b
        rate_limit: { unit: year, requests_per_unit: 2 }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: banned
    rate_limit: { unit: year, requests_per_unit: 0 }
";

/// Total, within, near, over and shadow of each rule, by its labels.
fn counted(page: &str) -> Vec<String> {
    let names = ["total_hits", "within_limit", "near_limit", "over_limit", "shadow_mode"];
    let of = |name: &str| -> Vec<(String, String)> {
        let name = format!("ratelimit_service_rate_limit_{name}{{");
        let lines = page.lines().filter_map(|line| line.strip_prefix(&name));
        let parts = lines.map(|line| line.rsplit_once("} ").unwrap());
        parts.map(|(labels, count)| (labels.to_owned(), count.to_owned())).collect()
    };
    let columns = names.map(of);
    let rows = columns[0].iter().enumerate();
    rows.map(|(row, (labels, _))| {
        let counts: Vec<_> = columns
            .iter()
            .map(|column| {
                assert_eq!(column[row].0, *labels);
                column[row].1.as_str()
            })
            .collect();
        format!("{labels}: {}", counts.join(" "))
    })
    .collect()
}

#[tokio::test]
async fn hits_are_counted_by_rule_under_the_names_of_the_reference() {
    let service = service_with(RULES, |options| options.envoy.metrics = true).await;
    let mut client = service.client().await;
    let page = client.get("/metrics").await.text;
    let rules = [
        r#"domain="shop",key1="banned""#,
        r#"domain="shop",key1="trial""#,
        r#"domain="shop",key1="user""#,
        r#"domain="shop",key1="user",key2="path_/a.b""#,
    ];
    let zero = rules.map(|rule| format!("{rule}: 0 0 0 0 0"));
    assert_eq!(counted(&page), zero, "they are there before a hit");
    let wire = service.wire().await;
    // Seven of ten, then two beyond eight, then two that do not fit.
    for hits in ["7", "3", "2"] {
        wire.summary("shop", &[&format!("{hits} user=1")]).await;
    }
    wire.summary("shop", &["0 user=2", "-1 user=1"]).await;
    wire.summary("shop", &["user=3,path=/a.b", "user=3,path=/a.b", "user=3,path=/c"]).await;
    wire.summary("shop", &["trial=1", "trial=1", "banned=1"]).await;
    wire.summary("other", &["user=1"]).await;
    wire.refused(&request("", &["user=1"])).await;
    let page = client.get("/metrics").await.text;
    let counts = ["1 0 0 1 0", "2 1 1 1 1", "12 10 2 2 0", "2 2 1 0 0"];
    let expected: Vec<_> =
        rules.iter().zip(counts).map(|(rule, counts)| format!("{rule}: {counts}")).collect();
    assert_eq!(counted(&page), expected, "{page}");
    for line in [
        "# TYPE ratelimit_service_rate_limit_total_hits untyped",
        "ratelimit_service_config_load_success 1",
        "ratelimit_service_config_load_error 0",
        r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 8"#,
        r#"ratelimit_service_response_time_seconds_bucket{le="+Inf",grpc_method="ShouldRateLimit"} 8"#,
        r#"ratelimit_service_should_rate_limit_error{err_type="service_error"} 1"#,
        r#"ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0"#,
        r#"tollgate_request_duration_seconds_count{front="grpc"} 8"#,
        r#"tollgate_inline_decisions_total{outcome="banned",authority="policy"} 1"#,
        // The shadow of a rule denies nobody.
        r#"tollgate_inline_decisions_total{outcome="denied",authority="shadow"} 1"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line}: {page}");
    }
}

/// The store's errors are counted whether a failure rule answers or not.
#[tokio::test]
async fn requests_that_the_store_did_not_answer_are_counted() {
    let server = redis_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    for on_failure in ["error", "allow"] {
        let text = format!(
            "domain: {on_failure}\non_failure: {on_failure}\n\
             descriptors: [{{ key: a, rate_limit: {{ unit: day, requests_per_unit: 9 }} }}]\n"
        );
        std::fs::write(folder.path().join(format!("{on_failure}.yaml")), text).unwrap();
    }
    let store = RedisStore::connect(&format!("{}?deadline=10s", server.url())).await.unwrap();
    let service = Service::start_with(gate_of(FILE, AnyStore::from(store)), |options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(folder.path().to_owned());
        options.envoy.metrics = true;
    })
    .await;
    let wire = service.wire().await;
    drop(server);
    let (code, why) = wire.refused(&request("error", &["a=1"])).await;
    assert_eq!(code, tonic::Code::Unavailable, "{why}");
    wire.summary("allow", &["a=1", "a=2"]).await;
    let page = service.client().await.get("/metrics").await.text;
    for line in [
        r#"ratelimit_service_should_rate_limit_error{err_type="service_error"} 0"#,
        r#"ratelimit_service_should_rate_limit_error{err_type="redis_error"} 2"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line}: {page}");
    }
}

#[tokio::test]
async fn nobody_has_them_who_did_not_ask() {
    let page = service().await.client().await.get("/metrics").await.text;
    assert!(page.contains("tollgate_policies") && !page.contains("ratelimit_service"), "{page}");
}
