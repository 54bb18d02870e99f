//! Bugs that other limiters on Redis have shipped, each as a test of ours.

use std::time::Duration;

use tollgate::{Ask, LimitSet, Limiter, Subject};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{RedisServer, redis_or_skip};

use crate::common::runtime;

const SECOND: Duration = Duration::from_secs(1);

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

async fn connect(server: &RedisServer) -> RedisStore {
    let options = Options::from_url(&server.url()).unwrap().deadline(SECOND * 30);
    RedisStore::builder(options).connect().await.unwrap()
}

/// A TTL rounded down to 0 deletes the key immediately, and everything is admitted for ever; one
/// that is set before the key exists is lost. Each key has one after its first charge.
#[test]
fn the_first_charge_of_any_rate_leaves_a_key_with_a_ttl() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = connect(&server).await;
        for rate in ["1/1us", "100/s", "1000/1ms", "7/m", "1/366d"] {
            for how in [
                "via uniform",
                "burst 1 via gcra",
                "burst 49 via gcra",
                "via token_bucket",
                "refill interval via token_bucket",
                "via fixed_window",
                "anchor first-hit via fixed_window",
                "via sliding_log",
            ] {
                let text = format!("{rate} {how}");
                let Ok(set) = text.parse::<LimitSet>() else { continue };
                let limiter = Limiter::new(set, store.clone());
                let subject = Subject::new("key", &text).unwrap();
                let decision = limiter.check(&subject).await.unwrap();
                assert!(decision.is_allowed(), "{text}");
                let key = Keys::new().state(&subject, limiter.limits());
                let left = server.command(&[b"PTTL", key.as_bytes()]).int().unwrap();
                let counts = i64::try_from(decision.reset_after().as_millis()).unwrap();
                assert!(left > 0 && left + 500 > counts, "{text}: {left} ms of {counts} ms");
            }
        }
    });
    assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
}

/// A burst far below the rate admits the burst, not everything.
#[test]
fn a_burst_far_below_the_rate_holds() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter =
            Limiter::new(limits("100/h burst 10 via token_bucket"), connect(&server).await);
        let asks = (0..1_000).map(|_| limiter.check("bob"));
        let decisions = futures_util::future::join_all(asks).await;
        let allowed: u64 = decisions.into_iter().map(|decision| decision.unwrap().granted()).sum();
        assert_eq!(allowed, 10);
    });
}

/// A denial leaves every byte and every TTL as it was.
#[test]
fn a_denial_leaves_the_state_as_it_is() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let set = limits("9/h via gcra, 10/d via sliding_log, 8/h via sliding_window");
        let limiter = Limiter::new(set, connect(&server).await);
        let _ = limiter.check(Ask::new("bob").cost(7)).await.unwrap();
        let dump = || -> Vec<_> {
            let mut keys = server.keys();
            keys.sort();
            let state = |key: Vec<u8>| {
                let expires = server.command(&[b"PEXPIRETIME", &key]).int();
                (server.command(&[b"DUMP", &key]), expires, key)
            };
            keys.into_iter().map(state).collect()
        };
        let before = dump();
        assert_eq!(before.len(), 2);
        for cost in [2, 5, 100, 1 << 40] {
            assert!(!limiter.check(Ask::new("bob").cost(cost)).await.unwrap().is_allowed());
            let _ = limiter.check(Ask::new("bob").cost(cost).peek()).await.unwrap();
        }
        assert_eq!(dump(), before);
        // A large cost that was denied does not keep a small one out.
        assert!(limiter.check("bob").await.unwrap().is_allowed());
    });
}

/// A window that every hit makes longer never ends for whoever keeps asking: hits move neither its
/// end nor, with it, the time at which its key expires.
#[test]
fn a_window_ends_though_it_is_hit_all_the_time() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let set = limits("100/h anchor first-hit via fixed_window");
        let limiter = Limiter::new(set, connect(&server).await);
        let key = Keys::new().state(&Subject::new("key", "bob").unwrap(), limiter.limits());
        let expires = || server.command(&[b"PEXPIRETIME", key.as_bytes()]).int().unwrap();
        let first = limiter.check("bob").await.unwrap();
        let (end, expiry) = (first.at().plus(first.reset_after()), expires());
        for hit in 0..150 {
            let decision = limiter.check("bob").await.unwrap();
            assert_eq!(decision.is_allowed(), hit < 99);
            assert_eq!(decision.at().plus(decision.reset_after()), end);
        }
        // Each is rounded up to a millisecond from its own now.
        assert!((expires() - expiry).abs() <= 1, "{} is not {expiry}", expires());
    });
}

/// Lists and rows longer than Lua's stack takes in one call.
#[test]
fn long_logs_and_wide_windows_fit() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = connect(&server).await;
        let log = Limiter::new(limits("100000/1d via sliding_log"), store.clone());
        for _ in 0..24 {
            let asks = (0..500).map(|_| log.check("bob"));
            for decision in futures_util::future::join_all(asks).await {
                assert!(decision.unwrap().is_allowed());
            }
        }
        let decision = log.check(Ask::new("bob").cost(88_000)).await.unwrap();
        assert_eq!((decision.is_allowed(), decision.remaining()), (true, 0));
        let receipt = decision.receipt().unwrap();
        assert!(!log.check("bob").await.unwrap().is_allowed());
        assert_eq!(log.refund(&receipt).await.unwrap().given, [88_000]);
        assert_eq!(log.admin().adjust("bob", 12_000).await.unwrap(), [12_000]);
        assert!(log.admin().inspect("bob").await.unwrap().is_none());
        let wide = limits("100000/1d precision 86400ms via sliding_window");
        let window = Limiter::new(wide, store);
        let decision = window.check(Ask::new("bob").cost(100_000)).await.unwrap();
        assert!(decision.is_allowed());
        let denied = window.check("bob").await.unwrap();
        assert!(!denied.is_allowed() && denied.retry_after().unwrap() > SECOND * 86_000);
    });
}

/// Signs that mean something in a pattern mean nothing in a subject.
#[test]
fn a_reset_takes_its_subject_literally() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter = Limiter::new(limits("2/h via gcra"), connect(&server).await);
        for subject in ["alice", "bob", "*", "?ob", "[ab]*"] {
            let _ = limiter.check(subject).await.unwrap();
        }
        for (subject, left) in [("*", 4), ("[ab]*", 3), ("nobody", 3)] {
            let found = limiter.admin().reset(subject).await.unwrap();
            assert_eq!(found, subject != "nobody");
            let states = server.keys().iter().filter(|key| !key.ends_with(b"!reset")).count();
            assert_eq!(states, left);
        }
    });
}

/// Sixty-four clients that compare and swap one key: exact, and everybody gets an answer.
#[test]
fn a_hot_key_is_swapped_exactly_and_nobody_starves() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let set = limits("100/h via fixed_window");
        let mut clients = Vec::new();
        for _ in 0..64 {
            let options = Options::from_url(&server.url()).unwrap().deadline(SECOND * 60);
            clients.push(RedisStore::builder(options).swapping().connect().await.unwrap());
        }
        let asks = clients.into_iter().map(|store| {
            let limiter = Limiter::new(set.clone(), store);
            async move {
                let mut allowed = 0;
                for _ in 0..3 {
                    allowed += limiter.check("bob").await.unwrap().granted();
                }
                allowed
            }
        });
        let allowed: u64 = futures_util::future::join_all(asks).await.into_iter().sum();
        assert_eq!(allowed, 100);
    });
}

/// All keys that one call takes lie in one slot: their hash tags are equal, and none is empty.
#[test]
fn all_keys_of_a_call_share_their_hash_tag() {
    let sets = ["10/s via gcra, 5/10s, 240/h via sliding_window", "5/10s, 30/m", "5/10s"];
    for value in ["42", "}", "{}", "a}{b", "%7D", "x{y}z"] {
        let subject = Subject::new("user", value).unwrap();
        for keys in [Keys::new(), Keys::new().sharded("12"), Keys::new().sharded("}{")] {
            for set in sets {
                let set = limits(set);
                let state = keys.state(&subject, &set);
                let mut all = Keys::logs(&state, &set);
                all.extend([Keys::mark(&state, 1), Keys::reset(&state), Keys::requests(&state)]);
                all.push(state);
                let tag = |key: &String| {
                    let from = key.find('{').unwrap() + 1;
                    key[from..from + key[from..].find('}').unwrap()].to_owned()
                };
                let tags: Vec<String> = all.iter().map(tag).collect();
                assert!(!tags[0].is_empty() && tags.iter().all(|t| *t == tags[0]), "{all:?}");
            }
        }
    }
}
