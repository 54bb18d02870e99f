//! Examples worked by hand from the definitions, and the published tables of other limiters.

use super::*;

/// The table that redis-cell and throttled share: 5 at once, 1 per second.
#[test]
fn table_of_redis_cell() {
    let mut bucket = greedy(1, S, 5);
    assert_eq!(bucket.check(0, 6), never(5, 0));
    for taken in 1..=5 {
        assert_eq!(bucket.check(0, 1), allow(1, 5 - taken, taken * S));
    }
    assert_eq!(bucket.check(0, 1), not_yet(0, S, 5 * S));
    assert_eq!(bucket.check(3_000 * MS, 1), allow(1, 2, 3_000 * MS));
    assert_eq!(bucket.check(3_100 * MS, 1), allow(1, 1, 3_900 * MS));
    assert_eq!(bucket.check(4_000 * MS, 1), allow(1, 1, 4_000 * MS));
    assert_eq!(bucket.check(8_000 * MS, 1), allow(1, 4, 1_000 * MS));
    assert_eq!(bucket.check(9_500 * MS, 1), allow(1, 4, 1_000 * MS));
    let peek = bucket.peek(9_500 * MS, 1);
    assert_eq!((peek.granted, peek.fields), (0, allow(1, 4, 1_000 * MS).fields));
    assert_eq!(bucket.check(9_500 * MS, 0), bucket.peek(9_500 * MS, 0));
    assert_eq!(bucket.check(9_500 * MS, 2), allow(2, 2, 3_000 * MS));
    assert_eq!(bucket.check(9_500 * MS, 5), not_yet(2, 3_000 * MS, 3_000 * MS));
    assert_eq!(bucket.check(15_000 * MS, 6), never(5, 0));
}

/// The table of throttled-py: capacity 10, 1 per second.
#[test]
fn table_of_throttled_py() {
    let mut bucket = greedy(1, S, 10);
    assert_eq!(bucket.peek(0, 0).fields.remaining, 10);
    assert_eq!(bucket.check(0, 1).fields.remaining, 9);
    assert_eq!(bucket.check(0, 10), not_yet(9, S, S));
    assert_eq!(bucket.check(S, 5).fields.remaining, 5);
    assert_eq!(bucket.check(S, 8), not_yet(5, 3 * S, 5 * S));
    assert_eq!(bucket.check(S, 5).fields.remaining, 0);
    assert_eq!(bucket.check(S, 1), not_yet(0, S, 10 * S));
}

/// bucket4j's roundings: 10 per 100 us, and a capacity of 4 at 1/s.
#[test]
fn roundings_of_bucket4j() {
    let mut bucket = greedy(10, 100, 10);
    bucket.check(0, 10);
    assert_eq!(bucket.peek(97, 1).fields.remaining, 9);
    assert_eq!(bucket.peek(100, 1).fields.remaining, 10);

    let mut bucket = greedy(1, S, 4);
    bucket.check(0, 4);
    assert_eq!(bucket.peek(200 * MS, 1), not_yet(0, 800 * MS, 3_800 * MS));
    assert_eq!(bucket.peek(200 * MS, 3), not_yet(0, 2_800 * MS, 3_800 * MS));
}

/// throttlecrab admitted 17 here: idle time must not become credit above the burst.
#[test]
fn idle_time_is_no_credit_above_the_burst() {
    for idle in [2_000, 5_000, 8_900, 30_000] {
        let mut bucket = greedy(1, S, 10);
        bucket.check(0, 1);
        let admitted = (0..40).filter(|_| bucket.check(idle * MS, 1).admitted).count();
        assert_eq!(admitted, 10);
    }
}

/// throttled-py lost the fraction of a refill: 1.9/s with capacity 4, offered 2/s for 30 s.
#[test]
fn fractions_of_a_refill_are_kept() {
    let mut bucket = greedy(19, 10 * S, 4);
    assert_eq!((0..60).filter(|i| bucket.check(i * 500 * MS, 1).admitted).count(), 60);
    // 0.9/s with capacity 20, offered 1/s for 1,000 s: 20 + 0.9 * 999 = 919.1.
    let mut bucket = greedy(9, 10 * S, 20);
    assert_eq!((0..1_000).filter(|i| bucket.check(i * S, 1).admitted).count(), 919);
}

/// 7 per minute: a unit takes 8,571,428 4/7 us; seven of them take a minute exactly.
#[test]
fn waits_are_rounded_up_and_never_drift() {
    let mut gate = greedy(7, 60 * S, 1);
    assert_eq!(gate.check(0, 1), allow(1, 0, 8_571_429));
    assert_eq!(gate.check(0, 1), not_yet(0, 8_571_429, 8_571_429));
    let mut bucket = greedy(7, 60 * S, 7);
    assert_eq!(bucket.check(0, 7), allow(7, 0, 60 * S));
    assert_eq!(bucket.check(8_571_428, 1), not_yet(0, 1, 60 * S - 8_571_428));
    assert_eq!(bucket.check(8_571_429, 1), allow(1, 0, 60 * S));
}

#[test]
fn uniform_has_a_limit_of_one() {
    let mut gate = greedy(3, 10 * S, 1);
    assert_eq!(gate.limit(), 1);
    assert_eq!(gate.check(0, 2), never(1, 0));
    assert_eq!(gate.check(0, 1), allow(1, 0, 3_333_334));
    assert_eq!(gate.check(3_333_333, 1), not_yet(0, 1, 1));
    // The third part of a microsecond is still counted in the second wait.
    assert_eq!(gate.check(3_333_334, 1), allow(1, 0, 3_333_334));
}

#[test]
fn a_thousand_of_twelve_hundred() {
    let mut bucket = greedy(1_000, 3_600 * S, 1_000);
    assert_eq!((0..1_200).filter(|_| bucket.check(0, 1).admitted).count(), 1_000);
}

#[test]
fn interval_refill_comes_whole_at_epoch_multiples() {
    let mut bucket = fresh(Rule::Interval { n: 3, d_us: 10 * S, burst: 5 });
    assert_eq!(bucket.check(4 * S, 5), allow(5, 0, 16 * S)); // 3 back at 10 s, 3 more at 20 s
    assert_eq!(bucket.check(9_999_999, 1), not_yet(0, 1, 10 * S + 1));
    assert_eq!(bucket.check(10 * S, 4), not_yet(3, 10 * S, 10 * S));
    assert_eq!(bucket.check(10 * S, 3), allow(3, 0, 20 * S)); // missing 5
    assert_eq!(bucket.check(10 * S, 6), never(0, 20 * S));
    assert_eq!(bucket.peek(30 * S, 1).fields, allow(1, 5, 0).fields);
}

#[test]
fn fixed_windows_admit_twice_at_an_edge() {
    let mut window = fresh(Rule::FixedEpoch { n: 5, d_us: 10 * S });
    assert_eq!(window.check(9_999_998, 5), allow(5, 0, 2));
    assert_eq!(window.check(9_999_999, 1), not_yet(0, 1, 1));
    assert_eq!(window.check(10 * S, 5), allow(5, 0, 10 * S));
    assert_eq!(window.check(10 * S, 6), never(0, 10 * S));
    assert_eq!(window.check(19_999_999, 1), not_yet(0, 1, 1));
}

#[test]
fn first_hit_windows_open_at_an_admitted_check() {
    let mut window = fresh(Rule::FixedFirstHit { n: 5, d_us: 10 * S });
    assert_eq!(window.check(S, 6), never(5, 0)); // opens nothing
    assert_eq!(window.check(3 * S, 2), allow(2, 3, 10 * S));
    assert_eq!(window.check(12 * S, 4), not_yet(3, S, S));
    assert_eq!(window.check(12_999_999, 3), allow(3, 0, 1));
    assert_eq!(window.check(13 * S, 1), allow(1, 4, 10 * S));
}

/// An entry exactly one window old no longer counts (governor 0.8.0, limits had this wrong).
#[test]
fn a_log_forgets_at_exactly_its_window() {
    let mut log = fresh(Rule::Log { n: 5, d_us: 60 * S });
    assert_eq!(log.check(0, 2), allow(2, 3, 60 * S));
    assert_eq!(log.check(20 * S, 3), allow(3, 0, 60 * S));
    assert_eq!(log.check(30 * S, 2), not_yet(0, 30 * S, 50 * S));
    assert_eq!(log.check(30 * S, 3), not_yet(0, 50 * S, 50 * S)); // both must go
    assert_eq!(log.check(60 * S - 1, 1), not_yet(0, 1, 20 * S + 1));
    assert_eq!(log.check(60 * S, 2), allow(2, 0, 60 * S));
}

/// Two events in one microsecond are two events.
#[test]
fn a_log_counts_equal_times_apart() {
    let mut log = fresh(Rule::Log { n: 3, d_us: 10 });
    assert_eq!((0..9).filter(|_| log.check(5, 1).admitted).count(), 3);
}

/// All ten units in the first bucket: the three roundings part at 10 s.
#[test]
fn roundings_of_the_straddling_bucket() {
    let mut conservative = sliding(Rounding::Conservative);
    assert_eq!(conservative.check(500 * MS, 10), allow(10, 0, 10_500 * MS));
    assert_eq!(conservative.check(10_999_999, 1), not_yet(0, 1, 1));
    assert_eq!(conservative.check(11 * S, 10), allow(10, 0, 11 * S));

    let mut truncate = sliding(Rounding::Truncate);
    assert_eq!(truncate.check(999_999, 10), allow(10, 0, 9_000_001));
    assert_eq!(truncate.check(9_999_999, 1), not_yet(0, 1, 1));
    assert_eq!(truncate.check(10 * S, 10), allow(10, 0, 10 * S));

    let mut interpolate = sliding(Rounding::Interpolate);
    assert_eq!(interpolate.check(500 * MS, 10), allow(10, 0, 10_500 * MS));
    assert_eq!(interpolate.check(10 * S, 3), not_yet(0, 300 * MS, S)); // 10(1-f) + 3 <= 10
    assert_eq!(interpolate.peek(10_250 * MS, 1).fields.remaining, 2); // used 7.5
    assert_eq!(interpolate.check(10_250 * MS, 3), not_yet(2, 50 * MS, 750 * MS));
    assert_eq!(interpolate.check(10_300 * MS, 3), allow(3, 0, 10_700 * MS));
    assert_eq!(interpolate.check(10_300 * MS, 11), never(0, 10_700 * MS));
}

#[test]
fn partial_takes_what_remains() {
    let mut bucket = greedy(1, S, 5);
    assert_eq!(bucket.partial(0, 3), allow(3, 2, 3 * S));
    assert_eq!(bucket.partial(0, 100), allow(2, 0, 5 * S));
    assert_eq!(bucket.partial(0, 100), not_yet(0, S, 5 * S)); // as a check for 1
    assert_eq!(bucket.partial(0, 0), bucket.peek(0, 0));
}

/// Charge 10 at 0 s and 10 at 10 s on a bucket of 10 at 1/s: the first has come back by itself.
#[test]
fn a_refund_gives_back_only_what_still_counts() {
    let mut bucket = greedy(1, S, 10);
    bucket.check(0, 10);
    bucket.check(10 * S, 10);
    assert_eq!(bucket.refund(10 * S, 0, 10), 0);
    assert_eq!(bucket.peek(10 * S, 1), not_yet(0, S, 10 * S));
    assert_eq!(bucket.refund(13_500 * MS, 10 * S, 10), 7); // remaining 3 (3.5 are back) to 10
    assert_eq!(bucket.peek(13_500 * MS, 1).fields, allow(1, 10, 0).fields);

    let mut interval = fresh(Rule::Interval { n: 5, d_us: 10 * S, burst: 10 });
    interval.check(S, 8);
    assert_eq!(interval.refund(9 * S, S, 3), 3);
    assert_eq!(interval.refund(10 * S, S, 5), 0); // a multiple of D lies between
    let mut epoch = fresh(Rule::FixedEpoch { n: 5, d_us: 10 * S });
    epoch.check(9 * S, 5);
    assert_eq!(epoch.refund(9 * S, 9 * S, 2), 2);
    epoch.check(10 * S, 5);
    assert_eq!(epoch.refund(10 * S, 9 * S, 3), 0);
    let mut first = fresh(Rule::FixedFirstHit { n: 5, d_us: 10 * S });
    first.check(9 * S, 5);
    assert_eq!(first.refund(18 * S, 9 * S, 4), 4);
    assert_eq!(first.check(18 * S, 1), allow(1, 3, S)); // the window stays open
    assert_eq!(first.refund(19 * S, 9 * S, 1), 0);
}

#[test]
fn a_refund_of_a_log_takes_its_own_event() {
    let mut log = fresh(Rule::Log { n: 10, d_us: 10 * S });
    log.check(0, 4);
    log.check(S, 5);
    assert_eq!(log.refund(2 * S, 0, 5), 0); // at 0 there is only 4
    assert_eq!(log.refund(2 * S, S, 5), 5);
    assert_eq!(log.check(2 * S, 7), not_yet(6, 8 * S, 8 * S)); // the event of 0 s is still there
    assert_eq!(log.refund(10 * S, 0, 4), 0); // gone by itself,
    assert_eq!(log.peek(9 * S, 1).fields.remaining, 6); // and not by the refund: it is no fresh one

    let mut log = fresh(Rule::Log { n: 10, d_us: 10 * S });
    log.check(0, 5);
    log.check(0, 3);
    assert_eq!(log.refund(S, 0, 3), 3); // of the 8 of that microsecond
    assert_eq!(log.refund(S, 0, 5), 5);
}

/// Units that no longer count at an admitted check are forgotten there, and do not come back when
/// that check is refunded and the clock then steps back.
#[test]
fn an_admitted_check_forgets_what_no_longer_counts() {
    for rule in [
        Rule::Log { n: 10, d_us: 10 * S },
        Rule::Window { n: 10, d_us: 10 * S, precision_us: S, rounding: Rounding::Conservative },
    ] {
        let mut oracle = fresh(rule);
        oracle.check(0, 4);
        oracle.check(20 * S, 1);
        assert_eq!(oracle.refund(20 * S, 20 * S, 1), 1);
        assert_eq!(oracle.peek(5 * S, 10).fields.remaining, 10, "{rule:?}");
    }
}

#[test]
fn a_refund_of_a_sliding_window_needs_a_bucket_that_counts() {
    let mut interpolate = sliding(Rounding::Interpolate);
    interpolate.check(0, 8);
    assert_eq!(interpolate.refund(10_500 * MS, 0, 8), 4); // straddling: half of it counts
    let mut truncate = sliding(Rounding::Truncate);
    truncate.check(0, 8);
    assert_eq!(truncate.clone().refund(10 * S - 1, 0, 3), 3);
    assert_eq!(truncate.refund(10 * S, 0, 8), 0);
    let mut conservative = sliding(Rounding::Conservative);
    conservative.check(0, 8);
    assert_eq!(conservative.refund(11 * S - 1, 0, 8), 8);
    assert_eq!(conservative.refund(11 * S - 1, 0, 8), 0);
}

#[test]
fn adjust_gives_to_the_oldest_and_takes_what_remains() {
    let mut log = fresh(Rule::Log { n: 10, d_us: 10 * S });
    log.check(0, 4);
    log.check(5 * S, 4);
    log.adjust(6 * S, 5); // all of the first, 1 of the second
    assert_eq!(log.peek(6 * S, 10), not_yet(7, 9 * S, 9 * S));
    log.adjust(6 * S, -100); // takes the 7 that remain
    assert_eq!(log.peek(6 * S, 1), not_yet(0, 9 * S, 10 * S));
    log.adjust(6 * S, i64::MAX);
    assert_eq!(log.peek(6 * S, 10).fields, allow(10, 10, 0).fields);
    let mut truncate = sliding(Rounding::Truncate);
    truncate.check(0, 4);
    truncate.check(5 * S, 4);
    truncate.adjust(10 * S, 3); // the bucket of 0 s no longer counts
    assert_eq!(truncate.peek(10 * S, 1).fields.remaining, 9);
    let mut bucket = greedy(1, S, 5);
    bucket.adjust(0, i64::MIN);
    assert_eq!(bucket.peek(0, 1), not_yet(0, S, 5 * S));
    bucket.adjust(500 * MS, 4);
    assert_eq!(bucket.peek(500 * MS, 1).fields, allow(1, 4, 500 * MS).fields);
}

#[test]
fn quotas_that_must_be_accepted() {
    let quotas = [
        (7, 60 * S),
        (3, 10 * S),
        (1_000_000, DAY),
        (5_000_000, 3_600 * S),
        (10_000, 30 * DAY),
        (1_000_003, 30 * DAY),
        (1, 366 * DAY),
        (100_000, S),
    ];
    for (n, d_us) in quotas {
        let precision_us = d_us / 10;
        for rule in [
            Rule::Greedy { n, d_us, burst: 1 },
            Rule::Greedy { n, d_us, burst: n },
            Rule::Interval { n, d_us, burst: n },
            Rule::FixedEpoch { n, d_us },
            Rule::FixedFirstHit { n, d_us },
            Rule::Log { n, d_us },
            Rule::Window { n, d_us, precision_us, rounding: Rounding::Interpolate },
        ] {
            let mut oracle = fresh(rule);
            let (now, limit) = (1_800_000_000 * S + 1, oracle.limit());
            assert_eq!(oracle.check(now, limit).fields.remaining, 0);
            let wait = oracle.check(now, limit).fields.retry_after_us.unwrap();
            assert!(!oracle.peek(now + wait - 1, limit).admitted);
            assert!(oracle.check(now + wait, limit).admitted);
        }
    }
}

#[test]
fn rules_outside_section_7_are_refused() {
    let window = |d_us, precision_us| Rule::Window {
        n: 5,
        d_us,
        precision_us,
        rounding: Rounding::Truncate,
    };
    for (rule, word) in [
        (Rule::Log { n: 0, d_us: S }, "n is 0"),
        (Rule::Log { n: (1 << 40) + 1, d_us: S }, "n is 1099511627777"),
        (Rule::FixedEpoch { n: 1, d_us: 0 }, "d_us is 0"),
        (Rule::FixedEpoch { n: 1, d_us: 366 * DAY + 1 }, "d_us is 31622400000001"),
        (Rule::Interval { n: 1, d_us: S, burst: 0 }, "burst is 0"),
        (Rule::Interval { n: 1, d_us: DAY, burst: 1 << 40 }, "lower the burst"),
        (Rule::Greedy { n: 1, d_us: 366 * DAY, burst: 72 }, "2^51"),
        (Rule::Greedy { n: 1_000_003, d_us: S + 1, burst: 1 << 40 }, "2^53"),
        (window(10, 3), "does not divide"),
        (window(10, 0), "does not divide"),
        (window(1_001, 1), "more than 1000"),
    ] {
        let message = Oracle::new(rule).unwrap_err().to_string();
        assert!(message.contains(word), "{rule:?}: {message}");
        assert_eq!(Oracle::grouped(rule).unwrap_err().to_string(), message);
    }
    assert!(Oracle::new(Rule::Greedy { n: 1, d_us: 366 * DAY, burst: 71 }).is_ok());
    assert!(Oracle::new(window(1_000, 1)).is_ok());
}

/// Times and costs at the ends of their types overflow nothing.
#[test]
fn extremes_do_not_overflow() {
    let most = 1 << 40;
    for rule in [
        Rule::Greedy { n: most, d_us: 1, burst: 1 },
        Rule::Greedy { n: most, d_us: most, burst: most },
        Rule::Interval { n: most, d_us: 366 * DAY, burst: most },
        Rule::Log { n: most, d_us: 366 * DAY },
        Rule::FixedFirstHit { n: most, d_us: 366 * DAY },
    ] {
        let mut oracle = fresh(rule);
        for now in [u64::MAX, 0, u64::MAX, u64::MAX - 1] {
            oracle.check(now, 1);
            assert!(!oracle.check(now, u64::MAX).admitted);
            oracle.refund(now, u64::MAX, u64::MAX);
            oracle.refund(now, 0, u64::MAX);
            oracle.adjust(now, -1);
            oracle.adjust(now, i64::MAX);
            assert!(oracle.peek(now, oracle.limit()).admitted, "{rule:?} at {now}");
        }
    }
}
