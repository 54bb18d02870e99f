//! Charges that are given back or raised by the response.

use axum::Router;
use axum::routing::get;
use http::{Response, StatusCode};
use tollgate::Store;
use tollgate_policy::Gate;
use tollgate_redis::RedisStore;
use tollgate_testbed::redis_or_skip;
use tollgate_tower::{Charges, ResponseHead, TollgateLayer};
use tower::{Layer as _, ServiceExt as _};

use crate::common::{from, gate, policies, send};

const POLICY: &str = r#"
    [[policies]]
    name = "p"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "5/h" }]
"#;

/// The service's own report: as a status and a header.
fn app<S: Store + 'static>(layer: TollgateLayer<S>) -> Router {
    let handler = async |headers: http::HeaderMap| {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let status: u16 = text("x-answer").map_or(200, |text| text.parse().unwrap());
        let mut response = Response::new(axum::body::Body::empty());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(rows) = text("x-rows") {
            response.headers_mut().insert("x-rows", rows.parse().unwrap());
        }
        response
    };
    Router::new().route("/", get(handler)).layer(layer)
}

fn rows(response: &ResponseHead<'_>) -> u64 {
    response.headers.get("x-rows").map_or(0, |rows| rows.to_str().unwrap().parse().unwrap())
}

fn charging<S: Store + 'static>(gate: Gate<S>) -> TollgateLayer<S> {
    TollgateLayer::builder(gate)
        .refund_when(|response| response.status.is_server_error())
        .extra_cost(rows)
        .build()
        .unwrap()
}

async fn is_charged_by_the_response<S: Store + 'static>(gate: Gate<S>) {
    let layer = charging(gate);
    let app = app(layer.clone());
    let left = async |headers: &[(&str, &str)]| {
        let seen = send(&app, from("192.0.2.1", headers)).await;
        let limit = seen.header("ratelimit").unwrap().to_owned();
        (seen.status.as_u16(), limit.split(';').nth(1).unwrap().to_owned())
    };
    let is = |status: u16, left: &str| (status, left.to_owned());
    // A handler that failed costs nothing, however often.
    for _ in 0..8 {
        assert_eq!(left(&[("x-answer", "500")]).await, is(500, "r=4"));
    }
    assert_eq!(left(&[("x-answer", "404")]).await, is(404, "r=4"));
    // One, and two more that are known only afterwards.
    assert_eq!(left(&[("x-rows", "2")]).await, is(200, "r=1"));
    // As much as remains: finished work cannot be denied.
    assert_eq!(left(&[("x-rows", "7")]).await, is(200, "r=0"));
    assert_eq!(left(&[]).await.0, 429);
    let Charges { refunded, charged_more, not_refunded, not_charged, .. } = layer.charges();
    assert_eq!((refunded, charged_more, not_refunded, not_charged), (8, 2, 0, 0));
}

#[tokio::test]
async fn in_memory() {
    is_charged_by_the_response(gate(policies(POLICY)).0).await;
}

#[tokio::test]
async fn on_redis() {
    let server = redis_or_skip!();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    is_charged_by_the_response(Gate::new(policies(POLICY), store).unwrap()).await;
}

#[tokio::test]
async fn a_service_that_ends_with_an_error_costs_nothing() {
    let layer = charging(gate(policies(POLICY)).0);
    let broken = tower::service_fn(async |_: http::Request<axum::body::Body>| {
        Err::<Response<axum::body::Body>, &str>("broken")
    });
    let service = layer.layer(broken);
    for _ in 0..9 {
        assert_eq!(service.clone().oneshot(from("192.0.2.1", &[])).await.unwrap_err(), "broken");
    }
    assert_eq!(layer.charges().refunded, 9);
}
