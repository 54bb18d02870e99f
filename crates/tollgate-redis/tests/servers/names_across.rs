//! Named holds over several slots of a real cluster: the answers of one server, the holds that are
//! placed and taken back where slots differ, and the effect of lost replies.

use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use tollgate::engine::MAX_REPEATS;
use tollgate::{
    Ask, Error, Hold, HoldName, Holding, LimitSet, Limiter, ManualClock, MemoryStore, Reserve,
    Store, Subject,
};
use tollgate_redis::{Keys, RedisStore};
use tollgate_testbed::{Mode, Proxy, RedisCluster, Trick};

use crate::across::{LONG, NOON, apart, cluster, limits, options, seen};
use crate::common::{pause, runtime};

fn name(number: u64) -> HoldName {
    format!("request-{number:016}").parse().unwrap()
}

/// Three counts, by their subjects.
struct Counts {
    subjects: [Subject; 3],
    set: LimitSet,
}

impl Counts {
    fn new(cluster: &RedisCluster, set: &str, prefix: &str) -> Self {
        let set = limits(set);
        Self { subjects: apart(cluster, &set, prefix), set }
    }

    /// An ask about the counts at these places.
    fn ask(&self, places: &[usize], number: u64) -> Ask<'_> {
        let of = |place: &usize| (self.subjects[*place].clone(), &self.set);
        Ask::from(places.iter().map(of).collect::<Vec<_>>()).named(name(number))
    }

    /// The remaining units of each limit of each count.
    async fn left<S: Store>(&self, limiter: &Limiter<S>) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        for subject in &self.subjects {
            let decision = limiter.check(Ask::new(subject).peek()).await.unwrap();
            all.push(decision.reports().map(|report| report.remaining()).collect());
        }
        all
    }
}

async fn connect(cluster: &RedisCluster, run: &str, clock: &ManualClock) -> RedisStore {
    let store = RedisStore::builder(options(cluster)).run(run, clock.clone());
    store.connect().await.unwrap()
}

/// A store that reaches each node of a cluster through a proxy.
async fn behind_proxies(
    cluster: &RedisCluster,
    run: &str,
    clock: &ManualClock,
) -> (Vec<Proxy>, RedisStore) {
    let proxies: Vec<Proxy> =
        cluster.servers().iter().map(|it| Proxy::start(it.address())).collect();
    let mut options = options(cluster);
    for (server, proxy) in cluster.servers().iter().zip(&proxies) {
        proxy.only(&["EVALSHA", "EVAL"]);
        let announced = ("127.0.0.1", server.port());
        options = options.reach(announced, ("127.0.0.1", proxy.address().port()));
    }
    let store = RedisStore::builder(options).run(run, clock.clone());
    (proxies, store.connect().await.unwrap())
}

fn told(answer: Result<Holding<'_>, Error>) -> String {
    match answer {
        Ok(Holding { decision, hold, .. }) => {
            let hold = hold.map(|it| (it.id, it.fence, it.end, it.answer));
            format!("{} {hold:?} {}", seen(&decision), decision.receipt().is_some())
        }
        Err(error) => format!("{error}"),
    }
}

/// The hold that was placed or answered again.
fn held(answer: Result<Holding<'_>, Error>) -> Hold {
    answer.unwrap().hold.unwrap_or_else(|| panic!("it is denied"))
}

/// Asks again while a connection that was cut is made again, which has reached no server.
async fn once_connected<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let begin = Instant::now();
    loop {
        match ask().await {
            Err(Error::Store(error)) if error.is_transient() && !error.is_ambiguous() => {
                assert!(begin.elapsed() < LONG, "{error}");
                pause(5).await;
            }
            answer => return answer,
        }
    }
}

fn is_over<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error}");
    assert!(error.to_string().contains("was released or committed before"), "{error}");
}

/// A store's answers to holds over three counts, step by step, by a given clock.
async fn story<S: Store>(store: S, counts: &Counts, clock: &ManualClock) -> Vec<String> {
    let limiter = Limiter::new(counts.set.clone(), store);
    let all = [0, 1, 2];
    let mut lines = Vec::new();
    let acquire = async |number, cost| {
        clock.advance(Duration::from_millis(10));
        told(limiter.hold(counts.ask(&all, number).cost(cost).acquire()).await)
    };
    let reserve = async |number, seconds, charging: bool| {
        clock.advance(Duration::from_millis(10));
        let terms = Reserve::from(Duration::from_secs(seconds));
        let terms = if charging { terms.charging() } else { terms };
        told(limiter.hold(counts.ask(&all, number).cost(4).reserve(terms)).await)
    };
    let by_name = |number| counts.ask(&all, number).named_hold(limiter.limits()).unwrap();
    let settle = async |number, units| {
        clock.advance(Duration::from_millis(10));
        format!("{:?}", limiter.commit(&by_name(number), units).await)
    };
    // One that is open is answered again, 16 times, and not if it is asked for otherwise.
    lines.push(acquire(1, 1).await);
    lines.push(acquire(1, 2).await);
    lines.push(reserve(1, 9, false).await);
    for _ in 1..=MAX_REPEATS + 1 {
        lines.push(acquire(1, 1).await);
    }
    // It ends once, and its name is over for a minute.
    lines.push(settle(1, 2).await);
    lines.push(settle(1, 0).await);
    lines.push(settle(1, 0).await);
    lines.push(acquire(1, 1).await);
    // Units are committed by their name, and remembered.
    lines.push(reserve(2, 9, false).await);
    lines.push(reserve(2, 9, false).await);
    lines.push(reserve(2, 9, true).await);
    let mut hold = by_name(2);
    clock.advance(Duration::from_secs(5));
    lines.push(format!("{:?}", limiter.renew(&mut hold, Some(Duration::from_secs(8))).await));
    lines.push(format!("{:?}", hold.end));
    lines.push(reserve(2, 9, false).await);
    lines.push(settle(2, 3).await);
    lines.push(settle(2, 3).await);
    lines.push(settle(3, 3).await);
    // A release may come before.
    lines.push(settle(4, 0).await);
    lines.push(settle(4, 0).await);
    lines.push(acquire(4, 1).await);
    lines.push(acquire(5, 2).await);
    // Denied, and the name is free for the next one.
    lines.push(acquire(6, 1).await);
    lines.push(settle(5, 0).await);
    lines.push(acquire(6, 1).await);
    clock.advance(Duration::from_secs(61));
    lines.push(acquire(4, 1).await);
    lines.push(reserve(7, 2, true).await);
    clock.advance(Duration::from_secs(5));
    lines.push(reserve(7, 2, true).await);
    lines.push(format!("{:?}", counts.left(&limiter).await));
    lines
}

#[test]
fn alone_named_holds_over_slots_are_those_of_one_server() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        for set in [
            "50/h via sliding_log, 2 at once hold 30s",
            "50/h via gcra, 90/d via fixed_window, 2 at once hold 30s",
        ] {
            let counts = Counts::new(cluster, set, "job");
            let (here, there) = (ManualClock::at_micros(NOON), ManualClock::at_micros(NOON));
            let memory = MemoryStore::builder().clock(here.clone()).build();
            let store = connect(cluster, &format!("names-{}", set.len()), &there).await;
            let expected = story(memory, &counts, &here).await;
            let told = story(store.clone(), &counts, &there).await;
            for (n, (told, expected)) in told.iter().zip(&expected).enumerate() {
                assert_eq!(told, expected, "{set}, step {n}");
            }
            for server in cluster.servers() {
                assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
            }
            store.clear_run().await.unwrap();
        }
    });
}

/// A line is kept in one slot alone: over several the error says what to do.
#[test]
fn a_line_is_kept_in_one_slot_of_a_cluster() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts = Counts::new(cluster, "1 at once hold 30s, 9/h via gcra", "line");
        let clock = ManualClock::at_micros(NOON);
        let store = connect(cluster, "names-line", &clock).await;
        let limiter = Limiter::new(counts.set.clone(), store.clone());
        let first = held(limiter.hold(counts.ask(&[0], 1).acquire()).await);
        for (number, ahead) in [(2, 0), (3, 1), (2, 0)] {
            let denied = limiter.hold(counts.ask(&[0], number).in_line().acquire()).await.unwrap();
            assert_eq!((denied.hold, denied.ahead), (None, ahead));
        }
        let error = limiter.hold(counts.ask(&[0, 1], 4).in_line().acquire()).await.unwrap_err();
        assert!(error.to_string().contains("in one slot with a `shard`"), "{error}");
        assert!(limiter.release(&first).await.unwrap());
        // Nobody overtakes, not by a question over several slots either.
        assert!(limiter.hold(counts.ask(&[0, 1], 5).acquire()).await.unwrap().hold.is_none());
        assert!(
            limiter.hold(counts.ask(&[0], 3).in_line().acquire()).await.unwrap().hold.is_none()
        );
        held(limiter.hold(counts.ask(&[0], 2).in_line().acquire()).await);
        for server in cluster.servers() {
            assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
        }
        store.clear_run().await.unwrap();
    });
}

/// A slot that has lost its part gets it back by a repeat, and no other is charged again.
#[test]
fn a_repeat_places_a_hold_where_it_is_missing() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts = Counts::new(cluster, "9/h via fixed_window, 2 at once hold 30s", "missing");
        let clock = ManualClock::at_micros(NOON);
        let store = connect(cluster, "names-missing", &clock).await;
        let limiter = Limiter::new(counts.set.clone(), store.clone());
        let acquire = async || limiter.hold(counts.ask(&[0, 1], 1).acquire()).await;
        let first = held(acquire().await);
        assert_eq!(counts.left(&limiter).await, [[8, 1], [8, 1], [9, 2]]);
        for lost in [1, 0] {
            assert!(limiter.admin().reset(&counts.subjects[lost]).await.unwrap());
            let again = acquire().await.unwrap();
            // Part of it was charged before, so there is no receipt for all of it.
            assert!(again.decision.receipt().is_none());
            assert_eq!(again.hold.as_ref().map(|it| (it.id, it.answer)), Some((first.id, 1)));
            assert_eq!(counts.left(&limiter).await, [[8, 1], [8, 1], [9, 2]]);
            let third = held(acquire().await);
            assert_eq!((third.answer, third.fence), (2, again.hold.unwrap().fence));
            assert_eq!(counts.left(&limiter).await, [[8, 1], [8, 1], [9, 2]]);
            // An answer that reached nobody takes back no part that was answered again.
            assert!(!limiter.release(&first.clone().undelivered()).await.unwrap());
            assert_eq!(counts.left(&limiter).await, [[8, 1], [8, 1], [9, 2]]);
        }
        // It is released where it is open, and each slot remembers that it is over.
        let by_name = counts.ask(&[0, 1], 1).named_hold(limiter.limits()).unwrap();
        assert!(limiter.admin().reset(&counts.subjects[0]).await.unwrap());
        assert!(limiter.release(&by_name).await.unwrap());
        assert_eq!(counts.left(&limiter).await, [[9, 2], [8, 2], [9, 2]]);
        is_over(acquire().await);
        limiter.admin().reset(&counts.subjects[0]).await.unwrap();
        let settled = limiter.commit(&by_name, 0).await.unwrap();
        assert!(settled.already && !settled.is_early, "{settled:?}");
        is_over(acquire().await);
        assert_eq!(counts.left(&limiter).await, [[9, 2], [8, 2], [9, 2]]);
        assert!(limiter.admin().reset(&counts.subjects[1]).await.unwrap());
        // With other counts it is another hold: one name does not bypass the slots of a count.
        held(limiter.hold(counts.ask(&[1, 0, 2], 2).acquire()).await);
        assert_eq!(held(limiter.hold(counts.ask(&[2, 1, 0], 2).acquire()).await).answer, 2);
        held(limiter.hold(counts.ask(&[0, 1], 2).acquire()).await);
        assert_eq!(counts.left(&limiter).await, [[7, 0], [7, 0], [8, 1]]);
        assert!(limiter.hold(counts.ask(&[0, 2], 2).acquire()).await.unwrap().hold.is_none());
        assert_eq!(counts.left(&limiter).await, [[7, 0], [7, 0], [8, 1]]);
        store.clear_run().await.unwrap();
    });
}

/// Where a slot denies, the holds of this question go, and earlier ones stay.
#[test]
fn a_denial_takes_back_what_it_has_placed_and_nothing_else() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts = Counts::new(cluster, "9/h via fixed_window, 1 at once hold 30s", "denied");
        let clock = ManualClock::at_micros(NOON);
        let store = connect(cluster, "names-denied", &clock).await;
        let limiter = Limiter::new(counts.set.clone(), store.clone());
        let other = held(limiter.hold(Ask::new(&counts.subjects[1]).acquire()).await);
        // The second time the slot that denies is asked first.
        for _ in 0..2 {
            assert!(limiter.hold(counts.ask(&[0, 1], 1).acquire()).await.unwrap().hold.is_none());
            assert_eq!(counts.left(&limiter).await, [[9, 1], [8, 0], [9, 1]]);
        }
        assert!(limiter.release(&other).await.unwrap());
        // The clock of denials is that of the machine: other counts have none yet.
        let fresh = |number| counts.ask(&[0, 2], number);
        let other = held(limiter.hold(Ask::new(&counts.subjects[2]).acquire()).await);
        assert!(limiter.hold(fresh(2).acquire()).await.unwrap().hold.is_none());
        assert!(limiter.release(&other).await.unwrap());
        let hold = held(limiter.hold(fresh(2).acquire()).await);
        assert_eq!((hold.answer, counts.left(&limiter).await[0].clone()), (1, vec![8, 0]));
        // One slot has lost its part, which another has now: the rest stays until it is released.
        assert!(limiter.admin().reset(&counts.subjects[2]).await.unwrap());
        let other = held(limiter.hold(Ask::new(&counts.subjects[2]).acquire()).await);
        // A slot that is only looked at is not answered again: it is a denial each time.
        for _ in 0..MAX_REPEATS + 4 {
            assert!(limiter.hold(fresh(2).acquire()).await.unwrap().hold.is_none());
            assert_eq!(counts.left(&limiter).await, [[8, 0], [8, 1], [8, 0]]);
        }
        let by_name = fresh(2).named_hold(limiter.limits()).unwrap();
        assert!(limiter.release(&by_name).await.unwrap());
        assert_eq!(counts.left(&limiter).await, [[8, 1], [8, 1], [8, 0]]);
        assert!(limiter.release(&other).await.unwrap());
        is_over(limiter.hold(fresh(2).acquire()).await);
        // A name that is over in one slot is taken back in the others.
        assert!(limiter.admin().reset(&counts.subjects[0]).await.unwrap());
        is_over(limiter.hold(fresh(2).acquire()).await);
        assert_eq!(counts.left(&limiter).await, [[9, 1], [8, 1], [8, 1]]);
        store.clear_run().await.unwrap();
    });
}

/// Lost replies and repeats: a hold is charged once in each slot, and a release ends all of it.
#[test]
fn a_lost_reply_and_a_repeat_charge_each_slot_once() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts = Counts::new(cluster, "9/h via fixed_window, 2 at once hold 30s", "lost");
        let clock = ManualClock::at_micros(NOON);
        let (proxies, store) = behind_proxies(cluster, "names-lost", &clock).await;
        let limiter = Limiter::new(counts.set.clone(), store.clone());
        // The nodes get their scripts.
        let ask = |number| counts.ask(&[0, 1, 2], number);
        held(limiter.hold(ask(0).acquire()).await);
        assert!(limiter.release(&ask(0).named_hold(limiter.limits()).unwrap()).await.unwrap());
        assert_eq!(counts.left(&limiter).await, [[8, 2], [8, 2], [8, 2]]);
        for (number, proxy) in (1..).zip(&proxies) {
            proxy.next(1, Trick::LoseReply);
            let error = limiter.hold(ask(number).acquire()).await.unwrap_err();
            assert!(matches!(&error, Error::Store(it) if it.is_ambiguous()), "{error}");
            // Two gave their parts back; the one whose reply was lost keeps its own.
            let left = counts.left(&limiter).await;
            assert_eq!(left.iter().filter(|it| it[1] == 1).count(), 1, "{left:?}");
            held(once_connected(async || limiter.hold(ask(number).acquire()).await).await);
            let charged = 8 - number;
            assert_eq!(counts.left(&limiter).await, vec![vec![charged, 1]; 3]);
            // A release that is lost in one slot is repeated.
            proxy.next(1, Trick::LoseReply);
            let by_name = ask(number).named_hold(limiter.limits()).unwrap();
            assert!(limiter.release(&by_name).await.is_err());
            let again = once_connected(async || limiter.release(&by_name).await).await;
            assert!(!again.unwrap(), "all had done it");
            is_over(limiter.hold(ask(number).acquire()).await);
            assert_eq!(counts.left(&limiter).await, vec![vec![charged, 2]; 3]);
        }
        store.clear_run().await.unwrap();
    });
}

/// A denial may arrive when a repeat has been admitted meanwhile: that one keeps its hold, and its
/// charge.
#[test]
fn a_late_denial_takes_back_nothing_that_was_answered_again() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts = Counts::new(cluster, "9/h via fixed_window, 1 at once hold 30s", "late");
        let clock = ManualClock::at_micros(NOON);
        let (proxies, slow) = behind_proxies(cluster, "names-late", &clock).await;
        let direct = connect(cluster, "names-late", &clock).await;
        let [slow, direct] = [slow, direct].map(|store| Limiter::new(counts.set.clone(), store));
        // The nodes get their scripts.
        let first = held(slow.hold(counts.ask(&[0, 1], 0).acquire()).await);
        assert!(slow.release(&first).await.unwrap());
        let other = held(direct.hold(Ask::new(&counts.subjects[1]).acquire()).await);
        let key = Keys::new().state(&counts.subjects[1], &counts.set);
        let proxy = &proxies[cluster.owner_of(key.as_bytes()).unwrap()];
        let late = Duration::from_secs(3);
        proxy.set(Mode::Delay { least: late, most: late });
        let sent = proxy.seen().requests;
        let denied = slow.hold(counts.ask(&[0, 1], 1).acquire());
        let admitted = async {
            let begin = Instant::now();
            while proxy.seen().requests == sent || counts.left(&direct).await[0] != [7, 0] {
                assert!(begin.elapsed() < LONG, "the first slot has not placed it");
                pause(1).await;
            }
            assert!(direct.release(&other).await.unwrap());
            held(direct.hold(counts.ask(&[0, 1], 1).acquire()).await)
        };
        let (denied, mut admitted) = join(denied, admitted).await;
        assert!(denied.unwrap().hold.is_none());
        assert_eq!(counts.left(&direct).await, [[7, 0], [6, 0], [9, 1]]);
        assert!(direct.renew(&mut admitted, None).await.unwrap());
        assert!(direct.release(&admitted).await.unwrap());
        assert_eq!(counts.left(&direct).await, [[7, 1], [6, 1], [9, 1]]);
        direct.store().clear_run().await.unwrap();
    });
}

/// Repeats at the same time, some of them denied: whoever was answered has all of its hold, and no
/// count has more than its slots.
#[test]
fn at_once_whoever_is_answered_has_all_of_its_hold() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let counts =
            Counts::new(cluster, "100000/30d via fixed_window, 3 at once hold 60s", "race");
        let store = RedisStore::builder(options(cluster)).run_now("names-race");
        let store = store.connect().await.unwrap();
        let limiter = Limiter::new(counts.set.clone(), store.clone());
        let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
        let mut answered = 0_u64;
        for round in 0..20 {
            // Eight names, each asked for three times concurrently, want eight of three slots.
            let asks = (0..24_u64).map(|n| {
                let places = &orders[(n % 3) as usize];
                limiter.hold(counts.ask(places, 100 * round + n / 3).acquire())
            });
            let answers = join_all(asks).await;
            let mut open: Vec<Hold> = Vec::new();
            for hold in answers.into_iter().filter_map(|answer| answer.unwrap().hold) {
                if open.iter().all(|other| other.id != hold.id) {
                    open.push(hold);
                }
            }
            assert!(open.len() <= 3, "{}", open.len());
            answered += open.len() as u64;
            for hold in &mut open {
                assert!(limiter.renew(hold, None).await.unwrap(), "a part of it is gone");
            }
            for number in 0..8 {
                let ask = counts.ask(&orders[0], 100 * round + number);
                limiter.commit(&ask.named_hold(limiter.limits()).unwrap(), 0).await.unwrap();
            }
            let left = counts.left(&limiter).await;
            // Each hold is charged; a denial that is answered again meanwhile may leave a charge.
            let is_sound = |left: &Vec<u64>| left[1] == 3 && 100_000 - left[0] >= answered;
            assert!(left.iter().all(is_sound), "{answered}: {left:?}");
        }
        println!("{answered} holds of 60");
        assert!(answered > 0);
        store.clear_run().await.unwrap();
    });
}
