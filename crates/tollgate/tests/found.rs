//! Bugs that a hostile reading of the library found; each test says what must hold.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate::{
    Ask, Limit, LimitSet, Limiter, ManualClock, MemoryStore, Period, Quota, Strategy, Subject,
    Time, Verdict, at_once,
};

/// The memory store answers immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
}

fn set(text: &str) -> LimitSet {
    text.parse().unwrap()
}

fn limiter(limits: &str, bytes: usize) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(bytes).build();
    (clock, Limiter::new(set(limits), store))
}

/// memory/mod.rs `answer_general`: a part's bucket index is stale once another part of the same
/// check makes its shard's table grow.
#[test]
fn a_shared_resource_keeps_its_count_while_consumers_come_in() {
    let (_, limiter) = limiter("1/s via gcra", 1 << 30);
    let (shared, own) = (set("r: 1000000/1h via gcra"), set("c: 3/1h via gcra"));
    let mut charged = 0;
    for i in 0..200_000 {
        let consumer = format!("consumer:{i}");
        let ask = Ask::from(vec![("resource:12".to_owned(), &shared), (consumer, &own)]);
        charged += limiter.check(ask).now().unwrap().granted();
        let left =
            limiter.check(Ask::new("resource:12").under(&shared).peek()).now().unwrap().remaining();
        assert_eq!(left, 1_000_000 - charged, "after consumer {i}");
    }
}

/// The same with the resource's log.
#[test]
fn a_shared_log_keeps_its_count_while_consumers_come_in() {
    let (_, limiter) = limiter("1/s via gcra", 1 << 30);
    let (shared, own) = (set("r: 1000000/1h via sliding_log"), set("c: 3/1h via gcra"));
    let mut charged = 0;
    for i in 0..200_000 {
        let consumer = format!("consumer:{i}");
        let ask = Ask::from(vec![("resource:12".to_owned(), &shared), (consumer, &own)]);
        charged += limiter.check(ask).now().unwrap().granted();
        let left =
            limiter.check(Ask::new("resource:12").under(&shared).peek()).now().unwrap().remaining();
        assert_eq!(left, 1_000_000 - charged, "after consumer {i}");
    }
}

/// memory/shard.rs `take` on a full store: the shared state of a shard is taken twice by a check
/// of two new subjects that fall into it.
#[test]
fn a_full_store_survives_checks_of_several_new_subjects() {
    for limit in ["5/1h via gcra", "5/1h via sliding_log", "5/1h via sliding_window"] {
        let (_, limiter) = limiter(limit, 1 << 10);
        let mut admitted = 0;
        for i in 0..60_000 {
            let ask = Ask::new(format!("a:{i}")).and(format!("b:{i}"));
            admitted += limiter.check(ask).now().unwrap().granted();
        }
        let own = limiter.store().subjects() as u64 * 5;
        assert!(admitted <= 256 * 5 + own, "{limit}: {admitted} with {own} by own entries");
    }
}

/// And with two sets that fall into one shard.
#[test]
fn a_full_store_survives_checks_under_several_sets() {
    let (_, limiter) = limiter("1/s via gcra", 1 << 10);
    let (a, b) = (set("a: 5/1h via gcra"), set("b: 7/1h via sliding_log"));
    let mut admitted = 0;
    for i in 0..60_000 {
        let ask = Ask::from(vec![(format!("a:{i}"), &a), (format!("b:{i}"), &b)]);
        admitted += limiter.check(ask).now().unwrap().granted();
    }
    let own = limiter.store().subjects() as u64 * 7;
    assert!(admitted <= 256 * 5 + own, "{admitted} with {own} by own entries");
}

/// memory/mod.rs `refund_now` takes the state under the receipt's numbers, not under those it is
/// counted under now.
#[test]
fn a_refund_after_a_raise_forgets_nothing_else() {
    let (_, limiter) = limiter("x: 10/1h via gcra", 1 << 20);
    let more = set("x: 100/1h via gcra");
    let receipt = limiter.check("ann").now().unwrap().receipt().unwrap();
    let second = limiter.check(Ask::new("ann").cost(50).under(&more)).now().unwrap();
    assert_eq!(second.remaining(), 49);
    now(limiter.refund(&receipt)).unwrap();
    let left = limiter.check(Ask::new("ann").under(&more).peek()).now().unwrap().remaining();
    assert_eq!(left, 50);
}

#[test]
fn a_refund_of_another_strategys_receipt_changes_nothing() {
    let (_, limiter) = limiter("x: 5/1h via fixed_window", 1 << 20);
    let gcra = set("x: 5/1h via gcra");
    let receipt = limiter.check("ann").now().unwrap().receipt().unwrap();
    assert!(limiter.check(Ask::new("ann").cost(5).under(&gcra)).now().unwrap().is_allowed());
    assert_eq!(now(limiter.refund(&receipt)).unwrap().given, [0]);
    assert_eq!(limiter.check(Ask::new("ann").under(&gcra).peek()).now().unwrap().remaining(), 0);
}

/// engine `decide`: a count that was carried over to new numbers is not kept when the check is
/// denied, so it is carried over again at the next check, from the old numbers.
#[test]
fn the_wait_of_a_denial_after_a_change_of_numbers_is_enough() {
    let mut wrong = Vec::new();
    for (was, is) in [
        ("x: 5/1h via fixed_window", "x: 5/10s via fixed_window"),
        ("x: 5/1h via gcra", "x: 5/10s via gcra"),
        ("x: 5/1h via sliding_window", "x: 5/10s via sliding_window"),
        ("x: 5/1h refill interval via token_bucket", "x: 5/10s refill interval via token_bucket"),
        ("x: 5/1h via sliding_log", "x: 5/10s via sliding_log"),
    ] {
        let (clock, limiter) = limiter(was, 1 << 20);
        assert!(limiter.check(Ask::new("ann").cost(5)).now().unwrap().is_allowed());
        clock.advance(Duration::from_secs(3));
        let new = set(is);
        let verdict = limiter.check(Ask::new("ann").under(&new)).now().unwrap().verdict();
        let Verdict::NotYet(wait) = verdict else { panic!("{was}: {verdict:?}") };
        clock.advance(wait);
        let again = limiter.check(Ask::new("ann").under(&new)).now().unwrap().verdict();
        if again != Verdict::Allow {
            wrong.push(format!("{was} -> {is}: {again:?} after {wait:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// sliding_window `migrate` repairs the old state in place; a peek then lays it back repaired.
#[test]
fn a_peek_under_new_numbers_after_a_step_back_changes_nothing() {
    let (clock, limiter) = limiter("x: 6/10s via sliding_window", 1 << 20);
    let new = set("x: 7/10s via sliding_window");
    let _ = limiter.check(Ask::new("ann").cost(3)).now().unwrap();
    let before = now(limiter.admin().inspect("ann")).unwrap();
    clock.set(Time::from_micros(500_000_000));
    let _ = limiter.check(Ask::new("ann").under(&new).peek()).now().unwrap();
    assert_eq!(now(limiter.admin().inspect("ann")).unwrap(), before);
}

/// memory/shard.rs `insert`: the bytes of a long subject are not asked for, only taken.
#[test]
fn long_subjects_stay_within_the_bound() {
    let bound = 4 << 20;
    let (_, limiter) = limiter("5/1h via gcra", bound);
    for i in 0..30_000 {
        let _ = limiter.check(format!("user:{i}")).now().unwrap();
    }
    for i in 0..2_000 {
        let _ = limiter.check(format!("user:{i}{}", "x".repeat(60_000))).now().unwrap();
    }
    let held = limiter.store().bytes();
    assert!(held <= bound + bound / 8, "{held} bytes under a bound of {bound}");
}

/// memory/shard.rs `spend`: marks of refunded receipts grow past the bound.
#[test]
fn marks_of_refunds_stay_within_the_bound() {
    let bound = 1 << 20;
    let (_, limiter) = limiter("1000000/30d via gcra", bound);
    for _ in 0..300_000 {
        let receipt = limiter.check("ann").now().unwrap().receipt().unwrap();
        now(limiter.refund(&receipt)).unwrap();
    }
    let held = limiter.store().bytes();
    assert!(held <= bound + bound / 8, "{held} bytes under a bound of {bound}");
}

/// limit.rs `Limit::new` promises to refuse an option that the strategy does not take.
#[test]
fn a_limit_built_by_hand_refuses_what_its_strategy_does_not_take() {
    let mut quota = Quota::new(5, Period::from_micros(10_000_000).unwrap());
    quota.burst = Some(9);
    if let Ok(limit) = Limit::new(quota, Strategy::FixedWindow) {
        let text = limit.to_string();
        panic!("accepted as `{text}`, which reads back as {:?}", text.parse::<Limit>());
    }
}

/// A receipt from before a reset gives back what was charged after it.
#[test]
fn a_refund_from_before_a_reset_gives_nothing() {
    let mut wrong = Vec::new();
    for limit in [
        "5/1h via gcra",
        "5/1h via fixed_window",
        "5/1h via sliding_window",
        "5/1h via sliding_log",
    ] {
        let (clock, limiter) = limiter(limit, 1 << 20);
        let receipt = limiter.check(Ask::new("ann").cost(5)).now().unwrap().receipt().unwrap();
        now(limiter.admin().reset("ann")).unwrap();
        clock.advance(Duration::from_secs(1));
        assert!(limiter.check(Ask::new("ann").cost(5)).now().unwrap().is_allowed());
        let given = now(limiter.refund(&receipt)).unwrap().given;
        if given != [0] {
            wrong.push((limit, given));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Small tables full of expired entries take newcomers again.
#[test]
fn expired_entries_go_first() {
    for bytes in [250_000, 400_000, 600_000, 1_000_000, 4_000_000] {
        for limit in ["5/1s via gcra", "5/1s via sliding_log"] {
            let (clock, limiter) = limiter(limit, bytes);
            for i in 0..60_000 {
                let _ = limiter.check(format!("old:{i}")).now().unwrap();
            }
            let full = limiter.store().subjects();
            clock.advance(Duration::from_secs(10));
            let mut own = 0;
            for i in 0..full as u64 / 4 {
                let subject = Subject::new("new", i.to_string()).unwrap();
                let _ = limiter.check(&subject).now().unwrap();
                own += u64::from(!now(limiter.admin().inspect(&subject)).unwrap().unwrap().shared);
            }
            println!("{limit} {bytes}: {full} entries, then {own} of {} own", full / 4);
            assert!(own * 10 >= full as u64 / 4 * 9, "{limit} {bytes}: {own} of {}", full / 4);
        }
    }
}

/// One live subject per shard does not pin the room of the others.
#[test]
fn a_sweep_gives_back_what_one_shot_logs_took() {
    let (clock, limiter) = limiter("2/1s via sliding_log", 1 << 30);
    let live = set("live: 2/10h via sliding_log");
    for i in 0..2_000 {
        let _ = limiter.check(Ask::new(format!("live:{i}")).under(&live)).now().unwrap();
    }
    let before = limiter.store().bytes();
    for i in 0..200_000 {
        let _ = limiter.check(format!("one:{i}")).now().unwrap();
    }
    let most = limiter.store().bytes();
    clock.advance(Duration::from_secs(10));
    limiter.store().sweep();
    let after = limiter.store().bytes();
    println!("{before} before, {most} at most, {after} after");
    assert!(after <= before + before / 5, "{before} before, {most} at most, {after} after");
}

/// sliding_log: the running total never starts again while the log lives, and overflows.
#[test]
fn the_running_total_of_a_log_does_not_overflow() {
    let (clock, limiter) = limiter("1099511627776/1us via sliding_log", 1 << 20);
    for i in 0..(1_u64 << 24) + 2 {
        clock.advance(Duration::from_micros(1));
        let decision = limiter.check(Ask::new("ann").cost(1 << 40)).now().unwrap();
        assert!(decision.is_allowed(), "check {i}");
    }
}

/// gcra `migrate`: the part of a unit is scaled by whole microseconds of both T, not by T.
#[test]
fn the_part_of_a_unit_is_scaled_to_the_new_time_of_a_unit() {
    let (clock, limiter) = limiter("x: 3/10us via gcra", 1 << 20);
    assert!(limiter.check("ann").now().unwrap().is_allowed());
    clock.advance(Duration::from_micros(3));
    // A third of a microsecond of 10/3 is left: a tenth of a unit, and so a tenth of a second.
    let new = set("x: 1/s via gcra");
    let peeked = limiter.check(Ask::new("ann").under(&new).peek()).now().unwrap();
    assert_eq!(peeked.reset_after(), Duration::from_millis(100));
}

/// memory/mod.rs `refund_now`: the mark is not looked at once the charge no longer counts.
#[test]
fn a_second_refund_says_so_also_when_it_is_late() {
    let (clock, limiter) = limiter("5/1s via gcra", 1 << 20);
    let receipt = limiter.check("ann").now().unwrap().receipt().unwrap();
    assert!(!now(limiter.refund(&receipt)).unwrap().already);
    clock.advance(Duration::from_millis(500));
    assert!(now(limiter.refund(&receipt)).unwrap().already);
}

/// A charge that only newer, longer numbers still count is given back no more (definitions 4): a
/// mark made under the old numbers might be gone, and it would be given back twice.
#[test]
fn a_charge_that_only_longer_numbers_count_is_not_given_back() {
    let (clock, limiter) = limiter("x: 5/1s via fixed_window", 1 << 20);
    let longer = set("x: 5/1h via fixed_window");
    let receipt = limiter.check(Ask::new("ann").cost(2)).now().unwrap().receipt().unwrap();
    assert!(limiter.check(Ask::new("ann").under(&longer)).now().unwrap().is_allowed());
    let kept = limiter.check(Ask::new("bob").cost(2)).now().unwrap().receipt().unwrap();
    assert!(limiter.check(Ask::new("bob").under(&longer)).now().unwrap().is_allowed());
    let first = now(limiter.refund(&kept)).unwrap();
    assert_eq!((first.already, first.given), (false, vec![2]));
    clock.advance(Duration::from_secs(2));
    for (receipt, already) in [(&receipt, false), (&receipt, true), (&kept, true)] {
        let refund = now(limiter.refund(receipt)).unwrap();
        assert_eq!((refund.already, refund.given), (already, vec![0]));
    }
}
