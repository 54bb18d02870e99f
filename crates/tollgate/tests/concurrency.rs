//! The memory store under real threads and the real clock.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::{Ask, LimitSet, Limiter, MemoryStore};

fn set(text: &str) -> LimitSet {
    text.parse().unwrap()
}

/// Runs `work` on `threads` threads that start together; the sum of their answers.
fn together(threads: u64, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let (barrier, sum) = (Barrier::new(usize::try_from(threads).unwrap()), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, sum, work) = (&barrier, &sum, &work);
            scope.spawn(move || {
                barrier.wait();
                sum.fetch_add(work(thread), Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}

#[test]
fn a_hundred_tasks_on_a_limit_of_five() {
    for limit in [
        "5/1d via gcra",
        "5/1d via token_bucket",
        "5/1d via sliding_log",
        "5/1d via sliding_window",
        "5/1d anchor first-hit via fixed_window",
        "5/1d via sliding_log, 90/2d via gcra",
    ] {
        let limiter = Limiter::memory(set(limit));
        let admitted = together(100, |_| limiter.check("zoo").now().unwrap().granted());
        assert_eq!(admitted, 5, "{limit}");
    }
}

#[test]
fn a_hundred_tokio_tasks_on_a_limit_of_five() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let limiter = std::sync::Arc::new(Limiter::memory(set("5/1d via gcra")));
    let admitted = runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let limiter = std::sync::Arc::clone(&limiter);
                tokio::spawn(async move { limiter.check("zoo").await.unwrap().granted() })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(admitted, 5);
}

/// Eight threads, many keys, several limits: each key gets exactly its least limit.
#[test]
fn eight_threads_on_many_keys() {
    const KEYS: u64 = 500;
    let limiter = Limiter::memory(set("7/1d via sliding_log, 9/1d via gcra"));
    let admitted = together(8, |thread| {
        let mut sum = 0;
        for round in 0..4 * KEYS {
            let key = (round * 7 + thread * 31) % KEYS;
            sum += limiter.check(format!("user:{key}")).now().unwrap().granted();
        }
        sum
    });
    assert_eq!(admitted, KEYS * 7);
}

/// Checks over the same subjects in opposite orders end, and charge all of them or none.
#[test]
fn opposite_orders_do_not_deadlock() {
    let store = MemoryStore::new();
    let limiter = Limiter::new(set("1/d"), store);
    let limits = set("1000000/1d via gcra");
    let log = set("900/1d via sliding_log");
    // The subjects have their entries before: the test is about the orders of locks.
    let subjects = ["a", "b", "c", "d", "e"];
    for subject in subjects {
        let _ = limiter.check(Ask::new(subject).under(&limits)).now().unwrap();
        let _ = limiter.check(Ask::new(subject).under(&log)).now().unwrap();
    }
    let admitted = together(8, |thread| {
        let mut sum = 0;
        for round in 0..300 {
            let mut parts: Vec<(&str, &LimitSet)> = subjects.map(|s| (s, &limits)).to_vec();
            parts.push(("a", &log));
            parts.rotate_left(usize::try_from((thread + round) % 6).unwrap());
            if thread % 2 == 1 {
                parts.reverse();
            }
            sum += limiter.check(Ask::from(parts)).now().unwrap().granted();
        }
        sum
    });
    assert_eq!(admitted, 899);
    for subject in subjects {
        let left =
            limiter.check(Ask::new(subject).under(&limits).peek()).now().unwrap().remaining();
        // A thousandth of the day's million comes back while the test runs.
        assert!((1_000_000 - 900..=1_000_000 - 900 + 1_000).contains(&left), "{subject}: {left}");
    }
}

/// Sweeps, resets and looks beside checks: a limited subject stays limited.
#[test]
fn housekeeping_beside_checks() {
    let limiter = Limiter::memory(set("3/1d via gcra"));
    let admitted = together(6, |thread| {
        let mut sum = 0;
        for round in 0..2_000_u64 {
            match thread {
                0 => {
                    limiter.store().sweep_some();
                }
                1 => assert!(limiter.store().subjects() <= 100_000),
                _ => {
                    let _ = limiter.check(format!("one:{thread}:{round}")).now().unwrap();
                    sum += limiter.check("zoo").now().unwrap().granted();
                }
            }
        }
        sum
    });
    assert_eq!(admitted, 3);
    assert_eq!(limiter.store().sweep(), 0);
    assert_eq!(limiter.store().subjects(), 8_001);
}

/// A receipt that many threads refund concurrently gives back once.
#[test]
fn one_receipt_is_refunded_once() {
    let limiter = Limiter::memory(set("4/1d anchor first-hit via fixed_window"));
    let receipt = limiter.check(Ask::new("zoo").cost(2)).now().unwrap().receipt().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle();
    let given = together(16, |_| handle.block_on(limiter.refund(&receipt)).unwrap().given[0]);
    assert_eq!(given, 2);
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 4);
}
