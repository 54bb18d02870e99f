//! Holds in memory equal the oracle in every field: random histories of each strategy, longer than
//! those of the kit.
#![allow(clippy::unwrap_used)] // tests may

use tollgate::{ManualClock, MemoryStore};
use tollgate_proof::conformance::{hold_history, sweeping};

/// Operations of each strategy, unless the environment says otherwise.
const OPERATIONS: u64 = 20_000;

fn twins(strategy: &str, limits: &[[&str; 2]]) {
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
                operations += hold_history(&maker, *limits, seed, back);
            }
        }
    }
    println!("{strategy}: {operations} operations");
}

#[test]
fn uniform() {
    let each = [
        ["5/3s via uniform", "7/3s via uniform"],
        ["1/2s via uniform", "4/2s via uniform"],
        ["3/10us via uniform", "9/10us via uniform"],
    ];
    twins("uniform", &each);
}

#[test]
fn gcra() {
    let each = [
        ["7/3s burst 9 via gcra", "9/3s burst 4 via gcra"],
        ["3/10us burst 7 via gcra", "3/10us burst 12 via gcra"],
        ["5/s debt 0 via gcra", "5/s debt 3 via gcra"],
    ];
    twins("gcra", &each);
}

#[test]
fn token_bucket() {
    let each = [
        ["10/1s burst 6 debt 2 via token_bucket", "7/1s burst 9 debt 0 via token_bucket"],
        ["9/4s burst 5 refill interval via token_bucket", "4/4s refill interval via token_bucket"],
    ];
    twins("token_bucket", &each);
}

#[test]
fn fixed_window() {
    let each = [
        ["8/10s via fixed_window", "5/10s via fixed_window"],
        ["x: 6/4s anchor first-hit via fixed_window", "x: 9/7s anchor first-hit via fixed_window"],
    ];
    twins("fixed_window", &each);
}

#[test]
fn sliding_log() {
    let each = [
        ["x: 9/5s via sliding_log", "x: 6/8s via sliding_log"],
        ["7/400ms debt 1 via sliding_log", "5/400ms debt 4 via sliding_log"],
    ];
    twins("sliding_log", &each);
}

#[test]
fn sliding_window() {
    let each = [
        ["9/5s precision 1s via sliding_window", "6/5s precision 1s via sliding_window"],
        [
            "9/4s precision 1s rounding interpolate via sliding_window",
            "7/4s precision 1s rounding interpolate via sliding_window",
        ],
        ["8/6s precision 2s rounding truncate via sliding_window"; 2],
    ];
    twins("sliding_window", &each);
}

#[test]
fn concurrency() {
    let each = [
        ["4 at once hold 3s", "6 at once hold 9s"],
        ["1 at once hold 20s", "3 at once hold 5s"],
        ["2 at once hold 5s", "1 at once hold 2m"],
    ];
    twins("concurrency", &each);
}

#[test]
fn several_limits() {
    let each = [
        [
            "6/2s via gcra, 9/20s via sliding_log, 5 at once hold 4s",
            "8/2s via gcra, 6/20s via sliding_log, 3 at once hold 9s",
        ],
        [
            "x: 8/7s via fixed_window, y: 3 at once hold 10s, z: 7/9s via sliding_log",
            "x: 6/9s via fixed_window, y: 5 at once hold 3s, z: 9/5s via sliding_log",
        ],
        [
            "5/3s via uniform, 9/5s precision 1s via sliding_window",
            "7/3s via uniform, 6/5s precision 1s via sliding_window",
        ],
    ];
    twins("several limits", &each);
}
