//! Questions that wait for one connection at the same time go in one call, and each is answered as
//! if it had come alone.

use std::error::Error as _;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate::{Ask, Decision, Error, LimitSet, Limiter, Subject};
use tollgate_redis::{Fault, Keys, Options, RedisStore};
use tollgate_testbed::{RedisServer, redis_or_skip};

use crate::common::cluster;

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// With one thread, so that the same questions always come together.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

async fn limiter(options: Options, text: &str) -> Limiter<RedisStore> {
    let options = options.deadline(Duration::from_secs(30));
    Limiter::new(limits(text), RedisStore::builder(options).connect().await.unwrap())
}

fn at(server: &RedisServer) -> Options {
    Options::from_url(&server.url()).unwrap()
}

fn subject(number: usize) -> Subject {
    Subject::new("user", number.to_string()).unwrap()
}

/// Asks for each of these at the same time.
async fn at_once(
    limiter: &Limiter<RedisStore>,
    numbers: impl Iterator<Item = usize>,
) -> Vec<Result<Decision<'static>, Error>> {
    let subjects: Vec<Subject> = numbers.map(subject).collect();
    let asks =
        subjects.iter().map(async |subject| limiter.check(subject).await.map(Decision::into_owned));
    join_all(asks).await
}

/// How many calls of scripts the server has run.
fn calls(server: &RedisServer) -> u64 {
    server.commandstats().get("evalsha").map_or(0, |stat| stat.calls)
}

/// The fault below an error, however deep it lies.
fn fault(error: &Error) -> &Fault {
    let mut below = error.source();
    while let Some(source) = below {
        if let Some(fault) = source.downcast_ref() {
            return fault;
        }
        below = source.source();
    }
    panic!("no fault: {error}");
}

#[test]
fn what_waits_together_goes_in_one_call() {
    let server = redis_or_skip!();
    run(async {
        for text in [
            "3/1h via gcra",
            "3/1h via sliding_log",
            "3/1h via sliding_window, 9/1d via token_bucket",
            "3/1h burst 3 via gcra, 9/1d via sliding_log",
        ] {
            let limiter = limiter(at(&server), text).await;
            limiter.store().prepare(&[limiter.limits()]).await.unwrap();
            let before = calls(&server);
            // Each of 40 is asked five times, and has three.
            let decisions = at_once(&limiter, (0..200).map(|i| i % 40)).await;
            for (i, decision) in decisions.into_iter().enumerate() {
                let decision = decision.unwrap();
                let left = [2, 1, 0, 0, 0][i / 40];
                assert_eq!((decision.is_allowed(), decision.remaining()), (i < 120, left), "{i}");
            }
            // Sixteen in each but the last.
            assert_eq!(calls(&server) - before, 13, "{text}");
            server.command(&[b"FLUSHALL"]);
        }
    });
}

/// Reserves and commits that the fast path knows share calls; others are asked again, alone.
#[test]
fn holds_that_wait_together_go_in_one_call() {
    let server = redis_or_skip!();
    run(async {
        for (text, cost) in [("20/1h via gcra", 10), ("2 at once hold 1m", 1)] {
            let limiter = limiter(at(&server), text).await;
            let reserve = async |number: usize| {
                let ask = Ask::new(subject(number)).cost(cost);
                let reserved = limiter.hold(ask.reserve(Duration::from_secs(60))).await.unwrap();
                (reserved.decision.remaining(), reserved.hold)
            };
            // The first round shows the server the scripts.
            for round in 0..2 {
                let before = calls(&server);
                let reserved = join_all((0..64).map(|i| reserve(100 * round + i % 32))).await;
                // 64 go as four calls, 16 in each.
                assert!(round == 0 || calls(&server) - before == 4, "{text}");
                let holds: Vec<_> = reserved.iter().map(|it| it.1.as_ref().unwrap()).collect();
                for i in 0..32 {
                    let remaining = [reserved[i].0, reserved[i + 32].0];
                    assert_eq!(remaining, [cost, 0], "{text} {i}");
                    assert!(holds[i].fence < holds[i + 32].fence, "{text} {i}");
                }
                // All is taken: each of these is denied, by the script of one.
                let before = calls(&server);
                let denied = join_all((0..16).map(|i| reserve(100 * round + i))).await;
                assert!(denied.iter().all(|it| it.1.is_none()), "{text}");
                assert!(round == 0 || calls(&server) - before == 17, "{text}");
                let before = calls(&server);
                let settled = join_all(holds.iter().map(|hold| limiter.commit(hold, 3))).await;
                assert!(round == 0 || calls(&server) - before == 4, "{text}");
                for (i, settled) in settled.into_iter().enumerate() {
                    let settled = settled.unwrap();
                    let remaining: Vec<_> = settled.charged.iter().map(|it| it.remaining).collect();
                    let expected = match cost {
                        10 => [7, 14][i / 32],
                        _ => [1, 2][i / 32],
                    };
                    assert_eq!((settled.already, remaining), (false, vec![expected]), "{text} {i}");
                }
                let again = join_all(holds[..16].iter().map(|hold| limiter.commit(hold, 3))).await;
                assert!(again.into_iter().all(|it| it.unwrap().already), "{text}");
            }
            server.command(&[b"FLUSHALL"]);
        }
    });
}

/// Questions under other limits go in separate calls; a repeat of a question that was asked
/// together with it gets the same answer.
#[test]
fn each_kind_of_question_has_its_own_calls() {
    let server = redis_or_skip!();
    run(async {
        let limiter = limiter(at(&server), "100/1h via gcra").await;
        let (bob, other) = (subject(0), limits("100/1h via sliding_log"));
        // The first round shows the server the scripts.
        for round in 0..2_u64 {
            let before = calls(&server);
            let checks = join_all((0..8).map(|_| limiter.check(&bob)));
            let peeks = join_all((0..8).map(|_| limiter.check(Ask::from(&bob).peek())));
            let others = join_all((0..8).map(|_| limiter.check([(&bob, &other)])));
            let id = format!("id {round}");
            let repeats = join_all((0..8).map(|_| limiter.check(Ask::new(&bob).request(&id))));
            let (checks, peeks, others, repeats) = tokio::join!(checks, peeks, others, repeats);
            let used = 9 * round;
            let left: Vec<u64> = checks.into_iter().map(|it| it.unwrap().remaining()).collect();
            assert!(left.is_sorted_by(|a, b| a > b), "in order: {left:?}");
            assert!(left.iter().all(|left| (91 - used..100 - used).contains(left)), "{left:?}");
            for peek in peeks {
                assert!(peek.unwrap().remaining() >= 91 - used);
            }
            let left: Vec<u64> = others.into_iter().map(|it| it.unwrap().remaining()).collect();
            assert_eq!(left, (0..8).map(|i| 99 - 8 * round - i).collect::<Vec<_>>());
            let left: Vec<u64> = repeats.into_iter().map(|it| it.unwrap().remaining()).collect();
            assert!(left.iter().all(|it| *it == left[0]), "one charge: {left:?}");
            assert_eq!(limiter.check(Ask::from(&bob).peek()).await.unwrap().remaining(), 91 - used);
            if round > 0 {
                assert_eq!(calls(&server) - before, 5, "four kinds, and the peek alone");
            }
        }
    });
}

/// A key that holds something else, or whose log is broken, fails its own question.
#[test]
fn a_question_that_fails_fails_alone() {
    let server = redis_or_skip!();
    run(async {
        for text in ["3/1h via gcra", "3/1h via sliding_log"] {
            let limiter = limiter(at(&server), text).await;
            limiter.store().prepare(&[limiter.limits()]).await.unwrap();
            let key = |number| Keys::new().state(&subject(number), limiter.limits());
            server.command(&[b"SET", key(3).as_bytes(), b"foreign"]);
            server.command(&[b"RPUSH", key(5).as_bytes(), b"one", b"two"]);
            server.command(&[b"HSET", key(7).as_bytes(), b"one", b"two"]);
            let before = calls(&server);
            let decisions = at_once(&limiter, 0..10).await;
            assert_eq!(calls(&server) - before, 1, "{text}");
            for (i, decision) in decisions.into_iter().enumerate() {
                match decision {
                    Ok(decision) => {
                        assert!(decision.is_allowed() && ![3, 5, 7].contains(&i), "{text}: {i}");
                    }
                    Err(error) => {
                        assert!([3, 5, 7].contains(&i), "{text}: {i}: {error}");
                        assert!(!error.is_transient(), "{error}");
                        let alone = limiter.check(subject(i)).await.unwrap_err();
                        assert_eq!(fault(&error), fault(&alone), "{text}: {i}");
                    }
                }
            }
            server.command(&[b"FLUSHALL"]);
        }
    });
}

/// A cluster takes no call whose keys are in several slots: there questions go alone, after one
/// call at most was refused.
#[test]
fn a_cluster_is_asked_one_by_one() {
    let _found = redis_or_skip!();
    run(async {
        let server = cluster().await;
        for prepared in [true, false] {
            let limiter = limiter(at(&server), "3/1h via gcra").await;
            if prepared {
                limiter.store().prepare(&[limiter.limits()]).await.unwrap();
            }
            for round in 0..5 {
                let before = calls(&server);
                for decision in at_once(&limiter, 0..300).await {
                    assert_eq!(decision.unwrap().is_allowed(), round < 3);
                }
                if round > 1 {
                    assert_eq!(calls(&server) - before, 300);
                }
            }
            // The trial finds it out, or all calls of the second round do: 19 of 16 questions.
            assert_eq!(limiter.store().refusals(), if prepared { 0 } else { 19 });
            server.command(&[b"FLUSHALL"]);
        }
    });
}

/// A user who may touch some keys only is refused for the others alone.
#[test]
fn a_user_with_some_keys_has_those() {
    let server = redis_or_skip!();
    let rights: [&[u8]; 7] =
        [b"ACL", b"SETUSER", b"some", b"on", b">some", b"~tg1:{user:1*", b"+@all"];
    server.command(&rights);
    run(async {
        for prepared in [true, false] {
            let url = format!("redis://some:some@{}", server.address());
            let limiter = limiter(Options::from_url(&url).unwrap(), "9/1h via gcra").await;
            if prepared {
                limiter.store().prepare(&[limiter.limits()]).await.unwrap();
            }
            // Those that it may touch go together.
            let before = calls(&server);
            for _ in 0..2 {
                for decision in at_once(&limiter, 10..20).await {
                    assert!(decision.unwrap().is_allowed());
                }
            }
            assert!(calls(&server) - before <= 13, "together in the second round");
            for _ in 0..3 {
                for (i, decision) in at_once(&limiter, 0..200).await.into_iter().enumerate() {
                    let may = i.to_string().starts_with('1');
                    match decision {
                        Ok(decision) => assert!(decision.is_allowed() && may, "{i}"),
                        Err(error) => {
                            assert!(!may, "{i}: {error}");
                            assert!(matches!(fault(&error), Fault::NoPermission { .. }), "{error}");
                            let sure = matches!(&error, Error::Store(e) if !e.is_ambiguous());
                            assert!(sure, "{error}");
                        }
                    }
                }
            }
            assert!((1..=13).contains(&limiter.store().refusals()), "in the first round alone");
            server.command(&[b"FLUSHALL"]);
        }
    });
}
