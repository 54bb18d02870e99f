//! Calendars where the server's time is not the caller's: the edges that a call brings are then
//! those of other windows, nothing is changed, and the call is repeated once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{
    Ask, Clock, Cost, HoldKind, LimitSet, Limiter, ManualClock, MemoryStore, RequestId, Store,
    Subject, Time,
};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{RedisServer, redis_or_skip};

use crate::across::{apart, cluster, limits, options, seen};
use crate::common::runtime;

/// Noon of the 30th of March 2024 by UTC, before the clocks change in Berlin.
const NOW_US: u64 = 1_711_800_000_000_000;
const DAY_US: u64 = 86_400_000_000;

/// A clock of which one reading is of a hundred days before: that of a caller far behind. It has
/// how many readings there are until then.
#[derive(Clone, Debug, Default)]
struct Behind(Arc<AtomicU64>);

impl Clock for Behind {
    fn now(&self) -> Time {
        let left =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Time::from_micros(NOW_US - if left == Ok(1) { 100 * DAY_US } else { 0 })
    }
}

impl Behind {
    /// The next reading, which is that of the caller, is behind; then comes the server's.
    fn next(&self) {
        self.after(0);
    }

    /// The reading after so many others is behind.
    fn after(&self, others: u64) {
        assert_eq!(self.0.swap(others + 1, Ordering::SeqCst), 0, "the last one was read");
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

/// The answers to checks and holds over two subjects, step by step. `late` says after how many
/// readings the clock of the call is behind.
async fn over_two<S: Store>(store: S, [a, b, _]: &[Subject; 3], late: impl Fn(u64)) -> Vec<String> {
    let many = limits("5/day in Europe/Berlin, 9/month in Europe/Berlin");
    let (few, more) = (limits("1/day in Europe/Berlin"), limits("4/month in Europe/Berlin"));
    let limiter = Limiter::new(many.clone(), store);
    let both = |under| Ask::from([(a.clone(), &many), (b.clone(), under)]);
    let left = async || limiter.check(Ask::from(a).peek()).await.unwrap().remaining();
    let mut told = Vec::new();
    late(0);
    let first = limiter.check(both(&few)).await.unwrap();
    told.push(seen(&first));
    // The other slot denies: the edges of the give-back are those of other windows.
    late(EDGES_OF_GIVE_BACK);
    told.push(seen(&limiter.check(both(&few)).await.unwrap()));
    told.push(left().await.to_string());
    // The slot that denied is asked first, and the other is only looked at.
    for place in [0, 2] {
        late(place);
        told.push(seen(&limiter.check(both(&few)).await.unwrap()));
    }
    late(0);
    let reserve = both(&more).cost(2).reserve(Duration::from_secs(60));
    let held = limiter.hold(reserve).await.unwrap();
    let mut hold = held.hold.unwrap();
    told.push(seen(&held.decision));
    late(0);
    assert!(limiter.renew(&mut hold, Some(Duration::from_secs(90))).await.unwrap());
    late(2);
    told.push(format!("{:?}", limiter.commit(&hold, 1).await.unwrap()));
    late(2);
    told.push(format!("{:?}", limiter.refund(&first.receipt().unwrap()).await.unwrap()));
    told.push(left().await.to_string());
    told
}

/// Of the readings of a check over two slots that one denies: each slot reads the edges and its
/// time, and then comes the give-back.
const EDGES_OF_GIVE_BACK: u64 = 4;

#[test]
fn in_several_slots_each_call_is_repeated_by_itself_and_all_or_nothing_is_charged() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let subjects = apart(cluster, &limits("5/day in Europe/Berlin"), "behind");
        let clock = ManualClock::at_micros(NOW_US);
        let memory = MemoryStore::builder().clock(clock).build();
        let expected = over_two(memory, &subjects, |_| {}).await;
        let behind = Behind::default();
        let store = RedisStore::builder(options(cluster)).run("behind", behind.clone());
        let store = store.connect().await.unwrap();
        let told = over_two(store.clone(), &subjects, |others| behind.after(others)).await;
        for (n, (told, expected)) in told.iter().zip(&expected).enumerate() {
            assert_eq!(told, expected, "step {n}");
        }
        assert_eq!((expected[2].as_str(), expected.last().unwrap().as_str()), ("4", "4"));
        behind.after(0);
        behind.now();
        store.clear_run().await.unwrap();
    });
}

/// A credit pays beyond the window of now, by unit, and a slot is beside it.
#[test]
fn credits_and_slots_are_beside_the_window_of_the_server() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limits = "9/day in Europe/Berlin, 50/month in Europe/Berlin of tokens";
        let (limiter, clock) = connect(&server, limits, 100).await;
        let ask = |cost: &str| Ask::new("ann").cost(cost.parse::<Cost>().unwrap());
        let left = async || limiter.check(ask("tokens=1").peek()).await.unwrap().remaining();
        clock.next();
        let credit = ask("tokens=20").holding(HoldKind::Credit, Some(Duration::from_secs(60)));
        assert!(limiter.hold(credit).await.unwrap().hold.is_some());
        assert_eq!(left().await, 70);
        clock.next();
        let charged = limiter.check(ask("requests=1,tokens=65")).await.unwrap();
        let receipt = charged.receipt().unwrap();
        assert_eq!(left().await, 5);
        clock.next();
        // The credit paid 20 of the 65, and the limit keeps its part.
        assert_eq!(limiter.refund(&receipt).await.unwrap().given, [1, 20]);
        assert_eq!(left().await, 25);

        let limits = "2/day in Europe/Berlin, 5 at once hold 1h";
        let (limiter, clock) = connect(&server, limits, 100).await;
        let mut slots = Vec::new();
        for left in [1, 0] {
            clock.next();
            let held = limiter.hold(Ask::new("eve").acquire()).await.unwrap();
            assert_eq!(held.decision.remaining(), left);
            slots.push(held.hold.unwrap());
        }
        clock.next();
        assert!(limiter.release(&slots[0]).await.unwrap());
        clock.next();
        assert!(limiter.hold(Ask::new("eve").acquire()).await.unwrap().hold.is_none());
    });
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
