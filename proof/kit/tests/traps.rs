//! Bugs that limiters have shipped, one test each: the comment names the row of the table of traps,
//! and describes the bug.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Ask, Limit, LimitSet, Limiter, ManualClock, MemoryStore, Time, Verdict};
use tollgate_proof::conformance::block_on;

/// 2025-07-04T21:24:17Z: from here on a double of seconds no longer holds microseconds.
const LATE_US: u64 = 1_751_664_257_000_000;

const SECOND: Duration = Duration::from_secs(1);

fn limiter(limits: &str) -> (ManualClock, Limiter<MemoryStore>) {
    bounded(limits, 1 << 30)
}

fn bounded(limits: &str, bytes: usize) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(LATE_US);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(bytes).build();
    let limits = limits.parse().unwrap_or_else(|e| panic!("{limits}: {e}"));
    (clock, Limiter::new(limits, store))
}

fn admitted(limiter: &Limiter<MemoryStore>, asks: u64) -> u64 {
    (0..asks).map(|_| limiter.check("zoo").now().unwrap().granted()).sum()
}

/// The answer to a check of `cost`: (remaining, wait in microseconds).
fn denied(limiter: &Limiter<MemoryStore>, cost: u64) -> (u64, u64) {
    let decision = limiter.check(Ask::new("zoo").cost(cost)).now().unwrap();
    let Verdict::NotYet(wait) = decision.verdict() else { panic!("{decision}") };
    (decision.remaining(), u64::try_from(wait.as_micros()).unwrap())
}

fn left(limiter: &Limiter<MemoryStore>, cost: u64) -> u64 {
    let decision = limiter.check(Ask::new("zoo").cost(cost)).now().unwrap();
    assert!(decision.is_allowed(), "{decision}");
    decision.remaining()
}

/// Row 1. throttled-py `100/s burst 10`: a time to live of floor(burst/rate) = 0 seconds deleted
/// the key, and 1,000 of 1,000 were admitted (burst 49: all, burst 50: 50).
#[test]
fn row_01_a_burst_far_below_the_rate_is_a_burst() {
    for burst in [1, 2, 10, 49, 50, 99, 100, 5_000] {
        for rate in [1, 3, 100, 1_000, 100_000] {
            for per in ["s", "300ms", "10us", "h"] {
                for via in ["gcra", "token_bucket", "token_bucket refill interval"] {
                    let limit = format!("{rate}/{per} burst {burst} via {via}");
                    let (_, limiter) = limiter(&limit);
                    assert_eq!(admitted(&limiter, burst + 10), burst, "{limit}");
                }
            }
        }
    }
}

/// The strategies under which `10/1h` admits ten together.
const TEN: [&str; 7] = [
    "10/1h via gcra",
    "10/1h via token_bucket",
    "10/1h refill interval via token_bucket",
    "10/1h via fixed_window",
    "10/1h anchor first-hit via fixed_window",
    "10/1h via sliding_log",
    "10/1h via sliding_window",
];

/// Row 6. rate-limiter-flexible, upstash, limits: of 10 use 8, ask 5 (denied), ask 1: denied,
/// and the counter says 13.
#[test]
fn row_06_a_denial_consumes_nothing() {
    for limit in TEN {
        let (_, limiter) = limiter(limit);
        assert_eq!(left(&limiter, 8), 2, "{limit}");
        let before = block_on(limiter.admin().inspect("zoo")).unwrap();
        assert_eq!(denied(&limiter, 5).0, 2, "{limit}");
        assert_eq!(block_on(limiter.admin().inspect("zoo")).unwrap(), before, "{limit}");
        assert_eq!(left(&limiter, 1), 1, "{limit}");
        assert_eq!(left(&limiter, 1), 0, "{limit}");
    }
}

/// Row 7. upstash: the bucket went to -3, -4, -5 with each denial, and denied after a full
/// refill interval.
#[test]
fn row_07_denials_make_no_debt() {
    for limit in TEN {
        let (clock, limiter) = limiter(limit);
        assert_eq!(admitted(&limiter, 500), 10, "{limit}");
        for cost in [2, 10, 11, 1 << 40] {
            assert_eq!(limiter.check(Ask::new("zoo").cost(cost)).now().unwrap().granted(), 0);
        }
        // The straddling bucket of a sliding window counts for a tenth longer.
        clock.advance(SECOND * 3_960);
        assert_eq!(left(&limiter, 10), 0, "{limit}");
    }
}

/// Row 8. throttled-py 1.9/s with a capacity of 4, offered 2/s for 30 s: 34 admitted, ideal 60;
/// 0.9/s with 20, offered 1/s for 1,000 s: 510, ideal 919.
#[test]
fn row_08_fractions_of_a_refill_are_kept() {
    for (limit, every_us, asks, expected) in [
        ("19/10s burst 4 via token_bucket", 500_000, 60, 60),
        ("9/10s burst 20 via token_bucket", 1_000_000, 1_000, 919),
        ("1/7s burst 3 via gcra", 1_000_000, 700, 102),
        ("7/1m burst 1 via gcra", 1, 2_000_000, 1),
        ("3/10us burst 1 via gcra", 1, 100_000, 25_000),
    ] {
        let (clock, limiter) = limiter(limit);
        let mut sum = 0;
        for _ in 0..asks {
            sum += admitted(&limiter, 1);
            clock.advance(Duration::from_micros(every_us));
        }
        assert_eq!(sum, expected, "{limit}");
    }
}

/// Row 9. throttlecrab, burst 10 at 1/s: one request, 8.9 s idle, then 17 at one instant.
#[test]
fn row_09_idling_never_earns_more_than_the_burst() {
    for tenths in 0..=300 {
        let (clock, limiter) = limiter("1/s burst 10 via gcra");
        assert_eq!(left(&limiter, 1), 9);
        clock.advance(Duration::from_millis(tenths * 100));
        let expected = if tenths >= 10 { 10 } else { 9 };
        let peeked = limiter.check(Ask::new("zoo").peek()).now().unwrap();
        assert_eq!((peeked.remaining(), peeked.limit()), (expected, 10));
        assert_eq!(admitted(&limiter, 30), expected, "after {tenths} tenths of a second");
    }
}

/// Row 10. redis_rate PerSecond(10): the first remaining was 8 instead of 9 on 2,000 of 2,000
/// keys, and at a frozen instant 239 of 597 limits admitted one too few.
#[test]
fn row_10_no_float_says_what_remains() {
    for rate in 1..=200 {
        for per in ["s", "m", "h", "d"] {
            for via in ["gcra", "token_bucket"] {
                let (_, limiter) = limiter(&format!("{rate}/{per} via {via}"));
                for i in 1..=rate {
                    assert_eq!(left(&limiter, 1), rate - i, "{rate}/{per}");
                }
                assert_eq!(admitted(&limiter, 1), 0, "{rate}/{per}");
            }
        }
    }
}

/// Row 12. limits: a writer whose clock was 30 s ahead made the others wait 29 s too long, and
/// the list was no longer sorted. upstash: an hour back, and the bucket was frozen.
#[test]
fn row_12_a_clock_ahead_locks_nobody_out() {
    // A backlog that lies ahead is taken for a full one and the debt.
    for (limit, still) in [
        ("5/10s via sliding_log", 3),
        ("5/10s via gcra", 0),
        ("5/10s debt 0 via gcra", 0),
        ("5/10s via fixed_window", 3),
        ("5/10s anchor first-hit via fixed_window", 3),
        ("5/10s via sliding_window", 3),
    ] {
        for back in [30, 3_600, 86_400 * 400] {
            let (clock, limiter) = limiter(limit);
            clock.advance(SECOND * back);
            assert_eq!(left(&limiter, 2), 3, "{limit}");
            clock.set(Time::from_micros(LATE_US));
            // No more than was left, and no longer than one window, or two with a debt.
            assert_eq!(admitted(&limiter, 9), still, "{limit}");
            let (_, wait_us) = denied(&limiter, 1);
            let most_us = match limit {
                "5/10s via sliding_window" => 11_000_000,
                "5/10s via gcra" => 20_000_000,
                _ => 10_000_000,
            };
            assert!(wait_us <= most_us, "{limit} {wait_us}");
            clock.advance(Duration::from_micros(wait_us));
            assert_eq!(admitted(&limiter, 1), 1, "{limit}");
        }
    }
}

/// Row 13. limits: an entry exactly 60.0 s old still denied. A window is half-open.
#[test]
fn row_13_the_edge_of_a_window_is_free() {
    for limit in ["1/1m via sliding_log", "1/1m anchor first-hit via fixed_window"] {
        let (clock, limiter) = limiter(limit);
        assert_eq!(left(&limiter, 1), 0);
        clock.set(Time::from_micros(LATE_US + 59_999_999));
        assert_eq!(denied(&limiter, 1), (0, 1), "{limit}");
        clock.set(Time::from_micros(LATE_US + 60_000_000));
        assert_eq!(left(&limiter, 1), 0, "{limit}");
    }
    let (clock, limiter) = limiter("1/1m via fixed_window");
    // 17 s into a minute of the epoch.
    assert_eq!(left(&limiter, 1), 0);
    assert_eq!(denied(&limiter, 1), (0, 43_000_000));
    clock.set(Time::from_micros(LATE_US + 42_999_999));
    assert_eq!(denied(&limiter, 1), (0, 1));
    clock.set(Time::from_micros(LATE_US + 43_000_000));
    assert_eq!(left(&limiter, 1), 0);
}

/// Row 14. tower_governor rounded the wait down to 0; redis_rate answered 0.1 s for a cost above
/// the burst, which never comes.
#[test]
fn row_14_a_wait_is_neither_too_short_nor_a_lie() {
    let (clock, limiter) = limiter("3/10us via gcra");
    assert_eq!(left(&limiter, 3), 0);
    assert_eq!(denied(&limiter, 1), (0, 4)); // 10/3 of a microsecond, rounded up
    clock.advance(Duration::from_micros(3));
    assert_eq!(denied(&limiter, 1), (0, 1));
    clock.advance(Duration::from_micros(1));
    assert_eq!(left(&limiter, 1), 0);
    for limit in TEN {
        let (_, limiter) = self::limiter(limit);
        let decision = limiter.check(Ask::new("zoo").cost(11)).now().unwrap();
        assert_eq!(decision.verdict(), Verdict::Never, "{limit}");
        assert_eq!(decision.retry_after(), None, "{limit}");
    }
}

/// Row 15. redis_rate AllowN(-5) gave 5 back, unguarded.
#[test]
fn row_15_a_cost_is_positive_and_a_refund_is_no_cost() {
    let (_, limiter) = limiter("10/1h");
    let error = limiter.check(Ask::new("zoo").cost(0)).now().unwrap_err().to_string();
    assert!(error.contains("`peek`"), "{error}");
    assert!(limiter.check(Ask::new("zoo").cost(0).peek()).now().is_err());
    // A negative number that was cast is far above the largest cost.
    let cast = (-5_i64).cast_unsigned();
    assert!(limiter.check(Ask::new("zoo").cost(cast)).now().is_err());
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 10);
}

/// Row 16. rate-limiter-flexible Union, flask-limiter, limitador: the first limit is charged
/// although the second denies.
#[test]
fn row_16_several_limits_are_charged_together_or_not_at_all() {
    let (_, limiter) = limiter("10/1h via gcra, 3/1d via fixed_window");
    assert_eq!(admitted(&limiter, 50), 3);
    let decision = limiter.check("zoo").now().unwrap();
    let each: Vec<u64> = decision.reports().map(|report| report.remaining()).collect();
    assert_eq!(each, [7, 0]);
    assert_eq!(decision.binding().limit().strategy().name(), "fixed_window");
}

/// Row 22. throttled-py's memory store forgets the least recently used of 1,024 keys: a flood of
/// keys is a free reset.
#[test]
fn row_22_a_flood_of_keys_resets_nobody() {
    for limit in ["5/1h via gcra", "5/1h via sliding_log", "5/1h via sliding_window"] {
        let (clock, limiter) = bounded(limit, 1 << 20);
        assert_eq!(admitted(&limiter, 9), 5, "{limit}");
        for i in 0..100_000 {
            let _ = limiter.check(format!("flood:{i}")).now().unwrap();
            clock.advance(Duration::from_micros(10));
        }
        assert!(limiter.store().subjects() < 100_000, "{limit}: the store was never full");
        assert_eq!(limiter.check("zoo").now().unwrap().granted(), 0, "{limit}");
    }
}

/// Row 23. governor without `retain_recent`, resilience4j #1221: one-shot keys stay for ever.
#[test]
fn row_23_a_million_one_shot_keys_are_given_back() {
    let (clock, limiter) = limiter("5/1m via gcra");
    let start = limiter.store().bytes();
    for i in 0..1_000_000 {
        let _ = limiter.check(format!("one:{i}")).now().unwrap();
    }
    assert_eq!(limiter.store().subjects(), 1_000_000);
    let most = limiter.store().bytes();
    assert!(most <= 90_000_000, "{most} bytes");
    clock.advance(SECOND * 62);
    assert_eq!(limiter.store().sweep(), 1_000_000);
    assert_eq!(limiter.store().subjects(), 0);
    let after = limiter.store().bytes();
    assert!(after <= start + most / 100, "{start} bytes, then {most}, then {after}");
}

/// Row 24. nostream #467 and others: two events of one microsecond are one member of a sorted
/// set, and long logs are scanned or unpacked whole.
#[test]
fn row_24_events_of_one_microsecond_all_count() {
    let (_, limiter) = limiter("100000/1h via sliding_log");
    assert_eq!(admitted(&limiter, 100_010), 100_000);
    let held = block_on(limiter.admin().inspect("zoo")).unwrap().unwrap();
    assert_eq!(held.logs, [vec![(LATE_US, 100_000)]]);
    let whole = limiter.check(Ask::new("other").cost(100_000)).now().unwrap();
    assert_eq!((whole.granted(), whole.remaining()), (100_000, 0));
    let (clock, limiter) = self::limiter("100000/1h via sliding_log");
    for _ in 0..100_000 {
        clock.advance(Duration::from_micros(1));
        assert!(limiter.check("zoo").now().unwrap().is_allowed());
    }
    // The 70,000th event leaves an hour after it came.
    assert_eq!(denied(&limiter, 70_000), (0, 3_600_000_000 - 30_000));
}

/// Row 26. bucket4j #51 overflowed after 12 h of idling, governor #203 with large bursts.
#[test]
fn row_26_nothing_overflows() {
    let limits = "1000000/s via gcra, 100000000/h via token_bucket, 1000000000/366d via gcra";
    let (clock, limiter) = limiter(limits);
    for idle in [SECOND * 43_200, SECOND * 86_400 * 366, SECOND * 86_400 * 365 * 40] {
        assert_eq!(left(&limiter, 1_000_000), 0);
        clock.advance(idle);
        assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 1_000_000);
    }
    // addTokens(MAX - 1)
    assert_eq!(left(&limiter, 5), 999_995);
    assert_eq!(block_on(limiter.admin().adjust("zoo", 1 << 40)).unwrap(), [5, 5, 5]);
    assert!(block_on(limiter.admin().adjust("zoo", i64::MAX)).is_err());
    assert!(block_on(limiter.admin().adjust("zoo", i64::MIN)).is_err());
    for text in [
        "1/3650d",
        "9223372036854775807/s via gcra",
        "1/s burst 9223372036854775807 via gcra",
        "1/366d burst 1000000 via gcra",
        "1099511627775/366d via gcra",
    ] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
    }
    let (clock, limiter) = self::limiter("1099511627776/366d via fixed_window");
    assert_eq!(left(&limiter, 1 << 40), 0);
    clock.set(Time::MAX);
    assert_eq!(left(&limiter, 1 << 40), 0);
}

/// Row 27. throttlecrab gives up after 10 lost races for a hot key; bucket4j #407.
#[test]
fn row_27_a_hot_key_answers_everybody() {
    let (_, limiter) = limiter("1000/1h via gcra");
    let (barrier, sum) = (Barrier::new(64), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                barrier.wait();
                sum.fetch_add(admitted(&limiter, 200), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(sum.into_inner(), 1_000);
}

/// Row 28. rate-limiter-flexible #231, #238: a timer per key, cut to 2^31 ms. Here time is
/// compared, and no thread is needed.
#[test]
fn row_28_expiry_needs_no_timer() {
    let (clock, limiter) = limiter("1/300d via fixed_window");
    assert_eq!(left(&limiter, 1), 0);
    clock.advance(SECOND * 86_400 * 25); // past 2^31 ms
    assert_eq!(admitted(&limiter, 1), 0);
    clock.advance(SECOND * 86_400 * 300);
    assert_eq!(admitted(&limiter, 2), 1);
    assert_eq!(limiter.store().subjects(), 1);
}

/// Row 29. redisson #5098: new numbers are ignored. The table of bucket4j, 60 of 100 consumed:
/// 200 leaves 140, 20 leaves 0.
#[test]
fn row_29_new_numbers_count_at_once() {
    for via in ["via gcra", "via token_bucket", "via fixed_window", "via sliding_log"] {
        for (n, remaining) in [(200, 140), (100, 40), (60, 0), (20, 0), (61, 1)] {
            let (_, limiter) = limiter(&format!("x: 100/1h {via}"));
            assert_eq!(left(&limiter, 60), 40);
            let new: LimitSet = format!("x: {n}/1h {via}").parse().unwrap();
            let peeked = limiter.check(Ask::new("zoo").under(&new).peek()).now().unwrap();
            assert_eq!(peeked.remaining(), remaining, "{n} {via}");
            let checked = limiter.check(Ask::new("zoo").under(&new).cost(remaining.max(1))).now();
            assert_eq!(checked.unwrap().granted(), remaining, "{n} {via}");
        }
    }
}

/// Row 33. flask-limiter: a malformed limit is logged, and the default limit counts instead.
#[test]
fn row_33_a_malformed_limit_is_an_error() {
    for text in ["", "10", "10/", "/s", "10 per", "10/s/2", "ten/s", "10/fortnight", "10/s gcra"] {
        assert!(text.parse::<LimitSet>().is_err(), "{text}");
    }
}

/// Section 5, bucket4j: 10 per 100, at 97 there are 9 tokens, 3 later 10; the rest when full is
/// forgotten. 4 at 1/s, 200 ms after the last: 0.8 s for one, 2.8 s for three.
#[test]
fn vectors_of_bucket4j() {
    let (clock, limiter) = limiter("10/100us via token_bucket");
    assert_eq!(left(&limiter, 10), 0);
    clock.advance(Duration::from_micros(97));
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 9);
    clock.advance(Duration::from_micros(3));
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 10);
    clock.advance(Duration::from_micros(5));
    assert_eq!(left(&limiter, 1), 9);
    clock.advance(Duration::from_micros(9));
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 9);
    clock.advance(Duration::from_micros(1));
    assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 10);

    let (clock, limiter) = self::limiter("1/s burst 4 via token_bucket");
    assert_eq!(left(&limiter, 4), 0);
    clock.advance(Duration::from_millis(200));
    assert_eq!(denied(&limiter, 1), (0, 800_000));
    assert_eq!(denied(&limiter, 3), (0, 2_800_000));
}

/// Section 5, throttled-py's shared table: 10 at 1/s.
#[test]
fn vectors_of_throttled_py() {
    for via in ["gcra", "token_bucket"] {
        let (clock, limiter) = limiter(&format!("1/s burst 10 via {via}"));
        assert_eq!(limiter.check(Ask::new("zoo").peek()).now().unwrap().remaining(), 10);
        assert_eq!(left(&limiter, 1), 9);
        assert_eq!(denied(&limiter, 10), (9, 1_000_000));
        clock.advance(SECOND);
        assert_eq!(left(&limiter, 5), 5);
        assert_eq!(denied(&limiter, 8), (5, 3_000_000));
        assert_eq!(left(&limiter, 5), 0);
        assert_eq!(denied(&limiter, 1), (0, 1_000_000));
    }
}

/// Section 5, the table that redis-cell and throttled share, as (at ms, volume, remaining,
/// reset ms, retry ms); None is *never*.
#[test]
fn vectors_of_redis_cell() {
    let (clock, limiter) = limiter("1/s burst 5 via gcra");
    let never = None;
    for (at, volume, remaining, reset, retry) in [
        (0, 6, 5, 0, never),
        (0, 1, 4, 1_000, Some(0)),
        (0, 1, 3, 2_000, Some(0)),
        (0, 1, 2, 3_000, Some(0)),
        (0, 1, 1, 4_000, Some(0)),
        (0, 1, 0, 5_000, Some(0)),
        (0, 1, 0, 5_000, Some(1_000)),
        (3_000, 1, 2, 3_000, Some(0)),
        (3_100, 1, 1, 3_900, Some(0)),
        (4_000, 1, 1, 4_000, Some(0)),
        (8_000, 1, 4, 1_000, Some(0)),
        (9_500, 1, 4, 1_000, Some(0)),
        (9_500, 2, 2, 3_000, Some(0)),
        (9_500, 5, 2, 3_000, Some(3_000)),
        (15_000, 6, 5, 0, never),
    ] {
        clock.set(Time::from_micros(LATE_US + at * 1_000));
        let decision = limiter.check(Ask::new("zoo").cost(volume)).now().unwrap();
        let report = decision.reports().next().unwrap();
        let seen = (report.remaining(), report.reset_after(), report.retry_after());
        let millis = Duration::from_millis;
        assert_eq!(seen, (remaining, millis(reset), retry.map(millis)), "at {at} ms: {volume}");
    }
}
