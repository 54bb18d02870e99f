//! The first gate of a process marks the requests that it decides without an allocation. A separate
//! process with one test, so that the first gate is known.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::Request;
use tollgate::MemoryStore;
use tollgate_policy::{DecisionMark, Gate, Outcome};
use tollgate_tower::TollgateLayer;

#[allow(dead_code, unreachable_pub)] // of the tests of the middleware, which need more of it
#[path = "middleware/common.rs"]
mod common;

use common::{from, policies, send};

type Layer = TollgateLayer<MemoryStore>;

fn limits(limit: &str) -> tollgate_policy::Policies {
    let policy = "[[policies]]\nname = \"ip\"\non_failure = \"deny\"\n";
    policies(&format!("{policy}limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]"))
}

fn layer(limit: &str, store: &MemoryStore) -> Layer {
    TollgateLayer::new(Gate::new(limits(limit), store.clone()).unwrap()).unwrap()
}

fn decisions(layer: &Layer) -> u64 {
    layer
        .gate()
        .counters()
        .policies()
        .iter()
        .map(|(_, counters)| counters.total(Outcome::Allowed))
        .sum()
}

/// How often each of `layers` decides a request that goes through them in this order.
async fn decided(layers: &[&Layer], request: Request<Body>) -> Vec<u64> {
    let before: Vec<u64> = layers.iter().map(|layer| decisions(layer)).collect();
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = layers.iter().rev().fold(app, |app, layer| app.layer((*layer).clone()));
    assert_eq!(send(&app, request).await.status, 200);
    layers.iter().zip(before).map(|(layer, before)| decisions(layer) - before).collect()
}

#[tokio::test]
async fn whoever_was_first_a_request_is_decided_once_by_each() {
    assert_eq!(DecisionMark::first(), None);
    let store = MemoryStore::new();
    let first = layer("900/h", &store);
    let (twin, other) = (layer("900/h", &store), layer("800/h", &store));
    assert_eq!(DecisionMark::first(), Some(first.gate().prepare(&[("ip", "10.0.0.1")]).mark()));
    let request = || from("192.0.2.1", &[]);

    assert_eq!(decided(&[&first], request()).await, [1]);
    // Each counts the acts of the gate, which is the same for a layer that is applied twice.
    assert_eq!(decided(&[&first, &first], request()).await, [1, 1]);
    assert_eq!(decided(&[&twin, &twin], request()).await, [1, 1]);
    assert_eq!(decided(&[&first, &twin], request()).await, [1, 0]);
    assert_eq!(decided(&[&twin, &first], request()).await, [1, 0]);
    assert_eq!(decided(&[&first, &other], request()).await, [1, 1]);
    assert_eq!(decided(&[&other, &first], request()).await, [1, 1]);
    assert_eq!(decided(&[&first, &other, &first, &other], request()).await, [1, 1, 1, 1]);
    assert_eq!(decided(&[&other, &first, &other, &twin], request()).await, [1, 1, 1, 0]);

    // Once a mark is taken off, it is another request.
    for (layer, forgets) in [(&first, false), (&first, true), (&other, false), (&other, true)] {
        let taken = std::sync::Arc::new(std::sync::Mutex::new(None));
        let takes = std::sync::Arc::clone(&taken);
        let handler = get(async move |request: Request<Body>| {
            *takes.lock().unwrap() = Some(request.extensions().clone());
        });
        let app = Router::new().route("/", handler).layer(layer.clone());
        let _ = send(&app, request()).await;
        let mut again = request();
        *again.extensions_mut() = taken.lock().unwrap().take().unwrap();
        if forgets {
            layer.forget(again.extensions_mut());
        }
        assert_eq!(decided(&[layer], again).await, [u64::from(forgets)]);
    }

    // With other policies the first gate is one like any other, and not its twin's.
    first.gate().replace(limits("700/h"));
    assert_eq!(decided(&[&first, &first], request()).await, [1, 1]);
    assert_eq!(decided(&[&first, &twin], request()).await, [1, 1]);
    assert_eq!(decided(&[&twin, &first], request()).await, [1, 1]);
    // With those that it began with it is the first again.
    first.gate().replace(limits("900/h"));
    assert_eq!(decided(&[&first, &twin, &first], request()).await, [1, 0, 1]);
}
