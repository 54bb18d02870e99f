//! The time that the layer adds to a request: the same router of axum without limits, with this
//! layer, and with that of tower_governor. All sides take turns in one thread; each figure is the
//! median of the rounds, in time on the processor and by the clock. They include making the
//! request, on all sides; `added` is the time of a side beyond the router alone.
//!
//! `cargo bench -p tollgate-tower --bench layer`

#![allow(clippy::unwrap_used, missing_docs)] // a benchmark that cannot be set up has no figures

use std::convert::Infallible;
use std::future::Future as _;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderValue, Request};
use tollgate::MemoryStore;
use tollgate_policy::{Event, Format, Gate, Policies};
use tollgate_tower::TollgateLayer;
use tower::Service;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

const ROUNDS: usize = 101;
const CALLS: u32 = 4_096;

/// So high that every request is admitted, by all sides.
const LIMIT: &str = "1000000000/s via gcra";

type Call = Box<dyn FnMut(Request<Body>) -> Response>;

struct Side {
    name: &'static str,
    call: Call,
    rounds: Vec<(u64, u64)>,
}

fn router() -> Router {
    Router::new().route("/", get(|| async { "hello\n" }))
}

/// A router as a function: nothing in it waits. With its state, as `axum::serve` runs it: its
/// layers are applied once, and not for each request.
fn side(name: &'static str, router: Router) -> Side {
    let mut service = router.with_state(()).into_service::<Body>();
    let call = move |request: Request<Body>| {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = <_ as Service<Request<Body>>>::poll_ready(&mut service, &mut cx);
        assert!(matches!(ready, Poll::Ready(Ok(()))));
        match pin!(service.call(request)).poll(&mut cx) {
            Poll::Ready(Ok::<_, Infallible>(response)) => response,
            _ => panic!("{name} waits"),
        }
    };
    Side { name, call: Box::new(call), rounds: Vec::new() }
}

fn request(number: u32) -> Request<Body> {
    let [_, _, high, low] = (number % 1_024).to_be_bytes();
    let mut request = Request::get("/").body(Body::empty()).unwrap();
    for (name, value) in [("host", "api.example.com"), ("user-agent", "bench"), ("accept", "*/*")] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, high, low], 4711))));
    request
}

/// The time of this thread on the processor, in nanoseconds.
fn on_processor() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

fn measure(side: &mut Side) {
    let (wall, processor) = (Instant::now(), on_processor());
    // Each request is made, handled and dropped before the next, as in a server. Made beforehand,
    // thousands of them are freed among the calls without being allocated there, which overflows
    // the allocator's caches and makes every other free slow.
    for number in 0..CALLS {
        black_box((side.call)(request(number)));
    }
    let wall = u64::try_from(wall.elapsed().as_nanos()).unwrap();
    side.rounds.push((on_processor() - processor, wall));
}

fn median(mut figures: Vec<u64>) -> u64 {
    figures.sort_unstable();
    figures[figures.len() / 2]
}

fn main() {
    let policies = |text: &str| {
        let text = format!("version = 1\n{text}");
        Policies::parse(&text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
    };
    // The first gate of the process, as that of most programs is.
    let one = TollgateLayer::per_client(LIMIT).unwrap();
    let three = policies(
        "[[policies]]\nname = \"api\"\non_failure = \"allow\"\nlimits = [{ subject = \"ip\", limit \
         = \"1000000000/s via gcra, 60000000000/m via gcra, 240000000000/h via gcra\" }]",
    );
    let three = TollgateLayer::new(Gate::new(three, MemoryStore::new()).unwrap()).unwrap();
    // The usual setup of a service: policies by path, and an observer that counts.
    let two = policies(
        "match = \"first\"\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\nwhen = { path = \"/login\" }\n\
         limits = [{ subject = \"ip\", limit = \"5/m via gcra\" }]\n\
         [[policies]]\nname = \"api\"\non_failure = \"allow\"\n\
         limits = [{ subject = \"ip\", limit = \"1000000000/s via gcra\" }]",
    );
    let seen = Arc::new(AtomicU64::new(0));
    let observer = move |event: &Event<'_>| {
        seen.fetch_add(u64::from(event.decides), Ordering::Relaxed);
    };
    let two = Gate::observed(two, MemoryStore::new(), observer).unwrap();
    let two = TollgateLayer::new(two).unwrap();
    let mut governor = GovernorConfigBuilder::default();
    governor.period(Duration::from_nanos(1)).burst_size(1_000_000_000);
    let headers = governor.use_headers().finish().unwrap();
    let mut governor = GovernorConfigBuilder::default();
    governor.period(Duration::from_nanos(1)).burst_size(1_000_000_000);
    let plain = governor.finish().unwrap();
    let mut sides = vec![
        side("the router alone", router()),
        side("tollgate, 1 limit, 2 headers", router().layer(one)),
        side("tollgate, 3 limits, 2 headers", router().layer(three)),
        side("tollgate, 2 policies and an observer", router().layer(two)),
        side("tower_governor 0.8, 1 limit, 2 headers", router().layer(GovernorLayer::new(headers))),
        side("tower_governor 0.8, 1 limit, no header", router().layer(GovernorLayer::new(plain))),
    ];
    // For a profiler: `cargo bench -p tollgate-tower --bench layer -- "1 limit, 2"`.
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    sides.retain(|side| wanted.as_ref().is_none_or(|wanted| side.name.contains(wanted)));
    for side in &mut sides {
        let response = (side.call)(request(0));
        let names: Vec<_> = response.headers().keys().map(http::HeaderName::as_str).collect();
        println!("{:<40} {} {}", side.name, response.status(), names.join(", "));
    }
    for round in 0..ROUNDS {
        for at in 0..sides.len() {
            // Each round another one begins.
            let at = (at + round) % sides.len();
            measure(&mut sides[at]);
        }
    }
    println!("\n{:<40} {:>8} {:>8} {:>8}", "ns a request", "CPU", "clock", "added");
    let processor = |side: &Side| {
        median(side.rounds.iter().map(|(processor, _)| *processor).collect()) / u64::from(CALLS)
    };
    let bare = sides.first().map_or(0, processor);
    for side in &sides {
        let wall = median(side.rounds.iter().map(|(_, wall)| *wall).collect()) / u64::from(CALLS);
        let processor = processor(side);
        let added = processor.saturating_sub(bare);
        println!("{:<40} {processor:>8} {wall:>8} {added:>8}", side.name);
    }
}
