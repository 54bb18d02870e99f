//! Requests that are dropped while the store is asked, as where a client hangs up: the store's
//! charges for them are counted and observed once.

use core::future::{Future as _, poll_fn};
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use http::{HeaderMap, Response, StatusCode};
use tollgate::{Ask, LimitSet, Limiter, ManualClock};
use tollgate_policy::{Authority, Event, Gate, Outcome};
use tollgate_tower::{Charges, TollgateLayer};
use tower::ServiceExt as _;

use crate::common::{from, policies, send};
use crate::holding::away::Away;

/// How long a busy machine may take for a few steps.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMIT: u64 = 1_000;
const POLICIES: &str = r#"
    match = "all"
    [[policies]]
    name = "p"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "1000/h via fixed_window" }]
    [[policies]]
    name = "shadow"
    shadow = true
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "1000/h via fixed_window" }]
"#;

/// A layer over a store that has to be waited for.
struct World {
    store: Away,
    gate: Gate<Away>,
    layer: TollgateLayer<Away>,
    app: Router,
    /// How many answers the observer got, and how many requests the service got.
    observed: Arc<AtomicU64>,
    served: Arc<AtomicU64>,
}

impl World {
    /// The service stops the store before it answers, where a header asks for it.
    fn new() -> Self {
        let store = Away::new(ManualClock::at_micros(1_700_000_000_000_000));
        let [observed, served] = [0, 0].map(|zero| Arc::new(AtomicU64::new(zero)));
        let told = Arc::clone(&observed);
        let observer = move |event: &Event<'_>| {
            told.fetch_add(event.answers, Ordering::Relaxed);
        };
        let gate = Gate::observed(policies(POLICIES), store.clone(), observer).unwrap();
        let layer = TollgateLayer::builder(gate.clone())
            .refund_when(|response| response.status.is_server_error())
            .extra_cost(|response| if response.status == StatusCode::ACCEPTED { 5 } else { 0 })
            .build()
            .unwrap();
        let (stopped, counted) = (store.clone(), Arc::clone(&served));
        let handler = async move |headers: HeaderMap| {
            counted.fetch_add(1, Ordering::Relaxed);
            let status = headers.get("x-answer").map_or("200", |status| status.to_str().unwrap());
            if headers.contains_key("x-stop") {
                stopped.stop();
            }
            let mut response = Response::new(axum::body::Body::empty());
            *response.status_mut() = StatusCode::from_bytes(status.as_bytes()).unwrap();
            response
        };
        let app = Router::new().route("/", get(handler)).layer(layer.clone());
        Self { store, gate, layer, app, observed, served }
    }

    /// Asks, and drops the request while the store is asked.
    async fn drop_one(&self, headers: &[(&str, &str)]) {
        let request = tokio::spawn(self.app.clone().oneshot(from("192.0.2.1", headers)));
        self.store.is_asked().await;
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        self.store.go_on();
    }

    fn allowed(&self, policy: &str, authority: Authority) -> u64 {
        let counters = self.gate.counters().policies();
        let (_, counters) = counters.iter().find(|(name, _)| name == policy).unwrap();
        counters.get(Outcome::Allowed, authority)
    }

    /// The units that the store has charged under a policy.
    async fn charged(&self, policy: &str) -> u64 {
        let limits: LimitSet = "1000/h via fixed_window".parse().unwrap();
        let limiter = Limiter::new(limits.in_policy(policy).unwrap(), self.store.clone());
        LIMIT - limiter.check(Ask::new("ip:192.0.2.1").peek()).await.unwrap().remaining()
    }
}

/// Lets the tasks of the layer run until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_check_is_counted_and_observed_without_its_request() {
    let world = World::new();
    world.store.stop();
    world.drop_one(&[]).await;
    until("both policies are counted", async || {
        world.allowed("p", Authority::Store) == 1 && world.allowed("shadow", Authority::Shadow) == 1
    })
    .await;
    assert_eq!(world.observed.load(Ordering::Relaxed), 2);
    assert_eq!(world.served.load(Ordering::Relaxed), 0);
    assert_eq!((world.charged("p").await, world.charged("shadow").await), (1, 1));
}

/// Whenever a request goes, the charge is counted.
#[tokio::test]
async fn what_is_charged_is_counted_whenever_the_request_goes() {
    let world = World::new();
    for polls in 0..200 {
        let mut request = Box::pin(world.app.clone().oneshot(from("192.0.2.1", &[])));
        for _ in 0..polls % 20 {
            if poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    for (policy, authority) in [("p", Authority::Store), ("shadow", Authority::Shadow)] {
        until("all are counted", async || {
            world.charged(policy).await == world.allowed(policy, authority)
        })
        .await;
    }
    // One more, by which all tasks before it have had their turns.
    send(&world.app, from("192.0.2.1", &[])).await;
    let (p, shadow) = (world.charged("p").await, world.charged("shadow").await);
    assert_eq!(world.allowed("p", Authority::Store), p);
    assert_eq!(world.allowed("shadow", Authority::Shadow), shadow);
    assert_eq!(world.observed.load(Ordering::Relaxed), p + shadow);
    assert!(world.served.load(Ordering::Relaxed) < p, "some went before they were served");
}

#[tokio::test]
async fn a_refund_and_an_extra_charge_are_counted_without_their_request() {
    let world = World::new();
    world.drop_one(&[("x-answer", "500"), ("x-stop", "yes")]).await;
    until("it is refunded", async || world.layer.charges().refunded == 1).await;
    until("all is refunded", async || world.charged("shadow").await == 0).await;
    assert_eq!(world.charged("p").await, 0);
    world.drop_one(&[("x-answer", "202"), ("x-stop", "yes")]).await;
    until("more is charged", async || world.layer.charges().charged_more == 1).await;
    assert_eq!(world.charged("p").await, 6);
    let Charges { not_refunded, not_charged, .. } = world.layer.charges();
    assert_eq!((not_refunded, not_charged), (0, 0));
}
