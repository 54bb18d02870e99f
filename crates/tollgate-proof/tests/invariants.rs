//! The invariants of each strategy, as properties of the engine: the bounds are checked on what
//! was admitted, with arithmetic of their own.
#![allow(clippy::unwrap_used)] // tests may unwrap

use proptest::prelude::*;
use tollgate::engine::{self, Held, Mode, Outcome, Part};
use tollgate::{LimitSet, SKEW_US, Time};

/// One subject under a set, on the engine alone.
#[derive(Clone)]
struct Engine {
    limits: LimitSet,
    held: Held,
}

impl Engine {
    fn new(limits: &str) -> Self {
        let limits: LimitSet = limits.parse().unwrap_or_else(|e| panic!("{limits}: {e}"));
        Self { held: Held::fresh(&limits), limits }
    }

    fn ask(&mut self, now_us: u64, cost: u64, mode: Mode) -> Outcome {
        let mut parts = [Part::new(&self.limits, &mut self.held)];
        engine::decide(&mut parts, Time::from_micros(now_us), cost, mode)
    }

    fn check(&mut self, now_us: u64, cost: u64) -> Outcome {
        self.ask(now_us, cost, Mode::Whole)
    }

    /// Charges a history of (gap, cost); the admitted events (time, cost).
    fn run(&mut self, start_us: u64, history: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut now_us = start_us;
        let mut admitted = Vec::new();
        for &(gap_us, cost) in history {
            now_us += gap_us;
            if self.check(now_us, cost).granted > 0 {
                admitted.push((now_us, cost));
            }
        }
        admitted
    }
}

const START_US: u64 = 50_000_003;

/// Failures are printed with their input; they are not written into the tree.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// Gaps around `scale_us`, with bursts at one instant and long pauses.
fn history(scale_us: u64, capacity: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![
        3 => Just(0),
        2 => 0..4_u64,
        4 => 0..scale_us.max(2),
        1 => 0..scale_us * 12 + 2,
    ];
    let cost = prop_oneof![4 => Just(1), 2 => 1..=capacity, 1 => 1..capacity + 3];
    prop::collection::vec((gap, cost), 1..120)
}

/// The largest sum of costs in any `(t - span, t]` that ends at an event.
fn worst(events: &[(u64, u64)], span_us: u64) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0, 0);
    for &(at_us, cost) in events {
        sum += cost;
        while events[first].0 + span_us <= at_us {
            sum -= events[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// (N, D in microseconds), small and odd.
fn quota() -> impl Strategy<Value = (u64, u64)> {
    (1..12_u64, prop_oneof![1..50_u64, 900..1_100_u64, Just(1_000_000), Just(9_999_990)])
}

proptest! {
    #![proptest_config(config(300))]

    /// I-FW: at most N in each window of the epoch, 2N in any D, N*(ceil(T/D)+1) in any T.
    #[test]
    fn i_fw_a_fixed_window_holds_n((n, d) in quota(), seed in history(1_000, 12)) {
        let mut engine = Engine::new(&format!("{n}/{d}us via fixed_window"));
        let events = engine.run(START_US, &scaled(&seed, d));
        let mut windows = std::collections::HashMap::new();
        for &(at, cost) in &events {
            *windows.entry(at / d).or_insert(0) += cost;
        }
        prop_assert!(windows.values().all(|sum| *sum <= n), "{windows:?}");
        prop_assert!(worst(&events, d) <= 2 * n);
        for spans in [2, 3, 7] {
            prop_assert!(worst(&events, spans * d) <= n * (spans + 1));
        }
    }

    /// I-FW, first hit: windows open at an admitted event and last D; at most 2N - 1 in any D,
    /// since the event that opens a window is never in one D with the next window.
    #[test]
    fn i_fw_a_first_hit_window_holds_n((n, d) in quota(), seed in history(1_000, 12)) {
        let mut engine = Engine::new(&format!("{n}/{d}us anchor first-hit via fixed_window"));
        let events = engine.run(START_US, &scaled(&seed, d));
        let (mut open, mut sum) = (None, 0);
        for &(at, cost) in &events {
            match open {
                Some(start) if at < start + d => sum += cost,
                _ => (open, sum) = (Some(at), cost),
            }
            prop_assert!(sum <= n, "{events:?}");
        }
        prop_assert!(worst(&events, d) < 2 * n);
    }

    /// I-SL: at most N in any half-open D.
    #[test]
    fn i_sl_a_log_holds_n_in_any_window((n, d) in quota(), seed in history(1_000, 12)) {
        let mut engine = Engine::new(&format!("{n}/{d}us via sliding_log"));
        let events = engine.run(START_US, &scaled(&seed, d));
        prop_assert!(worst(&events, d) <= n);
    }

    /// I-SC: conservative N in any D (even in D + P less what ends a bucket); truncate N in any
    /// D - P and 2N in D; interpolate below 2N in D.
    #[test]
    fn i_sc_each_rounding_keeps_its_bound(
        n in 1..12_u64,
        p in prop_oneof![1..20_u64, Just(100_000)],
        buckets in 1..12_u64,
        seed in history(1_000, 12),
    ) {
        let d = p * buckets;
        let run = |rounding: &str| {
            let limit = format!("{n}/{d}us precision {p}us rounding {rounding} via sliding_window");
            Engine::new(&limit).run(START_US, &scaled(&seed, d))
        };
        let conservative = run("conservative");
        prop_assert!(worst(&conservative, d) <= n);
        // What counts at an admitted event is its bucket and the `buckets` before it.
        for (i, &(at, _)) in conservative.iter().enumerate() {
            let from = (at / p).saturating_sub(buckets);
            let sum: u64 =
                conservative[..=i].iter().filter(|(t, _)| t / p >= from).map(|(_, c)| c).sum();
            prop_assert!(sum <= n, "{conservative:?}");
        }
        let truncate = run("truncate");
        if buckets > 1 {
            prop_assert!(worst(&truncate, d - p) <= n);
        }
        prop_assert!(worst(&truncate, d) <= 2 * n);
        prop_assert!(worst(&run("interpolate"), d) < 2 * n);
    }

    /// I-TB: S([ti, tj]) <= B + (tj - ti)/T, in whole numbers: S*D <= B*D + (tj - ti)*N.
    #[test]
    fn i_tb_a_bucket_is_bounded_in_every_interval(
        (n, d) in quota(),
        burst in 1..20_u64,
        seed in history(1_000, 20),
    ) {
        for strategy in ["gcra", "token_bucket"] {
            let mut engine = Engine::new(&format!("{n}/{d}us burst {burst} via {strategy}"));
            let events = engine.run(START_US, &scaled(&seed, d));
            // The least `D*P - N*t` over the starts seen so far, P the sum before the start.
            let (mut sum, mut least) = (0_i128, i128::MAX);
            for &(at, cost) in &events {
                least = least.min(i128::from(d) * sum - i128::from(n) * i128::from(at));
                sum += i128::from(cost);
                let here = i128::from(d) * sum - i128::from(n) * i128::from(at);
                prop_assert!(here - least <= i128::from(burst) * i128::from(d), "{events:?}");
            }
        }
    }

    /// I-TB with whole refills: at most B + N for each multiple of D in between.
    #[test]
    fn i_tb_whole_refills_are_bounded_in_every_interval(
        (n, d) in quota(),
        burst in 1..20_u64,
        seed in history(1_000, 20),
    ) {
        let limit = format!("{n}/{d}us burst {burst} refill interval via token_bucket");
        let events = Engine::new(&limit).run(START_US, &scaled(&seed, d));
        for (i, &(from, _)) in events.iter().enumerate() {
            let mut sum = 0;
            for &(at, cost) in &events[i..] {
                sum += cost;
                prop_assert!(sum <= burst + (at / d - from / d) * n, "{events:?}");
            }
        }
    }

    /// I-GC: GCRA decides as a bucket of tokens does, counted in whole parts of 1/D token; also
    /// what remains, and both waits.
    #[test]
    fn i_gc_gcra_is_a_token_bucket(
        (n, d) in quota(),
        burst in 1..20_u64,
        seed in history(1_000, 20),
    ) {
        let mut engine = Engine::new(&format!("{n}/{d}us burst {burst} via gcra"));
        let (n, d, full) = (u128::from(n), u128::from(d), u128::from(burst) * u128::from(d));
        let (mut tokens, mut last_us) = (full, START_US);
        let mut now_us = START_US;
        for (gap, cost) in scaled(&seed, engine.limits.limits()[0].quota().period.as_micros()) {
            now_us += gap;
            tokens = full.min(tokens + u128::from(now_us - last_us) * n);
            last_us = now_us;
            let outcome = engine.check(now_us, cost);
            let wanted = u128::from(cost) * d;
            prop_assert_eq!(outcome.granted > 0, tokens >= wanted);
            let fields = outcome.fields[0];
            if tokens >= wanted {
                tokens -= wanted;
            } else if wanted <= full {
                let wait = (wanted - tokens).div_ceil(n);
                prop_assert_eq!(fields.retry_after_us.map(u128::from), Some(wait));
            } else {
                prop_assert_eq!(fields.retry_after_us, None);
            }
            prop_assert_eq!(u128::from(fields.remaining), tokens / d);
            prop_assert_eq!(u128::from(fields.reset_after_us), (full - tokens).div_ceil(n));
        }
    }

    /// I-PG: a uniform gate keeps D/N between any two, and never takes two at once.
    #[test]
    fn i_pg_a_gate_keeps_its_gap((n, d) in quota(), seed in history(300, 2)) {
        let mut engine = Engine::new(&format!("{n}/{d}us via uniform"));
        let events = engine.run(START_US, &scaled(&seed, d));
        for pair in events.windows(2) {
            prop_assert!((pair[1].0 - pair[0].0) * n >= d, "{events:?}");
        }
        prop_assert!(events.iter().all(|(_, cost)| *cost == 1));
    }
}

/// A history for gaps of about 1,000 us, stretched to the period.
fn scaled(history: &[(u64, u64)], period_us: u64) -> Vec<(u64, u64)> {
    let scale = |gap: u64| if gap < 4 { gap } else { gap * period_us / 2_000 };
    history.iter().map(|&(gap, cost)| (scale(gap), cost)).collect()
}

/// Every strategy and option, for the properties that all of them owe.
const ALL: [&str; 10] = [
    "7/1999us via uniform",
    "7/1999us via gcra",
    "5/2ms burst 9 via token_bucket",
    "5/2ms burst 9 refill interval via token_bucket",
    "7/2ms via fixed_window",
    "7/2ms anchor first-hit via fixed_window",
    "7/2ms via sliding_log",
    "7/2ms via sliding_window",
    "7/2ms rounding interpolate via sliding_window",
    "7/2ms rounding truncate via sliding_window",
];

const PERIOD_US: u64 = 2_000;

fn any_limit() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&ALL[..])
}

proptest! {
    #![proptest_config(config(600))]

    /// I-W: one operation of weight w leaves the state that w operations of weight 1 leave.
    #[test]
    fn i_w_a_weight_is_that_many_units(
        limit in any_limit(),
        seed in history(1_000, 9),
        cost in 1..10_u64,
    ) {
        let mut one = Engine::new(limit);
        one.run(START_US, &seed);
        let mut now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>() + 5;
        let left = one.ask(now_us, 1, Mode::Peek).fields[0];
        now_us += left.retry_after_us.unwrap();
        let cost = cost.min(left.remaining.max(1));
        let mut units = one.clone();
        let whole = one.check(now_us, cost);
        prop_assert_eq!(whole.granted, cost);
        let mut last = None;
        for _ in 0..cost {
            let outcome = units.check(now_us, 1);
            prop_assert_eq!(outcome.granted, 1);
            last = Some(outcome);
        }
        prop_assert_eq!(&last.unwrap().fields, &whole.fields);
        prop_assert_eq!(one.held, units.held);
    }

    /// I-D: denied operations and peeks may be left out of a history; nothing else changes.
    #[test]
    fn i_d_denials_leave_no_trace(limit in any_limit(), seed in history(1_000, 9)) {
        let mut all = Engine::new(limit);
        let mut now_us = START_US;
        let mut kept = Vec::new();
        for &(gap, cost) in &seed {
            now_us += gap;
            let before = all.held.clone();
            all.ask(now_us, cost, Mode::Peek);
            all.ask(now_us, cost, Mode::PeekPartial);
            prop_assert_eq!(&all.held, &before);
            let outcome = all.check(now_us, cost);
            if outcome.granted > 0 {
                kept.push((now_us, cost, outcome));
            } else {
                prop_assert_eq!(&all.held, &before);
                prop_assert!(!outcome.changed);
            }
        }
        let mut only = Engine::new(limit);
        for (at, cost, outcome) in kept {
            prop_assert_eq!(only.check(at, cost), outcome);
        }
        prop_assert_eq!(all.held, only.held);
    }

    /// I-A and I-MW: a set decides as the AND of its limits on the same state before, charges
    /// all or none, and each limit keeps its own bound.
    #[test]
    fn i_a_a_set_is_the_and_of_its_limits(
        first in 0..ALL.len(),
        second in 0..ALL.len(),
        seed in history(1_000, 9),
    ) {
        let (a, b) = (format!("a: {}", ALL[first]), format!("b: {}", ALL[second]));
        let mut set = Engine::new(&format!("{a}, {b}"));
        let (mut one, mut two) = (Engine::new(&a), Engine::new(&b));
        let mut now_us = START_US;
        for &(gap, cost) in &seed {
            now_us += gap;
            let before = set.held.clone();
            let peeks = [one.ask(now_us, cost, Mode::Peek), two.ask(now_us, cost, Mode::Peek)];
            let admitted = peeks.iter().all(|peek| peek.granted > 0);
            let outcome = set.check(now_us, cost);
            prop_assert_eq!(outcome.granted > 0, admitted);
            if admitted {
                prop_assert_eq!(outcome.fields[0], one.check(now_us, cost).fields[0]);
                prop_assert_eq!(outcome.fields[1], two.check(now_us, cost).fields[0]);
            } else {
                prop_assert_eq!(&set.held, &before);
                prop_assert_eq!(outcome.fields[0], peeks[0].fields[0]);
                prop_assert_eq!(outcome.fields[1], peeks[1].fields[0]);
            }
        }
    }

    /// I-R: after the wait it is admitted, a microsecond earlier it is not; of a set, the
    /// largest wait.
    #[test]
    fn i_r_the_wait_is_exact(
        first in 0..ALL.len(),
        second in 0..ALL.len(),
        seed in history(1_000, 9),
        cost in 1..8_u64,
    ) {
        for text in [ALL[first].to_owned(), format!("a: {}, b: {}", ALL[first], ALL[second])] {
            let mut engine = Engine::new(&text);
            engine.run(START_US, &seed);
            let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
            let denied = engine.check(now_us, cost);
            if denied.granted > 0 {
                continue;
            }
            let waits: Option<Vec<u64>> = denied.fields.iter().map(|f| f.retry_after_us).collect();
            let Some(wait) = waits.and_then(|waits| waits.into_iter().max()) else {
                // Never: not in a year either.
                let year_us = 365 * 86_400_000_000;
                prop_assert_eq!(engine.ask(now_us + year_us, cost, Mode::Peek).granted, 0);
                continue;
            };
            prop_assert!(wait > 0);
            prop_assert_eq!(engine.ask(now_us + wait - 1, cost, Mode::Peek).granted, 0);
            prop_assert_eq!(engine.ask(now_us + wait, cost, Mode::Peek).granted, cost);
        }
    }

    /// I-M: what remains never falls by itself, falls by exactly the cost, and is exact; the
    /// reset stands still between charges.
    #[test]
    fn i_m_what_remains_is_exact(limit in any_limit(), seed in history(1_000, 9)) {
        let mut engine = Engine::new(limit);
        let mut now_us = START_US;
        for &(gap, cost) in &seed {
            let earlier = engine.ask(now_us, 1, Mode::Peek).fields[0];
            now_us += gap;
            let before = engine.ask(now_us, 1, Mode::Peek).fields[0];
            prop_assert!(before.remaining >= earlier.remaining);
            prop_assert_eq!(before.reset_after_us, earlier.reset_after_us.saturating_sub(gap));
            if before.remaining > 0 {
                prop_assert!(engine.ask(now_us, before.remaining, Mode::Peek).granted > 0);
            }
            prop_assert_eq!(engine.ask(now_us, before.remaining + 1, Mode::Peek).granted, 0);
            let outcome = engine.check(now_us, cost);
            let after = outcome.fields[0].remaining;
            prop_assert_eq!(before.remaining - after, outcome.granted);
        }
    }

    /// I-T: a step back admits no more than was left, whatever its size, and the wait told after
    /// it is at most one full refill (and the skew).
    #[test]
    fn i_t_a_step_back_gives_nothing_and_locks_nobody_out(
        limit in any_limit(),
        seed in history(1_000, 9),
        back in prop_oneof![0..SKEW_US + 2, SKEW_US - 2..SKEW_US * 40],
    ) {
        let mut engine = Engine::new(limit);
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let left = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let earlier_us = now_us.saturating_sub(back);
        let mut taken = 0;
        while engine.check(earlier_us, 1).granted > 0 {
            taken += 1;
            prop_assert!(taken <= left, "{back} back admits more than {left}");
        }
        let denied = engine.check(earlier_us, 1).fields[0];
        let greedy = ["uniform", "gcra", "burst 9 via"].iter().any(|word| limit.contains(word));
        let refill_us = match limit {
            _ if greedy => 9 * PERIOD_US / 5,
            _ if limit.contains("interval") => 2 * PERIOD_US,
            _ if limit.contains("sliding_window") => PERIOD_US + PERIOD_US / 10,
            _ => PERIOD_US,
        };
        let skew_us = if greedy { 0 } else { SKEW_US };
        let wait = denied.retry_after_us.unwrap();
        prop_assert!(wait <= refill_us + skew_us, "{limit}: {wait} after {back} back");
        prop_assert!(denied.reset_after_us <= refill_us + skew_us);
        // It is kept: the wait runs down from here on.
        prop_assert!(engine.check(earlier_us + wait, 1).granted > 0);
    }

    /// I-T: a step forward of J grants at most what J of refill grants.
    #[test]
    fn i_t_a_step_forward_grants_its_refill(
        limit in any_limit(),
        seed in history(1_000, 9),
        forward in 0..3_000_u64,
    ) {
        let mut engine = Engine::new(limit);
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let left = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let after = engine.ask(now_us + forward, 1, Mode::Peek).fields[0].remaining;
        let quota = engine.limits.limits()[0].quota().clone();
        let (n, d) = (quota.units, quota.period.as_micros());
        if ["gcra", "uniform", "via token"].iter().any(|w| limit.contains(w))
            && !limit.contains("interval")
        {
            // Rounding down on both sides hides less than one unit.
            prop_assert!(after - left <= forward * n / d + 1);
        } else if limit.contains("interval") {
            prop_assert!(after - left <= (forward / d + 1) * n);
        }
        prop_assert!(after <= engine.limits.limits()[0].capacity());
    }

    /// I-C: after a change of numbers at `c`, what is admitted before and after stays below the
    /// larger burst and both refills.
    #[test]
    fn i_c_a_change_of_numbers_is_bounded(
        before in history(1_000, 9),
        after in history(1_000, 9),
        (n, burst) in (1..12_u64, 1..20_u64),
        (n2, burst2) in (1..12_u64, 1..20_u64),
    ) {
        let d = PERIOD_US;
        let mut engine = Engine::new(&format!("x: {n}/{d}us burst {burst} via gcra"));
        let mut events = engine.run(START_US, &before);
        let change_us = START_US + before.iter().map(|(gap, _)| gap).sum::<u64>();
        let mut next = Engine::new(&format!("x: {n2}/{d}us burst {burst2} via gcra"));
        let now = Time::from_micros(change_us);
        engine::migrate(&next.limits, &mut next.held, &engine.limits, &mut engine.held, now);
        events.extend(next.run(change_us, &after));
        for (i, &(from, _)) in events.iter().enumerate() {
            let mut sum = 0;
            for &(at, cost) in &events[i..] {
                sum += cost;
                let split = change_us.clamp(from, at);
                // Two floors hide less than a unit each.
                let refill = (split - from) * n / d + (at - split) * n2 / d + 2;
                prop_assert!(sum <= burst.max(burst2) + refill, "{events:?} around {change_us}");
            }
        }
    }

    /// I-C for the counts: lowering and raising N of a log or a window carries what counts.
    #[test]
    fn i_c_a_count_is_never_reset_by_new_numbers(
        index in 0..ALL.len(),
        seed in history(1_000, 9),
        n2 in 1..15_u64,
    ) {
        let limit = ALL[index];
        prop_assume!(!limit.contains("uniform"));
        let mut engine = Engine::new(&format!("x: {limit}"));
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let now = Time::from_micros(now_us);
        let capacity = engine.limits.limits()[0].capacity();
        let consumed = capacity - engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let (quota, rest) = limit.split_once('/').unwrap();
        prop_assert!(quota.parse::<u64>().is_ok());
        let mut next = Engine::new(&format!("x: {n2}/{rest}"));
        engine::migrate(&next.limits, &mut next.held, &engine.limits, &mut engine.held, now);
        let capacity2 = next.limits.limits()[0].capacity();
        let remaining = next.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        prop_assert!(remaining <= capacity2.saturating_sub(consumed), "{consumed} were consumed");
        // At most the unit that has partly come back is lost to rounding.
        prop_assert!(remaining + 1 >= capacity2.saturating_sub(consumed));
    }
}

/// Says how `events` break the bound of a limit of [`ALL`], if they do.
fn broken(limit: &str, capacity: u64, n: u64, d: u64, events: &[(u64, u64)]) -> Option<String> {
    let fail = |what: &str| Some(format!("{limit}: {what}: {events:?}"));
    if limit.contains("sliding") {
        let span = if limit.contains("truncate") { d - d / 10 } else { d };
        let most = if limit.contains("interpolate") { 2 * n - 1 } else { n };
        return (worst(events, span) > most).then(|| fail("in a window")).flatten();
    }
    for (i, &(from, _)) in events.iter().enumerate() {
        let mut sum = 0;
        for &(at, cost) in &events[i..] {
            sum += cost;
            let most = match limit {
                _ if limit.contains("first-hit") => n * ((at - from) / d + 2),
                _ if limit.contains("fixed") => n * (at / d - from / d + 1),
                _ if limit.contains("interval") => capacity + n * (at / d - from / d),
                _ => capacity + (at - from) * n / d,
            };
            if sum > most {
                return fail("in an interval");
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(config(1_500))]

    /// Refunds, for every strategy: counting only what was not given back, no bound is broken;
    /// nothing is given beyond full, and what is given is at most the cost.
    #[test]
    fn a_refund_breaks_no_bound(
        limit in any_limit(),
        seed in history(1_000, 9),
        picks in prop::collection::vec((0..60_usize, 0..PERIOD_US), 1..30),
    ) {
        let mut engine = Engine::new(limit);
        let capacity = engine.limits.limits()[0].capacity();
        let quota = engine.limits.limits()[0].quota().clone();
        let (n, d) = (quota.units, quota.period.as_micros());
        let mut events: Vec<(u64, u64)> = Vec::new();
        let mut receipts: Vec<(u64, u64)> = Vec::new();
        let (mut now_us, mut picks) = (START_US, picks.into_iter());
        for &(gap, cost) in &seed {
            now_us += gap;
            let outcome = engine.check(now_us, cost);
            if outcome.granted > 0 {
                events.push((now_us, cost));
                receipts.push((outcome.fields[0].charged_at_us, cost));
                continue;
            }
            // Denied: give something back, perhaps a little later.
            let Some((pick, later)) = picks.next() else { continue };
            if receipts.is_empty() {
                continue;
            }
            now_us += later;
            let before = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
            let (at, cost) = receipts.remove(pick % receipts.len());
            let now = Time::from_micros(now_us);
            let (limits, held) = (engine.limits.clone(), engine.held.clone());
            let whole = engine::Portion::whole(cost);
            let given = engine::refund(&limits, &mut engine.held, &limits, &[at], whole, now)[0];
            let after = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
            prop_assert!(after <= capacity && after - before == given);
            prop_assert!(given <= cost);
            // A part of a unit that comes back shows in the state before it shows in a number.
            if given > 0 || engine.held != held {
                let found = events.iter().position(|event| *event == (at, cost)).unwrap();
                events.remove(found);
            }
        }
        let found = broken(limit, capacity, n, d, &events);
        prop_assert!(found.is_none(), "{}", found.unwrap_or_default());
    }
}
