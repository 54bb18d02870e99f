//! The maximum that each strategy admits, in any interval.

use proptest::prelude::*;

use super::{Engine, START_US, config, history, quota, scaled, worst};

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
        // The units that count at an admitted event are its bucket and the `buckets` before it.
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

    /// I-PG: a uniform gate keeps D/N between any two, and never takes two together.
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
