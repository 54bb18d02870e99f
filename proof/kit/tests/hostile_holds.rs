//! Holds under hostile use: guessed, forged, crowded, forgotten, and asked about at odd times.
#![allow(clippy::unwrap_used)] // tests may

use std::time::Duration;

use tollgate::{
    Ask, Error, Hold, HoldId, HoldKind, Limiter, ManualClock, MemoryStore, Store, Subject, Time,
};
use tollgate_proof::conformance::block_on;
use tollgate_sqlite::{Options, SqliteStore};

const START_US: u64 = 1_763_632_000_000_000;
const TTL: Duration = Duration::from_secs(20);

/// Tries a store in memory, and one of SQLite.
fn on_each(test: impl Fn(&dyn Fn(u64), &dyn Tried)) {
    let clock = ManualClock::at_micros(START_US);
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    test(&|us| clock.set(Time::from_micros(us)), &memory);
    let clock = ManualClock::at_micros(START_US);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("counts.db")).clock(clock.clone());
    let sqlite = SqliteStore::open_with(options).unwrap();
    test(&|us| clock.set(Time::from_micros(us)), &sqlite);
}

/// The operations of the tests on a store under some limits.
trait Tried {
    fn reserve(&self, limits: &str, cost: u64) -> Option<Hold>;
    fn acquire(&self, limits: &str) -> Option<Hold>;
    fn commit(&self, hold: &Hold, actual: u64) -> Result<u64, Error>;
    fn left(&self, limits: &str) -> u64;
    fn reset(&self, limits: &str);
    fn forget(&self);
}

trait Sweeps {
    fn forget(&self);
}

impl Sweeps for MemoryStore {
    fn forget(&self) {
        self.sweep();
    }
}

impl Sweeps for SqliteStore {
    fn forget(&self) {
        self.sweep().unwrap();
    }
}

fn limiter<S: Store + Clone>(store: &S, limits: &str) -> Limiter<S> {
    Limiter::new(limits.parse().unwrap(), store.clone())
}

impl<S: Store + Sweeps + Clone> Tried for S {
    fn reserve(&self, limits: &str, cost: u64) -> Option<Hold> {
        block_on(limiter(self, limits).hold(Ask::new("bob").cost(cost).reserve(TTL))).unwrap().hold
    }

    fn acquire(&self, limits: &str) -> Option<Hold> {
        block_on(limiter(self, limits).hold(Ask::new("bob").acquire())).unwrap().hold
    }

    fn commit(&self, hold: &Hold, actual: u64) -> Result<u64, Error> {
        let limits = hold.counts[0].1.to_string();
        block_on(limiter(self, &limits).commit(hold, actual))
            .map(|settled| settled.actual.amounts().first())
    }

    fn left(&self, limits: &str) -> u64 {
        block_on(limiter(self, limits).check(Ask::new("bob").peek())).unwrap().remaining()
    }

    fn reset(&self, limits: &str) {
        block_on(limiter(self, limits).admin().reset("bob")).unwrap();
    }

    fn forget(&self) {
        Sweeps::forget(self);
    }
}

#[test]
fn a_forged_hold_settles_nothing_of_others() {
    on_each(|_, store| {
        let limits = "10/h via fixed_window";
        let hold = store.reserve(limits, 6).unwrap();
        // How long it was asked for is known.
        let ttl_us = hold.id.asked_us().unwrap();
        let guessed = (0..1_000).map(|_| HoldId::random(HoldKind::Reserve, ttl_us));
        for id in guessed.chain([HoldId::random(HoldKind::Acquire, ttl_us)]) {
            let mut forged = hold.clone();
            forged.id = id;
            assert!(matches!(store.commit(&forged, 0), Err(Error::NotOpen(_))));
        }
        // Another subject's, other limits, another kind under the same bytes.
        let mut forged = hold.clone();
        forged.counts[0].0 = Subject::literal("eve").unwrap();
        assert!(matches!(store.commit(&forged, 0), Err(Error::NotOpen(_))));
        let mut forged = hold.clone();
        forged.counts[0].1 = "10/h via gcra".parse().unwrap();
        assert!(matches!(store.commit(&forged, 0), Err(Error::NotOpen(_))));
        let mut bytes = *hold.id.as_bytes();
        bytes[0] = b'c';
        let mut forged = hold.clone();
        forged.id = HoldId::from_bytes(bytes).unwrap();
        assert!(matches!(store.commit(&forged, 0), Err(Error::NotOpen(_))));
        // Its statements about its cost and its end are not trusted.
        let mut forged = hold.clone();
        (forged.end, forged.fence) = (Time::from_micros(u64::MAX >> 12), 0);
        assert_eq!(store.left(limits), 4);
        assert_eq!(store.commit(&forged, 2).unwrap(), 2);
        assert_eq!(store.left(limits), 8);
    });
}

#[test]
fn units_at_the_edges_of_what_can_be_committed() {
    on_each(|_, store| {
        let limits = "1000/h debt 1000 via fixed_window";
        let hold = store.reserve(limits, 10).unwrap();
        for units in [(1 << 40) + 1, 1 << 53, u64::MAX] {
            assert!(matches!(store.commit(&hold, units), Err(Error::Ask(_))), "{units}");
        }
        assert_eq!(store.left(limits), 990);
        assert_eq!(store.commit(&hold, 1 << 40).unwrap(), 1 << 40);
        assert_eq!(store.left(limits), 0);
        let none = store.reserve("9/h via gcra", 9).unwrap();
        assert_eq!(store.commit(&none, 0).unwrap(), 0);
        assert_eq!(store.left("9/h via gcra"), 9);
    });
}

#[test]
fn a_count_has_a_hundred_thousand_holds_and_no_more() {
    let clock = ManualClock::at_micros(START_US);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new("1000000/h via fixed_window".parse().unwrap(), store);
    let reserve = || limiter.hold(Ask::new("bob").reserve(TTL)).now();
    let first = reserve().unwrap().hold.unwrap();
    for _ in 1..100_000 {
        assert!(reserve().unwrap().hold.is_some());
    }
    let error = reserve().unwrap_err().to_string();
    assert!(error.contains("100000 holds are open on one count"), "{error}");
    assert!(limiter.hold(Ask::new("ann").reserve(TTL)).now().unwrap().hold.is_some());
    limiter.commit(&first, 1).now().unwrap();
    assert!(reserve().unwrap().hold.is_some());
    assert!(reserve().is_err());
    // All end together, and the next call judges them.
    clock.set(Time::from_micros(START_US + 20_000_000));
    assert!(reserve().unwrap().hold.is_some());
    assert_eq!(limiter.check(Ask::new("bob").peek()).now().unwrap().remaining(), 1_000_000 - 2);
}

#[test]
fn more_holds_than_a_denial_looks_at_end_together() {
    let store = MemoryStore::builder().clock(ManualClock::at_micros(START_US)).build();
    for limits in ["70/h via fixed_window", "70 at once hold 20s"] {
        let limiter = Limiter::new(limits.parse().unwrap(), store.clone());
        let ask = |cost| match limits.contains("at once") {
            true => limiter.hold(Ask::new("bob").cost(cost).acquire()).now().unwrap(),
            false => limiter.hold(Ask::new("bob").cost(cost).reserve(TTL)).now().unwrap(),
        };
        for _ in 0..70 {
            assert!(ask(1).hold.is_some());
        }
        let denied = ask(70);
        assert!(denied.hold.is_none());
        assert_eq!(denied.decision.retry_after(), Some(TTL), "{limits}");
    }
}

#[test]
fn a_count_with_holds_is_not_forgotten_while_others_come_in() {
    let clock = ManualClock::at_micros(START_US);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(1 << 20).build();
    let limiter = Limiter::new("10/h via fixed_window".parse().unwrap(), store);
    let hold = limiter.hold(Ask::new("bob").cost(6).reserve(TTL)).now().unwrap().hold.unwrap();
    for other in 0..50_000 {
        let _ = limiter.check(format!("other:{other}").as_str()).now();
    }
    assert_eq!(limiter.check(Ask::new("bob").peek()).now().unwrap().remaining(), 4);
    assert_eq!(limiter.commit(&hold, 2).now().unwrap().charged[0].remaining, 8);
}

#[test]
fn no_hold_lasts_longer_after_any_step_of_the_clock() {
    on_each(|at, store| {
        let limits = "1 at once hold 10s";
        let mut now_us = START_US;
        for back_us in [0, 1, 1_000_000, 1_000_001, 5_000_000, 3_600_000_000, 86_400_000_000] {
            now_us += 100_000_000;
            at(now_us);
            let hold = store.acquire(limits).expect("the slot is free");
            at(now_us + 4_000_000);
            // A peek notes no time.
            assert!(store.acquire(limits).is_none());
            now_us = now_us + 4_000_000 - back_us;
            at(now_us);
            assert!(store.acquire(limits).is_none());
            // Six seconds were left, and skew may add one.
            at(now_us + 7_000_000);
            assert_eq!(store.left(limits), 1, "{back_us} back");
            assert!(matches!(store.commit(&hold, 0), Err(Error::NotOpen(_))));
        }
    });
}

#[test]
fn a_reset_forgets_holds_and_a_sweep_does_not() {
    on_each(|at, store| {
        let limits = "10/h via sliding_log";
        let (hold, other) = (store.reserve(limits, 6).unwrap(), store.reserve(limits, 3).unwrap());
        at(START_US + 19_999_999);
        store.forget();
        assert_eq!(store.left(limits), 1);
        assert_eq!(store.commit(&other, 2).unwrap(), 2);
        store.forget();
        assert_eq!(store.left(limits), 2);
        store.reset(limits);
        assert_eq!(store.left(limits), 10);
        assert!(matches!(store.commit(&hold, 6), Err(Error::NotOpen(_))));
        assert_eq!(store.left(limits), 10);
    });
}

#[test]
fn a_hold_that_names_a_count_twice_is_refused() {
    on_each(|_, store| {
        let limits = "10/h via fixed_window";
        let hold = store.reserve(limits, 6).unwrap();
        let kept = store.reserve(limits, 1).unwrap();
        let mut forged = hold.clone();
        forged.counts.push(forged.counts[0].clone());
        assert!(store.commit(&forged, 2).is_err());
        assert_eq!(store.left(limits), 3);
        assert_eq!(store.commit(&hold, 2).unwrap(), 2);
        assert_eq!(store.commit(&kept, 1).unwrap(), 1);
        assert_eq!(store.left(limits), 7);
    });
}

#[test]
fn a_set_of_holds_that_was_evicted_is_not_kept_for_ever() {
    let server = tollgate_testbed::redis_or_skip!();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = tollgate_redis::Options::from_url(&server.url()).unwrap();
        let store = tollgate_redis::RedisStore::builder(options).connect().await.unwrap();
        let limiter = Limiter::new("10/h via fixed_window".parse().unwrap(), store);
        let reserve = |cost, ms| {
            let ask = Ask::new("bob").cost(cost);
            limiter.hold(ask.reserve(Duration::from_millis(ms)))
        };
        assert!(reserve(6, 50).await.unwrap().hold.is_some());
        let evict = b"return redis.call('DEL', unpack(redis.call('KEYS', '*@')))";
        assert_eq!(server.command(&[b"EVAL", evict, b"0"]).int(), Some(1));
        // Traffic keeps the sums.
        let other = reserve(1, 60_000).await.unwrap().hold.unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while limiter.check(Ask::new("bob").peek()).await.unwrap().remaining() != 9 {
            assert!(std::time::Instant::now() < until, "units are held for ever");
            let _ = reserve(10, 50).await.unwrap();
        }
        limiter.commit(&other, 0).await.unwrap();
        assert_eq!(limiter.check(Ask::new("bob").peek()).await.unwrap().remaining(), 10);
    });
}

#[test]
fn a_fence_rises_behind_a_hold_that_ended_by_itself() {
    on_each(|at, store| {
        let limits = "9/h via fixed_window";
        let before = store.reserve(limits, 1).unwrap();
        at(START_US + 20_000_000);
        // A hold whose number is larger than the time, which ends immediately.
        let last = store.reserve(limits, 1).unwrap();
        at(START_US + 40_000_000);
        assert!(store.reserve(limits, 10).is_none());
        assert!(last.fence > before.fence);
        let next = store.reserve(limits, 1).unwrap();
        at(START_US + 39_500_000);
        let after = store.reserve(limits, 1).unwrap();
        assert!(after.fence > next.fence, "{} after {}", after.fence, next.fence);
    });
}
