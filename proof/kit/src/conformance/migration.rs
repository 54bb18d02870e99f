//! Cases: the effect on a count when the numbers of its limit change (definitions, section 6).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use tollgate::{Ask, Carried, LimitSet};

use super::StoreMaker;
use super::world::{World, set};

const NOW_US: u64 = 100_000_000;

/// A limit, the charge at [`NOW_US`], how much later its numbers change to which, and the check of
/// cost 1 that follows: (remaining after it, or None where it is denied).
struct Change {
    was: &'static str,
    charge: u64,
    later_us: u64,
    is: &'static str,
    expect: Option<u64>,
}

const fn change(
    was: &'static str,
    charge: u64,
    later_us: u64,
    is: &'static str,
    expect: Option<u64>,
) -> Change {
    Change { was, charge, later_us, is, expect }
}

const S: u64 = 1_000_000;

/// The table of section 6, numbers up and down.
const CHANGES: [Change; 30] = [
    // greedy: the units consumed, and the rest of a unit
    change("x: 10/10s via gcra", 4, 0, "x: 20/10s via gcra", Some(15)),
    change("x: 10/10s via gcra", 4, 0, "x: 5/10s via gcra", Some(0)),
    change("x: 10/10s via gcra", 10, 0, "x: 5/10s via gcra", None),
    change("x: 10/10s via gcra", 4, 2 * S, "x: 10/20s via gcra", Some(7)),
    change("x: 10/10s via gcra", 8, 0, "x: 10/10s burst 20 via gcra", Some(11)),
    change("x: 10/10s burst 20 via gcra", 15, 0, "x: 10/10s burst 10 via gcra", None),
    change("x: 10/10s via gcra", 4, S / 2, "x: 10/20s via gcra", Some(5)),
    change("x: 1/10s via uniform", 1, 0, "x: 1/1s via uniform", None),
    change("x: 1/10s via uniform", 1, 0, "x: 1/20s via uniform", None),
    change("x: 10/10s via token_bucket", 4, 0, "x: 20/10s via token_bucket", Some(15)),
    change("x: 10/10s burst 8 via token_bucket", 8, 0, "x: 10/10s burst 4 via token_bucket", None),
    // interval refill: the missing units
    change(
        "x: 10/10s refill interval via token_bucket",
        4,
        0,
        "x: 20/10s refill interval via token_bucket",
        Some(15),
    ),
    change(
        "x: 10/10s refill interval via token_bucket",
        9,
        0,
        "x: 10/10s burst 5 refill interval via token_bucket",
        None,
    ),
    change(
        "x: 10/10s refill interval via token_bucket",
        4,
        S,
        "x: 10/30s refill interval via token_bucket",
        Some(5),
    ),
    change(
        "x: 10/10s refill interval via token_bucket",
        4,
        S,
        "x: 10/10s refill greedy via token_bucket",
        Some(5),
    ),
    change(
        "x: 10/10s refill greedy via token_bucket",
        4,
        3 * S / 2,
        "x: 10/10s refill interval via token_bucket",
        Some(6),
    ),
    // fixed window: the count
    change("x: 5/10s via fixed_window", 3, 0, "x: 8/10s via fixed_window", Some(4)),
    change("x: 5/10s via fixed_window", 3, 0, "x: 4/10s via fixed_window", Some(0)),
    change("x: 5/10s via fixed_window", 3, 0, "x: 2/10s via fixed_window", None),
    change("x: 5/10s via fixed_window", 3, 9 * S, "x: 5/1h via fixed_window", Some(1)),
    change("x: 5/10s via fixed_window", 5, 9 * S, "x: 5/2s via fixed_window", None),
    change(
        "x: 5/10s via fixed_window",
        5,
        9 * S,
        "x: 5/10s anchor first-hit via fixed_window",
        None,
    ),
    // sliding log: every event that is held
    change("x: 5/10s via sliding_log", 3, 5 * S, "x: 8/10s via sliding_log", Some(4)),
    change("x: 5/10s via sliding_log", 3, 5 * S, "x: 2/10s via sliding_log", None),
    change("x: 5/10s via sliding_log", 3, 5 * S, "x: 5/4s via sliding_log", Some(4)),
    change("x: 5/10s via sliding_log", 3, 5 * S, "x: 5/20s via sliding_log", Some(1)),
    // sliding window: every bucket, or the used units
    change("x: 6/10s via sliding_window", 3, S, "x: 9/10s via sliding_window", Some(5)),
    change("x: 6/10s via sliding_window", 3, S, "x: 2/10s via sliding_window", None),
    change(
        "x: 6/10s via sliding_window",
        3,
        10 * S,
        "x: 6/10s rounding truncate via sliding_window",
        Some(5),
    ),
    change("x: 6/10s via sliding_window", 3, 10 * S, "x: 6/20s via sliding_window", Some(2)),
];

/// Numbers up and down, per strategy: the table of the definitions, and no free reset.
pub(super) fn numbers_may_go_up_and_down_while_they_count<M: StoreMaker>(maker: &M) {
    for Change { was, charge, later_us, is, expect } in CHANGES {
        let world = World::new(maker, was, NOW_US);
        let new = set(is);
        assert!(world.check(Ask::new("ann").cost(charge)).is_allowed(), "{was}");
        world.at(NOW_US + later_us);
        let peeked = world.peek(Ask::new("ann").under(&new));
        let decision = world.check(Ask::new("ann").under(&new));
        let seen = decision.is_allowed().then(|| decision.remaining());
        assert_eq!(seen, expect, "{was} -> {is} after {later_us}: {decision}");
        assert_eq!(peeked.is_allowed(), decision.is_allowed(), "{was} -> {is}");
        let carried = decision.reports().next().unwrap().carried();
        assert_eq!(carried, Carried::Over, "{was} -> {is}");
        if decision.is_allowed() {
            let next = world.peek(Ask::new("ann").under(&new));
            assert_eq!(next.reports().next().unwrap().carried(), Carried::Same, "{was} -> {is}");
            assert_eq!(next.remaining(), decision.remaining(), "{was} -> {is}");
        }
        // Others under the new numbers are fresh.
        let fresh = world.check(Ask::new("bob").under(&new));
        assert!(fresh.is_allowed());
        assert_eq!(fresh.remaining(), new.limits()[0].capacity() - 1, "{was} -> {is}");
    }
}

/// The same name under another strategy starts fresh, reports that, and leaves its neighbours
/// alone.
pub(super) fn another_strategy_starts_fresh_and_says_so<M: StoreMaker>(maker: &M) {
    let strategies = [
        "5/10s via gcra",
        "5/10s via fixed_window",
        "5/10s via sliding_log",
        "5/10s via sliding_window",
        "5/10s via token_bucket",
        "5/10s via uniform",
    ];
    for was in strategies {
        for is in strategies.into_iter().filter(|is| *is != was) {
            let was = format!("x: {was}, y: 9/1h via fixed_window");
            let world = World::new(maker, &was, NOW_US);
            let new = set(&format!("y: 9/1h via fixed_window, x: {is}"));
            assert!(world.check("ann").is_allowed(), "{was}");
            let decision = world.check(Ask::new("ann").under(&new));
            assert!(decision.is_allowed(), "{was} -> {is}");
            let reports: Vec<_> = decision.reports().collect();
            assert_eq!(reports[0].carried(), Carried::Same, "{was} -> {is}");
            assert_eq!(reports[1].carried(), Carried::Fresh, "{was} -> {is}");
            assert_eq!(reports[0].remaining(), 7, "{was} -> {is}: the neighbour kept its count");
            let capacity = new.limits()[1].capacity();
            assert_eq!(reports[1].remaining(), capacity - 1, "{was} -> {is}");
        }
    }
}

/// The same limits in another order, or parsed again, are the same count.
pub(super) fn a_set_written_in_another_order_shares_its_count<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "4/10s, 9/1m via gcra", NOW_US);
    let orders: Vec<LimitSet> =
        ["9/1m via gcra, 4/10s", "4/10s via sliding_log; 9/60s burst 9 via gcra"].map(set).to_vec();
    assert!(world.check("ann").is_allowed());
    assert!(world.check(Ask::new("ann").under(&orders[0])).is_allowed());
    let third = world.check(Ask::new("ann").under(&orders[1]));
    let left: Vec<_> = third.reports().map(|report| report.remaining()).collect();
    assert_eq!(left, [1, 6]);
    assert!(third.reports().all(|report| report.carried() == Carried::Same));
    let back = world.check(Ask::new("ann").under(&orders[0]));
    assert_eq!(back.reports().map(|report| report.remaining()).collect::<Vec<_>>(), [5, 0]);
    assert!(!world.check("ann").is_allowed());
}

/// Another set is another count, also when it has a limit in common.
pub(super) fn a_set_of_other_identities_is_another_count<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "2/10s via gcra", NOW_US);
    let more = set("2/10s via gcra, 9/1h via gcra");
    let named = set("plan: 2/10s via gcra");
    assert!(world.check(Ask::new("ann").cost(2)).is_allowed());
    assert!(world.check(Ask::new("ann").cost(2).under(&more)).is_allowed());
    assert!(world.check(Ask::new("ann").cost(2).under(&named)).is_allowed());
    assert!(!world.check("ann").is_allowed());
    // One check may be over both.
    let both = Ask::new("bob").and_under("bob", &more);
    assert!(world.check(both).is_allowed());
    assert_eq!(world.peek("bob").remaining(), 1);
    assert_eq!(world.peek(Ask::new("bob").under(&more)).remaining(), 1);
}

/// Pairs of numbers under which a count is moved, not copied.
const MOVES: [(&str, &str); 5] = [
    ("x: 5/1h via fixed_window", "x: 5/10s via fixed_window"),
    ("x: 5/1h via gcra", "x: 5/10s via gcra"),
    ("x: 5/1h via sliding_window", "x: 5/10s via sliding_window"),
    ("x: 5/1h refill interval via token_bucket", "x: 5/10s refill interval via token_bucket"),
    ("x: 5/1h via sliding_log", "x: 5/10s via sliding_log"),
];

/// The wait of a denial under new numbers is enough: the carried-over units are kept.
pub(super) fn a_denial_after_a_change_keeps_what_was_carried<M: StoreMaker>(maker: &M) {
    for (was, is) in MOVES {
        let world = World::new(maker, was, NOW_US);
        let new = set(is);
        assert!(world.check(Ask::new("ann").cost(5)).is_allowed(), "{was}");
        world.at(NOW_US + 3 * S);
        let denied = world.check(Ask::new("ann").under(&new));
        // A log that the shorter window no longer counts would admit: here it still counts.
        let wait = denied.retry_after().expect("a denial with a wait");
        world.clock.advance(wait);
        assert!(world.check(Ask::new("ann").under(&new)).is_allowed(), "{was} -> {is}: {wait:?}");
    }
}

/// A receipt from before a change gives back under the numbers that count now, and a receipt of
/// another strategy gives nothing.
pub(super) fn a_refund_after_a_change_forgets_nothing_else<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "x: 10/1h via gcra", NOW_US);
    let more = set("x: 100/1h via gcra");
    let receipt = world.check("ann").receipt().expect("admitted");
    assert_eq!(world.check(Ask::new("ann").cost(50).under(&more)).remaining(), 49);
    assert_eq!(world.refund(&receipt).given, [1]);
    assert_eq!(world.peek(Ask::new("ann").under(&more)).remaining(), 50);

    let world = World::new(maker, "x: 5/1h via fixed_window", NOW_US);
    let other = set("x: 5/1h via gcra");
    let receipt = world.check("ann").receipt().expect("admitted");
    assert!(world.check(Ask::new("ann").cost(5).under(&other)).is_allowed());
    assert_eq!(world.refund(&receipt).given, [0]);
    assert_eq!(world.peek(Ask::new("ann").under(&other)).remaining(), 0);
}

/// Two revisions in turns, 7/1h and 5/1h without a debt: whether the smaller one cuts off what it
/// has no room for.
const TURNS: [(&str, bool); 6] = [
    ("via gcra", true),
    ("via token_bucket", true),
    ("refill interval via token_bucket", true),
    ("via fixed_window", false),
    ("via sliding_log", false),
    ("via sliding_window", false),
];

/// Two revisions that take turns admit what section 6 says, to the unit: the difference of their
/// bursts at each turn under greedy and interval refill, and nothing under the others.
pub(super) fn revisions_in_turns_admit_no_more_than_is_said<M: StoreMaker>(maker: &M) {
    for (way, cuts, debt) in TURNS.into_iter().flat_map(|(way, cuts)| {
        // With a debt, the units above the smaller capacity are debt, and nothing is cut off.
        [(way, cuts, 0), (way, false, 2)]
    }) {
        let world = World::new(maker, &format!("x: 7/1h debt {debt} {way}"), NOW_US);
        let less = set(&format!("x: 5/1h debt {debt} {way}"));
        let more = set(&format!("x: 7/1h debt {debt} {way}"));
        assert!(world.check(Ask::new("ann").cost(7)).is_allowed(), "{way}");
        for turn in 0..20 {
            assert!(!world.check(Ask::new("ann").under(&less)).is_allowed(), "{way}, turn {turn}");
            let mut admitted = 0;
            while world.check(Ask::new("ann").under(&more)).is_allowed() {
                admitted += 1;
            }
            assert_eq!(admitted, if cuts { 2 } else { 0 }, "{way}, turn {turn}");
        }
    }
}
