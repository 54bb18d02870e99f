//! The limits, receipts, resets and time after a restart.

use super::*;

/// Limits are carried over from the numbers that a state was written under, as in one process.
#[test]
fn changed_limits_are_carried_over_after_a_restart() {
    for (before, after) in [
        ("a: 10/1m burst 6 via gcra", "a: 4/1m burst 9 via gcra"),
        ("a: 10/1m via fixed_window", "a: 3/2m via fixed_window"),
        ("a: 10/1m via sliding_log", "a: 4/30s via sliding_log"),
        ("a: 10/1m via sliding_window", "a: 20/2m precision 30s via sliding_window"),
        ("a: 9/1m refill interval via token_bucket", "a: 12/20s via token_bucket"),
        ("a: 1/1m via uniform", "a: 2/3m via uniform"),
        ("a: 10/1m via sliding_log", "a: 10/1m via fixed_window"),
        (
            "a: 10/1m via gcra, b: 20/1h via sliding_log",
            "b: 9/1h via sliding_log, a: 5/1m via gcra",
        ),
    ] {
        let clock = ManualClock::at_micros(START_US);
        let old = limiter(before, &clock);
        for _ in 0..5 {
            clock.advance(Duration::from_millis(1_700));
            let _ = old.check("bob").now().unwrap();
        }
        let file = file(&old);
        let uncut = Limiter::new(after.parse().unwrap(), old.store().clone());
        let (cut, _) = restored(after, &file, &clock);
        for seconds in [0, 7, 20, 40] {
            clock.advance(Duration::from_secs(seconds));
            for cost in 1..4 {
                assert_eq!(said(&cut, "bob", cost), said(&uncut, "bob", cost), "{before} {after}");
            }
            let (one, two) = (cut.check("bob").now().unwrap(), uncut.check("bob").now().unwrap());
            assert_eq!(one.verdict(), two.verdict());
            if seconds == 0 {
                assert_ne!(one.binding().carried(), Carried::Same, "{before} {after}");
            }
        }
    }
}

/// A receipt from before is given back after a restart, and after another: once.
#[test]
fn an_old_receipt_is_refunded_once() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1h via gcra", &clock);
    let shared: LimitSet = "7/1h via sliding_log".parse().unwrap();
    let pair = || [("bob", first.limits()), ("everybody", &shared)];
    let mut receipts = Vec::new();
    for _ in 0..3 {
        receipts.push(first.check(pair()).now().unwrap().receipt().unwrap());
    }
    assert_eq!(now(first.refund(&receipts[0])).unwrap().given, [1, 1]);
    let (second, _) = restored("5/1h via gcra", &file(&first), &clock);
    assert!(now(second.refund(&receipts[0])).unwrap().already);
    assert_eq!(now(second.refund(&receipts[1])).unwrap().given, [1, 1]);
    assert!(now(second.refund(&receipts[1])).unwrap().already);
    receipts.push(second.check(pair()).now().unwrap().receipt().unwrap());
    let (third, _) = restored("5/1h via gcra", &file(&second), &clock);
    for (index, already) in [(0, true), (1, true), (2, false), (3, false), (3, true)] {
        assert_eq!(now(third.refund(&receipts[index])).unwrap().already, already, "{index}");
    }
    assert_eq!(third.check(Ask::new("bob").peek()).now().unwrap().remaining(), 5);
    let all: Vec<(u64, u64)> = receipts.iter().map(|r| (r.store, r.number)).collect();
    assert!((0..4).all(|i| all.iter().filter(|id| **id == all[i]).count() == 1), "{all:?}");
}

/// A snapshot does not know what was charged after it. A receipt of that is another store's, and
/// no later charge gets its number.
#[test]
fn receipts_that_a_snapshot_does_not_know_are_refused() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("500/1h via gcra", &clock);
    let known = first.check("bob").now().unwrap().receipt().unwrap();
    let file = file(&first);
    // It went on, and so did the store that came next; then the old snapshot is read again.
    let mut unknown = vec![];
    let (second, _) = restored("500/1h via gcra", &file, &clock);
    for i in 0..300 {
        for store in [&first, &second] {
            unknown.push(store.check(format!("user:{i}")).now().unwrap().receipt().unwrap());
        }
    }
    let (third, _) = restored("500/1h via gcra", &file, &clock);
    for receipt in &unknown {
        let error = now(third.refund(receipt)).unwrap_err().to_string();
        assert!(error.contains("another store"), "{error}");
    }
    assert!(!now(third.refund(&known)).unwrap().already);
    for i in 0..300 {
        let receipt = third.check(format!("user:{i}")).now().unwrap().receipt().unwrap();
        assert!(unknown.iter().all(|other| other.store != receipt.store));
        assert!(!now(third.refund(&receipt)).unwrap().already);
    }
}

/// Where there was no room to remember more refunds, the oldest receipts give nothing; after a
/// restart as well.
#[test]
fn receipts_that_had_to_be_forgotten_stay_so() {
    let clock = ManualClock::at_micros(START_US);
    // Room for the set and for the state that newcomers share, and for nothing beside.
    let has_room = |bytes: &usize| {
        let store = builder(&clock).max_bytes(*bytes).build();
        Limiter::new("100/1h via gcra".parse().unwrap(), store)
            .check("bob")
            .now()
            .unwrap()
            .is_allowed()
    };
    let bytes = (0..9_999).find(has_room).unwrap();
    let store = builder(&clock).max_bytes(bytes).build();
    let first = Limiter::new("100/1h via gcra".parse().unwrap(), store);
    let receipts: Vec<_> =
        (0..16).map(|_| first.check("bob").now().unwrap().receipt().unwrap()).collect();
    for receipt in receipts[8..].iter().rev() {
        let _ = now(first.refund(receipt)).unwrap();
    }
    let file = file(&first);
    let (store, seen) = builder(&clock).max_bytes(bytes).restore(&file[..]).unwrap();
    assert_eq!((seen.subjects, seen.shared), (0, 1));
    let second = Limiter::new(first.limits().clone(), store);
    for receipt in &receipts {
        assert!(now(first.refund(receipt)).unwrap().already);
        assert!(now(second.refund(receipt)).unwrap().already);
    }
}

/// A reset is remembered over a restart: a charge before it gives nothing.
#[test]
fn a_reset_stays_a_reset() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1h via gcra", &clock);
    let old = first.check(Ask::new("bob").cost(3)).now().unwrap().receipt().unwrap();
    assert!(now(first.admin().reset("bob")).unwrap());
    let new = first.check(Ask::new("bob").cost(2)).now().unwrap().receipt().unwrap();
    let (second, _) = restored("5/1h via gcra", &file(&first), &clock);
    assert_eq!(now(second.refund(&old)).unwrap().given, [0]);
    assert_eq!(now(second.refund(&new)).unwrap().given, [2]);
    let later = second.check("bob").now().unwrap().receipt().unwrap();
    assert_eq!(now(second.refund(&later)).unwrap().given, [1]);
}

/// The wall clock went back while nobody looked: as when it does in one process.
#[test]
fn a_clock_that_is_behind_after_a_restart_is_a_clock_that_stepped_back() {
    for limits in [
        "10/10s burst 3 via gcra",
        "3/10s via fixed_window",
        "3/10s anchor first-hit via fixed_window",
        "3/10s via sliding_log",
        "3/10s via sliding_window",
        "3/10s refill interval via token_bucket",
    ] {
        for behind_us in [1, 400_000, 1_000_000, 1_000_001, 7_000_000, 900_000_000] {
            let clock = ManualClock::at_micros(START_US);
            let uncut = limiter(limits, &clock);
            assert!(uncut.check(Ask::new("bob").cost(3)).now().unwrap().is_allowed());
            let file = file(&uncut);
            clock.set(Time::from_micros(START_US - behind_us));
            let (cut, restored) = restored(limits, &file, &clock);
            assert_eq!(restored.behind, Duration::from_micros(behind_us));
            for _ in 0..3 {
                assert_eq!(said(&cut, "bob", 1), said(&uncut, "bob", 1), "{limits} {behind_us}");
                let (one, two) =
                    (cut.check("bob").now().unwrap(), uncut.check("bob").now().unwrap());
                assert_eq!(one.verdict(), two.verdict(), "{limits} {behind_us}");
                let wait = one.retry_after().unwrap_or_default();
                assert!(wait <= Duration::from_secs(12), "{limits} {behind_us}: {wait:?}");
                clock.advance(wait);
            }
        }
    }
}
