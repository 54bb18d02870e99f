//! tower_governor beside our layer: the code and the tables of the page about both.

use core::time::Duration;
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use tollgate::{MemoryStore, ParseError};
use tollgate_policy::OnFailure;
use tollgate_tower::TollgateLayer;
use tollgate_tower::identity::{AddressHeader, ClientAddress, Networks};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::SmartIpKeyExtractor;

use super::common::{Seen, from, send, status};
use super::page::{block, rows};

const PAGE: &str = include_str!("../../../../docs/coming-from-tower-governor.md");

// The page shows these three unchanged.

fn theirs(app: Router) -> Router {
    let config = GovernorConfigBuilder::default().per_second(4).burst_size(2).finish().unwrap();
    app.layer(GovernorLayer::new(config))
}

fn ours(app: Router) -> Result<Router, ParseError> {
    Ok(app.layer(TollgateLayer::per_client("1/4s burst 2 via gcra")?))
}

fn ours_behind_a_proxy(app: Router) -> Result<Router, ParseError> {
    let proxy = "10.0.0.0/8".parse::<Networks>()?;
    let client = ClientAddress::behind(proxy, AddressHeader::XForwardedFor);
    let (limits, store) = ("1/4s burst 2 via gcra", MemoryStore::new());
    let layer = TollgateLayer::per_client_builder("client", limits, store, OnFailure::Deny)?;
    Ok(app.layer(layer.client(client).build()?))
}

#[test]
fn the_code_of_the_page_is_what_is_run() {
    let source = include_str!("governor.rs");
    for number in 0..3 {
        let block = block(PAGE, "rust", number);
        assert!(source.contains(block), "{block}");
    }
}

fn app() -> Router {
    Router::new().route("/", get(|| async { "the page" }))
}

/// The first denial, how many were admitted before it, and the time that all of it took.
async fn first_denial(app: &Router) -> (Seen, u32, Duration) {
    let start = Instant::now();
    for admitted in 0..1_000 {
        let seen = send(app, from("192.0.2.7", &[])).await;
        if seen.status != 200 {
            return (seen, admitted, start.elapsed());
        }
    }
    panic!("nothing was denied");
}

/// The number in the brackets behind a method's name.
fn argument(code: &str, method: &str) -> Option<u64> {
    let (_, rest) = code.split_once(&format!("{method}("))?;
    rest.split_once(')')?.0.parse().ok()
}

#[tokio::test]
async fn each_row_of_the_page_admits_the_same_on_both_sides() {
    let rows: Vec<_> = rows(PAGE).filter(|row| row[0].starts_with("per_")).collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let [code, limit, at_once] = &row[..] else { panic!("{row:?}") };
        let seconds = argument(code, "per_second").map(Duration::from_secs);
        let period = seconds.or(argument(code, "per_millisecond").map(Duration::from_millis));
        let (period, burst) = (period.unwrap(), argument(code, "burst_size").unwrap());
        let mut theirs = GovernorConfigBuilder::default();
        let theirs = theirs.period(period).burst_size(burst.try_into().unwrap()).finish();
        let theirs = app().layer(GovernorLayer::new(theirs.unwrap()));
        let ours = app().layer(TollgateLayer::per_client(limit).unwrap());
        let at_once: u32 = at_once.parse().unwrap();
        for app in [theirs, ours] {
            let (_, admitted, took) = first_denial(&app).await;
            let came_back = u32::try_from(took.as_nanos() / period.as_nanos()).unwrap();
            assert!((at_once..=at_once + came_back).contains(&admitted), "{row:?}: {admitted}");
        }
    }
}

/// The rows of the page's table about this kind of answer: a cell of each side.
fn cells(kind: &str) -> impl Iterator<Item = (String, String)> {
    let rows = rows(PAGE).filter(move |row| row[0] == kind);
    rows.map(|row| (row[1].clone(), row[2].clone()))
}

/// The first answer, and the first denial, of a layer that was asked for less than a second.
async fn within_a_second(layered: impl Fn() -> Router) -> (Seen, Seen) {
    loop {
        let app = layered();
        let start = Instant::now();
        let first = send(&app, from("192.0.2.7", &[])).await;
        let (denied, admitted, _) = first_denial(&app).await;
        if start.elapsed() < Duration::from_secs(1) {
            assert_eq!((denied.status.as_u16(), admitted), (429, 1));
            return (first, denied);
        }
    }
}

#[tokio::test]
async fn headers_and_bodies_are_those_of_the_page() {
    let theirs = within_a_second(|| {
        let mut config = GovernorConfigBuilder::default();
        let config = config.per_second(4).burst_size(2).use_headers().finish().unwrap();
        app().layer(GovernorLayer::new(config))
    });
    let (theirs, ours) = (theirs.await, within_a_second(|| ours(app()).unwrap()).await);
    let has = |seen: &Seen, cell: &str| {
        let Some((name, value)) = cell.split_once(": ") else { return assert_eq!(cell, "") };
        assert_eq!(seen.header(name), Some(value), "{cell}");
    };
    for (kind, theirs, ours) in [("admitted", &theirs.0, &ours.0), ("denied", &theirs.1, &ours.1)] {
        assert!(cells(kind).count() >= 2);
        for (of_theirs, of_ours) in cells(kind) {
            has(theirs, &of_theirs);
            has(ours, &of_ours);
        }
    }
    let (of_theirs, _) = cells("denied, body").next().unwrap();
    assert_eq!(theirs.1.body, of_theirs);
    assert_eq!(ours.1.header("content-type"), Some("application/problem+json"));
    assert!(ours.1.header("x-ratelimit-after").is_none());
}

/// A wait below a second: a client that obeys theirs comes again immediately.
#[tokio::test]
async fn a_short_wait_is_cut_to_nothing_there_and_rounded_up_here() {
    let theirs = GovernorConfigBuilder::default().per_millisecond(900).burst_size(1).finish();
    let theirs = app().layer(GovernorLayer::new(theirs.unwrap()));
    let ours = app().layer(TollgateLayer::per_client("1/900ms via uniform").unwrap());
    for (app, wait) in [(theirs, "0"), (ours, "1")] {
        let (denied, ..) = first_denial(&app).await;
        assert_eq!(denied.header("retry-after"), Some(wait), "{denied:?}");
    }
}

#[tokio::test]
async fn a_layer_that_knows_no_peer_answers_500_there_and_503_here() {
    for (app, status) in [(theirs(app()), 500), (ours(app()).unwrap(), 503)] {
        let mut request = from("192.0.2.7", &[]);
        request.extensions_mut().clear();
        assert_eq!(send(&app, request).await.status, status);
    }
}

#[tokio::test]
async fn who_writes_the_header_is_believed_there_and_only_the_proxy_here() {
    let mut config = GovernorConfigBuilder::default().key_extractor(SmartIpKeyExtractor);
    let theirs = config.per_second(4).burst_size(2).finish().unwrap();
    let theirs = app().layer(GovernorLayer::new(theirs));
    let ours = ours_behind_a_proxy(app()).unwrap();
    for (app, expected) in [(&theirs, [200; 4]), (&ours, [200, 200, 429, 429])] {
        let mut found = [0; 4];
        for (turn, status_of) in found.iter_mut().enumerate() {
            let forged = format!("198.51.100.{turn}");
            *status_of = status(app, "192.0.2.7", &[("x-forwarded-for", &forged)]).await;
        }
        assert_eq!(found, expected);
    }
    // Through the proxy, the client's own text is left of the proxy's entry.
    for expected in [200, 200, 429] {
        let forged = format!("198.51.100.{expected}, 203.0.113.7");
        let seen = status(&ours, "10.0.0.1", &[("x-forwarded-for", &forged)]).await;
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn addresses_of_one_network_count_apart_there_and_together_here() {
    for (app, expected) in [(theirs(app()), 200), (ours(app()).unwrap(), 429)] {
        for host in ["1", "2"] {
            assert_eq!(status(&app, &format!("2001:db8::{host}"), &[]).await, 200);
        }
        assert_eq!(status(&app, "2001:db8::3", &[]).await, expected);
    }
}
