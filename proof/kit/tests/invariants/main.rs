//! The invariants of each strategy, as properties of the engine: the bounds are checked on the
//! admitted units, with separate arithmetic.
#![allow(clippy::unwrap_used)] // tests may unwrap

mod bounds;
mod changes;
mod decisions;
mod refunds;
mod shares;

use proptest::prelude::*;
use tollgate::engine::{self, Mode, Outcome, Part, VecStates};
use tollgate::{LimitSet, Time};

/// One subject under a set, on the engine alone.
#[derive(Clone)]
struct Engine {
    limits: LimitSet,
    held: VecStates,
}

impl Engine {
    fn new(limits: &str) -> Self {
        let limits: LimitSet = limits.parse().unwrap_or_else(|e| panic!("{limits}: {e}"));
        Self { held: VecStates::fresh(&limits), limits }
    }

    fn ask(&mut self, now_us: u64, cost: u64, mode: Mode) -> Outcome {
        let mut parts = [Part::new(&self.limits, &mut self.held)];
        engine::decide(&mut parts, Time::from_micros(now_us), cost.into(), mode, None).unwrap()
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

/// A history for gaps of about 1,000 us, stretched to the period.
fn scaled(history: &[(u64, u64)], period_us: u64) -> Vec<(u64, u64)> {
    let scale = |gap: u64| if gap < 4 { gap } else { gap * period_us / 2_000 };
    history.iter().map(|&(gap, cost)| (scale(gap), cost)).collect()
}

/// Every strategy and option, for the properties that all of them must have.
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
