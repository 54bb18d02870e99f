//! Calendars where the server's time is not the caller's: the edges that a call brings are then
//! those of other windows, nothing is changed, and the call is repeated once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Ask, Clock, LimitSet, Limiter, RequestId, Time};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{RedisServer, redis_or_skip};

use crate::common::runtime;

/// Noon of the 30th of March 2024 by UTC, before the clocks change in Berlin.
const NOW_US: u64 = 1_711_800_000_000_000;
const DAY_US: u64 = 86_400_000_000;

/// A clock whose next readings are of a hundred days before: those of a caller far behind.
#[derive(Clone, Debug, Default)]
struct Behind(Arc<AtomicU64>);

impl Clock for Behind {
    fn now(&self) -> Time {
        let behind =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Time::from_micros(NOW_US - if behind.is_ok() { 100 * DAY_US } else { 0 })
    }
}

impl Behind {
    /// The next reading, which is that of the caller, is behind; then comes the server's.
    fn next(&self) {
        assert_eq!(self.0.swap(1, Ordering::SeqCst), 0, "the last one was read");
    }
}

async fn connect(
    server: &RedisServer,
    limits: &str,
    scripts: usize,
) -> (Limiter<RedisStore>, Behind) {
    let clock = Behind::default();
    let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
    let options = options.scripts(scripts);
    let builder = RedisStore::builder(options).run("calendars", clock.clone());
    let store = builder.connect().await.unwrap();
    let limits: LimitSet = limits.parse().unwrap();
    (Limiter::new(limits, store), clock)
}

#[test]
fn a_call_with_the_edges_of_other_windows_changes_nothing_and_is_repeated() {
    let server = redis_or_skip!();
    // With numbers written into scripts, and given to them.
    for scripts in [100, 0] {
        server.command(&[b"FLUSHALL"]);
        runtime().block_on(async {
            let limits = "20/day in Europe/Berlin, 50/month in Europe/Berlin";
            let (limiter, clock) = connect(&server, limits, scripts).await;
            let left = async || limiter.check(Ask::new("bob").peek()).await.unwrap().remaining();
            clock.next();
            let first = limiter.check(Ask::new("bob").cost(3)).await.unwrap();
            let midnight = Duration::from_secs(11 * 3_600);
            assert_eq!((first.remaining(), first.reset_after()), (17, midnight));
            clock.next();
            assert_eq!(left().await, 17);
            clock.next();
            let id = || Ask::new("bob").request(RequestId::new("once"));
            assert!(!limiter.check(id()).await.unwrap().is_repeated());
            assert!(limiter.check(id()).await.unwrap().is_repeated());
            clock.next();
            let partial = limiter.check(Ask::new("bob").cost(2).partial()).await.unwrap();
            assert_eq!((partial.granted(), left().await), (2, 14));
            clock.next();
            limiter.charge(Ask::new("bob").cost(2)).await.unwrap();
            clock.next();
            limiter.admin().adjust("bob", -1).await.unwrap();
            assert_eq!(left().await, 11);
            clock.next();
            let ask = Ask::new("bob").cost(5).reserve(Duration::from_secs(60));
            let mut hold = limiter.hold(ask).await.unwrap().hold.unwrap();
            assert_eq!(left().await, 6);
            clock.next();
            assert!(limiter.renew(&mut hold, Some(Duration::from_secs(90))).await.unwrap());
            clock.next();
            limiter.commit(&hold, 1).await.unwrap();
            assert_eq!(left().await, 10);
            clock.next();
            let refund = limiter.refund(&first.receipt().unwrap()).await.unwrap();
            assert_eq!((refund.given, left().await), (vec![3, 3], 13));
            clock.next();
            assert!(limiter.admin().reset("bob").await.unwrap());
            assert_eq!(left().await, 20);
        });
    }
}

/// The answer is numbers alone, `-11, 0`, which once was that of a call with other edges.
#[test]
fn eleven_units_are_taken_once() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limits = "a: 40/h via sliding_log, b: 5/h via sliding_log";
        let (limiter, _) = connect(&server, limits, 100).await;
        assert!(limiter.check(Ask::new("bob").cost(5)).await.unwrap().is_allowed());
        assert_eq!(limiter.admin().adjust("bob", -11).await.unwrap(), [-11, 0]);
        let peek = limiter.check(Ask::new("bob").peek()).await.unwrap();
        assert_eq!(peek.reports().next().unwrap().remaining(), 24);
    });
}

/// By the clock of the server itself, with the window of now.
#[test]
fn the_window_is_that_of_the_server() {
    let server = redis_or_skip!();
    server.command(&[b"FLUSHALL"]);
    runtime().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let limits: LimitSet = "20/year in Asia/Tokyo".parse().unwrap();
        let calendar = limits.limits()[0].quota().calendar.clone().unwrap();
        let limiter = Limiter::new(limits, store);
        let decision = limiter.check("bob").await.unwrap();
        let window = calendar.window(decision.at());
        let left_us = window.end.as_micros() - decision.at().as_micros();
        assert_eq!(decision.reset_after(), Duration::from_micros(left_us));
    });
}
