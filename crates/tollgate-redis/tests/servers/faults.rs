//! Faults of Redis, or of the way to it: nothing is charged twice, no answer is wrong, everything
//! comes back by itself.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use proptest::prelude::{any, prop_assert, prop_assert_eq};
use proptest::test_runner::{Config, TestRunner};
use tollgate::{Ask, Error, LimitSet, Limiter, Store as _};
use tollgate_redis::{BreakerState, Fault, Options, RedisStore};
use tollgate_testbed::{Mode, Proxy, RedisServer, Trick, redis_or_skip};

use crate::common::{pause, runtime};

const SECOND: Duration = Duration::from_secs(1);

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap()
}

async fn connect(url: &str, deadline: Duration) -> RedisStore {
    let options = Options::from_url(url).unwrap().deadline(deadline);
    RedisStore::builder(options).connect().await.unwrap()
}

/// The units that `bob` has consumed under `1000000/d via fixed_window`, by a connection that
/// works.
async fn consumed(server: &RedisServer, limits: &LimitSet) -> u64 {
    consumed_by(server, limits, "bob").await
}

async fn consumed_by(server: &RedisServer, limits: &LimitSet, subject: &str) -> u64 {
    let store = connect(&server.url(), SECOND * 10).await;
    let limiter = Limiter::new(limits.clone(), store);
    let decision = limiter.check(Ask::new(subject).peek()).await.unwrap();
    decision.limit() - decision.remaining()
}

/// Waits until `done` is true, for at most `limit`.
async fn until(limit: Duration, mut done: impl AsyncFnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !done().await {
        assert!(begin.elapsed() < limit, "not within {limit:?}");
        pause(5).await;
    }
    begin.elapsed()
}

fn fault(error: &Error) -> &Fault {
    let source = std::error::Error::source(error).unwrap();
    let source = source.downcast_ref::<Fault>();
    source.or_else(|| std::error::Error::source(error)?.source()?.downcast_ref()).unwrap()
}

const DAY: &str = "1000000/d via fixed_window";

#[test]
fn a_reply_that_is_lost_after_the_charge_is_charged_once_and_not_asked_again() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    runtime().block_on(async {
        for (trick, charged) in [
            (Trick::LoseReply, 1),
            (Trick::HalfReply, 1),
            (Trick::Garbage, 1),
            (Trick::LoseRequest, 0),
        ] {
            let limits = limits(DAY);
            let limiter = Limiter::new(limits.clone(), connect(&proxy.url(), SECOND).await);
            let _ = limiter.check("bob").await.unwrap();
            let before = consumed(&server, &limits).await;
            let calls = server.commandstats()["evalsha"].calls;
            proxy.only(&["EVALSHA"]);
            proxy.next(1, trick);
            let error = limiter.check("bob").await.unwrap_err();
            assert!(matches!(&error, Error::Store(e) if e.is_ambiguous()), "{trick:?}: {error}");
            // The connection comes back by itself.
            until(SECOND * 5, async || limiter.check(Ask::new("bob").peek()).await.is_ok()).await;
            assert_eq!(consumed(&server, &limits).await, before + charged, "{trick:?}");
            let after = server.commandstats()["evalsha"].calls;
            assert!(after - calls <= 12, "{trick:?}: {} calls", after - calls);
        }
    });
    assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
}

/// A check that meets open holds is asked twice. Its deadline is that of both, and the error shows
/// that.
#[test]
fn the_deadline_of_a_check_that_is_asked_twice_is_that_of_both() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    runtime().block_on(async {
        let deadline = Duration::from_millis(600);
        let limiter = Limiter::new(limits(DAY), connect(&proxy.url(), deadline).await);
        // It loads the scripts.
        let _ = limiter.check("ann").await.unwrap();
        limiter.hold(Ask::new("bob").reserve(SECOND * 60)).await.unwrap().hold.unwrap();
        let late = Duration::from_millis(400);
        proxy.set(Mode::Delay { least: late, most: late });
        let error = limiter.check("bob").await.unwrap_err().to_string();
        assert!(error.starts_with("no answer from Redis within 600ms"), "{error}");
    });
}

/// A reply that belongs to another connection never becomes a decision.
#[test]
fn the_reply_of_another_connection_is_recognised() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    runtime().block_on(async {
        let one = Limiter::new(limits(DAY), connect(&proxy.url(), SECOND).await);
        let two = Limiter::new(limits(DAY), connect(&proxy.url(), SECOND).await);
        let _ = one.check("ann").await.unwrap();
        let _ = two.check("bob").await.unwrap();
        proxy.only(&["EVALSHA"]);
        proxy.next(2, Trick::Swap);
        let (first, second) = tokio::join!(one.check("ann"), two.check("bob"));
        for error in [first.unwrap_err(), second.unwrap_err()] {
            assert!(matches!(&error, Error::Store(e) if e.is_ambiguous()), "{error}");
            assert!(matches!(fault(&error), Fault::Garbled { .. }), "{error}");
        }
        until(SECOND * 5, async || one.check(Ask::new("ann").peek()).await.is_ok()).await;
    });
}

/// Faults at random, the same ones for one seed: the answered units are at most the charged ones,
/// and the charged units are at most those answered or in doubt. The seeds go side by side: most of
/// the time passes between a connection that was lost and the next.
#[test]
fn nothing_is_charged_twice_whatever_the_network_does() {
    let server = redis_or_skip!();
    runtime().block_on(join_all((0..6).map(|seed| charged_in_doubt(&server, seed))));
}

async fn charged_in_doubt(server: &RedisServer, seed: u64) {
    let proxy = Proxy::seeded(server.address(), seed);
    let limits = limits(&format!("s{seed}: {DAY}"));
    let store = connect(&proxy.url(), Duration::from_millis(500)).await;
    let limiter = Limiter::new(limits.clone(), store);
    let _ = limiter.check("bob").await.unwrap();
    proxy.only(&["EVALSHA"]);
    let tricks = [Trick::LoseRequest, Trick::LoseReply, Trick::HalfReply, Trick::Garbage];
    proxy.sometimes(150, &tricks);
    let (mut allowed, mut unknown, mut refused) = (1, 0, 0);
    for _ in 0..300 {
        match limiter.check("bob").await {
            Ok(decision) => allowed += decision.granted(),
            Err(Error::Store(error)) if error.is_ambiguous() => unknown += 1,
            Err(_) => {
                refused += 1;
                pause(10).await;
            }
        }
    }
    proxy.heal();
    let charged = consumed(server, &limits).await;
    println!(
        "seed {seed}: {allowed} allowed, {unknown} unknown, {refused} refused, {charged} charged"
    );
    assert!(unknown > 0, "no fault was met");
    assert!((allowed..=allowed + unknown).contains(&charged));
}

/// The same, with a request id and callers that ask again until they have an answer: every request
/// is charged exactly once. The callers go side by side, as the seeds above.
#[test]
fn a_request_id_is_charged_once_however_often_it_is_asked() {
    let server = redis_or_skip!();
    let callers = (7..15).map(|seed| asked_until_answered(&server, seed));
    let again: u64 = runtime().block_on(join_all(callers)).into_iter().sum();
    println!("200 requests, asked again {again} times");
    assert!(again > 20);
    assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
}

/// Asks 25 times, and each time until there is an answer; says how often again.
async fn asked_until_answered(server: &RedisServer, seed: u64) -> u64 {
    let proxy = Proxy::seeded(server.address(), seed);
    let subject = &format!("bob{seed}");
    let limits = limits(DAY);
    let store = connect(&proxy.url(), Duration::from_millis(500)).await;
    let limiter = Limiter::new(limits.clone(), store);
    let _ = limiter.check(Ask::new(subject).request(&format!("{subject}, first"))).await.unwrap();
    proxy.only(&["EVALSHA"]);
    proxy.sometimes(200, &[Trick::LoseRequest, Trick::LoseReply, Trick::HalfReply]);
    let mut again = 0;
    for request in 0..25 {
        let id = format!("{subject}, request {request}");
        let begin = Instant::now();
        loop {
            match limiter.check(Ask::new(subject).request(&id)).await {
                Ok(decision) => {
                    // The first decision, whenever it is heard: one more consumed each time.
                    assert_eq!(decision.remaining(), 1_000_000 - 2 - request);
                    break;
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            again += 1;
            assert!(begin.elapsed() < SECOND * 10);
            pause(10).await;
        }
    }
    proxy.heal();
    assert_eq!(consumed_by(server, &limits, subject).await, 26);
    again
}

#[test]
fn a_request_id_belongs_to_one_question() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter = Limiter::new(limits("3/h via gcra"), connect(&server.url(), SECOND).await);
        let first = limiter.check(Ask::new("bob").request("id 1")).await.unwrap().into_owned();
        let again = limiter.check(Ask::new("bob").request("id 1")).await.unwrap();
        assert_eq!(first.remaining(), again.remaining());
        assert_eq!(first.at(), again.at());
        assert_eq!(first.receipt(), again.receipt());
        // One charge, one refund.
        assert_eq!(limiter.refund(&first.receipt().unwrap()).await.unwrap().given, [1]);
        assert!(limiter.refund(&again.receipt().unwrap()).await.unwrap().already);
        let other = Ask::new("bob").cost(2);
        let error = limiter.check(other.request("id 1")).await.unwrap_err().to_string();
        assert!(error.contains("another question"), "{error}");
        assert!(!error.contains("bob") && !error.contains("id 1"));
        // A denial charged nothing: it is judged again.
        let _ = limiter.check(Ask::new("bob").cost(3)).await.unwrap();
        assert!(!limiter.check(Ask::new("bob").request("id 2")).await.unwrap().is_allowed());
        assert!(limiter.admin().reset("bob").await.unwrap());
        assert!(limiter.check(Ask::new("bob").request("id 2")).await.unwrap().is_allowed());
        for id in ["", &"x".repeat(257)] {
            let error = limiter.check(Ask::new("bob").request(id)).await.unwrap_err().to_string();
            assert!(error.contains("1 to 256 bytes"), "{error}");
        }
    });
}

#[test]
fn scripts_that_the_server_forgets_are_given_again_unseen() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = connect(&server.url(), SECOND * 5).await;
        let limiter = Limiter::new(limits(DAY), store);
        let mut allowed = 0;
        for round in 0..20 {
            if round % 2 == 0 {
                server.command(&[b"SCRIPT", b"FLUSH"]);
            }
            let asks = (0..50).map(|_| limiter.check("bob"));
            for decision in join_all(asks).await {
                allowed += decision.unwrap().granted();
            }
        }
        assert_eq!(allowed, 1_000);
        assert_eq!(consumed(&server, limiter.limits()).await, 1_000);
        // One load for all who waited, each time, of the script of one and of that of several.
        assert!(limiter.store().loads() <= 22, "{} loads", limiter.store().loads());
    });
}

#[test]
fn a_frozen_server_costs_no_more_than_the_deadline() {
    let server = redis_or_skip!();
    let deadline = Duration::from_millis(50);
    runtime().block_on(async {
        let limiter = Limiter::new(limits(DAY), connect(&server.url(), deadline).await);
        until(SECOND * 5, async || limiter.check("bob").await.is_ok()).await;
        let before = consumed(&server, limiter.limits()).await;
        server.freeze();
        let mut waits = Vec::new();
        let (mut unknown, mut late) = (0, 0);
        for _ in 0..100 {
            let asks = (0..4).map(|_| async {
                let begin = Instant::now();
                (limiter.check("bob").await, begin.elapsed())
            });
            for (answer, took) in join_all(asks).await {
                let error = answer.unwrap_err();
                unknown += u64::from(matches!(&error, Error::Store(e) if e.is_ambiguous()));
                late += u32::from(took > deadline + Duration::from_millis(100));
                waits.push(took);
            }
        }
        waits.sort();
        println!(
            "frozen: median {:?}, p99 {:?}, most {:?}; {unknown} unknown, {late} beyond deadline plus 100 ms",
            waits[waits.len() / 2],
            waits[waits.len() * 99 / 100],
            waits[waits.len() - 1],
        );
        assert!(waits[waits.len() - 1] < deadline + SECOND);
        server.thaw();
        let took = until(SECOND * 5, async || limiter.check("bob").await.is_ok()).await;
        println!("back after {took:?}");
        // Calls that were sent before and during the freeze may have been done late, and no more.
        let charged = consumed(&server, limiter.limits()).await - before;
        println!("{charged} charged, {unknown} in doubt");
        assert!((1..=1 + unknown).contains(&charged));
    });
}

#[test]
fn a_server_that_dies_and_comes_back_is_found_again() {
    let mut server = redis_or_skip!();
    runtime().block_on(async {
        let limiter =
            Limiter::new(limits(DAY), connect(&server.url(), Duration::from_millis(200)).await);
        let _ = limiter.check("bob").await.unwrap();
        server.kill();
        let begin = Instant::now();
        for _ in 0..50 {
            let error = limiter.check("bob").await.unwrap_err();
            assert!(error.is_transient(), "{error}");
        }
        println!("dead: 50 errors in {:?}", begin.elapsed());
        server.restart();
        let mut asked = 0;
        let took = until(SECOND * 5, async || {
            asked += 1;
            limiter.check("bob").await.is_ok()
        })
        .await;
        println!("back after {took:?}");
        // It started empty, and holds what was asked since and nothing of before.
        assert_eq!(consumed(&server, limiter.limits()).await, 1);
    });
}

/// A replica is recognized, and becomes usable when it is promoted at the same address.
#[test]
fn a_replica_refuses_and_a_promotion_is_noticed() {
    let primary = redis_or_skip!();
    let server = redis_or_skip!();
    let port = primary.port().to_string();
    runtime().block_on(async {
        let limiter = Limiter::new(limits(DAY), connect(&server.url(), SECOND).await);
        let _ = limiter.check("bob").await.unwrap();
        server.command(&[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
        until(SECOND * 10, async || {
            let Err(error) = limiter.check("bob").await else { return false };
            matches!(fault(&error), Fault::ReadOnly)
        })
        .await;
        server.command(&[b"REPLICAOF", b"NO", b"ONE"]);
        until(SECOND * 5, async || limiter.check("bob").await.is_ok()).await;
    });
}

#[test]
fn memory_that_is_full_is_an_error_that_changes_nothing() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let sets = limits("9/h via gcra, 5/d via fixed_window, 7/m via sliding_log");
        let limiter = Limiter::new(sets, connect(&server.url(), SECOND).await);
        let _ = limiter.check("bob").await.unwrap();
        let held = limiter.admin().inspect("bob").await.unwrap().unwrap();
        server.command(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        let error = limiter.check("bob").await.unwrap_err();
        assert!(matches!(fault(&error), Fault::OutOfMemory), "{error}");
        assert!(!matches!(&error, Error::Store(e) if e.is_ambiguous()), "{error}");
        server.command(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
        assert_eq!(limiter.admin().inspect("bob").await.unwrap().unwrap(), held);
    });
}

/// A call may have a separate deadline, shorter or longer than the store's.
#[test]
fn a_call_has_a_deadline_of_its_own() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter = Limiter::new(limits(DAY), connect(&server.url(), SECOND * 20).await);
        let _ = limiter.check("bob").await.unwrap();
        server.command(&[b"CLIENT", b"PAUSE", b"500", b"ALL"]);
        let begin = Instant::now();
        let error =
            limiter.check(Ask::new("bob").within(Duration::from_millis(20))).await.unwrap_err();
        assert!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
        assert!(error.to_string().contains("20ms"), "{error}");
        let decision = limiter.check(Ask::new("bob").within(SECOND * 15)).await.unwrap();
        assert!(decision.is_allowed());
    });
}

/// Questions with less time than the server needs and questions with enough, mixed at random: the
/// latter are answered, all of them, over the connections that were there.
#[test]
fn who_has_too_little_time_fails_alone() {
    const LATENCY: Duration = Duration::from_millis(20);
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.set(Mode::Delay { least: LATENCY, most: LATENCY });
    let question = (any::<bool>(), 1_u64..20, 0_u64..10);
    let mut runner = TestRunner::new(Config { cases: 12, ..Config::default() });
    let questions = proptest::collection::vec(question, 1..60);
    let outcome = runner.run(&questions, |questions| {
        runtime().block_on(async {
            // The longest known deadline of callers: the gate gives it to the store.
            let limiter = Limiter::new(limits(DAY), connect(&proxy.url(), LATENCY / 2).await);
            limiter.store().will_wait(SECOND * 20);
            let _ = limiter.check(Ask::new("warm").within(SECOND * 20)).await.unwrap();
            let accepted = proxy.seen().accepted;
            let asks = questions.iter().map(async |(is_patient, short_ms, pause_ms)| {
                pause(*pause_ms).await;
                let short = Duration::from_millis(*short_ms);
                let deadline = if *is_patient { SECOND * 20 } else { short };
                limiter.check(Ask::new("bob").within(deadline)).await.err().filter(|_| *is_patient)
            });
            // Some concurrently, some one after the other.
            let asks: Vec<_> = asks.collect();
            let all = futures_util::stream::iter(asks).buffer_unordered(4);
            let failed: Vec<Error> = all.filter_map(async |error| error).collect().await;
            prop_assert!(failed.is_empty(), "{:?}", failed);
            prop_assert_eq!(limiter.store().breaker(), BreakerState::Closed);
            prop_assert_eq!(proxy.seen().accepted, accepted, "no connection was given up");
            Ok(())
        })
    });
    outcome.unwrap();
}

/// While writes are paused, a peek still answers.
#[test]
fn a_peek_answers_while_writes_are_paused() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter = Limiter::new(limits(DAY), connect(&server.url(), SECOND).await);
        let _ = limiter.check("bob").await.unwrap();
        let _ = limiter.check(Ask::new("bob").peek()).await.unwrap();
        server.command(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]);
        assert_eq!(limiter.check(Ask::new("bob").peek()).await.unwrap().remaining(), 999_999);
        let begin = Instant::now();
        assert!(limiter.check("bob").await.is_err());
        assert!(begin.elapsed() < SECOND * 3);
        server.command(&[b"CLIENT", b"UNPAUSE"]);
    });
}

#[test]
fn a_slow_or_dribbling_way_changes_no_answer() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    runtime().block_on(async {
        let limiter = Limiter::new(limits(DAY), connect(&proxy.url(), SECOND * 10).await);
        let _ = limiter.check("bob").await.unwrap();
        for mode in [
            Mode::Dribble { pause: Duration::from_millis(1) },
            Mode::Delay { least: Duration::from_millis(5), most: Duration::from_millis(20) },
        ] {
            proxy.set(mode);
            let before = limiter.check(Ask::new("bob").peek()).await.unwrap().remaining();
            let asks = (0..20).map(|_| limiter.check("bob"));
            let mut left: Vec<u64> = join_all(asks)
                .await
                .into_iter()
                .map(|decision| decision.unwrap().remaining())
                .collect();
            left.sort_unstable();
            let expected: Vec<u64> = (before - 20..before).collect();
            assert_eq!(left, expected);
        }
    });
}
