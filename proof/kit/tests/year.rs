//! The quotas that must be exact, each under every O(1) strategy: a million seeded checks over a
//! simulated year, half of them in idle and half in saturated stretches, equal the oracle in every
//! field.
#![allow(clippy::unwrap_used)] // tests may unwrap

mod common;

use common::Twins;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHECKS: u64 = 1_000_000;
const YEAR_US: u64 = 366 * 86_400_000_000;

const QUOTAS: [&str; 8] =
    ["7/m", "3/10s", "1000000/d", "5000000/h", "10000/30d", "1000003/30d", "1/366d", "100000/s"];

/// How many stretches the year has: idle and saturated in turn.
const STRETCHES: u64 = 200;

fn year(strategy: &str) {
    for (index, quota) in QUOTAS.iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(index as u64);
        let limit = format!("{quota} {strategy}");
        let mut twins = Twins::new(&limit, true);
        let quota = twins.limits.limits()[0].quota().clone();
        let period_us = quota.period.as_micros();
        let capacity = twins.limits.limits()[0].capacity();
        let start_us = 1_800_000_000_000_000;
        let (mut allowed, mut denied, mut fresh) = (0_u64, 0_u64, 0_u64);
        let per_stretch = CHECKS / STRETCHES;
        // Gaps that fill a stretch: whatever the quota, all checks fall into one year.
        let mean_gap_us = YEAR_US / STRETCHES / per_stretch;
        for stretch in 0..STRETCHES {
            // A stretch begins at its place in the year, or where the last one ended.
            let mut now_us =
                start_us + stretch * (YEAR_US / STRETCHES) + rng.random::<u64>() % 1000;
            for _ in 0..per_stretch {
                let saturated = stretch % 2 == 1;
                let (gap_us, cost) = if saturated {
                    // About three times what the quota gives.
                    let cost = 1 + rng.random::<u64>() % (capacity / 50 + 1);
                    let fair_us = u128::from(period_us) * u128::from(cost);
                    let fair_us = u64::try_from(fair_us / u128::from(quota.units)).unwrap();
                    (rng.random::<u64>() % (fair_us * 2 / 3 + 2).min(mean_gap_us), cost)
                } else {
                    // Far apart: mostly fresh, within the stretch.
                    (rng.random::<u64>() % (2 * mean_gap_us), 1 + rng.random::<u64>() % capacity)
                };
                now_us += gap_us;
                let (answer, _) = twins.check(now_us, cost);
                if answer.admitted {
                    allowed += 1;
                } else {
                    denied += 1;
                }
                if answer.fields.remaining + cost == capacity {
                    fresh += 1;
                }
            }
        }
        println!("{limit}: {allowed} allowed ({fresh} from fresh), {denied} denied");
        assert_eq!(allowed + denied, CHECKS);
        assert!(allowed > CHECKS / 100 || period_us > YEAR_US / 20, "{limit}: {allowed} allowed");
        assert!(denied > CHECKS / 100, "{limit}: only {denied} denied");
    }
}

macro_rules! years {
    ($($name:ident: $strategy:literal,)+) => {
        $(
            #[test]
            fn $name() {
                year($strategy);
            }
        )+
    };
}

years! {
    uniform: "via uniform",
    gcra: "via gcra",
    token_bucket_greedy: "via token_bucket",
    token_bucket_interval: "refill interval via token_bucket",
    fixed_window_epoch: "via fixed_window",
    fixed_window_first_hit: "anchor first-hit via fixed_window",
    sliding_window_conservative: "via sliding_window",
    sliding_window_interpolate: "rounding interpolate via sliding_window",
    sliding_window_truncate: "rounding truncate via sliding_window",
}
