//! Holds in memory equal the oracle in every field: random histories of each strategy, longer than
//! those of the kit.
#![allow(clippy::unwrap_used)] // tests may

use tollgate::{ManualClock, MemoryStore};
use tollgate_proof::conformance::{hold_history, sweeping};

/// Operations of each strategy, unless the environment says otherwise.
const OPERATIONS: u64 = 20_000;

fn twins(strategy: &str, limits: &[&str]) {
    let make = |clock: ManualClock| MemoryStore::builder().clock(clock).build();
    let maker = sweeping(make, |store: &MemoryStore| {
        store.sweep();
    });
    let wanted = std::env::var("TOLLGATE_TEST_CASES");
    let wanted: u64 = wanted.map_or(OPERATIONS, |text| text.parse().unwrap());
    // The kit has the first seeds.
    let (mut operations, mut seed) = (0, 1_000_000);
    while operations < wanted {
        for limits in limits {
            for back in [false, true] {
                seed += 1;
                operations += hold_history(&maker, limits, seed, back);
            }
        }
    }
    println!("{strategy}: {operations} operations");
}

#[test]
fn uniform() {
    twins("uniform", &["5/3s via uniform", "1/2s via uniform", "3/10us via uniform"]);
}

#[test]
fn gcra() {
    twins("gcra", &["7/3s burst 9 via gcra", "3/10us burst 7 via gcra", "5/s debt 0 via gcra"]);
}

#[test]
fn token_bucket() {
    let interval = "9/4s burst 5 refill interval via token_bucket";
    twins("token_bucket", &["10/1s burst 6 debt 2 via token_bucket", interval]);
}

#[test]
fn fixed_window() {
    let first_hit = "6/4s anchor first-hit via fixed_window";
    twins("fixed_window", &["8/10s via fixed_window", first_hit]);
}

#[test]
fn sliding_log() {
    twins("sliding_log", &["9/5s via sliding_log", "7/400ms debt 1 via sliding_log"]);
}

#[test]
fn sliding_window() {
    let each = [
        "9/5s precision 1s via sliding_window",
        "9/4s precision 1s rounding interpolate via sliding_window",
        "8/6s precision 2s rounding truncate via sliding_window",
    ];
    twins("sliding_window", &each);
}

#[test]
fn concurrency() {
    twins("concurrency", &["4 at once hold 3s", "1 at once hold 20s"]);
}

#[test]
fn several_limits() {
    let each = [
        "6/2s via gcra, 9/20s via sliding_log, 5 at once hold 4s",
        "x: 8/7s via fixed_window, y: 3 at once hold 10s, z: 7/9s via sliding_log",
        "5/3s via uniform, 9/5s precision 1s via sliding_window",
    ];
    twins("several limits", &each);
}
