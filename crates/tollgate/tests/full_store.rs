//! The memory store when it is full: nobody gets a free reset, a flood shares a bound, and the
//! bytes stay where they were promised.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Ask, Hold, LimitSet, Limiter, ManualClock, MemoryStore, at_once};

/// As many as the store has.
const SHARDS: u64 = 256;

/// The memory store answers immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
}

fn limiter(limits: &str, bytes: usize) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(bytes).build();
    (clock, Limiter::new(limits.parse::<LimitSet>().unwrap(), store))
}

fn is_shared(limiter: &Limiter<MemoryStore>, subject: &str) -> bool {
    now(limiter.admin().inspect(subject)).unwrap().is_some_and(|held| held.shared)
}

const LIMITS: [&str; 6] = [
    "5/1h via gcra",
    "5/1h via fixed_window",
    "5/1h refill interval via token_bucket",
    "5/1h via sliding_log",
    "5/1h via sliding_window",
    "5/1h via sliding_log, 6/1h via gcra",
];

fn acquire(limiter: &Limiter<MemoryStore>, subject: &str) -> Option<Hold> {
    limiter.hold(Ask::new(subject).acquire()).now().unwrap().hold
}

/// Fills a store with subjects that hold a slot each, until new ones share. Returns who holds.
fn fill(limiter: &Limiter<MemoryStore>) -> Vec<(String, Hold)> {
    let subjects = (0..20_000).map(|i| format!("filler:{i}"));
    let held: Vec<(String, Hold)> =
        subjects.filter_map(|it| acquire(limiter, &it).map(|hold| (it, hold))).collect();
    assert!(limiter.store().shared() > 1_000 && held.len() > 1_000, "the store is full");
    held
}

/// A hold of a new subject is one of the state that it shares, or is denied: it is not an error,
/// which a failure rule could admit.
#[test]
fn holds_of_new_subjects_share_their_slots() {
    for limits in ["2 at once hold 30s", "90/h via gcra, 2 at once hold 30s"] {
        let (clock, limiter) = limiter(limits, 1 << 20);
        let mut held = fill(&limiter);
        let entries = limiter.store().subjects() as u64;
        let all = entries + 2 * SHARDS;
        assert!(held.len() as u64 <= all, "{limits}: {} by {entries}", held.len());
        let new = (0..20).filter_map(|_| acquire(&limiter, "new")).count();
        assert!(new <= 2, "{limits}: {new}");
        let denied = limiter.hold(Ask::new("new").acquire()).now().unwrap().decision.into_owned();
        assert!(denied.is_shared() && !denied.is_allowed(), "{limits}: {denied}");
        assert!(denied.retry_after().is_some_and(|wait| wait > Duration::ZERO), "{limits}");
        let bytes = limiter.store().bytes();
        assert!(bytes <= (1 << 20) + 2_048, "{limits}: {bytes}");
        // An open hold is renewed and given back once, whoever shares it.
        for (_, hold) in &mut held {
            assert!(now(limiter.renew(hold, None)).unwrap(), "{limits}");
        }
        for (_, hold) in &held {
            assert!(limiter.release(hold).now().unwrap(), "{limits}");
            assert!(!limiter.release(hold).now().unwrap(), "{limits}: once");
        }
        // By itself, each ends in its time.
        clock.advance(Duration::from_secs(31));
        let again: Vec<Hold> = (0..3).filter_map(|_| acquire(&limiter, "new")).collect();
        assert_eq!(again.len(), 2);
    }
}

/// A subject that gets an entry while it holds a slot of the shared state takes that along: it
/// gains no slots.
#[test]
fn a_subject_that_finds_room_keeps_what_it_holds() {
    let (clock, limiter) = limiter("2 at once hold 30s", 1 << 20);
    let mut found = fill(&limiter);
    found.retain(|(new, _)| is_shared(&limiter, new));
    assert!(found.len() > 10, "{}", found.len());
    clock.advance(Duration::from_secs(20));
    for (_, hold) in &mut found {
        assert!(now(limiter.renew(hold, None)).unwrap());
    }
    // The others are over, and their room is free.
    clock.advance(Duration::from_secs(15));
    limiter.store().sweep();
    for (new, hold) in &found {
        let own: Vec<Hold> = (0..3).filter_map(|_| acquire(&limiter, new)).collect();
        assert!(own.len() <= 1, "{new}: one is still held");
        for hold in own.iter().chain([hold]) {
            assert!(limiter.release(hold).now().unwrap(), "{new}");
        }
    }
}

/// New subjects share one state for each shard and set: their units together are bounded.
#[test]
fn a_flood_shares_its_bound() {
    for limit in LIMITS {
        let (_, limiter) = limiter(limit, 300_000);
        let (mut shared, mut own) = (0, 0);
        for i in 0..60_000 {
            let subject = format!("flood:{i}");
            let granted = limiter.check(subject.as_str()).now().unwrap().granted();
            if is_shared(&limiter, &subject) { shared += granted } else { own += granted }
        }
        let entries = limiter.store().subjects() as u64;
        assert!(entries > 100 && entries < 30_000, "{limit}: {entries}");
        assert!(shared <= SHARDS * 5, "{limit}: {shared} by shared states");
        assert!(own <= entries + SHARDS * 5, "{limit}: {own} by {entries} entries");
        let (bytes, bound) = (limiter.store().bytes(), 300_000);
        println!("{limit}: {entries} entries, {bytes} bytes of {bound}");
        assert!(bytes <= bound, "{limit}: {bytes} bytes");
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
            assert!(limiter.check(cost).now().unwrap().is_allowed(), "{limit}");
        }
        let mut taken: HashMap<u64, u64> = HashMap::new();
        for round in 0..3 {
            for i in 0..10_000 {
                let granted = limiter.check(format!("flood:{i}")).now().unwrap().granted();
                *taken.entry(i).or_default() += granted;
            }
            // 90 s: at most an eighth of a unit has come back.
            clock.advance(Duration::from_secs(30));
            for i in 0..50 {
                let again = limiter.check(format!("early:{i}")).now().unwrap();
                assert!(!again.is_allowed(), "{limit}: early:{i} in round {round}");
            }
        }
        assert!(taken.values().all(|sum| *sum <= 5), "{limit}");
    }
}

/// Room comes back: expired entries go first, and a subject that finds room while its shared state
/// counts starts with a copy of it.
#[test]
fn a_promoted_subject_inherits_what_it_shared() {
    for limit in ["5/1h via gcra", "5/1h via sliding_log", "5/1h via fixed_window"] {
        let (_, limiter) = limiter(limit, 100_000);
        let mut subjects = Vec::new();
        for i in 0..20_000 {
            let subject = format!("flood:{i}");
            let granted = limiter.check(subject.as_str()).now().unwrap().granted();
            subjects.push((subject, granted));
        }
        // One that was admitted by the shared state, which is now used up.
        let is_one = |(subject, granted): &&(String, u64)| {
            *granted > 0
                && is_shared(&limiter, subject)
                && limiter.check(Ask::new(subject.as_str()).peek()).now().unwrap().remaining() == 0
        };
        let promoted = subjects.iter().find(is_one).unwrap().0.clone();
        // An administrator forgets everybody that has an entry: there is room again.
        for (subject, _) in &subjects {
            now(limiter.admin().reset(subject.as_str())).unwrap();
        }
        limiter.store().sweep();
        assert_eq!(limiter.store().subjects(), 0, "{limit}");
        assert!(!limiter.check(promoted.as_str()).now().unwrap().is_allowed(), "{limit}");
        let fresh = (0..9).map(|_| limiter.check(promoted.as_str()).now().unwrap().granted());
        assert_eq!(fresh.sum::<u64>(), 0, "{limit}: a promotion is not a reset");
    }
}

/// Expired entries go before anybody has to share.
#[test]
fn expired_entries_make_room() {
    let (clock, limiter) = limiter("5/1s via gcra", 4 << 20);
    for i in 0..100_000 {
        let _ = limiter.check(format!("old:{i}")).now().unwrap();
    }
    let full = limiter.store().subjects();
    assert!(full < 100_000, "the store was never full");
    clock.advance(Duration::from_secs(10));
    for i in 0..full / 8 {
        let subject = format!("new:{i}");
        assert!(limiter.check(subject.as_str()).now().unwrap().is_allowed());
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
        let _ = limiter.check(format!("flood:{i}")).now().unwrap();
    }
    let Some(subject) = (0..3_000).map(|i| format!("flood:{i}")).find(|s| !is_shared(&limiter, s))
    else {
        panic!("nobody has an entry");
    };
    let mut events = vec![start_us];
    for _ in 0..400 {
        clock.advance(Duration::from_secs(1));
        if limiter.check(subject.as_str()).now().unwrap().is_allowed() {
            events.push(limiter.store().now().as_micros());
        }
    }
    let held = now(limiter.admin().inspect(subject.as_str())).unwrap().unwrap();
    assert!(held.logs[0].len() < 30, "it had room for {} events", held.logs[0].len());
    for (i, at) in events.iter().enumerate() {
        let window = events[..=i].iter().filter(|t| **t + 60_000_000 > *at).count();
        assert!(window <= 40, "{window} in a minute");
    }
}

/// A decision gives the reason why a newcomer may be denied: its shared state, or lack of room.
#[test]
fn a_decision_says_that_the_store_is_full() {
    for limit in LIMITS {
        let (_, limiter) = limiter(limit, 400_000);
        let first = limiter.check("first").now().unwrap();
        assert!(!first.is_shared(), "{limit}");
        for i in 0..40_000 {
            let subject = format!("flood:{i}");
            let decision = limiter.check(subject.as_str()).now().unwrap();
            assert_eq!(decision.is_shared(), is_shared(&limiter, &subject), "{limit} {subject}");
            assert_eq!(decision.clone().into_owned().is_shared(), decision.is_shared());
        }
        assert!(!limiter.check("first").now().unwrap().is_shared(), "{limit}");
        let last = limiter.check("last").now().unwrap();
        assert!(last.is_shared() && !last.is_allowed(), "{limit}");
        assert!(limiter.check(Ask::new("last").peek()).now().unwrap().is_shared(), "{limit}");
        assert!(limiter.store().shared() > 1_000, "{limit}");
        assert_eq!(limiter.store().refused(), 0, "{limit}: the set is known in every shard");

        // Sets that are new share while there is room for them; then nobody is let in under one.
        let mut denials = Vec::new();
        for i in 1..=1_000 {
            let set: LimitSet = format!("new-{i}: 3/30m via uniform").parse().unwrap();
            let ask = || Ask::new("tenant").under(&set);
            let decision = limiter.check(ask()).now().unwrap();
            assert!(decision.is_shared(), "{limit}");
            if !decision.is_allowed() {
                let peek = limiter.check(ask().peek()).now().unwrap();
                assert!(!peek.is_allowed() && peek.is_shared(), "{limit}");
                assert!(
                    now(limiter.admin().adjust(ask(), 5))
                        .unwrap()
                        .iter()
                        .all(|change| *change == 0)
                );
                denials.push(decision.retry_after().unwrap());
            }
        }
        assert!(denials.len() > 500, "{limit}: {} were refused", denials.len());
        assert_eq!(limiter.store().refused(), denials.len() as u64);
        // As if all of it was taken now.
        assert!(denials.iter().all(|wait| *wait == Duration::from_secs(600)), "{limit}");
        let cost = Ask::new("tenant").cost(9);
        let set: LimitSet = "new-0: 3/30m via uniform".parse().unwrap();
        assert!(limiter.check(cost.under(&set)).now().unwrap().is_never(), "{limit}");
    }
}

/// Other numbers of one identity are the same count also for who shares: no way to a fresh one.
#[test]
fn other_numbers_are_no_fresh_share() {
    let (_, limiter) = limiter("5/1h via gcra", 500_000);
    for i in 0..60_000 {
        let _ = limiter.check(format!("flood:{i}")).now().unwrap();
    }
    let set: LimitSet = "4/1h via gcra".parse().unwrap();
    let mut shared = 0;
    for i in 0..10_000 {
        let decision = limiter.check(Ask::new(format!("eve:{i}")).under(&set)).now().unwrap();
        assert_eq!(decision.granted(), 0, "eve:{i}");
        shared += u64::from(decision.is_shared());
    }
    assert_eq!(shared, 10_000);
}

/// A look that found nothing is not repeated immediately, and expired entries are found all the
/// same: within 256 newcomers of a shard 1,152 of its buckets are looked at, however little time
/// passes.
#[test]
fn what_expires_is_found_by_those_who_come() {
    for wait in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(150)] {
        let (clock, limiter) = limiter("1000000/1h via fixed_window", 1 << 20);
        let short: LimitSet = "5/1m via gcra".parse().unwrap();
        // A quarter of the entries expires soon.
        for i in 0..60_000 {
            let ask = Ask::new(format!("flood:{i}"));
            let ask = if i % 4 == 0 { ask.under(&short) } else { ask };
            let _ = limiter.check(ask).now().unwrap();
        }
        let entries = limiter.store().subjects() as u64;
        clock.advance(Duration::from_secs(70));
        // Tables are between 7/16 and 7/8 full.
        let newcomers = entries * 16 / 7 * 256 / 1_152 * 6 / 5;
        let mut own = 0;
        for i in 0..newcomers {
            clock.advance(wait);
            own += u64::from(!limiter.check(format!("new:{i}")).now().unwrap().is_shared());
        }
        println!("{wait:?}: {own} of {newcomers} have their own, where {entries} were");
        // Room that comes back is taken once a sixteenth of a table has.
        assert!(own * 4 >= entries / 4 * 3, "{own} of {}", entries / 4);
    }
}

/// Newcomers who find no room share a state. When that expires their set, which others still use,
/// is promised room for another: no entry and no other set takes it.
#[test]
fn room_that_is_promised_anew_is_not_taken() {
    let charge = |limiter: &Limiter<MemoryStore>, name: String, bytes| {
        let decision = limiter.check(name).now().unwrap();
        let held = limiter.store().bytes();
        assert!(held <= bytes, "{held} of {bytes}");
        decision.is_shared()
    };
    for bytes in (1_000..66_000).step_by(50) {
        let (clock, limiter) = limiter("5/20s via sliding_log", bytes);
        let names = (0..300).map(|i| format!("user:{i}"));
        let own: Vec<String> =
            names.filter(|name| !charge(&limiter, name.clone(), bytes)).collect();
        clock.advance(Duration::from_secs(15));
        for name in own {
            charge(&limiter, name, bytes);
        }
        clock.advance(Duration::from_secs(7));
        for i in 300..900 {
            charge(&limiter, format!("user:{i}"), bytes);
        }
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
                    let _ = limiter.check(Ask::new(name.as_str()).peek()).now().unwrap();
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
                    let granted = limiter.check(ask).now().unwrap().granted();
                    if granted > 0 {
                        events.entry(subject).or_default().push((at, granted));
                        if is_shared(&limiter, &name) {
                            flood.push((at, granted));
                        }
                    }
                }
            }
            entries = entries.max(limiter.store().subjects() as u64);
            let held = limiter.store().bytes();
            prop_assert!(held <= bytes, "{held} of {bytes}");
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
