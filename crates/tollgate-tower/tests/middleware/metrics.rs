//! The page for Prometheus of a program behind a layer.

use std::collections::BTreeMap;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use tollgate::{Cost, MemoryStore};
use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};
use tollgate_tower::TollgateLayer;

use crate::common::{from, send, status};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// The samples of a page, by name and labels, of families that are described.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let (mut family, mut samples) = ("", BTreeMap::new());
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            family = described.split(' ').next().unwrap();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert_eq!(name.split('{').next(), Some(family), "{line}");
        assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line} twice");
    }
    samples
}

#[tokio::test]
async fn the_counters_of_a_layer_are_a_page() {
    let limited = Policy::new("api", OnFailure::Deny).entry(Entry::new(["ip"], "3/h").unwrap());
    let shadow = Policy::new("soon", OnFailure::Allow).entry(Entry::new(["ip"], "1/h").unwrap());
    let unused = Policy::new("unused", OnFailure::Allow).when("path", ["/nowhere"]).unwrap();
    let unused = unused.entry(Entry::new(["ip"], "1/h").unwrap());
    let all = vec![limited.when("path", ["/"]).unwrap(), shadow.shadow(), unused];
    let gate = Gate::new(Policies::new(Combine::All, all).unwrap(), MemoryStore::new()).unwrap();
    let layer = TollgateLayer::builder(gate)
        .refund_when(|response| response.status == StatusCode::IM_A_TEAPOT)
        .extra_cost(|_| Cost::from(1))
        .build()
        .unwrap();
    let tea = get(async || StatusCode::IM_A_TEAPOT);
    let app = Router::new().route("/", get(async || "hello")).route("/tea", tea);
    let app = app.layer(layer.clone());
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, expected);
    }
    let mut tea = from("192.0.2.2", &[]);
    *tea.uri_mut() = "/tea".parse().unwrap();
    assert_eq!(send(&app, tea).await.status.as_u16(), 418);
    let page = layer.metrics().to_string();
    let samples = samples(&page);
    let decisions = |policy: &str, outcome: &str, authority: &str| {
        let labels = [("policy", policy), ("outcome", outcome), ("authority", authority)];
        let labels = labels.map(|(name, value)| format!("{name}=\"{value}\"")).join(",");
        samples.get(&format!("tollgate_decisions_total{{{labels}}}")).copied()
    };
    assert_eq!(decisions("api", "allowed", "store"), Some(2.0), "{page}");
    assert_eq!(decisions("api", "denied", "store"), Some(1.0), "{page}");
    assert_eq!(decisions("soon", "denied", "shadow"), Some(1.0), "{page}");
    assert!(!page.contains("unused"), "{page}");
    let charges =
        |result: &str| samples[&format!("tollgate_layer_charges_total{{result=\"{result}\"}}")];
    assert_eq!((charges("charged_more"), charges("refunded")), (2.0, 0.0), "{page}");
    assert_eq!(samples["tollgate_layer_timed_requests_total"], 1.0);
    assert!(samples["tollgate_layer_request_seconds_total"] > 0.0);
    for name in samples.keys() {
        let name = name.split('{').next().unwrap();
        assert!(PAGE.contains(&format!("`{name}`")), "the page does not describe {name}");
    }
}
