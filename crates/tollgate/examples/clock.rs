//! The cost of a reading of the memory store's clock, beside the system's own, and how far apart
//! the two are: `cargo run --profile dist -p tollgate --example clock [SECONDS]`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tollgate::{Clock, MonotonicClock};

/// Readings in a row that are timed as one.
const READINGS: u32 = 200_000;

/// How often each is timed, in turns.
const ROUNDS: usize = 31;

fn main() {
    let clock = MonotonicClock::new();
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        costs[0].push(ns_each(|| black_box(clock.now())));
        costs[1].push(ns_each(|| black_box(Instant::now())));
    }
    let [ours, system] = costs.map(median);
    println!("{ours:.1} ns a reading of the store's clock, {system:.1} ns one of the system's");

    let seconds = std::env::args().nth(1).map_or(Ok(10), |text| text.parse());
    let Ok(seconds) = seconds else { return eprintln!("the argument is a number of seconds") };
    let (ahead, behind) = apart(&clock, Duration::from_secs(seconds));
    println!("over {seconds} s at most {ahead} us ahead of the system's and {behind} us behind");
}

/// Nanoseconds that one of many in a row takes.
fn ns_each<T>(mut reading: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    (0..READINGS).for_each(|_| {
        reading();
    });
    start.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS)
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// How far the clock is ahead of the system's at most, and how far behind. Each reading stands
/// between two of the system's, so that a thread that was interrupted is not a clock that is off.
fn apart(clock: &MonotonicClock, long: Duration) -> (u128, u128) {
    let origin = Instant::now();
    let first = clock.now().as_micros();
    let (mut ahead, mut behind) = (0, 0);
    while origin.elapsed() < long {
        let before = origin.elapsed().as_micros();
        let said = u128::from(clock.now().as_micros().saturating_sub(first));
        let after = origin.elapsed().as_micros();
        ahead = ahead.max(said.saturating_sub(after));
        behind = behind.max(before.saturating_sub(said));
    }
    (ahead, behind)
}
