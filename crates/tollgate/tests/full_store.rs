//! What the memory store does when it is full: nobody gets a free reset, a flood shares a bound,
//! and the bytes stay where they were promised.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore};

/// As many as the store has.
const SHARDS: u64 = 256;

/// How far `bytes()` may be past the bound, whatever the bound: each of 256 shards has one shared
/// state for each set, which is paid for even when there is no room (72 bytes and an event for a
/// log, 96 for a sliding window at its default precision, and what a set of both has).
const SLACK: usize = 256 * (96 + 64);

/// The memory store answers at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a memory store never waits"),
    }
}

fn limiter(limits: &str, bytes: usize) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(bytes).build();
    (clock, Limiter::new(limits.parse::<LimitSet>().unwrap(), store))
}

fn is_shared(limiter: &Limiter<MemoryStore>, subject: &str) -> bool {
    now(limiter.inspect(subject)).unwrap().is_some_and(|held| held.shared)
}

const LIMITS: [&str; 6] = [
    "5/1h via gcra",
    "5/1h via fixed_window",
    "5/1h refill interval via token_bucket",
    "5/1h via sliding_log",
    "5/1h via sliding_window",
    "5/1h via sliding_log, 6/1h via gcra",
];

/// New subjects share one state for each shard and set: what they take together is bounded.
#[test]
fn a_flood_shares_its_bound() {
    for limit in LIMITS {
        let (_, limiter) = limiter(limit, 300_000);
        let (mut shared, mut own) = (0, 0);
        for i in 0..60_000 {
            let subject = format!("flood:{i}");
            let granted = limiter.check_now(subject.as_str()).unwrap().granted();
            if is_shared(&limiter, &subject) { shared += granted } else { own += granted }
        }
        let entries = limiter.store().subjects() as u64;
        assert!(entries > 100 && entries < 30_000, "{limit}: {entries}");
        assert!(shared <= SHARDS * 5, "{limit}: {shared} by shared states");
        assert!(own <= entries + SHARDS * 5, "{limit}: {own} by {entries} entries");
        let (bytes, bound) = (limiter.store().bytes(), 300_000);
        println!("{limit}: {entries} entries, {bytes} bytes of {bound}");
        assert!(bytes <= bound + SLACK, "{limit}: {bytes} bytes");
    }
}

/// Subjects that were limited before the flood are limited after it, and those that share a
/// state are never let in by asking again.
#[test]
fn nobody_is_reset_by_a_flood() {
    for limit in LIMITS {
        let (clock, limiter) = limiter(limit, 200_000);
        for i in 0..50 {
            let cost = Ask::new(format!("early:{i}")).cost(5);
            assert!(limiter.check_now(cost).unwrap().is_allowed(), "{limit}");
        }
        let mut taken: HashMap<u64, u64> = HashMap::new();
        for round in 0..3 {
            for i in 0..10_000 {
                let granted = limiter.check_now(format!("flood:{i}")).unwrap().granted();
                *taken.entry(i).or_default() += granted;
            }
            // 90 s: at most an eighth of a unit has come back.
            clock.advance(Duration::from_secs(30));
            for i in 0..50 {
                let again = limiter.check_now(format!("early:{i}")).unwrap();
                assert!(!again.is_allowed(), "{limit}: early:{i} in round {round}");
            }
        }
        assert!(taken.values().all(|sum| *sum <= 5), "{limit}");
    }
}

/// Room comes back: what has expired goes first, and a subject that finds room while its shared
/// state counts starts with a copy of it.
#[test]
fn a_promoted_subject_inherits_what_it_shared() {
    for limit in ["5/1h via gcra", "5/1h via sliding_log", "5/1h via fixed_window"] {
        let (_, limiter) = limiter(limit, 100_000);
        let mut subjects = Vec::new();
        for i in 0..20_000 {
            let subject = format!("flood:{i}");
            let granted = limiter.check_now(subject.as_str()).unwrap().granted();
            subjects.push((subject, granted));
        }
        // One that was admitted by the shared state, which is now used up.
        let is_one = |(subject, granted): &&(String, u64)| {
            *granted > 0
                && is_shared(&limiter, subject)
                && limiter.peek_now(subject.as_str()).unwrap().remaining() == 0
        };
        let promoted = subjects.iter().find(is_one).unwrap().0.clone();
        // An administrator forgets everybody that has an entry: there is room again.
        for (subject, _) in &subjects {
            now(limiter.reset(subject.as_str())).unwrap();
        }
        limiter.store().sweep();
        assert_eq!(limiter.store().subjects(), 0, "{limit}");
        assert!(!limiter.check_now(promoted.as_str()).unwrap().is_allowed(), "{limit}");
        let fresh = (0..9).map(|_| limiter.check_now(promoted.as_str()).unwrap().granted());
        assert_eq!(fresh.sum::<u64>(), 0, "{limit}: a promotion is no reset");
    }
}

/// What has expired goes before anybody has to share.
#[test]
fn expired_entries_make_room() {
    let (clock, limiter) = limiter("5/1s via gcra", 4 << 20);
    for i in 0..100_000 {
        let _ = limiter.check_now(format!("old:{i}")).unwrap();
    }
    let full = limiter.store().subjects();
    assert!(full < 100_000, "the store was never full");
    clock.advance(Duration::from_secs(10));
    for i in 0..full / 8 {
        let subject = format!("new:{i}");
        assert!(limiter.check_now(subject.as_str()).unwrap().is_allowed());
        assert!(!is_shared(&limiter, &subject), "{subject} of {full}");
    }
    assert!(limiter.store().bytes() <= 4 << 20);
    clock.advance(Duration::from_secs(10));
    limiter.store().sweep();
    assert_eq!(limiter.store().subjects(), 0);
    // The table of limit sets stays: 128 bytes a shard.
    let bytes = limiter.store().bytes();
    assert!(bytes <= 32_768, "{bytes} bytes");
}

/// A log without room for another event moves its newest one: it never holds fewer units.
#[test]
fn a_log_without_room_counts_longer_and_never_less() {
    let (clock, limiter) = limiter("40/1m via sliding_log", 60_000);
    let start_us = limiter.store().now().as_micros();
    for i in 0..3_000 {
        let _ = limiter.check_now(format!("flood:{i}")).unwrap();
    }
    let Some(subject) = (0..3_000).map(|i| format!("flood:{i}")).find(|s| !is_shared(&limiter, s))
    else {
        panic!("nobody has an entry");
    };
    let mut events = vec![start_us];
    for _ in 0..400 {
        clock.advance(Duration::from_secs(1));
        if limiter.check_now(subject.as_str()).unwrap().is_allowed() {
            events.push(limiter.store().now().as_micros());
        }
    }
    let held = now(limiter.inspect(subject.as_str())).unwrap().unwrap();
    assert!(held.logs[0].len() < 30, "it had room for {} events", held.logs[0].len());
    for (i, at) in events.iter().enumerate() {
        let window = events[..=i].iter().filter(|t| **t + 60_000_000 > *at).count();
        assert!(window <= 40, "{window} in a minute");
    }
}

proptest! {
    // Failures are printed with their input; they are not written into the tree.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    })]

    /// Random floods on tiny budgets: no subject with an entry is ever over its limit in a
    /// window, nor are the subjects of one shared state together. A restart changes nothing: a
    /// full store fits into its own bound, and who shares goes on sharing.
    #[test]
    fn no_budget_is_so_small_that_it_admits_more(
        limit in 0..LIMITS.len(),
        bytes in prop_oneof![0..200_usize, 200..20_000_usize, 20_000..200_000_usize],
        steps in prop::collection::vec((0..400_u64, 1..7_u64, 0..40_u64, 0..12_u8), 200..1_500),
    ) {
        // Windows of 20 s, so that things expire on the way.
        let text = LIMITS[limit].replace("1h", "20s");
        let (clock, mut limiter) = limiter(&text, bytes);
        let mut events: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        let mut flood: Vec<(u64, u64)> = Vec::new();
        let mut entries = 0_u64;
        for (subject, cost, gap_ms, kind) in steps {
            clock.advance(Duration::from_millis(gap_ms));
            let name = format!("user:{subject}");
            let at = limiter.store().now().as_micros();
            match kind {
                0 => {
                    limiter.store().sweep_some();
                }
                1 => {
                    let _ = limiter.peek_now(name.as_str()).unwrap();
                }
                2 if subject < 40 => {
                    let mut file = Vec::new();
                    let saved = limiter.store().save(&mut file).unwrap();
                    let held = limiter.store().bytes();
                    let builder = MemoryStore::builder().clock(clock.clone()).max_bytes(bytes);
                    let (store, seen) = builder.restore(&file[..]).unwrap();
                    prop_assert_eq!((seen.subjects, seen.shared), (saved.subjects, saved.shared));
                    prop_assert!(store.bytes() <= held, "{} of {held}", store.bytes());
                    limiter = Limiter::new(limiter.limits().clone(), store);
                }
                _ => {
                    let ask = Ask::new(name.as_str()).cost(cost).partial();
                    let granted = limiter.check_now(ask).unwrap().granted();
                    if granted > 0 {
                        events.entry(subject).or_default().push((at, granted));
                        if is_shared(&limiter, &name) {
                            flood.push((at, granted));
                        }
                    }
                }
            }
            entries = entries.max(limiter.store().subjects() as u64);
            // Logs of tiny stores hold at least one event each.
            prop_assert!(limiter.store().bytes() <= bytes + SLACK);
        }
        let most = |events: &[(u64, u64)]| {
            let window = |at: u64| -> u64 {
                let inside = events.iter().filter(|(t, _)| *t <= at && *t + 20_000_000 > at);
                inside.map(|(_, cost)| cost).sum()
            };
            events.iter().map(|(at, _)| window(*at)).max().unwrap_or(0)
        };
        // A window of each strategy's own worst case: twice the limit and no more.
        let worst = if text.contains("via sliding") { 5 } else { 10 };
        for (subject, events) in &events {
            prop_assert!(most(events) <= worst, "{text}: user:{subject} {events:?}");
        }
        prop_assert!(most(&flood) <= SHARDS * worst);
    }
}
