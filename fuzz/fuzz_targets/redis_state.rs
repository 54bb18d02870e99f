//! States in Redis from any bytes: read or refused, and what is read can be worked on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::engine::{self, Held, Mode, Part};
use tollgate::{LimitSet, Time};
use tollgate_redis::{decode, encode};

const SETS: [&str; 5] = [
    "x: 10/s via gcra",
    "x: 5/10s via fixed_window",
    "x: 6/10s precision 5s via sliding_window",
    "x: 5/10s refill interval via token_bucket",
    "x: 7/m via gcra, y: 5/10s via sliding_log",
];

fuzz_target!(|input: (usize, &[u8], Vec<Vec<u8>>, u64)| {
    let (set, state, log, now_us) = input;
    let limits: LimitSet = SETS[set % SETS.len()].parse().expect("a limit of ours");
    let now = Time::from_micros(now_us % (1 << 52));
    let Ok((was, mut held)) = decode(&limits, Some(state), &[vec![], log]) else { return };
    let mut new = Held::fresh(&limits);
    let _ = engine::inherit(&limits, &mut new, &was, &mut held, now);
    let mut parts = [Part::new(&limits, &mut new)];
    let _ = engine::decide(&mut parts, now, 3, Mode::Whole);
    let written = encode(&limits, &new).expect("these sets have a state");
    assert!(decode(&limits, Some(&written), &[]).is_ok());
});
