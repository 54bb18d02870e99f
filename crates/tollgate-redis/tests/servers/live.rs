//! The scripts on a real server: mixed with other ways to count, by several processes, in real
//! time, and with senseless questions.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::engine::Mode;
use tollgate::{
    Ask, Clock as _, LimitSet, Limiter, ManualClock, Question, Store as _, Subject, Time, operation,
};
use tollgate_redis::compose::{Check, Parts};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{
    ClusterOptions, RedisServer, Reply, cluster_or_skip, redis_or_skip, sentinels_or_skip,
};

use crate::common::{pause, runtime};
use crate::model::Model;

const SECOND: Duration = Duration::from_secs(1);

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn options(server: &RedisServer) -> Options {
    options_of(&server.url())
}

fn options_of(url: &str) -> Options {
    Options::from_url(url).unwrap().deadline(SECOND * 30)
}

async fn connect(server: &RedisServer) -> RedisStore {
    RedisStore::builder(options(server)).connect().await.unwrap()
}

fn nothing_without_ttl(server: &RedisServer) {
    assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
}

/// Sets that both ways of counting know, and that replace each other on one subject.
const MIXED: [&[&str]; 6] = [
    &["x: 5/10us via gcra", "x: 7/30us burst 4 via gcra", "x: 1/3us via uniform"],
    &["x: 9/1s refill interval via token_bucket", "x: 4/2s burst 9 via token_bucket"],
    &["x: 5/10us via fixed_window", "x: 5/7us anchor first-hit via fixed_window"],
    &[
        "x: 6/10us precision 2us rounding interpolate via sliding_window",
        "x: 6/12us precision 2us via sliding_window",
        "x: 9/12us precision 2us rounding truncate via sliding_window",
    ],
    &["5/10us via gcra, 20/1ms via fixed_window, 9/70us precision 7us via sliding_window"],
    &[
        "a: 5/10us via gcra, b: 9/50us via fixed_window",
        "a: 6/10us via gcra, b: 9/50us via uniform",
    ],
];

/// Forty thousand operations on shared keys: a third by scripts with their numbers in them, a third
/// by those that take them, a third by comparing and swapping, all of them what the engine alone
/// would have answered.
#[test]
fn scripts_and_swaps_mix_on_shared_keys() {
    let server = redis_or_skip!();
    scripts_and_swaps_mix(&server.url(), std::slice::from_ref(&server), 50);
}

#[test]
fn scripts_and_swaps_mix_on_a_cluster() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    scripts_and_swaps_mix(&cluster.url(), cluster.servers(), 10);
}

#[test]
fn scripts_and_swaps_mix_under_sentinels() {
    let sentinels = sentinels_or_skip!();
    scripts_and_swaps_mix(&sentinels.url(), &sentinels.servers()[..1], 10);
}

/// In one slot, where checks over several subjects are on a cluster what they are on one server.
fn scripts_and_swaps_mix(url: &str, servers: &[RedisServer], seeds: u64) {
    runtime().block_on(async {
        let clock = ManualClock::at_micros(0);
        let builder = |options| RedisStore::builder(options).run("mix", clock.clone()).shard("mix");
        let by_script = builder(options_of(url)).connect().await.unwrap();
        let by_swap = builder(options_of(url)).swapping().connect().await.unwrap();
        let by_given = builder(options_of(url).scripts(0)).connect().await.unwrap();
        let mut operations = 0;
        for seed in 0..seeds {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut model = Model::default();
            let sets: Vec<LimitSet> =
                MIXED.choose(&mut rng).unwrap().iter().map(|text| limits(text)).collect();
            let mut current = sets[0].clone();
            let mut now_us: u64 = rng.random_range(0..2_000_000_000_000_000);
            for _ in 0..800 {
                operations += 1;
                now_us = match rng.random_range(0..12) {
                    0..4 => now_us,
                    4..9 => now_us + rng.random_range(0..6),
                    9 => now_us + rng.random_range(0..200),
                    10 => now_us + rng.random_range(0..3_000_000),
                    _ => now_us.saturating_sub(rng.random_range(0..2_500_000)),
                };
                clock.set(Time::from_micros(now_us));
                if rng.random_bool(0.03) {
                    current = sets.choose(&mut rng).unwrap().clone();
                }
                let subjects = if rng.random_bool(0.2) { 2 } else { 1 };
                let asked: Vec<(String, LimitSet)> =
                    (0..subjects).map(|i| (format!("{seed}:{i}"), current.clone())).collect();
                let cost = if rng.random_bool(0.7) { 1 } else { rng.random_range(1..12) };
                let mode = *[Mode::Whole, Mode::Whole, Mode::Whole, Mode::Partial, Mode::Peek]
                    .choose(&mut rng)
                    .unwrap();
                let subjects: Vec<Subject> =
                    asked.iter().map(|(name, _)| Subject::new("key", name).unwrap()).collect();
                let parts: Vec<_> = subjects
                    .iter()
                    .map(|subject| tollgate::Counted::new(subject, &current))
                    .collect();
                let question = Question::new(&parts, cost, mode);
                let (way, store) =
                    *[("written", &by_script), ("given", &by_given), ("swapped", &by_swap)]
                        .choose(&mut rng)
                        .unwrap();
                let outcome = store.perform(&operation::Check::new(&question)).await.unwrap();
                let expected = model.check(&asked, &cost.into(), mode, clock.now());
                let what = format!("{current} {mode:?} {cost} at {now_us}, {way}");
                assert_eq!(outcome.granted, expected.granted, "{what}");
                for (field, expected) in outcome.fields.iter().zip(&expected.fields) {
                    assert_eq!(field.remaining, expected.remaining, "{what}");
                    assert_eq!(field.retry_after_us, expected.retry_after_us, "{what}");
                    assert_eq!(field.reset_after_us, expected.reset_after_us, "{what}");
                    assert_eq!(field.charged_at_us, expected.charged_at_us, "{what}");
                }
            }
        }
        println!("{operations} operations");
        assert!(by_script.count_keys().await.unwrap() > 0);
        servers.iter().for_each(nothing_without_ttl);
        by_script.clear_run().await.unwrap();
        for server in servers {
            assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
        }
    });
}

/// Where a child process finds the server that it is to ask.
const CHILD: &str = "TOLLGATE_TEST_CHILD";

/// Not a separate test: the work of each of the four processes.
#[test]
fn asks_as_one_of_several_processes() {
    let Ok(url) = std::env::var(CHILD) else { return };
    runtime().block_on(async {
        let options = Options::from_url(&url).unwrap().deadline(SECOND * 30);
        let limiter = Limiter::new(
            limits("1000/1h via token_bucket"),
            RedisStore::builder(options).connect().await.unwrap(),
        );
        let hundred = limits("5/1h via gcra");
        let mut allowed = 0;
        for _ in 0..6 {
            let asks = (0..50).map(|_| limiter.check("thousand"));
            for decision in futures_util::future::join_all(asks).await {
                allowed += decision.unwrap().granted();
            }
        }
        let asks = (0..25).map(|_| limiter.check([("five", &hundred)]));
        let mut of_five = 0;
        for decision in futures_util::future::join_all(asks).await {
            of_five += decision.unwrap().granted();
        }
        println!("allowed {allowed} {of_five}");
    });
}

/// 1,200 checks of which exactly 1,000 pass, and 100 tasks on a limit of 5: by four processes.
#[test]
fn four_processes_at_once_share_exactly_what_there_is() {
    let server = redis_or_skip!();
    four_processes(&server.url());
    nothing_without_ttl(&server);
}

#[test]
fn four_processes_share_exactly_what_there_is_on_a_cluster() {
    let cluster = cluster_or_skip!();
    four_processes(&cluster.url());
    cluster.servers().iter().for_each(nothing_without_ttl);
}

#[test]
fn four_processes_share_exactly_what_there_is_under_sentinels() {
    let sentinels = sentinels_or_skip!();
    four_processes(&sentinels.url());
    sentinels.servers().iter().for_each(nothing_without_ttl);
}

fn four_processes(url: &str) {
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..4)
        .map(|_| {
            Command::new(&program)
                .args(["--exact", "live::asks_as_one_of_several_processes", "--nocapture"])
                .env(CHILD, url)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let (mut allowed, mut of_five) = (0, 0);
    for child in children {
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let at = output.find("allowed ").unwrap_or_else(|| panic!("{output}"));
        let mut words = output[at..].split_whitespace().skip(1);
        allowed += words.next().unwrap().parse::<u64>().unwrap();
        of_five += words.next().unwrap().parse::<u64>().unwrap();
    }
    assert_eq!((allowed, of_five), (1_000, 5));
}

/// A key lives as long as it counts, and when it is gone nothing counted any more: in real time,
/// by the server's clock.
#[test]
fn a_key_that_has_expired_meant_nothing_any_more() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = connect(&server).await;
        let all = [
            "1/300ms via uniform",
            "3/300ms via gcra",
            "3/300ms refill interval via token_bucket",
            "3/300ms via fixed_window",
            "3/300ms anchor first-hit via fixed_window",
            "3/300ms via sliding_log",
            "3/300ms precision 100ms via sliding_window",
            "3/300ms precision 100ms rounding truncate via sliding_window",
        ];
        let watch = all.map(|text| {
            let (limits, store, server) = (limits(text), store.clone(), &server);
            async move {
                let capacity = limits.limits()[0].capacity();
                let subject = Subject::literal(text).unwrap();
                let limiter = Limiter::new(limits.clone(), store);
                let decision = limiter.check(Ask::new(&subject).cost(capacity)).await.unwrap();
                assert!(decision.is_allowed(), "{text}");
                let counts = decision.reset_after();
                let key = Keys::new().state(&subject, &limits);
                let left = server.command(&[b"PTTL", key.as_bytes()]).int().unwrap();
                let left = Duration::from_millis(left.unsigned_abs());
                // A second longer than it counts, and no more than that.
                assert!(
                    left + Duration::from_millis(200) >= counts + SECOND,
                    "{text}: {left:?} of {counts:?}"
                );
                assert!(
                    left <= counts + SECOND + Duration::from_millis(2),
                    "{text}: {left:?} of {counts:?}"
                );
                let begin = Instant::now();
                loop {
                    let there = server.command(&[b"EXISTS", key.as_bytes()]).int() == Some(1);
                    let peeked =
                        limiter.check(Ask::new(&subject).cost(capacity).peek()).await.unwrap();
                    if !there {
                        assert!(peeked.is_allowed(), "{text}: gone, but it counts");
                        assert_eq!(peeked.remaining(), capacity);
                        break;
                    }
                    assert!(begin.elapsed() < SECOND * 10, "{text}: never gone");
                    pause(10).await;
                }
                assert!(begin.elapsed() >= counts, "{text}: gone while it counted");
            }
        });
        futures_util::future::join_all(watch).await;
        assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
    });
}

/// A TTL that somebody removed comes back with the next charge.
#[test]
fn a_lost_ttl_is_given_again() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        for text in ["5/1h via gcra", "5/1h via sliding_log", "5/1h via sliding_window"] {
            let limiter = Limiter::new(limits(text), connect(&server).await);
            let _ = limiter.check("bob").await.unwrap();
            let key = Keys::new().state(&Subject::literal("bob").unwrap(), limiter.limits());
            assert_eq!(server.command(&[b"PERSIST", key.as_bytes()]).int(), Some(1));
            let _ = limiter.check("bob").await.unwrap();
        }
        nothing_without_ttl(&server);
    });
}

/// Whatever bytes a subject has, it is a separate key, with one hash tag that it cannot leave.
#[test]
fn hostile_subjects_are_subjects() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limiter = Limiter::new(limits("2/1h via gcra"), connect(&server).await);
        let long = "x".repeat(60_000);
        let hostile: [&[u8]; 12] = [
            b"{",
            b"}",
            b"{}",
            b"a}:gcra/1h",
            b"}{",
            b"\0",
            b"\r\nDEL x\r\n",
            b"%7B",
            b"%",
            b"\xff\xfe",
            b" ",
            long.as_bytes(),
        ];
        for value in hostile {
            let subject = Subject::new("user", value).unwrap();
            for left in [1, 0] {
                let decision = limiter.check(&subject).await.unwrap();
                assert_eq!((decision.is_allowed(), decision.remaining()), (true, left));
            }
            assert!(!limiter.check(&subject).await.unwrap().is_allowed());
        }
        let keys = server.keys();
        assert_eq!(keys.len(), hostile.len());
        let mut slots = BTreeSet::new();
        for key in keys {
            let text = String::from_utf8(key).unwrap();
            assert!(text.starts_with("tg1:{user:") && text.ends_with("}:gcra/1h"), "{text}");
            assert_eq!(text.matches('{').count() + text.matches('}').count(), 2, "{text}");
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            slots.insert(text);
        }
        assert_eq!(slots.len(), hostile.len());
    });
}

/// Keys that hold something else are an error, and stay as they are.
#[test]
fn a_key_of_another_kind_is_left_alone() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let subject = Subject::literal("bob").unwrap();
        for text in
            ["5/1h via gcra", "5/1h via sliding_log", "a: 5/1h via gcra, b: 5/1h via sliding_log"]
        {
            let limiter = Limiter::new(limits(text), connect(&server).await);
            let key = Keys::new().state(&subject, limiter.limits());
            let set = |words: &[&[u8]]| {
                server.command(&[b"DEL", key.as_bytes()]);
                server.command(words);
            };
            let foreign: [&[&[u8]]; 6] = [
                &[b"SET", key.as_bytes(), b"12"],
                &[b"SET", key.as_bytes(), b""],
                &[b"SET", key.as_bytes(), b"3gg2:1,1,1,2;|............."],
                &[b"SET", key.as_bytes(), b"1gg2:1,1,1,2;|"],
                &[b"HSET", key.as_bytes(), b"a", b"b"],
                &[b"RPUSH", key.as_bytes(), b"one", b"two", b"three"],
            ];
            for words in foreign {
                set(words);
                let before = server.command(&[b"DUMP", key.as_bytes()]);
                let error = limiter.check(&subject).await.unwrap_err();
                assert!(!error.is_transient(), "{error}");
                let error = error.to_string();
                assert!(!error.contains("bob") && !error.contains("three"), "{error}");
                if words[2].starts_with(b"3") && !text.ends_with("sliding_log") {
                    assert!(error.contains("newer version"), "{text}: {error}");
                }
                let _ = limiter.check(Ask::new(&subject).peek()).await.unwrap_err();
                assert_eq!(server.command(&[b"DUMP", key.as_bytes()]), before, "{text} {words:?}");
            }
            server.command(&[b"DEL", key.as_bytes()]);
        }
    });
}

/// Limits that are made up as they come do not fill the server: beyond the bound they share a
/// script, and count as before.
#[test]
fn limits_without_number_make_no_scripts_without_number() {
    let server = redis_or_skip!();
    let scripts = || server.info("memory")["number_of_cached_scripts"].parse::<u64>().unwrap();
    runtime().block_on(async {
        let store = RedisStore::builder(options(&server).scripts(20)).connect().await.unwrap();
        let mut shapes = BTreeSet::new();
        for number in 1..=300_u64 {
            let text = match number % 4 {
                0 => format!("{number}/1h via gcra"),
                1 => format!("{number}/1h via sliding_log, {}/1d via fixed_window", number + 9),
                2 => format!("{number}/1h via token_bucket"),
                _ => format!("{number}/1h via sliding_window"),
            };
            shapes.insert(number % 4);
            let limiter = Limiter::new(limits(&text), store.clone());
            for left in (0..number.min(3)).rev() {
                let decision = limiter.check("bob").await.unwrap();
                assert!(decision.is_allowed(), "{text}");
                assert!(decision.remaining() >= left, "{text}");
            }
            let whole = Ask::new("bob").cost(number);
            assert!(!limiter.check(whole).await.unwrap().is_allowed(), "{text}");
        }
        // A set asks a script for itself, which is 20 of these; the others share one of each shape.
        assert!(store.loads() <= 20 + shapes.len() as u64, "{} loads", store.loads());
        // And one that asks for the user's rights.
        assert!(scripts() <= 21 + shapes.len() as u64, "{} scripts", scripts());
    });
    nothing_without_ttl(&server);
}

/// Tenants with numbers of their own share a script, and count as before.
#[test]
fn tenants_of_one_shape_share_a_script() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = RedisStore::builder(options(&server)).connect().await.unwrap();
        for number in 1..=100_u64 {
            let limiter = Limiter::new(limits(&format!("{number}/1h via gcra")), store.clone());
            let tenant = format!("tenant:{number}");
            let decision = limiter.check(Ask::new(&tenant).cost(number)).await.unwrap();
            assert!(decision.is_allowed() && decision.remaining() == 0, "{number}");
            assert!(!limiter.check(&tenant).await.unwrap().is_allowed(), "{number}");
        }
        // 32 with numbers in them, and the one that takes them.
        assert!(store.loads() <= 33, "{} loads", store.loads());
    });
}

/// By hand, from redis-cli: no argument makes a script do what the limit does not allow.
#[test]
fn arguments_given_by_hand_are_looked_at() {
    let server = redis_or_skip!();
    let set = limits("5/1h via gcra, 9/d via sliding_log");
    let script = Check::new(Mode::Whole).compose(&[&set], &Parts::default()).unwrap();
    let subject = Subject::literal("bob").unwrap();
    let state = Keys::new().state(&subject, &set);
    let keys = Keys::for_check(&state, &set);
    let call = |keys: &[String], args: &[&str]| {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.text().as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(String::as_bytes));
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        server.command(&words)
    };
    for cost in [
        "0",
        "-1",
        "1.5",
        "nan",
        "NaN",
        "-nan",
        "inf",
        "-inf",
        "0x10",
        " 5 ",
        "1e3",
        "1e400",
        "+1",
        "01",
        "",
        "-0",
        "1099511627777",
        "99999999999999999999",
        "1\n",
        "evil",
    ] {
        let reply = call(&keys, &[cost, "0"]);
        let Reply::Error(text) = &reply else { panic!("{cost}: {reply:?}") };
        assert!(text.contains("whole number from 1 to 2^40") && !text.contains("evil"), "{text}");
    }
    for (keys, args) in
        [(&keys[..1], &["1", "0"][..]), (&keys, &["1"]), (&keys, &["1", "0", "0"]), (&[], &[])]
    {
        let reply = call(keys, args);
        let Reply::Error(text) = &reply else { panic!("{reply:?}") };
        assert!(text.contains("2 keys and 2 arguments"), "{text}");
    }
    assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
    assert_eq!(call(&keys, &["2", "n"]).items()[1].int(), Some(2));
}
