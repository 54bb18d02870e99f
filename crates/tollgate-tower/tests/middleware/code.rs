//! Limits in code: numbers by a function, answers of one's own, names of stacked layers.

use std::fmt;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use tollgate::MemoryStore;
use tollgate_policy::{Entry, OnFailure, Outcome, Policy};
use tollgate_tower::identity::{AddressHeader, ClientAddress, Identity};
use tollgate_tower::{Builder, TollgateLayer};

use tower::ServiceExt as _;

use crate::common::{from, gate, policies, send, status};

/// A program's text for a refusal reaches the client; the text of a handler is left alone.
#[tokio::test]
async fn a_refusal_is_said_as_the_program_wants() {
    let one = "[[policies]]\nname = \"one\"\non_failure = \"deny\"\n\
               limits = [{ subject = \"ip\", limit = \"2/h via gcra\" }]";
    let layer = TollgateLayer::builder(gate(policies(one)).0)
        .on_refused(|outcome, refused, mut response| {
            assert_eq!((outcome, refused.policy), (Outcome::Denied, Some("one")));
            assert_eq!(refused.decision.map(tollgate::Decision::remaining), Some(0));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            let path = refused.request.uri.path().to_owned();
            response.map(|_| Bytes::from(format!("not {path} again")))
        })
        .build()
        .unwrap();
    let own = || async { (StatusCode::TOO_MANY_REQUESTS, "my own").into_response() };
    let app = Router::new().route("/", get(own)).layer(layer);
    let first = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((first.status.as_u16(), first.body.as_str()), (429, "my own"));
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 429);
    let refused = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((refused.status.as_u16(), refused.body.as_str()), (418, "not / again"));
    assert_eq!(refused.header("retry-after"), Some("1800"));
    // A client that speaks gRPC is answered in its own terms.
    let grpc = [("content-type", "application/grpc")];
    let refused = send(&app, from("192.0.2.1", &grpc)).await;
    assert_eq!((refused.status.as_u16(), refused.header("grpc-status")), (200, Some("8")));
}

/// A layer with the limits of tenants, and 2 in an hour for those that have none of their own.
fn tenants(name: &str, store: MemoryStore, on_failure: OnFailure) -> Builder<MemoryStore> {
    // The first event of a place in the code, logged while the first subscriber starts, would
    // switch that place off for good. So somebody listens before any function fails.
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| drop(tracing::subscriber::set_global_default(Log::default())));
    let per_tenant = Entry::new(["field.tenant"], "2/h via gcra").unwrap();
    let policy = Policy::new(name, on_failure).entry(per_tenant.absent("skip").unwrap());
    let layer = TollgateLayer::for_policy(policy, store).unwrap();
    layer.field("tenant", Identity::header("tenant").unwrap()).limits(name, |head| {
        let tenant = head.headers.get("tenant").and_then(|it| it.to_str().ok()).map(str::to_owned);
        async move {
            // As a database would, now and then.
            tokio::task::yield_now().await;
            match tenant.as_deref() {
                Some("big") => Ok(Some("3/h via gcra".parse()?)),
                Some("small") => Ok(Some("1/h via gcra".parse()?)),
                Some("?") => Err("the database is away".into()),
                _ => Ok(None),
            }
        }
    })
}

fn app_of(layer: TollgateLayer<MemoryStore>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

fn by_tenant(on_failure: OnFailure) -> Router {
    app_of(tenants("plan", MemoryStore::new(), on_failure).build().unwrap())
}

/// Each tenant has its own numbers; a tenant without any is not limited.
#[tokio::test]
async fn a_function_gives_the_limits_of_a_request() {
    let app = by_tenant(OnFailure::Deny);
    for (tenant, expected) in
        [("big", 200), ("small", 200), ("small", 429), ("big", 200), ("big", 200), ("big", 429)]
    {
        assert_eq!(status(&app, "192.0.2.1", &[("tenant", tenant)]).await, expected, "{tenant}");
    }
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[("tenant", "new")]).await, expected);
    }
    for _ in 0..5 {
        let seen = send(&app, from("192.0.2.1", &[])).await;
        assert_eq!((seen.status.as_u16(), seen.header("ratelimit")), (200, None));
    }
    let denied = send(&app, from("192.0.2.1", &[("tenant", "small")])).await;
    assert_eq!(denied.header("ratelimit-policy"), Some("\"plan\";q=1;w=3600"));
    assert!(denied.header("retry-after").is_some() && denied.body.contains("plan"), "{denied:?}");
    // The rule decides where the function gives no answer.
    let seen = send(&app, from("192.0.2.1", &[("tenant", "?")])).await;
    assert_eq!((seen.status.as_u16(), seen.header("retry-after")), (503, Some("1")));
    let app = by_tenant(OnFailure::Allow);
    assert_eq!(status(&app, "192.0.2.1", &[("tenant", "?")]).await, 200);
    // With a share the limits of the policy apply instead.
    let app = by_tenant(OnFailure::Local("1/2".parse().unwrap()));
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[("tenant", "?")]).await, expected);
    }
    let builder = tenants("plan", MemoryStore::new(), OnFailure::Deny);
    let error = builder.limits("plam", |_| async { Ok(None) }).build().unwrap_err().to_string();
    assert!(error.contains("no policy has this name") && error.contains("`plan`"), "{error}");
}

/// Layers of different names on one store count one identity separately.
#[tokio::test]
async fn a_name_separates_counts() {
    let (store, deny) = (MemoryStore::new(), OnFailure::Deny);
    let all = tenants("all", store.clone(), deny).build().unwrap();
    let export = tenants("export", store.clone(), deny).build().unwrap();
    let inside = get(|| async { "rows" }).layer(export);
    let app = Router::new().route("/export", inside).route("/", get(|| async { "hello" }));
    let app = app.layer(all);
    let export = || {
        let mut request = from("192.0.2.1", &[("tenant", "big")]);
        *request.uri_mut() = "/export".parse().unwrap();
        request
    };
    assert_eq!(status(&app, "192.0.2.1", &[("tenant", "big")]).await, 200);
    assert_eq!(status(&app, "192.0.2.1", &[("tenant", "big")]).await, 200);
    let seen = send(&app, export()).await;
    let shown = |name: &str| -> Vec<String> {
        let all = seen.headers.get_all(name).iter();
        all.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(seen.status.as_u16(), 200, "{seen:?}");
    assert!(shown("ratelimit")[0].starts_with("\"export\";r=2"), "{seen:?}");
    assert!(shown("ratelimit")[1].starts_with("\"all\";r=0"), "{seen:?}");
    // So do those per client, on any store.
    let layer = |name: &str| {
        TollgateLayer::per_client_builder(name, "1/h via gcra", store.clone(), deny).unwrap()
    };
    let (one, other) = (layer("one").build().unwrap(), layer("other").build().unwrap());
    let again = layer("one").build().unwrap();
    for (layer, expected) in [(one, 200), (other, 200), (again, 429)] {
        assert_eq!(status(&app_of(layer), "192.0.2.1", &[]).await, expected);
    }
}

/// Limits by request have all else that a layer has.
#[tokio::test]
async fn limits_by_request_go_with_every_setting() {
    let layer = tenants("plan", MemoryStore::new(), OnFailure::Deny)
        .client(ClientAddress::behind("10.0.0.0/8".parse().unwrap(), AddressHeader::XForwardedFor))
        .refund_when(|response| response.status == StatusCode::NOT_FOUND)
        .expose(true)
        .on_refused(|outcome, _, mut response| {
            if outcome == Outcome::Denied {
                *response.status_mut() = StatusCode::IM_A_TEAPOT;
            }
            response
        })
        .build()
        .unwrap();
    let routes = Router::new().route("/", get(|| async { "hello" }));
    let app = routes.layer(layer.clone());
    let missing = || {
        let mut request = from("192.0.2.1", &[("tenant", "small")]);
        *request.uri_mut() = "/nowhere".parse().unwrap();
        request
    };
    for _ in 0..3 {
        assert_eq!(send(&app, missing()).await.status.as_u16(), 404);
    }
    assert_eq!(layer.charges().refunded, 3);
    let seen = send(&app, from("192.0.2.1", &[("tenant", "small")])).await;
    assert_eq!(seen.status.as_u16(), 200);
    assert!(seen.headers.contains_key("access-control-expose-headers"), "{seen:?}");
    assert_eq!(send(&app, missing()).await.status.as_u16(), 418);
    // Nobody knows the limits: no denial.
    assert_eq!(status(&app, "192.0.2.1", &[("tenant", "?")]).await, 503);
    let counters = layer.gate().counters().policies();
    let [(name, counters)] = &counters[..] else { panic!("{counters:?}") };
    let total = |outcome| counters.total(outcome);
    assert_eq!((name.as_str(), total(Outcome::Allowed), total(Outcome::Denied)), ("plan", 4, 1));
    assert_eq!(total(Outcome::FailedClosed), 1);
    // Slots by tenant, held for the time of a request.
    let policy = Policy::new("slots", OnFailure::Deny).entry(Entry::new(["ip"], "9/h").unwrap());
    let holding = TollgateLayer::for_policy(policy, MemoryStore::new()).unwrap();
    let slots = holding.limits("slots", |_| async { Ok(Some("1 at once".parse()?)) });
    let app = app_holding(slots.build().unwrap());
    let first = app.clone().oneshot(from("192.0.2.1", &[])).await.unwrap();
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 429);
    drop(first);
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
}

fn app_holding(layer: TollgateLayer<MemoryStore>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer.holding())
}

/// Keeps the messages that are logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        if event.metadata().target() == "tollgate" {
            self.0.lock().unwrap().push(text.0);
        }
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

/// One line when a function begins to fail, and one when it answers again, however many ask.
#[tokio::test]
async fn what_a_function_cannot_say_is_told_once() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let app = by_tenant(OnFailure::Allow);
    for _ in 0..50 {
        assert_eq!(status(&app, "192.0.2.1", &[("tenant", "?")]).await, 200);
    }
    let told = log.0.lock().unwrap().clone();
    let lost =
        "the function that gives limits does not answer, and failure rules do in its place: ";
    assert!(matches!(&told[..], [one] if one.starts_with(lost)), "{told:?}");
    assert!(told[0].ends_with("the database is away"), "{told:?}");
    let begin = Instant::now();
    while log.0.lock().unwrap().len() == 1 {
        let _ = status(&app, "192.0.2.1", &[("tenant", "big")]).await;
        assert!(begin.elapsed() < Duration::from_secs(60), "it is never back");
    }
    let told = log.0.lock().unwrap().clone();
    assert!(
        told[1].starts_with("the function that gives limits answers again, after "),
        "{told:?}"
    );
    assert!(told[1].ends_with(": failure rules let 50 pass and denied 0"), "{told:?}");
}

/// A router that is called without a server has the peer that axum's own mock gives it.
#[tokio::test]
async fn a_router_in_a_test_has_a_peer() {
    let layer = TollgateLayer::per_client("1/h via gcra").unwrap();
    let peer = std::net::SocketAddr::from(([192, 0, 2, 9], 1234));
    let mock = axum::extract::connect_info::MockConnectInfo(peer);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer).layer(mock);
    let request = || http::Request::new(axum::body::Body::empty());
    for expected in [200, 429] {
        assert_eq!(send(&app, request()).await.status.as_u16(), expected);
    }
}

/// The answers name the layer where several are stacked.
#[tokio::test]
async fn stacked_layers_have_names() {
    let inner = TollgateLayer::per_client_named("login", "1/h via gcra").unwrap();
    let outer = TollgateLayer::per_client_named("all", "5/h via gcra").unwrap();
    let app = Router::new().route("/", get(|| async { "in" }).layer(inner)).layer(outer);
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!(denied.status.as_u16(), 429);
    assert!(denied.body.contains("\\\"login\\\"") || denied.body.contains("login"), "{denied:?}");
    let shown: Vec<_> = denied.headers.get_all("ratelimit-policy").iter().collect();
    assert_eq!(shown, ["\"login\";q=1;w=3600", "\"all\";q=5;w=3600"]);
}

/// `main` prints what it returns with `Debug`: it reads as it displays.
#[test]
fn errors_print_as_they_display() {
    let limit = "10/fortnight".parse::<tollgate::LimitSet>().unwrap_err();
    assert_eq!(format!("{limit:?}"), limit.to_string());
    assert_eq!(format!("{:?}", tollgate::Error::from(limit.clone())), limit.to_string());
    let store = tollgate::StoreError::permanent("it is full");
    assert_eq!(format!("{store:?}"), "it is full");
    let file = tollgate_policy::Policies::parse("limits = 5", tollgate_policy::Format::Toml);
    let problems = file.unwrap_err();
    assert_eq!(format!("{problems:?}"), problems.to_string());
    let snapshot = MemoryStore::builder().restore(&b"none"[..]).unwrap_err();
    assert_eq!(format!("{snapshot:?}"), snapshot.to_string());
}
