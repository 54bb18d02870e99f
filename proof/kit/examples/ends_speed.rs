//! The cost when the maximum number of holds of one count that charge at their end are due
//! together: the longest script, and the checks of another subject beside it. And what a commit and
//! a renewal cost on SQLite beside the most holds that a count can have.
//!
//! `cargo run --profile dist -p tollgate-proof --example ends_speed`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "without a server it has no figures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate::engine::{MAX_CHARGING_HOLDS, MAX_HOLDS};
use tollgate::{Ask, LimitSet, Limiter, MemoryStore, Reserve, Store};
use tollgate_redis::{Options, RedisStore};
use tollgate_sqlite::SqliteStore;
use tollgate_testbed::{RedisServer, Reply};

const LIMITS: [&str; 4] = [
    "1000000/h via gcra",
    "1000000/h via fixed_window",
    "1000000/h via sliding_window",
    "1000000/h via sliding_log",
];

const ROUNDS: usize = 9;

/// As long as it takes to place them all, and some more.
const TTL: Duration = Duration::from_secs(3);

/// Places as many as there can be, lets them end, and judges the next check. Returns how long that
/// took, in microseconds.
async fn ends<S: Store>(limiter: &Limiter<S>, limits: &LimitSet, round: usize) -> u64 {
    // A log of the rounds before would be read again for each hold.
    let bob = &format!("bob:{round}");
    for _ in 0..MAX_CHARGING_HOLDS {
        let ask = Ask::new(bob.as_str()).under(limits);
        let held = limiter.hold(ask.reserve(Reserve::from(TTL).charging())).await.unwrap();
        assert!(held.hold.is_some());
    }
    let last = Ask::new(bob.as_str()).under(limits);
    assert!(limiter.hold(last.reserve(Reserve::from(TTL).charging())).await.is_err());
    tokio::time::sleep(TTL).await; // tidy: sleep-ok holds end by the real clock
    let start = Instant::now();
    let check = limiter.check(Ask::new(bob.as_str()).under(limits)).await.unwrap();
    assert!(check.is_allowed());
    micros(start)
}

fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap()
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

/// The longest script since the log was emptied, in microseconds.
fn longest_script(server: &RedisServer) -> i64 {
    let Reply::Array(entries) = server.command(&[b"SLOWLOG", b"GET", b"-1"]) else { return 0 };
    let time = |entry: &Reply| match entry {
        Reply::Array(entry) => entry.get(2).and_then(Reply::int).unwrap_or(0),
        _ => 0,
    };
    entries.iter().map(time).max().unwrap_or(0)
}

/// Checks another subject, one check after the other, until the flag stops it. Returns how long
/// each took, in microseconds, in order.
async fn innocent(limiter: Limiter<RedisStore>, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut all = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        assert!(limiter.check("ann").await.unwrap().is_allowed());
        all.push(micros(start));
    }
    all.sort_unstable();
    all
}

/// The median times of a check, a renewal and a commit beside this many open holds, in
/// microseconds.
async fn beside_open(limiter: &Limiter<SqliteStore>, open: u64) -> [u64; 3] {
    let mut held = Vec::new();
    for _ in 0..open {
        let hold = limiter
            .hold(Ask::new("bob").reserve(Duration::from_secs(86_400)))
            .await
            .unwrap()
            .hold
            .unwrap();
        // Not those that end first.
        held = vec![hold];
    }
    let (mut checks, mut renewals, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..101 {
        let start = Instant::now();
        assert!(limiter.check("bob").await.unwrap().is_allowed());
        checks.push(micros(start));
        let mut hold = held.pop().unwrap();
        let start = Instant::now();
        assert!(limiter.renew(&mut hold, Some(Duration::from_secs(86_400))).await.unwrap());
        renewals.push(micros(start));
        let start = Instant::now();
        assert!(!limiter.commit(&hold, 1).await.unwrap().already);
        commits.push(micros(start));
        held.extend(
            limiter.hold(Ask::new("bob").reserve(Duration::from_secs(86_400))).await.unwrap().hold,
        );
    }
    [checks, renewals, commits].map(median)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = RedisServer::start();
    server.command(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"1000"]);
    let options = || Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
    let redis = RedisStore::builder(options()).connect().await.unwrap();
    let other = RedisStore::builder(options()).connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for open in [10, MAX_HOLDS - 1] {
        let path = folder.path().join(format!("open-{open}"));
        let limits = "1000000/h via fixed_window".parse().unwrap();
        let limiter = Limiter::new(
            limits,
            SqliteStore::open_with(tollgate_sqlite::Options::new(path)).unwrap(),
        );
        let [check, renew, commit] = beside_open(&limiter, open).await;
        println!("SQLite beside {open}: check {check} us, renew {renew} us, commit {commit} us");
    }
    for text in LIMITS {
        let limits: LimitSet = text.parse().unwrap();
        let usual: LimitSet = "1000000000/h via gcra".parse().unwrap();
        let ann = Limiter::new(usual, other.clone());
        let (mut scripts, mut quiet, mut beside) = (Vec::new(), Vec::new(), Vec::new());
        let limiter = Limiter::new(limits.clone(), redis.clone());
        for round in 0..2 * ROUNDS {
            let stop = Arc::new(AtomicBool::new(false));
            let task = tokio::spawn(innocent(ann.clone(), Arc::clone(&stop)));
            server.command(&[b"SLOWLOG", b"RESET"]);
            if round % 2 == 0 {
                tokio::time::sleep(2 * TTL).await; // tidy: sleep-ok as long as a round with ends
            } else {
                ends(&limiter, &limits, round).await;
            }
            stop.store(true, Ordering::Relaxed);
            let all = task.await.unwrap();
            let p99 = all[all.len() * 99 / 100];
            if round % 2 == 0 {
                quiet.push(p99);
            } else {
                beside.push(p99);
                scripts.push(u64::try_from(longest_script(&server)).unwrap());
            }
        }
        let path = folder.path().join(text.replace([' ', '/'], "-"));
        let sqlite = Limiter::new(
            limits.clone(),
            SqliteStore::open_with(tollgate_sqlite::Options::new(path)).unwrap(),
        );
        let memory = Limiter::new(limits.clone(), MemoryStore::new());
        let (sqlite, memory) = (ends(&sqlite, &limits, 0).await, ends(&memory, &limits, 0).await);
        let (script, quiet, beside) = (median(scripts), median(quiet), median(beside));
        println!(
            "{text}: the longest script {script} us; another's p99 {quiet} us, beside the ends \
             {beside} us; SQLite {sqlite} us, memory {memory} us"
        );
    }
}
