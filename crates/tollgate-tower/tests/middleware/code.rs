//! Limits in code: numbers by a function, answers of one's own, names of stacked layers.

use std::fmt;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use tollgate::{MemoryStore, Subject};
use tollgate_policy::{OnFailure, Outcome};
use tollgate_tower::{RequestLimits, RequestLimitsLayer, TollgateLayer};

use crate::common::{from, gate, policies, send, status};

/// A program's text for a refusal reaches the client; the text of a handler is left alone.
#[tokio::test]
async fn a_refusal_is_said_as_the_program_wants() {
    let one = "[[policies]]\nname = \"one\"\non_failure = \"deny\"\n\
               limits = [{ subject = \"ip\", limit = \"2/h via gcra\" }]";
    let layer = TollgateLayer::builder(gate(policies(one)).0)
        .on_refused(|refused, mut response| {
            assert_eq!((refused.outcome, refused.policy), (Outcome::Denied, Some("one")));
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

fn by_tenant(on_failure: OnFailure) -> Router {
    // The first event of a place in the code, logged while the first subscriber starts, would
    // switch that place off for good. So somebody listens before any function fails.
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| drop(tracing::subscriber::set_global_default(Log::default())));
    let layer = RequestLimitsLayer::new("plan", MemoryStore::new(), on_failure, |head| {
        let tenant = head.headers.get("tenant").and_then(|it| it.to_str().ok()).map(str::to_owned);
        async move {
            let Some(tenant) = tenant else { return Ok(None) };
            let limits = match tenant.as_str() {
                "big" => "3/h via gcra",
                "small" => "1/h via gcra",
                _ => return Err("the database is away".into()),
            };
            let subject = Subject::new("tenant", &tenant)?;
            Ok(Some(RequestLimits::new(subject, limits.parse()?).cost(1)))
        }
    });
    Router::new().route("/", get(|| async { "hello" })).layer(layer.unwrap())
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
    let nameless =
        RequestLimitsLayer::new("", MemoryStore::new(), OnFailure::Deny, |_| async { Ok(None) });
    assert!(nameless.is_err());
    let share = OnFailure::Local("1/4".parse().unwrap());
    let none = RequestLimitsLayer::new("p", MemoryStore::new(), share, |_| async { Ok(None) });
    let told = none.err().unwrap().to_string();
    assert!(told.contains("limits by request have no local share"), "{told}");
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
