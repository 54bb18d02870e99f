//! Slots for the time of a request: when they are taken, renewed and given back.

use std::convert::Infallible;
use std::future::Future as _;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tollgate::{ManualClock, Store};
use tollgate_policy::Gate;
use tollgate_tower::{HoldingBody, HoldingLayer, Holds, TollgateLayer};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::common::{from, gate, policies, send};

pub(crate) mod away;
mod reserve;
mod server;

use away::Away;

/// How long a busy machine may take for a few steps.
const PATIENCE: Duration = Duration::from_secs(20);

const SLOTS: &str = r#"
    [[policies]]
    name = "p"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "2 at once hold 9s" }]
"#;

fn layer<S: Store + 'static>(gate: Gate<S>) -> HoldingLayer<S> {
    TollgateLayer::new(gate).unwrap().holding()
}

/// The gate of [`SLOTS`] over a store that has to be waited for.
fn away(toml: &str) -> (Gate<Away>, Away, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = Away::new(clock.clone());
    (Gate::new(policies(toml), store.clone()).unwrap(), store, clock)
}

fn served<S: Store + 'static>(layer: HoldingLayer<S>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

async fn ask(app: &Router) -> Response<Body> {
    let request = from("192.0.2.1", &[]);
    app.clone().oneshot(request).await.unwrap_or_else(|e: Infallible| match e {})
}

/// Lets the tasks of the layer run until this many holds were settled.
async fn settled<S: Store>(gate: &Gate<S>, holds: u64) {
    let began = std::time::Instant::now();
    while gate.counters().holds.settled() < holds {
        assert!(began.elapsed() < PATIENCE, "{:?}", gate.counters().holds);
        tokio::task::yield_now().await;
    }
    assert_eq!(gate.counters().holds.settled(), holds);
}

async fn slots_end_with_bodies<S: Store + 'static>(gate: Gate<S>) {
    let app = served(layer(gate.clone()));
    let (one, two) = (ask(&app).await, ask(&app).await);
    assert_eq!([one.status(), two.status()], [200, 200]);
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains("ask again when some have ended"), "{}", denied.body);
    assert!(denied.body.contains(r#""violated-policies":["p"]"#), "{}", denied.body);
    // Another client has separate slots.
    assert_eq!(send(&app, from("192.0.2.2", &[])).await.status, 200);
    settled(&gate, 1).await;
    // One is read to its end, the other is dropped.
    assert_eq!(one.into_body().collect().await.unwrap().to_bytes(), "hello");
    settled(&gate, 2).await;
    assert_eq!(ask(&app).await.status(), 200);
    drop(two);
    settled(&gate, 4).await;
    assert_eq!(gate.counters().holds.not_open(), 0);
}

#[tokio::test]
async fn slots_end_with_the_bodies_of_responses() {
    slots_end_with_bodies(gate(policies(SLOTS)).0).await;
    slots_end_with_bodies(away(SLOTS).0).await;
}

/// A client that has read the last frame finds the slot free, where the store answers immediately.
#[tokio::test]
async fn the_slot_is_free_before_the_last_frame_is_passed_on() {
    let (gate, _) = gate(policies(&SLOTS.replace("2 at once", "1 at once")));
    let app = served(layer(gate.clone()));
    for served in 1..=9 {
        let mut response = ask(&app).await;
        assert_eq!(response.status(), 200);
        assert!(response.body_mut().frame().await.unwrap().is_ok());
        assert_eq!(gate.counters().holds.settled(), served);
    }
}

#[tokio::test]
async fn a_denial_that_waits_for_a_slot_has_no_retry_after() {
    for any in [false, true] {
        let (gate, _) = gate(policies(SLOTS));
        let layer = TollgateLayer::builder(gate).retry_after_any(any).build().unwrap().holding();
        let app = served(layer);
        let _open = (ask(&app).await, ask(&app).await);
        for headers in [&[][..], &[("content-type", "application/grpc")]] {
            let denied = send(&app, from("192.0.2.1", headers)).await;
            match headers {
                [] => assert_eq!(denied.header("retry-after"), any.then_some("9")),
                _ => assert_eq!(denied.header("grpc-status-details-bin").is_some(), any),
            }
        }
    }
    // A rate says when, also beside slots.
    let (gate, _) = gate(policies(&SLOTS.replace("2 at once", "1/h, 2 at once")));
    let app = served(layer(gate));
    assert_eq!(send(&app, from("192.0.2.1", &[])).await.status, 200);
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (429, Some("3600")));
}

/// A store that answers too late may have placed what was asked for, also while it fails further.
#[tokio::test(start_paused = true)]
async fn a_slot_that_a_late_store_has_taken_is_given_back() {
    let (gate, store, _clock) = away(SLOTS);
    let layer = layer(gate.clone());
    let app = served(layer.clone());
    store.is_late(2);
    store.fail(3);
    for _ in 0..2 {
        let said = send(&app, from("192.0.2.1", &[])).await;
        assert_eq!(said.status, 503, "{}", said.body);
    }
    for _ in 0..60 {
        // The slots last: their clock does not move.
        tokio::time::advance(SECOND / 10).await;
        tokio::task::yield_now().await;
    }
    settled(&gate, 2).await;
    assert_eq!(store.failures(), 0);
    let both = (ask(&app).await, ask(&app).await);
    assert_eq!([both.0.status(), both.1.status()], [200, 200]);
    assert_eq!(layer.holds(), Holds::default());
}

#[tokio::test]
async fn a_service_that_fails_gives_its_slot_back() {
    async fn fails<S: Store + 'static>(gate: Gate<S>) {
        let broken = tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("broken"));
        let service = layer(gate.clone()).layer(broken);
        for failed in 1..=5 {
            let request = from("192.0.2.1", &[]);
            assert_eq!(service.clone().oneshot(request).await.unwrap_err(), "broken");
            settled(&gate, failed).await;
        }
    }
    fails(gate(policies(SLOTS)).0).await;
    fails(away(SLOTS).0).await;
}

/// A response that the test ends.
fn slow(layer: HoldingLayer<impl Store + 'static>) -> (Router, Arc<Semaphore>) {
    let gates = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gates);
    let handler = get(async move || {
        waits.acquire().await.unwrap().forget();
        "done"
    });
    (Router::new().route("/", handler).layer(layer), gates)
}

#[tokio::test]
async fn a_dropped_request_gives_its_slot_back() {
    async fn dropped<S: Store + 'static>(gate: Gate<S>) {
        let (app, _gates) = slow(layer(gate.clone()));
        for ended in 1..=5 {
            let mut request = Box::pin(app.clone().oneshot(from("192.0.2.1", &[])));
            let placed = || gate.counters().holds.placed(tollgate::HoldKind::Acquire);
            while placed() < ended {
                let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                tokio::task::yield_now().await;
            }
            drop(request);
            settled(&gate, ended).await;
        }
    }
    dropped(gate(policies(SLOTS)).0).await;
    dropped(away(SLOTS).0).await;
}

/// The answer of the store comes when nobody waits for it any more.
#[tokio::test]
async fn a_request_that_is_dropped_while_the_store_is_asked_leaks_no_slot() {
    let (gate, store, _) = away(SLOTS);
    let app = served(layer(gate.clone()));
    for ended in 1..=5 {
        store.stop();
        let mut request = Box::pin(app.clone().oneshot(from("192.0.2.1", &[])));
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        store.is_asked().await;
        assert_eq!(gate.counters().holds.placed(tollgate::HoldKind::Acquire), ended - 1);
        drop(request);
        store.go_on();
        settled(&gate, ended).await;
    }
}

/// Lets time go by for the store and the timers.
async fn pass(clock: &ManualClock, time: Duration) {
    clock.advance(time);
    tokio::time::advance(time).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

async fn renews<S: Store + 'static>(gate: Gate<S>, clock: ManualClock) {
    let layer = layer(gate.clone());
    let (app, gates) = slow(layer.clone());
    let both: [_; 2] = core::array::from_fn(|_| {
        let app = app.clone();
        tokio::spawn(async move { ask(&app).await })
    });
    // Ten times as long as a hold lasts, and the two slots are still taken.
    for _ in 0..90 {
        pass(&clock, SECOND).await;
    }
    assert_eq!(ask(&app).await.status(), 429);
    gates.add_permits(2);
    for response in both {
        assert_eq!(response.await.unwrap().status(), 200);
    }
    settled(&gate, 2).await;
    let holds = gate.counters().holds;
    assert!((50..=60).contains(&holds.renewed()), "{holds:?}");
    assert_eq!(holds.not_open(), 0);
    assert_eq!(layer.holds(), Holds::default());
    // Nothing renews what has ended.
    let before = holds.renewed();
    for _ in 0..20 {
        pass(&clock, SECOND).await;
    }
    assert_eq!(holds.renewed(), before);
}

#[tokio::test(start_paused = true)]
async fn a_long_request_keeps_its_slot() {
    let (gate, clock) = gate(policies(SLOTS));
    renews(gate, clock).await;
    let (gate, _, clock) = away(SLOTS);
    renews(gate, clock).await;
}

/// It goes on: its work cannot be undone. The number of lost holds says that it happened.
#[tokio::test(start_paused = true)]
async fn a_request_whose_slot_is_lost_goes_on_and_is_counted() {
    async fn loses<S: Store + Clone + 'static>(gate: Gate<S>, clock: ManualClock) {
        let layer = layer(gate.clone());
        let (app, gates) = slow(layer.clone());
        let request = tokio::spawn({
            let app = app.clone();
            async move { ask(&app).await }
        });
        pass(&clock, SECOND).await;
        let limits = "2 at once hold 9s".parse::<tollgate::LimitSet>().unwrap();
        let limits = limits.in_policy("p").unwrap();
        let limiter = tollgate::Limiter::new(limits, gate.store().clone());
        assert!(limiter.admin().reset("ip:192.0.2.1").await.unwrap());
        for _ in 0..9 {
            pass(&clock, SECOND).await;
        }
        assert_eq!(layer.holds().lost, 1);
        gates.add_permits(1);
        assert_eq!(request.await.unwrap().status(), 200);
        assert_eq!(gate.counters().holds.settled(), 0);
    }
    let (first, clock) = gate(policies(SLOTS));
    loses(first, clock).await;
    let (second, _, clock) = away(SLOTS);
    loses(second, clock).await;
}

/// A store that fails for a while: renewals and releases are tried again.
#[tokio::test(start_paused = true)]
async fn a_release_is_tried_again_until_the_store_is_back() {
    let (gate, store, clock) = away(SLOTS);
    let layer = layer(gate.clone());
    let (app, gates) = slow(layer.clone());
    let request = tokio::spawn(async move { ask(&app).await });
    pass(&clock, SECOND).await;
    store.fail(6);
    gates.add_permits(1);
    drop(request.await.unwrap());
    for _ in 0..70 {
        pass(&clock, SECOND / 10).await;
    }
    settled(&gate, 1).await;
    assert_eq!((store.failures(), layer.holds()), (0, Holds::default()));
}

/// A layer that only checks never takes a slot, and one that holds only checks rates.
#[tokio::test]
async fn layers_differ_in_slots_alone() {
    let (checks, _) = gate(policies(SLOTS));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(TollgateLayer::new(checks).unwrap());
    assert_eq!(send(&app, from("192.0.2.1", &[])).await.status, 503);
    let (rates, _) = gate(policies(&SLOTS.replace("2 at once hold 9s", "2/h")));
    let app = served(layer(rates.clone()));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = send(&app, from("192.0.2.1", &[])).await;
        seen.push((answer.status.as_u16(), answer.header("ratelimit").unwrap().to_owned()));
    }
    assert_eq!([seen[0].0, seen[1].0, seen[2].0], [200, 200, 429]);
    assert_eq!(seen[0].1, "\"p\";r=1;t=3600");
    assert_eq!(rates.counters().holds.settled(), 0);
}

/// A request that meets the same limits twice takes one slot.
#[tokio::test]
async fn a_request_takes_its_slot_once() {
    let (gate, _) = gate(policies(&SLOTS.replace("2 at once", "1 at once")));
    let layer = layer(gate.clone());
    let inner = Router::new().route("/", get(|| async { "hello" })).layer(layer.clone());
    let app = inner.layer(layer);
    for _ in 0..3 {
        assert_eq!(send(&app, from("192.0.2.1", &[])).await.status, 200);
    }
    assert_eq!(gate.counters().holds.settled(), 3);
}

/// Refusals of any kind have bodies too, and hold nothing.
#[tokio::test]
async fn malformed_requests_are_refused() {
    let slots = SLOTS.replace("\"ip\"", "\"header.x-key\", absent = \"deny\"");
    let (gate, _) = gate(policies(&slots));
    let app = served(layer(gate.clone()));
    let answer = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("x-key"), "{}", answer.body);
    let twice = from("192.0.2.1", &[("x-key", "a"), ("x-key", "b")]);
    assert_eq!(send(&app, twice).await.status, 400);
    assert_eq!(gate.counters().holds.placed(tollgate::HoldKind::Acquire), 0);
}

/// The service that was found ready is the one that is called.
#[tokio::test]
async fn the_ready_service_is_called_and_not_its_clone() {
    let (gate, _) = gate(policies(SLOTS));
    let inner = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("hello")))
    });
    let mut service = layer(gate).layer(tower::limit::ConcurrencyLimit::new(inner, 1));
    let first: HoldingBody<Body> =
        service.ready().await.unwrap().call(from("192.0.2.1", &[])).await.unwrap().into_body();
    assert!(format!("{first:?}").contains("holds: true"));
    let second = service.ready().await.unwrap().call(from("192.0.2.1", &[])).await.unwrap();
    assert_eq!(second.status(), 200);
}
