//! The answer to a request: by its path and headers, to malformed ones, and to cancelled ones.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{HeaderValue, Request, Response, StatusCode};
use tollgate::operation::Operation;
use tollgate::{Around, Limiter, MemoryStore, Store, StoreError};
use tollgate_policy::{Authority, Combine, Entry, Gate, OnFailure, Outcome, Policies, Policy};
use tollgate_tower::answer::{Profile, Reset};
use tollgate_tower::identity::{ApiKey, Hashing, Identity};
use tollgate_tower::{AnyBodyLayer, Builder, TollgateLayer};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::common::{from, gate, policies, send, status};

mod headers;
mod malformed;

fn builder(toml: &str) -> Builder<MemoryStore> {
    TollgateLayer::builder(gate(policies(toml)).0)
}

fn served(layer: TollgateLayer<MemoryStore>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

/// A policy with these lines.
fn policy(lines: &str) -> String {
    format!("[[policies]]\nname = \"p\"\non_failure = \"deny\"\n{lines}")
}

#[tokio::test]
async fn ten_lines_are_enough() {
    let app = served(TollgateLayer::per_client("2/h").unwrap());
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, expected);
    }
    // One /64 is one client, and IPv4 in IPv6 is the IPv4 address.
    assert_eq!(status(&app, "::ffff:192.0.2.1", &[]).await, 429);
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "2001:db8::1", &[]).await, expected);
    }
    assert_eq!(status(&app, "2001:db8::2", &[]).await, 429);
    assert_eq!(status(&app, "2001:db8:0:1::1", &[]).await, 200);
    let wrong = TollgateLayer::per_client("2/fortnight").unwrap_err();
    assert!(wrong.to_string().contains("fortnight"), "{wrong}");
}

#[tokio::test]
async fn routes_share_one_limiter() {
    let layer = TollgateLayer::per_client("3/h").unwrap();
    let app = Router::new()
        .route("/", get(|| async { "hello" }).layer(layer.clone()))
        .nest("/api", Router::new().route("/", get(|| async { "api" })).layer(layer));
    let ask = async |path: &str| {
        let mut request = from("192.0.2.1", &[]);
        *request.uri_mut() = path.parse().unwrap();
        send(&app, request).await.status.as_u16()
    };
    assert_eq!(
        [ask("/").await, ask("/api").await, ask("/").await, ask("/api").await],
        [200, 200, 200, 429]
    );
}

#[tokio::test]
async fn identities_are_made_of_routes_and_whole_paths() {
    let lines = r#"limits = [
        { subject = "field.route", limit = "1/h", absent = "deny" },
        { subject = "field.path", limit = "1/h", absent = "deny" },
    ]"#;
    let layer = builder(&policy(lines))
        .field("route", Identity::route())
        .field("path", Identity::path(tollgate_tower::identity::Case::Keep))
        .build()
        .unwrap();
    let inner = || Router::new().route("/{item}", get(|| async { "item" })).layer(layer.clone());
    let app = Router::new().nest("/a", inner()).nest("/b", inner());
    let ask = async |path: &str| {
        let mut request = from("192.0.2.1", &[]);
        *request.uri_mut() = path.parse().unwrap();
        send(&app, request).await
    };
    assert_eq!(ask("/a/1").await.status, 200);
    // Another route, and another path though the rest of it is the same.
    assert_eq!(ask("/b/1").await.status, 200);
    let denied = ask("/a/2").await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains(r#"["p/field.route"]"#), "{}", denied.body);
}

#[tokio::test]
async fn identities_see_the_route_that_a_function_tells() {
    #[derive(Clone)]
    struct Template(&'static str);

    let limits = r#"limits = [{ subject = "field.route", limit = "1/h", absent = "deny" }]"#;
    let layer = builder(&policy(limits))
        .route(|extensions| extensions.get::<Template>().map(|template| template.0.to_owned()))
        .field("route", Identity::route())
        .build()
        .unwrap();
    let app = served(layer);
    let ask = async |template: Option<&'static str>| {
        let mut request = from("192.0.2.1", &[]);
        if let Some(template) = template {
            request.extensions_mut().insert(Template(template));
        }
        send(&app, request).await.status
    };
    assert_eq!(ask(Some("/users/{id}")).await, 200);
    assert_eq!(ask(Some("/items/{id}")).await, 200);
    assert_eq!(ask(Some("/users/{id}")).await, 429);
    // Not the route of axum, which is there: the function says that there is none.
    assert_eq!(ask(None).await, 400);
}

#[tokio::test]
async fn a_handler_that_asks_again_can_be_counted_again() {
    let layer = TollgateLayer::per_client("3/h").unwrap();
    let inner = Router::new().route("/", get(|| async { "hello" })).layer(layer.clone());
    let batch = {
        let (inner, layer) = (inner.clone(), layer.clone());
        get(async move |request: Request<Body>| {
            let mut statuses = Vec::new();
            for _ in 0..3 {
                let mut sub = Request::get("/").body(Body::empty()).unwrap();
                *sub.extensions_mut() = request.extensions().clone();
                layer.forget(sub.extensions_mut());
                statuses.push(send(&inner, sub).await.status.as_u16());
            }
            format!("{statuses:?}")
        })
    };
    let app = Router::new().route("/batch", batch).layer(layer);
    let mut request = from("192.0.2.1", &[]);
    *request.uri_mut() = "/batch".parse().unwrap();
    assert_eq!(send(&app, request).await.body, "[200, 200, 429]");
}

/// A store that has to be waited for, with the counts of one that has not.
#[derive(Clone)]
struct Waits(MemoryStore, Arc<AtomicU64>);

impl Around for Waits {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        if operation.question().is_some() {
            tokio::task::yield_now().await;
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        self.0.perform(operation).await
    }
}

fn waiting() -> (TollgateLayer<Waits>, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let limits = policies(&policy("limits = [{ subject = \"ip\", limit = \"2/h\" }]"));
    let gate = Gate::new(limits, Waits(MemoryStore::new(), Arc::clone(&asked))).unwrap();
    (TollgateLayer::new(gate).unwrap(), asked)
}

#[tokio::test]
async fn dropped_while_the_store_is_asked_it_is_charged_all_the_same() {
    let (layer, asked) = waiting();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let mut dropped = Box::pin(app.clone().oneshot(from("192.0.2.1", &[])));
    assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(dropped);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    for expected in [200, 429, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, expected);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

/// The service that was found ready is the one that is called, also after the store was waited for.
#[tokio::test]
async fn the_ready_service_is_called_and_not_its_clone() {
    struct Ready(bool);
    impl Clone for Ready {
        fn clone(&self) -> Self {
            Self(false)
        }
    }
    impl tower::Service<Request<Body>> for Ready {
        type Response = Response<Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            self.0 = true;
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<Body>) -> Self::Future {
            assert!(self.0, "called though it was not ready");
            std::future::ready(Ok(Response::new(Body::empty())))
        }
    }
    let mut service = waiting().0.layer(Ready(false));
    let response = service.ready().await.unwrap().call(from("192.0.2.1", &[])).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn each_refusal_has_its_status() {
    let limits = r#"
        cost = { from = "header.x-weight", max = 5, otherwise = "deny" }
        [[policies.limits]]
        subject = "api_key"
        limit = "3/h"
        absent = "deny"
        overrides = [{ when = { header.x-plan = "none" }, limit = "banned" }]
    "#;
    let hashing = Hashing::keyed(b"a secret of 20 bytes").unwrap();
    let key = Identity::api_key(ApiKey::bearer(hashing));
    let app = served(builder(&policy(limits)).api_key(key).build().unwrap());
    let bearer = ("authorization", "Bearer k-1");
    for (headers, status, says) in [
        (&[bearer, ("x-weight", "3")][..], 200, "hello"),
        (&[bearer, ("x-weight", "1")], 429, "Ask again in"),
        (&[bearer, ("x-weight", "4")], 422, "costs more than 3"),
        (&[bearer, ("x-weight", "6")], 422, "costs more than 5"),
        (&[bearer], 400, "the header `x-weight` is missing"),
        (
            &[bearer, ("x-weight", "lots")],
            400,
            "the header `x-weight` is not a whole number from 1",
        ),
        (&[("x-weight", "1")], 401, "the bearer key is missing"),
        (&[bearer, ("x-weight", "1"), ("x-plan", "none")], 403, "banned"),
    ] {
        let seen = send(&app, from("192.0.2.1", headers)).await;
        assert_eq!(seen.status.as_u16(), status, "{}", seen.body);
        assert!(seen.body.contains(says), "{says}: {}", seen.body);
        assert_eq!(seen.header("retry-after").is_some(), status == 429, "{says}");
        if status != 200 {
            assert_eq!(seen.header("content-type"), Some("application/problem+json"));
            serde_json::from_str::<serde_json::Value>(&seen.body).unwrap();
        }
    }
}

#[tokio::test]
async fn profiles_choose_the_headers() {
    let limits = "limits = [{ subject = \"ip\", limit = \"5/h via gcra\" }]";
    for (profile, names) in [
        (Profile::Draft, &["ratelimit-policy", "ratelimit"][..]),
        (
            Profile::Legacy(Reset::Delta),
            &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
        ),
        (Profile::None, &[]),
    ] {
        let layer = builder(&policy(limits)).profile(profile).expose(true).build().unwrap();
        let seen = send(&served(layer), from("192.0.2.1", &[])).await;
        let all = [
            "ratelimit-policy",
            "ratelimit",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        for name in all {
            assert_eq!(seen.header(name).is_some(), names.contains(&name), "{profile:?} {name}");
        }
        assert!(seen.header("access-control-expose-headers").unwrap().contains("Retry-After"));
        assert_eq!(seen.header("tollgate-revision"), None);
    }
}

#[tokio::test]
async fn routes_hosts_and_paths_are_told_in_one_form() {
    let toml = r#"
        match = "first"
        [[policies]]
        name = "route"
        on_failure = "deny"
        when = { host = "a.example", path = "/users/*" }
        limits = [{ subject = ["ip", "route"], limit = "2/h", absent = "deny" }]
        [[policies]]
        name = "rest"
        on_failure = "deny"
        limits = [{ subject = "host", limit = "1/h" }]
    "#;
    let users = Router::new().route("/{id}", get(|| async { "user" }));
    let app = Router::new()
        .nest("/users", users)
        .route("/", get(|| async { "hello" }))
        .layer(builder(toml).build().unwrap());
    let ask = async |host: &str, path: &str| {
        let mut request = from("192.0.2.1", &[("host", host)]);
        *request.uri_mut() = path.parse().unwrap();
        send(&app, request).await.status.as_u16()
    };
    // Any path of the route, any way to write the host, is one count.
    assert_eq!(ask("a.example", "/users/1").await, 200);
    assert_eq!(ask("A.Example.:8080", "/users/2").await, 200);
    assert_eq!(ask("a.example", "/users/3").await, 429);
    assert_eq!(ask("b.example", "/").await, 200);
    assert_eq!(ask("B.EXAMPLE:80", "/").await, 429);
    assert_eq!(ask("b.example.", "/").await, 429);
}

#[tokio::test]
async fn what_no_policy_limits_goes_through_unmarked() {
    let limits = "when = { method = \"POST\" }\nlimits = [{ subject = \"ip\", limit = \"1/h\" }]";
    let layer = builder(&policy(limits)).build().unwrap();
    let app = served(layer.clone());
    for _ in 0..3 {
        let seen = send(&app, from("192.0.2.1", &[])).await;
        assert_eq!((seen.status.as_u16(), seen.header("ratelimit")), (200, None));
    }
    assert_eq!(layer.gate().counters().unmatched.total(Outcome::NoPolicy), 3);
}

#[tokio::test]
async fn a_request_of_grpc_gets_a_status_of_grpc() {
    let app = served(TollgateLayer::per_client("1/h").unwrap());
    let grpc = [("content-type", "application/grpc+proto")];
    assert_eq!(send(&app, from("192.0.2.1", &grpc)).await.header("grpc-status"), None);
    let denied = send(&app, from("192.0.2.1", &grpc)).await;
    assert_eq!((denied.status.as_u16(), denied.header("grpc-status")), (200, Some("8")));
    assert!(denied.header("grpc-status-details-bin").is_some());
    assert_eq!(denied.body, "");
}

/// A refused request never reaches the service; a dropped one was charged or was not, and nothing
/// else happens.
#[tokio::test]
async fn a_dropped_request_is_charged_once_and_leaves_nothing_behind() {
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let inner = tower::service_fn(move |_: Request<Body>| {
        seen.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
        }
    });
    let layer = TollgateLayer::per_client("3/h").unwrap();
    let mut service = layer.layer(inner);
    // Dropped before it was polled, after one poll, and run to its end.
    drop(service.ready().await.unwrap().call(from("192.0.2.1", &[])));
    let mut once = Box::pin(service.ready().await.unwrap().call(from("192.0.2.1", &[])));
    assert!(once.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(once);
    let last = service.ready().await.unwrap().call(from("192.0.2.1", &[])).await.unwrap();
    assert_eq!(last.headers()["ratelimit"].to_str().unwrap().split(';').nth(1), Some("r=0"));
    let denied = service.ready().await.unwrap().call(from("192.0.2.1", &[])).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    let all = layer.gate().counters().policies();
    assert_eq!(all[0].1.get(Outcome::Allowed, Authority::Store), 3);
}

async fn slow() {
    tokio::time::sleep(std::time::Duration::from_millis(5)).await; // tidy: sleep-ok the work
}

#[tokio::test]
async fn the_share_of_the_time_is_measured() {
    let layer = TollgateLayer::per_client("1000/h").unwrap();
    assert_eq!((layer.share().timed, layer.share().ratio()), (0, None));
    let app = Router::new().route("/", get(slow)).layer(layer.clone());
    for _ in 0..128 {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    }
    let share = layer.share();
    assert_eq!(share.timed, 2);
    assert!(share.whole >= std::time::Duration::from_millis(10), "{share:?}");
    assert!(share.limiting > std::time::Duration::ZERO && share.limiting < share.whole);
    assert!(share.ratio().unwrap() < 1.0);
}

#[tokio::test]
async fn charging_by_the_response_is_limiting_too() {
    let wait = std::time::Duration::from_millis(5);
    let layer = builder(&policy("limits = [{ subject = \"ip\", limit = \"9/h\" }]"))
        .extra_cost(move |_| {
            let began = std::time::Instant::now();
            while began.elapsed() < wait {}
            1
        })
        .build()
        .unwrap();
    assert_eq!(status(&served(layer.clone()), "192.0.2.1", &[]).await, 200);
    assert!(layer.share().limiting >= wait, "{:?}", layer.share());
}

/// The path in a nested router is still the one that the client asked for.
#[tokio::test]
async fn the_whole_path_counts_in_nested_routers() {
    let lines =
        "when = { path = \"/api/items\" }\nlimits = [{ subject = \"ip\", limit = \"1/h\" }]";
    let inner = Router::new()
        .route("/items", get(|| async { "items" }))
        .route("/other", get(|| async { "other" }))
        .layer(builder(&policy(lines)).build().unwrap());
    let app = Router::new().nest("/api", inner);
    let ask = async |path: &str| {
        let mut request = from("192.0.2.1", &[]);
        *request.uri_mut() = path.parse().unwrap();
        send(&app, request).await.status.as_u16()
    };
    let got = [ask("/api/items").await, ask("/api/other").await, ask("/api/items").await];
    assert_eq!(got, [200, 200, 429]);
}

/// By code, without a file; and the counts of a library's own limiter are not those of a policy.
#[tokio::test]
async fn policies_by_code_are_the_same() {
    let policy = Policy::new("code", OnFailure::Deny)
        .when("method", ["GET"])
        .unwrap()
        .entry(Entry::new(["header.x-user"], "2/h").unwrap().absent("ip").unwrap());
    let store = MemoryStore::new();
    let policies = Policies::new(Combine::First, vec![policy]).unwrap();
    let app = served(TollgateLayer::new(Gate::new(policies, store.clone()).unwrap()).unwrap());
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[("x-user", "ann")]).await, expected);
    }
    let limiter = Limiter::new("2/h".parse().unwrap(), store);
    assert_eq!(limiter.check("header.x-user:ann").now().unwrap().remaining(), 1);
}

/// Bodies of tonic cannot be made of bytes: behind an `AnyBodyLayer` they need not.
#[tokio::test]
async fn any_body_goes_through_and_a_refusal_has_its_own() {
    let inner = tower::service_fn(async |_: Request<Body>| {
        let body = tonic::body::Body::new(http_body_util::Full::from("from tonic"));
        Ok::<_, std::convert::Infallible>(Response::new(body))
    });
    let service = tower::ServiceBuilder::new()
        .layer(TollgateLayer::per_client("1/h").unwrap())
        .layer(AnyBodyLayer)
        .service(inner);
    for (status, says) in [(200, "from tonic"), (429, "quota-exceeded")] {
        let response = service.clone().oneshot(from("192.0.2.1", &[])).await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        let body = response.into_body();
        assert!(!http_body::Body::is_end_stream(&body));
        let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        assert!(std::str::from_utf8(&bytes).unwrap().contains(says), "{bytes:?}");
    }
    let grpc = [("content-type", "application/grpc")];
    let refused = service.oneshot(from("192.0.2.1", &grpc)).await.unwrap();
    assert!(http_body::Body::is_end_stream(refused.body()));
}

/// A function of yours may verify a token: once for a request, whichever way it goes.
#[tokio::test]
async fn who_is_logged_in_is_found_out_once_for_a_request() {
    for lines in [
        "limits = [{ subject = \"user\", absent = \"skip\", limit = \"2/h\" }]",
        "when = { user = \"*\" }\nlimits = [{ subject = \"user\", absent = \"skip\", limit = \"2/h\" }]",
    ] {
        let asked = Arc::new(AtomicU64::new(0));
        let asks = Arc::clone(&asked);
        let user = Identity::own("the name in the token", move |head| {
            asks.fetch_add(1, Ordering::Relaxed);
            Some(head.headers().get("x-user")?.to_str().ok()?.to_owned())
        });
        let app = served(builder(&policy(lines)).user(user).build().unwrap());
        // New, known, denied, and nobody.
        let requests = [("ann", 200), ("ann", 200), ("ann", 429), ("", 200), ("a b, c", 200)];
        for (number, (name, expected)) in (1..).zip(requests) {
            assert_eq!(status(&app, "192.0.2.1", &[("x-user", name)]).await, expected, "{name}");
            assert_eq!(asked.load(Ordering::Relaxed), number, "{lines}: {name}");
        }
    }
}
