//! Measures how long it takes to save and restore a memory store, and how large a snapshot is:
//! `cargo run --profile dist -p tollgate --example snapshot [SUBJECTS]`. Figures are in
//! `docs/memory.md`.

use std::error::Error;
use std::fs::File;
use std::time::Instant;

use tollgate::{Limiter, MemoryStore};

const LIMITS: [&str; 4] = [
    "100/h via gcra",
    "10/h via gcra, 100/d via gcra",
    "100/h via sliding_window",
    "10/h via sliding_log",
];

/// The most memory that this process has held, where the system says it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn main() -> Result<(), Box<dyn Error>> {
    let subjects: u32 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("tollgate-snapshot-{}", std::process::id()));
    println!("{subjects} subjects of 16 bytes; milliseconds; bytes each; peak of the process");
    for limits in LIMITS {
        let builder = MemoryStore::builder().max_bytes(4 << 30);
        let limiter = Limiter::new(limits.parse()?, builder.clone().build());
        for i in 0..subjects {
            let _ = limiter.check(format!("{i:016}")).now()?;
        }
        let before = peak_kib();
        let begun = Instant::now();
        let file = File::create(&path)?;
        let saved = limiter.store().save(&file)?;
        let written = begun.elapsed();
        file.sync_all()?;
        let synced = begun.elapsed();
        let grown = peak_kib().zip(before).map(|(after, before)| after - before);
        drop(limiter);
        let begun = Instant::now();
        let (store, restored) = builder.restore(File::open(&path)?)?;
        let read = begun.elapsed();
        assert_eq!((saved.subjects, restored.subjects), (subjects.into(), subjects.into()));
        println!(
            "{limits}: saved in {} ({} with sync), restored in {}; {} in the file, {} in memory; \
             saving took {grown:?} KiB",
            written.as_millis(),
            synced.as_millis(),
            read.as_millis(),
            saved.bytes / u64::from(subjects),
            store.bytes() / subjects as usize,
        );
    }
    std::fs::remove_file(path)?;
    Ok(())
}
