//! The engine equals the oracle in every field: random histories of every operation.
#![allow(clippy::unwrap_used, clippy::float_arithmetic)] // tests may unwrap; shares are printed

mod common;

use common::Twins;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_proof::conformance::SMALL;

/// How often each outcome was seen.
#[derive(Default, Debug)]
struct Seen {
    allow: u32,
    not_yet: u32,
    never: u32,
    partial_whole: u32,
    partial_less: u32,
    partial_none: u32,
    refund_all: u32,
    refund_some: u32,
    refund_none: u32,
    skew: u32,
    step_back: u32,
    peek: u32,
}

const HISTORIES: u64 = 400;
const OPERATIONS: usize = 80;

/// Runs random histories of one limit; `back` lets the clock step back.
fn histories(limit: &str, back: bool, seen: &mut Seen) {
    let period_us = Twins::new(limit, false).limits.limits()[0].quota().period.as_micros();
    let capacity = Twins::new(limit, false).limits.limits()[0].capacity();
    for seed in 0..HISTORIES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut twins = Twins::new(limit, false);
        let mut now_us = rng.random_range(0..4) * period_us + rng.random_range(0..3_000_000);
        let mut receipts: Vec<(u64, u64)> = Vec::new();
        for _ in 0..OPERATIONS {
            now_us = advance(&mut rng, now_us, period_us, back, seen);
            let cost = match rng.random_range(0..10) {
                0..6 => 1,
                6..9 => rng.random_range(1..=capacity),
                _ => capacity + rng.random_range(1..3),
            };
            operate(&mut rng, &mut twins, now_us, cost, &mut receipts, seen);
        }
    }
}

fn advance(rng: &mut ChaCha8Rng, now_us: u64, period_us: u64, back: bool, seen: &mut Seen) -> u64 {
    match rng.random_range(0..20) {
        0..6 => now_us,
        6..9 => now_us + rng.random_range(0..4),
        9..15 => now_us + rng.random_range(0..=period_us / 3 + 1),
        15 => now_us + period_us,
        16 => (now_us / period_us + 1) * period_us - rng.random_range(0..2),
        17 => now_us + rng.random_range(0..period_us * 3),
        18 if back => {
            seen.skew += 1;
            now_us.saturating_sub(rng.random_range(0..=1_000_001))
        }
        19 if back => {
            seen.step_back += 1;
            now_us.saturating_sub(rng.random_range(0..period_us * 2 + 3_000_000))
        }
        _ => now_us + 1,
    }
}

fn operate(
    rng: &mut ChaCha8Rng,
    twins: &mut Twins,
    now_us: u64,
    cost: u64,
    receipts: &mut Vec<(u64, u64)>,
    seen: &mut Seen,
) {
    match rng.random_range(0..20) {
        0..12 => {
            let (answer, at_us) = twins.check(now_us, cost);
            match answer.fields.retry_after_us {
                Some(_) if answer.admitted => {
                    seen.allow += 1;
                    receipts.push((at_us, cost));
                }
                Some(_) => seen.not_yet += 1,
                None => seen.never += 1,
            }
        }
        12..15 => {
            seen.peek += 1;
            twins.peek(now_us, cost);
        }
        15..17 => {
            let (answer, at_us) = twins.partial(now_us, cost);
            match answer.granted {
                0 => seen.partial_none += 1,
                granted if granted < cost => seen.partial_less += 1,
                _ => seen.partial_whole += 1,
            }
            if answer.admitted {
                receipts.push((at_us, answer.granted));
            }
        }
        17..19 if !receipts.is_empty() => {
            let (at_us, left) = receipts.swap_remove(rng.random_range(0..receipts.len()));
            let units = if rng.random_bool(0.5) { left } else { rng.random_range(1..=left) };
            if units < left {
                receipts.push((at_us, left - units));
            }
            match twins.refund(now_us, at_us, left, units) {
                0 => seen.refund_none += 1,
                given if given == units => seen.refund_all += 1,
                _ => seen.refund_some += 1,
            }
        }
        19 => {
            let sign = if rng.random_bool(0.5) { 1 } else { -1 };
            let units = i64::try_from(rng.random_range(1..=cost + 1)).unwrap();
            twins.adjust(now_us, sign * units);
            twins.peek(now_us, cost);
        }
        _ => {
            twins.check(now_us, 1);
        }
    }
}

/// The operations of all histories.
fn operations() -> f64 {
    let [histories, limits] = [HISTORIES, SMALL.len() as u64].map(|it| u32::try_from(it).unwrap());
    f64::from(histories * limits * 80)
}

#[test]
fn random_histories_equal_the_oracle_in_every_field() {
    let mut seen = Seen::default();
    for limit in SMALL {
        histories(limit, false, &mut seen);
    }
    let total = operations();
    println!("forward: {seen:?} of {total}");
    for (what, count) in [
        ("allow", seen.allow),
        ("not yet", seen.not_yet),
        ("never", seen.never),
        ("partial whole", seen.partial_whole),
        ("partial less", seen.partial_less),
        ("partial none", seen.partial_none),
        ("refund all", seen.refund_all),
        ("refund none", seen.refund_none),
        ("peek", seen.peek),
    ] {
        assert!(f64::from(count) / total >= 0.01, "{what} is below 1 %: {count}");
    }
    assert!(seen.refund_some > 100, "a part is given back only by the greedy ones: {seen:?}");
}

#[test]
fn histories_with_a_clock_that_steps_back_equal_the_oracle_in_every_field() {
    let mut seen = Seen::default();
    for limit in SMALL {
        histories(limit, true, &mut seen);
    }
    println!("with steps back: {seen:?}");
    let total = operations();
    assert!(f64::from(seen.skew) / total >= 0.01 && f64::from(seen.step_back) / total >= 0.01);
}
