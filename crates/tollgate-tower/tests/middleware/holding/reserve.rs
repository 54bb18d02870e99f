//! Costs that are known afterwards: by the response, the service and a client that hangs up.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use tollgate::operation::Adjust;
use tollgate::{MemoryStore, Store};
use tollgate_policy::Gate;
use tollgate_tower::{HoldingLayer, Spent};
use tower::{Layer as _, ServiceExt as _};

use super::{ask, away, layer, settled};
use crate::common::{from, gate, policies, send};

fn tokens(commit: &str, more: &str) -> String {
    format!(
        "[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
         cost = {{ reserve = 500, {commit}max = 2000, hold = \"2m\"{more} }}\n\
         limits = [{{ subject = \"ip\", limit = \"10000/h via sliding_log\" }}]"
    )
}

const HEADER: &str = "commit = \"header.x-used\", ";

/// A body of these parts.
struct Parts(VecDeque<&'static str>);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let part = self.0.pop_front();
        Poll::Ready(
            part.map(|part| Ok(http_body::Frame::data(Bytes::from_static(part.as_bytes())))),
        )
    }
}

/// A service whose responses the test writes.
fn served<S: Store + 'static>(
    layer: HoldingLayer<S>,
    respond: impl Fn(Spent) -> Response<Body> + Clone + Send + Sync + 'static,
) -> Router {
    let handler = get(async move |Extension(spent): Extension<Spent>| respond(spent));
    Router::new().route("/", handler).layer(layer)
}

fn response(headers: &[(&'static str, &str)]) -> Response<Body> {
    let body = Body::new(Parts(VecDeque::from(["four", "five!", "sixsix"])));
    let mut response = Response::new(body);
    for (name, value) in headers {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}

/// The units that are charged now: open holds count too.
async fn used<S: Store>(gate: &Gate<S>) -> u64 {
    let limits =
        "10000/h via sliding_log".parse::<tollgate::LimitSet>().unwrap().in_policy("p").unwrap();
    let subject = tollgate::Subject::literal("ip:192.0.2.1").unwrap();
    let counted = tollgate::Counted::new(&subject, &limits);
    // A correction of one unit, given and taken, shows nothing; a probe by the gate would charge.
    let _ = gate.store().perform(&Adjust::new(counted, &(-1).into())).await.unwrap();
    let taken = gate.store().perform(&Adjust::new(counted, &(-10_000).into())).await.unwrap()[0]
        .unsigned_abs();
    let given = i64::try_from(taken + 1).unwrap();
    gate.store().perform(&Adjust::new(counted, &given.into())).await.unwrap();
    10_000 - taken - 1
}

async fn is_charged<S: Store + 'static>(
    gate: Gate<S>,
    respond: impl Fn(Spent) -> Response<Body> + Clone + Send + Sync + 'static,
    frames: Option<usize>,
) -> (u64, u64) {
    let layer = layer(gate.clone());
    let app = served(layer.clone(), respond);
    let mut response = ask(&app).await;
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("x-used"));
    for _ in 0..frames.unwrap_or(4) {
        if response.body_mut().frame().await.is_none() {
            break;
        }
    }
    drop(response);
    settled(&gate, 1).await;
    (used(&gate).await, layer.holds().unsaid)
}

async fn charged_both(
    toml: &str,
    respond: impl Fn(Spent) -> Response<Body> + Clone + Send + Sync + 'static,
    frames: Option<usize>,
) -> (u64, u64) {
    let one = is_charged(gate(policies(toml)).0, respond.clone(), frames).await;
    let other = is_charged(away(toml).0, respond, frames).await;
    assert_eq!(one, other);
    one
}

#[tokio::test]
async fn a_header_of_the_response_says_what_was_used() {
    let toml = tokens(HEADER, "");
    for (headers, units, unsaid) in [
        (&[("x-used", "300")][..], 300, 0),
        (&[("x-used", " 0 ")], 0, 0),
        // At most what the policy says.
        (&[("x-used", "5000")], 2_000, 0),
        // Nothing that can be read: the estimate.
        (&[], 500, 1),
        (&[("x-used", "many")], 500, 1),
        (&[("x-used", "-1")], 500, 1),
        (&[("x-used", "1"), ("x-used", "2")], 500, 1),
    ] {
        let said = move |_: Spent| response(headers);
        assert_eq!(charged_both(&toml, said, None).await, (units, unsaid), "{headers:?}");
    }
    let free = tokens(HEADER, ", at_end = \"nothing\"");
    assert_eq!(charged_both(&free, |_| response(&[]), None).await, (0, 1));
    // Also where the client has gone: the service has said it.
    let said = |_: Spent| response(&[("x-used", "300")]);
    assert_eq!(charged_both(&toml, said, Some(1)).await, (300, 0));
}

#[tokio::test]
async fn the_header_stays_where_it_is_asked_for() {
    let (gate, _) = gate(policies(&tokens(HEADER, "")));
    let layer = layer(gate).keep_header(true);
    let app = served(layer, |_| response(&[("x-used", "3")]));
    assert_eq!(send(&app, from("192.0.2.1", &[])).await.header("x-used"), Some("3"));
}

#[tokio::test]
async fn the_service_says_what_was_used() {
    for commit in ["", HEADER, "commit = \"bytes\", "] {
        let toml = tokens(commit, "");
        let by_response = |_: Spent| {
            let mut response = response(&[("x-used", "9")]);
            response.headers_mut().remove("x-used");
            response.extensions_mut().insert(Spent::new(700));
            response
        };
        assert_eq!(charged_both(&toml, by_response, None).await, (700, 0), "{commit}");
        let by_request = |spent: Spent| {
            spent.add(300);
            spent.add(20);
            response(&[])
        };
        assert_eq!(charged_both(&toml, by_request, None).await, (320, 0), "{commit}");
    }
    assert_eq!(charged_both(&tokens("", ""), |_| response(&[]), None).await, (500, 1));
}

#[tokio::test]
async fn bytes_are_those_that_were_passed_on() {
    let toml = tokens("commit = \"bytes\", ", "");
    for (frames, bytes) in [(0, 0), (1, 4), (2, 9), (3, 15), (4, 15)] {
        let charged = charged_both(&toml, |_| response(&[]), Some(frames)).await;
        assert_eq!(charged, (bytes, 0), "{frames}");
    }
}

/// A stream that counts while it is sent: a client that hangs up pays for the part made so far.
#[tokio::test]
async fn a_stream_counts_while_it_is_sent() {
    struct Counting(Parts, Spent);
    impl http_body::Body for Counting {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            self.1.add(100);
            Pin::new(&mut self.0).poll_frame(cx)
        }
    }
    let parts = || Parts(VecDeque::from(["four", "five!", "sixsix"]));
    let respond = move |spent: Spent| Response::new(Body::new(Counting(parts(), spent)));
    for (frames, units) in [(1, 100), (2, 200), (3, 300)] {
        let charged = charged_both(&tokens("", ""), respond, Some(frames)).await;
        assert_eq!(charged, (units, 0), "{frames}");
    }
}

/// Nothing is charged for a service that failed, unless it reports units.
#[tokio::test]
async fn a_service_that_fails_pays_for_what_it_said() {
    for (said, units) in [(None, 0), (Some(40), 40)] {
        let (gate, _) = gate(policies(&tokens(HEADER, "")));
        let broken = tower::service_fn(move |request: http::Request<Body>| {
            if let Some(units) = said {
                request.extensions().get::<Spent>().unwrap().set(units);
            }
            std::future::ready(Err::<Response<Body>, _>("broken"))
        });
        let service = layer(gate.clone()).layer(broken);
        assert_eq!(service.oneshot(from("192.0.2.1", &[])).await.unwrap_err(), "broken");
        settled(&gate, 1).await;
        assert_eq!(used(&gate).await, units);
    }
}

/// A client that goes before there is a response: by the service's report so far, or by the
/// policy's rule for the end.
#[tokio::test]
async fn a_request_that_is_dropped_is_charged_by_what_is_known() {
    for (commit, more, said, units) in [
        (HEADER, "", None, 500),
        (HEADER, ", at_end = \"nothing\"", None, 0),
        (HEADER, "", Some(70), 70),
        ("commit = \"bytes\", ", "", None, 0),
    ] {
        let (gate, _) = gate(policies(&tokens(commit, more)));
        let begun: Arc<Mutex<bool>> = Arc::default();
        let tells = Arc::clone(&begun);
        let app = Router::new()
            .route(
                "/",
                get(async move |Extension(spent): Extension<Spent>| {
                    if let Some(units) = said {
                        spent.set(units);
                    }
                    *tells.lock().unwrap() = true;
                    std::future::pending::<()>().await;
                }),
            )
            .layer(layer(gate.clone()));
        let mut request = Box::pin(app.oneshot(from("192.0.2.1", &[])));
        let waker = std::task::Waker::noop();
        while !*begun.lock().unwrap() {
            assert!(request.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        drop(request);
        settled(&gate, 1).await;
        assert_eq!(used(&gate).await, units, "{commit}{more} {said:?}");
    }
}

/// The service was never called.
#[tokio::test]
async fn a_request_that_is_dropped_while_the_store_is_asked_costs_nothing() {
    let (gate, store, _) = away(&tokens(HEADER, ""));
    let app = served(layer(gate.clone()), |_| response(&[]));
    store.stop();
    let mut request = Box::pin(app.oneshot(from("192.0.2.1", &[])));
    let waker = std::task::Waker::noop();
    assert!(request.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    store.is_asked().await;
    drop(request);
    store.go_on();
    settled(&gate, 1).await;
    assert_eq!(used(&gate).await, 0);
}

#[tokio::test]
async fn reservations_are_denied_as_checks_are() {
    let (gate, _) = gate(policies(&tokens("", "").replace("10000/h", "1200/h")));
    let app = served(layer(gate), |_| response(&[]));
    let [one, two] = [ask(&app).await, ask(&app).await];
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (429, None));
    drop((one, two));
    // Both estimates are charged now, and a rate says when.
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (429, Some("3600")));
    let (gate, _) = crate::common::gate(policies(
        &tokens("", "").replace("500", "\"header.x-max\", otherwise = \"deny\""),
    ));
    let app = served(layer::<MemoryStore>(gate), |_| response(&[]));
    let status =
        async |max: &str| send(&app, from("192.0.2.1", &[("x-max", max)])).await.status.as_u16();
    assert_eq!([status("2000").await, status("2001").await, status("x").await], [200, 422, 400]);
}

/// Each unit is taken from whoever names it: the service's report, then a header.
#[tokio::test]
async fn a_report_of_one_unit_leaves_the_others_to_the_headers() {
    let toml = "[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
        limits = [{ subject = \"ip\", limit = [\"900/h of images\", \"9000/h of tokens via gcra\"] }]\n\
        [policies.cost]\n\
        images = { reserve = 50, commit = \"header.x-images\", max = 90, hold = \"2m\" }\n\
        tokens = { reserve = 500, commit = \"header.x-tokens\", max = 900, hold = \"2m\" }\n";
    for (spent, left) in
        [("tokens=7", [897, 8_993]), ("images=1,tokens=0", [899, 9_000]), ("0", [900, 9_000])]
    {
        let (gate, _) = gate(policies(toml));
        let app = served(layer(gate.clone()), move |said| {
            said.set(tollgate::Cost::parse_used(spent).unwrap());
            response(&[("x-images", "3"), ("x-tokens", "800")])
        });
        let _ = send(&app, from("192.0.2.1", &[])).await;
        settled(&gate, 1).await;
        let peek = gate.ask(gate.prepare(&[("ip", "192.0.2.1")]).peek()).await;
        let reports = peek.decision().unwrap().reports().map(|it| it.remaining());
        assert_eq!(reports.collect::<Vec<_>>(), left, "{spent}");
    }
}
