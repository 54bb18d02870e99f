//! `memory`: the memory store beside governor, in one process, as a table.

use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use tollgate_proof::Random;

use crate::args::BenchMemory;
use crate::show;

mod allocated;
mod owned;
mod sides;

use owned::{Owned, median};
use sides::{Governor, Side, Tollgate};

/// Up to this many keys each run starts with fresh counts; above, the counts are built once.
const FEW_KEYS: u32 = 1_000;

/// The units that come back: one per minute, so that none does while a run lasts.
const ROOMY: u32 = 1_800_000;

/// One row: both sides over the same calls.
#[derive(Debug, Serialize)]
struct Row {
    keys: u32,
    threads: u32,
    tollgate_ns: f64,
    governor_ns: f64,
    ratio: f64,
    tollgate_admitted: f64,
    governor_admitted: f64,
}

/// The bytes of one side, measured in a separate process.
#[derive(Debug, Serialize, Deserialize)]
struct Bytes {
    side: String,
    keys: u32,
    bytes_per_key: f64,
    measured: String,
}

#[derive(Debug, Serialize)]
struct BenchJson {
    calls: u32,
    runs: u32,
    rows: Vec<Row>,
    owned: Vec<Owned>,
    bytes: Vec<Bytes>,
}

pub(crate) fn memory(args: &BenchMemory) -> Result<u8> {
    show::warn_of_debug();
    let steps = args.keys.len() * args.threads.len() * args.runs as usize;
    let progress =
        ProgressBar::new(steps as u64).with_style(show::bar("{bar:30} {pos}/{len} runs, {msg}"));
    let mut rows = Vec::new();
    for &keys in &args.keys {
        let names: Vec<String> = (0..keys).map(sides::key).collect();
        for &threads in &args.threads {
            progress.set_message(format!("{keys} keys, {threads} threads"));
            let calls = Calls::new(keys, threads, args.calls);
            rows.push(measure(&names, &calls, args.runs, &progress));
        }
    }
    progress.set_message("decisions that last");
    let owned = owned::measure(args.calls, args.runs)?;
    progress.set_message("bytes per key");
    let most = args.keys.iter().copied().max().unwrap_or(1);
    let bytes = ["tollgate", "governor"].map(|side| in_a_child(side, most));
    let bytes = bytes.into_iter().collect::<Result<Vec<_>>>()?;
    progress.finish_and_clear();
    let (calls, runs) = (args.calls, args.runs);
    if args.json {
        show::json(&BenchJson { calls, runs, rows, owned, bytes })?;
    } else {
        show::text(&tables(calls, runs, &rows, &owned, &bytes))?;
    }
    Ok(0)
}

/// Which keys each thread asks for, in which order: the same for both sides.
struct Calls {
    keys: u32,
    /// For each thread, the keys as they come in: each a separate text, one after the other in
    /// memory, like the keys of requests that were just read. A look into one list of all keys
    /// would cost either side a cache miss that no server has.
    orders: Vec<Vec<String>>,
    /// The capacity of every key.
    burst: u32,
}

impl Calls {
    /// Calls; 90 % of them are admitted. Few keys are asked in turn, and the last tenth of the
    /// calls finds them empty; of many keys, asked at random, each tenth is empty from the start.
    fn new(keys: u32, threads: u32, calls: u32) -> Self {
        let each = (calls / threads).max(1);
        let mut random = Random::new(0);
        let mut order = |_| -> Vec<String> {
            if keys <= FEW_KEYS {
                return (0..each).map(|i| sides::key(i % keys)).collect();
            }
            (0..each)
                .map(|_| sides::key(u32::try_from(random.below(keys.into())).unwrap_or(0)))
                .collect()
        };
        let orders: Vec<_> = (0..threads).map(&mut order).collect();
        let burst = if keys <= FEW_KEYS {
            let per_key = u64::from(each) * u64::from(threads) / u64::from(keys);
            u32::try_from(per_key * 9 / 10).unwrap_or(ROOMY).max(1)
        } else {
            ROOMY
        };
        Self { keys, orders, burst }
    }

    /// A side with every key in place.
    fn prepare<T: Side>(&self, names: &[String]) -> T {
        // One more than the capacity is spent on having the key in place.
        let side = T::new(self.burst + 1, self.keys);
        for (i, name) in names.iter().enumerate() {
            let empty = self.keys > FEW_KEYS && i % 10 == 9;
            side.spend(name, if empty { self.burst + 1 } else { 1 });
        }
        side
    }

    /// Runs all threads. Answers how long they took, and how many calls were admitted.
    fn run<T: Side>(&self, side: &T) -> (Duration, u64) {
        let start = Barrier::new(self.orders.len());
        let one = |order: &[String]| {
            start.wait();
            let from = Instant::now();
            let mut admitted = 0_u64;
            for key in order {
                admitted += u64::from(side.call(key));
            }
            (from, Instant::now(), admitted)
        };
        let done: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.orders.iter().map(|order| scope.spawn(|| one(order))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let first = done.iter().map(|(from, ..)| *from).min();
        let last = done.iter().map(|(_, to, _)| *to).max();
        let wall = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        (wall, done.iter().map(|(.., admitted)| admitted).sum())
    }

    fn total(&self) -> f64 {
        self.orders.iter().map(|order| order.len() as f64).sum()
    }
}

/// One row: runs interleaved, and which side goes first changes each time.
fn measure(names: &[String], calls: &Calls, runs: u32, progress: &ProgressBar) -> Row {
    let mut ours = Measured::<Tollgate>::new(names, calls);
    let mut theirs = Measured::<Governor>::new(names, calls);
    for run in 0..runs {
        if run % 2 == 0 {
            ours.run(names, calls);
            theirs.run(names, calls);
        } else {
            theirs.run(names, calls);
            ours.run(names, calls);
        }
        progress.inc(1);
    }
    let threads = u32::try_from(calls.orders.len()).unwrap_or(u32::MAX);
    let ns = |times: &mut Vec<Duration>| {
        // The time that one thread spends on one call.
        median(times).as_secs_f64() * 1e9 * f64::from(threads) / calls.total()
    };
    let (tollgate_ns, governor_ns) = (ns(&mut ours.times), ns(&mut theirs.times));
    let share = |admitted: u64| admitted as f64 / calls.total() / f64::from(runs);
    Row {
        keys: calls.keys,
        threads,
        tollgate_ns,
        governor_ns,
        ratio: governor_ns / tollgate_ns,
        tollgate_admitted: share(ours.admitted),
        governor_admitted: share(theirs.admitted),
    }
}

/// One side and its measurements.
struct Measured<T> {
    kept: Option<T>,
    times: Vec<Duration>,
    admitted: u64,
}

impl<T: Side> Measured<T> {
    fn new(names: &[String], calls: &Calls) -> Self {
        let kept = (calls.keys > FEW_KEYS).then(|| calls.prepare(names));
        Self { kept, times: Vec::new(), admitted: 0 }
    }

    fn run(&mut self, names: &[String], calls: &Calls) {
        let fresh;
        let side = match &self.kept {
            Some(side) => side,
            None => {
                fresh = calls.prepare(names);
                &fresh
            }
        };
        let (time, admitted) = calls.run(side);
        self.times.push(time);
        self.admitted += admitted;
    }
}

/// Measures the bytes of a side in a fresh process, where nothing else was allocated before.
fn in_a_child(side: &str, keys: u32) -> Result<Bytes> {
    let done = Command::new(std::env::current_exe()?)
        .args(["memory-bytes", side, &keys.to_string()])
        .output()
        .context("the process that measures bytes cannot be started")?;
    if !done.status.success() {
        bail!("measuring the bytes of {side} failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(serde_json::from_slice(&done.stdout)?)
}

/// The task of the fresh process.
pub(crate) fn bytes(side: &str, keys: u32) -> Result<u8> {
    let bytes = match side {
        "tollgate" => held::<Tollgate>(keys)?,
        "governor" => held::<Governor>(keys)?,
        _ => bail!("unknown side: `tollgate` or `governor`"),
    };
    let bytes_per_key = bytes as f64 / f64::from(keys);
    let measured = allocated::HOW.to_owned();
    show::json(&Bytes { side: side.to_owned(), keys, bytes_per_key, measured })?;
    Ok(0)
}

/// The bytes that a side holds with this many keys in place.
fn held<T: Side>(keys: u32) -> Result<usize> {
    let before = allocated::bytes()?;
    let side = T::new(ROOMY, keys);
    for i in 0..keys {
        side.spend(&sides::key(i), 1);
    }
    let after = allocated::bytes()?;
    drop(side);
    Ok(after.saturating_sub(before))
}

fn tables(calls: u32, runs: u32, rows: &[Row], owned: &[Owned], bytes: &[Bytes]) -> String {
    let mut times =
        show::table(["keys", "threads", "tollgate ns", "governor ns", "ratio", "admitted"]);
    for row in rows {
        times.add_row([
            row.keys.to_string(),
            row.threads.to_string(),
            format!("{:.1}", row.tollgate_ns),
            format!("{:.1}", row.governor_ns),
            format!("{:.2}x", row.ratio),
            format!(
                "{:.1} % {:.1} %",
                row.tollgate_admitted * 100.0,
                row.governor_admitted * 100.0
            ),
        ]);
    }
    let mut lasting = show::table(["limits", "now ns", "ratio", "within ns", "ratio"]);
    for row in owned {
        lasting.add_row([
            row.limits.clone(),
            format!("{:.1}", row.now_ns),
            format!("{:.2}x", row.now_ratio),
            format!("{:.1}", row.within_ns),
            format!("{:.2}x", row.within_ratio),
        ]);
    }
    let mut memory = show::table(["side", "keys", "bytes per key"]);
    for row in bytes {
        memory.add_row([
            row.side.clone(),
            row.keys.to_string(),
            format!("{:.1}", row.bytes_per_key),
        ]);
    }
    let how = bytes.first().map_or("", |row| row.measured.as_str());
    format!(
        "Keyed gcra, 16-byte string keys, one clock read per call, both answer what remains.\n\
         ns: wall time x threads / calls; {calls} calls a run, medians of {runs} interleaved runs.\n\
         ratio: governor's time over tollgate's; above 1 tollgate is faster.\n\
         {times}\n\
         One key on one thread: a literal text and `now`, beside a subject of its own,\n\
         `within`, awaited, and `into_owned`, which is what a server does for a request.\n\
         ratio: over `now` under the first limits.\n\
         {lasting}\n\
         Each in a process of its own, {how}:\n\
         {memory}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted_of<T: Side>(keys: u32, threads: u32) -> f64 {
        let names: Vec<_> = (0..keys).map(sides::key).collect();
        let calls = Calls::new(keys, threads, 40_000);
        let side: T = calls.prepare(&names);
        let (_, admitted) = calls.run(&side);
        admitted as f64 / calls.total()
    }

    #[test]
    fn both_sides_admit_nine_of_ten() {
        for (keys, threads) in [(1, 1), (1, 2), (100, 2), (1_010, 1), (5_000, 2)] {
            let ours = admitted_of::<Tollgate>(keys, threads);
            let theirs = admitted_of::<Governor>(keys, threads);
            assert!((ours - 0.9).abs() < 0.01, "{keys} {threads}: {ours}");
            assert!((ours - theirs).abs() < 0.001, "{keys} {threads}: {ours} {theirs}");
        }
    }

    #[test]
    fn the_median_is_the_middle_one() {
        let mut times = [5, 1, 4, 2, 3].map(Duration::from_secs);
        assert_eq!(median(&mut times), Duration::from_secs(3));
        assert_eq!(median(&mut []), Duration::ZERO);
    }
}
