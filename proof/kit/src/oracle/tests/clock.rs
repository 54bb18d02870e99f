//! Section 3, by hand: the clock steps back.

use super::*;

/// Up to a second back is skew: judged and recorded at `newest`, waits counted from the real now.
#[test]
fn skew_is_judged_at_the_newest_time() {
    let mut log = fresh(Rule::Log { n: 2, d_us: 10 * S });
    log.check(5 * S, 1);
    assert_eq!(log.check(4 * S, 1), allow(1, 0, 11 * S));
    assert_eq!(log.charged_at(), 5 * S);
    assert_eq!(log.check(4 * S, 1), not_yet(0, 11 * S, 11 * S));
    assert!(log.check(15 * S, 2).admitted);

    let mut window = fresh(Rule::FixedEpoch { n: 2, d_us: 10 * S });
    window.check(25 * S, 1); // newest is 20 s, the start of its window
    assert_eq!(window.check(19 * S, 2), not_yet(1, 11 * S, 11 * S));
    assert_eq!(window.check(19 * S, 1), allow(1, 0, 11 * S));
    assert_eq!(window.charged_at(), 20 * S);

    let mut first = fresh(Rule::FixedFirstHit { n: 2, d_us: 10 * S });
    first.check(25 * S, 1);
    assert_eq!(first.check(24 * S, 1), allow(1, 0, 11 * S));
    assert_eq!(first.charged_at(), 25 * S);

    let mut interval = fresh(Rule::Interval { n: 2, d_us: 10 * S, burst: 2 });
    interval.check(20 * S, 1);
    assert_eq!(interval.check(19 * S, 2), not_yet(1, 11 * S, 11 * S));

    let mut buckets = sliding(Rounding::Conservative);
    buckets.check(5_700 * MS, 1); // newest is 5 s
    assert_eq!(buckets.check(4_000 * MS, 10), not_yet(9, 12 * S, 12 * S));
}

/// One microsecond more than a second is a step: the counted units are carried to `now`.
#[test]
fn a_step_back_carries_the_count_to_now() {
    let mut log = fresh(Rule::Log { n: 3, d_us: 10 * S });
    log.check(100 * S, 1);
    log.check(105 * S, 1);
    assert_eq!(log.check(105 * S - S - 1, 2), not_yet(1, 10 * S, 10 * S));
    assert_eq!(log.refund(104 * S, 105 * S, 1), 0); // the receipt's own event is gone
    assert_eq!(log.check(50 * S, 1), allow(1, 0, 10 * S));
    assert_eq!(log.charged_at(), 50 * S);

    let mut window = fresh(Rule::FixedEpoch { n: 3, d_us: 10 * S });
    window.check(105 * S, 2);
    assert_eq!(window.check(57 * S, 2), not_yet(1, 3 * S, 3 * S));
    assert_eq!(window.check(60 * S, 3), allow(3, 0, 10 * S));

    let mut first = fresh(Rule::FixedFirstHit { n: 3, d_us: 10 * S });
    first.check(105 * S, 2);
    assert_eq!(first.check(57 * S, 2), not_yet(1, 10 * S, 10 * S));
    assert_eq!(first.check(67 * S, 3), allow(3, 0, 10 * S));

    let mut interval = fresh(Rule::Interval { n: 2, d_us: 10 * S, burst: 5 });
    interval.check(105 * S, 5);
    assert_eq!(interval.check(57 * S, 1), not_yet(0, 3 * S, 23 * S));
    assert_eq!(interval.check(60 * S, 2), allow(2, 0, 30 * S));

    let mut buckets = sliding(Rounding::Truncate);
    buckets.check(100 * S, 4);
    buckets.check(105 * S, 4);
    assert_eq!(buckets.check(50_500 * MS, 3), not_yet(2, 9_500 * MS, 9_500 * MS));
}

/// Interpolation may hold more than the limit in its buckets: all of it is carried.
#[test]
fn a_carried_count_may_be_above_the_limit() {
    let mut buckets = sliding(Rounding::Interpolate);
    buckets.check(0, 10);
    buckets.check(10_500 * MS, 5); // at its bucket's start, 10 + 5 would count
    assert_eq!(buckets.check(5 * S, 1), not_yet(0, 10_400 * MS, 11 * S));
}

/// The greedy strategies: the backlog grows by the step, up to `most*T`.
#[test]
fn a_greedy_backlog_grows_by_the_step_up_to_a_full_one_and_the_debt() {
    let mut bucket = greedy(1, S, 5);
    bucket.check(100 * S, 2);
    assert_eq!(bucket.check(50 * S, 1), not_yet(0, 6 * S, 10 * S));
    let mut bucket = greedy(1, S, 5).with_debt(0).unwrap();
    bucket.check(100 * S, 2);
    assert_eq!(bucket.check(98 * S, 1), allow(1, 0, 5 * S)); // backlog 2 + 2, no skew rule here
    assert_eq!(bucket.check(50 * S, 1), not_yet(0, S, 5 * S));
    assert_eq!(bucket.check(51 * S, 1), allow(1, 0, 5 * S));
}

/// A denied check starts the wait; a peek does not, and changes nothing.
#[test]
fn a_denied_check_keeps_the_repair_and_a_peek_does_not() {
    for rule in [
        Rule::Greedy { n: 2, d_us: 10 * S, burst: 2 },
        Rule::Interval { n: 2, d_us: 10 * S, burst: 2 },
        Rule::FixedEpoch { n: 2, d_us: 10 * S },
        Rule::FixedFirstHit { n: 2, d_us: 10 * S },
        Rule::Log { n: 2, d_us: 10 * S },
        Rule::Window { n: 2, d_us: 10 * S, precision_us: S, rounding: Rounding::Truncate },
    ] {
        let mut denied = fresh(rule).with_debt(0).unwrap();
        denied.check(3_600 * S, 2);
        let peeked = denied.clone();
        let before = denied.clone();
        assert_eq!(peeked.peek(50 * S, 1), denied.check(50 * S, 1), "{rule:?}");
        assert_eq!(peeked, before, "{rule:?}");
        assert!(denied.peek(60 * S, 2).admitted, "{rule:?}");
        assert!(!peeked.peek(60 * S, 1).admitted, "{rule:?}");
    }
}

/// *Never* is a denial too, and keeps the repair.
#[test]
fn never_keeps_the_repair() {
    let mut log = fresh(Rule::Log { n: 2, d_us: 10 * S });
    log.check(3_600 * S, 2);
    assert_eq!(log.check(50 * S, 3), never(0, 10 * S));
    assert!(log.check(60 * S, 2).admitted);
}

/// A receipt from before a step back: the units that came back since are unknown, so it gives
/// nothing.
#[test]
fn a_receipt_from_before_a_step_back_gives_nothing() {
    let mut bucket = greedy(1, S, 10).with_debt(0).unwrap();
    bucket.check(100 * S, 10);
    bucket.check(20 * S, 1); // denied; backlog 10 s
    assert!(bucket.check(30 * S, 10).admitted);
    assert_eq!(bucket.refund(30 * S, 100 * S, 10), 0);
    let mut interval = fresh(Rule::Interval { n: 10, d_us: 10 * S, burst: 10 });
    interval.check(100 * S, 10);
    interval.check(20 * S, 1);
    assert!(interval.check(30 * S, 10).admitted);
    assert_eq!(interval.refund(35 * S, 100 * S, 10), 0);
    // Within a second it is skew: no time has passed, and no more than the charge comes back.
    let mut bucket = greedy(1, S, 10);
    bucket.check(100 * S, 2);
    bucket.check(100 * S, 2);
    assert_eq!(bucket.refund(99_500 * MS, 100 * S, 2), 2);
    assert_eq!(bucket.peek(99_500 * MS, 1).fields, allow(1, 7, 2_500 * MS).fields);
}
