//! Measures decisions a second of a flood of new subjects before a memory store is full and when
//! it is, and of a subject that is known: `cargo run --profile dist -p tollgate --example full
//! [MIB]`. Figures are in `docs/memory.md`.

use std::error::Error;
use std::time::Instant;

use tollgate::{LimitSet, Limiter, MemoryStore};

const LIMITS: [&str; 3] =
    ["100/h via gcra", "10/h via gcra, 100/d via gcra", "10/h via sliding_log"];

/// How many decisions are timed together.
const BATCH: u32 = 100_000;

/// How many batches are asked of a store that is full.
const FULL: usize = 20;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    println!("{mib} MiB; nanoseconds a decision: newcomers with room, without, a known subject");
    for limits in LIMITS {
        let store = MemoryStore::builder().max_bytes(mib << 20).build();
        let limiter = Limiter::new(limits.parse::<LimitSet>()?, store);
        let (mut before, mut full, mut i) = (Vec::new(), Vec::new(), 0_u32);
        while full.len() < FULL {
            let subjects = limiter.store().subjects();
            let begun = Instant::now();
            for _ in 0..BATCH {
                let _ = limiter.check(format!("{i:016}")).now()?;
                i += 1;
            }
            let nanos = begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH);
            match limiter.store().subjects() - subjects {
                0 => full.push(nanos),
                entered if entered == BATCH as usize => before.push(nanos),
                _ => {}
            }
        }
        let known: Vec<f64> = (0..20)
            .map(|_| {
                let begun = Instant::now();
                for _ in 0..BATCH * 5 {
                    let _ = limiter.check("0000000000000000").now();
                }
                begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH * 5)
            })
            .collect();
        // All that came before it was full took this long in all: its tables grew, too.
        let mean = before.iter().sum::<f64>() / before.len() as f64;
        let full = median(full);
        println!(
            "{limits}: {mean:.0} {full:.0} {:.1}; {:.2} of the decisions a second",
            median(known),
            mean / full
        );
    }
    Ok(())
}
