//! A store that was chosen by a URL does what the store itself does.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

use std::time::Duration;

use tollgate::{Ask, Limiter, ManualClock, MemoryStore, Store as _};
use tollgate_stores::AnyStore;

#[test]
fn memory_keeps_every_promise_of_the_kit() {
    tollgate_proof::conformance::run(|clock: ManualClock| {
        AnyStore::Memory(MemoryStore::builder().clock(clock).build())
    });
}

/// A limit of two: charged, refused, given back once, and forgotten.
async fn counts(url: &str, kind: &str) {
    let store = AnyStore::open(url).await.unwrap();
    assert_eq!(store.kind(), kind);
    let limiter = Limiter::new("2/h via gcra".parse().unwrap(), store);
    let first = limiter.check("ann").await.unwrap();
    let receipt = first.receipt().unwrap();
    assert!(limiter.check("ann").await.unwrap().is_allowed());
    assert!(!limiter.check("ann").await.unwrap().is_allowed());
    assert!(limiter.store().issued(&receipt));
    limiter.refund(&receipt).await.unwrap();
    assert!(limiter.check("ann").await.unwrap().is_allowed());
    assert!(limiter.admin().reset("ann").await.unwrap());
    assert_eq!(limiter.check(Ask::new("ann").peek()).await.unwrap().remaining(), 2);

    // Another that was opened by the same URL has the same counts, where they lie outside.
    let other = AnyStore::open(url).await.unwrap();
    let other = Limiter::new("2/h via gcra".parse().unwrap(), other);
    assert!(other.check("bob").await.unwrap().is_allowed());
    let left = limiter.check(Ask::new("bob").peek()).await.unwrap().remaining();
    assert_eq!(left, if kind == "memory" { 2 } else { 1 });
}

/// Futures around it hold and move it: each call would copy the kilobytes that are seldom needed.
#[test]
fn the_future_of_a_check_is_small() {
    let limiter = Limiter::new("2/h".parse().unwrap(), AnyStore::Memory(MemoryStore::new()));
    let [check, within] = [
        size_of_val(&limiter.check("ann")),
        size_of_val(&limiter.check(Ask::new("ann").within(Duration::from_secs(1)))),
    ];
    println!("{check} and {within} bytes");
    assert!(check.max(within) <= 2_560, "{check} and {within} bytes");
}

#[tokio::test]
async fn memory_counts() {
    counts("memory://", "memory").await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counts.db");
    counts(&format!("sqlite://{}", path.display()), "sqlite").await;
    counts(path.with_file_name("others.db").to_str().unwrap(), "sqlite").await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn redis_counts() {
    let server = tollgate_testbed::redis_or_skip!();
    counts(&format!("{}?deadline=10s", server.url()), "redis").await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_server_that_is_not_there_may_come() {
    let error = AnyStore::open("redis://127.0.0.1:1").await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
}
