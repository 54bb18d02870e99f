//! The memory store stays within its bound, by an allocator that counts: sets of limits as well as
//! counts, whoever brings them.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: the allocator counts for all.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // One that failed reports that itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bound in these tests; the figures of attacks are for sixteen times as much.
const BOUND: usize = 16 << 20;

/// The memory of an empty store: its 256 shards and their locks.
const EMPTY: usize = 256 * 512;

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

fn limiter(bound: usize) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(bound).build();
    (clock, Limiter::new("5/1h via gcra".parse().unwrap(), store))
}

/// Checks what the allocator says against the bound, and against what the store says.
fn assert_bounded(limiter: &Limiter<MemoryStore>, region: &Region<'_, System>, what: &str) {
    let (held, told, bound) = (held(region), limiter.store().bytes(), limiter.store().max_bytes());
    println!("{what}: {held} bytes held, {told} told, of {bound}");
    assert!(told <= bound, "{what}: {told} bytes told");
    assert!(held <= bound + EMPTY, "{what}: {held} bytes held");
    assert!(held <= told + EMPTY, "{what}: {held} bytes held, {told} told");
    assert!(held >= told / 2, "{what}: {held} bytes held, {told} told");
}

fn thirty_two_limits(i: u32) -> LimitSet {
    let limits: Vec<String> = (1..=32).map(|n| format!("l{n}: {n}/{}s via gcra", i + 1)).collect();
    limits.join(", ").parse().unwrap()
}

/// 100,056 sets of 32 limits took 1,342 MiB under a bound of 256.
#[test]
fn sets_of_many_limits_are_counted() {
    let _alone = alone();
    let region = Region::new(ALLOCATED);
    let (_, limiter) = limiter(BOUND);
    for i in 0..6_253 {
        let set = thirty_two_limits(i);
        let ask = Ask::new(format!("user:{i}")).under(&set);
        let decision = limiter.check(ask).now().unwrap();
        assert!(decision.is_allowed() || decision.is_shared());
    }
    assert_bounded(&limiter, &region, "sets of 32 limits");
    assert!(limiter.store().limit_sets() > 500, "{}", limiter.store().limit_sets());
    assert!(limiter.store().refused() > 4_000, "{}", limiter.store().refused());
}

/// 153,600 sets of one limit, brought to a store that is full, took 474 MiB under a bound of 256.
#[test]
fn sets_of_one_limit_are_counted() {
    let _alone = alone();
    for same_identity in [false, true] {
        let region = Region::new(ALLOCATED);
        let (clock, limiter) = limiter(BOUND);
        for i in 0..250_000 {
            let _ = limiter.check(format!("user:{i}")).now().unwrap();
        }
        assert!(limiter.store().shared() > 0, "the store is not full");
        for i in 1..=9_600 {
            let limit = if same_identity { format!("{i}/d") } else { format!("1/{}s", i + 7_200) };
            let set: LimitSet = format!("{limit} via gcra").parse().unwrap();
            let ask = Ask::new(format!("tenant:{i}")).under(&set);
            let decision = limiter.check(ask).now().unwrap();
            assert!(decision.is_allowed() || decision.is_shared());
        }
        assert_bounded(&limiter, &region, "sets of one limit");
        // Those of one identity share one state, under the newest numbers.
        assert_eq!(limiter.store().refused() == 0, same_identity, "{}", limiter.store().refused());
        // No expired entry stays.
        clock.advance(Duration::from_secs(200_000));
        limiter.store().sweep();
        let store = limiter.store();
        assert_eq!((store.subjects(), store.limit_sets(), store.bytes()), (0, 0, 0));
    }
}

/// Each known subject asks under different numbers: a set for each.
#[test]
fn known_subjects_bring_no_set_that_finds_no_room() {
    let _alone = alone();
    let region = Region::new(ALLOCATED);
    let (_, limiter) = limiter(BOUND / 4);
    for i in 0..60_000 {
        let _ = limiter.check(format!("user:{i}")).now().unwrap();
    }
    assert!(limiter.store().shared() > 0, "the store is not full");
    for i in 0..20_000 {
        let set: LimitSet = format!("{}/1h via gcra", i + 6).parse().unwrap();
        let _ = limiter.check(Ask::new(format!("user:{i}")).under(&set)).now().unwrap();
    }
    assert_bounded(&limiter, &region, "known subjects");
    assert!(limiter.store().refused() > 10_000, "{}", limiter.store().refused());
}

/// States that are large, and long subjects.
#[test]
fn what_lies_beside_a_slot_is_counted() {
    let _alone = alone();
    for limits in ["5/1h via sliding_log", "5/1h via sliding_window", "5/1h via gcra, 9/d via gcra"]
    {
        let region = Region::new(ALLOCATED);
        let (_, limiter) = limiter(BOUND / 4);
        let set: LimitSet = limits.parse().unwrap();
        for i in 0..40_000 {
            let ask = Ask::new(format!("user:one-that-is-long-{i}")).under(&set);
            let _ = limiter.check(ask).now().unwrap();
        }
        assert!(limiter.store().shared() > 0, "the store is not full");
        assert_bounded(&limiter, &region, limits);
    }
}

/// Sets that count the same are one, whoever read them, and are dropped with the last state.
#[test]
fn equal_sets_are_kept_once() {
    let _alone = alone();
    let region = Region::new(ALLOCATED);
    let (clock, limiter) = limiter(BOUND);
    for i in 0..5_000 {
        let set = thirty_two_limits(7);
        let _ = limiter.check(Ask::new(format!("user:{i}")).under(&set)).now().unwrap();
    }
    assert_eq!(limiter.store().limit_sets(), 1);
    // 5,000 states of 32 times two words, and one set.
    assert_bounded(&limiter, &region, "one set");
    assert!(limiter.store().bytes() < 5_000 * 1_200, "{}", limiter.store().bytes());
    clock.advance(Duration::from_secs(1_000));
    limiter.store().sweep();
    assert_eq!((limiter.store().limit_sets(), limiter.store().bytes()), (0, 0));
}
