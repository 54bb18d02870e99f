//! A million tiers: the time to load them beside reading the file with the `csv` crate, their
//! memory, and a request under them beside one under a thousand. The sides take turns; each figure
//! is the median of the rounds, and in brackets the middle half of them.
//!
//! `cargo bench -p tollgate-policy --bench tiers`

#![allow(clippy::unwrap_used)] // a benchmark that cannot be set up has no figures

use std::borrow::Cow;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tollgate::{MemoryStore, at_once};
use tollgate_policy::{Field, Fields, Format, Gate, Policies};

const KEYS: u64 = 1_000_000;
const FEW: u64 = 1_000;
const LOADS: usize = 11;
const ROUNDS: usize = 41;
const CALLS: u64 = 20_000;

struct Request(Field, String);

impl Fields for Request {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        (*field == self.0).then_some(Cow::Borrowed(self.1.as_str()))
    }
}

/// A number that looks random, a different one for each.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// The value of a key as a front provides it.
fn key(by: &str, n: u64) -> String {
    match by {
        "api_key" => format!("{:016x}{:016x}", mixed(n), mixed(n + KEYS)),
        _ => format!("tenant-{n:07}"),
    }
}

/// A policy file beside tiers of so many keys.
fn files(folder: &Path, by: &str, keys: u64) -> PathBuf {
    let prefix = if by == "api_key" { "hash:" } else { "" };
    let tier = |n: u64| ["free", "pro", "gold"][usize::try_from(n % 3).unwrap()];
    let lines = (0..keys).map(|n| format!("{prefix}{},{}\n", key(by, n), tier(n)));
    let name = format!("{by}-{keys}");
    let tiers = format!("key,tier\n{}", lines.collect::<String>());
    std::fs::write(folder.join(format!("{name}.csv")), tiers).unwrap();
    let path = folder.join(format!("{name}.toml"));
    let others = ["free", "pro", "gold"].map(|tier| {
        format!("{{ when = {{ tier = \"{tier}\" }}, limit = \"900000000/s via gcra\" }}")
    });
    let text = format!(
        "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n\
         tiers = {{ file = \"{name}.csv\", by = \"{by}\", otherwise = \"free\" }}\n\
         limits = [{{ subject = \"{by}\", limit = \"800000000/s via gcra\", absent = \"skip\", \
         overrides = [{}] }}]\n",
        others.join(", ")
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Reads a file with the library alone.
fn read(path: &Path) {
    let mut reader = csv::Reader::from_path(path.with_extension("csv")).unwrap();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).unwrap() {
        black_box(&row);
    }
}

/// The memory of this process, in bytes. Only Linux tells it here.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .map_or(0, |kb: u64| kb << 10)
}

/// The median, and the middle half.
fn shown(mut figures: Vec<f64>) -> String {
    figures.sort_unstable_by(f64::total_cmp);
    let at = |quarter: usize| figures[(figures.len() - 1) * quarter / 4];
    format!("{:.2} ({:.2} to {:.2})", at(2), at(1), at(3))
}

fn load(folder: &Path, by: &str) {
    let path = files(folder, by, KEYS);
    let before = resident();
    let first = Policies::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
    // One more, so that what the loading itself left behind is not counted.
    let one = resident();
    let second = Policies::load(&path).unwrap();
    let two = resident();
    let each = |from: u64, to: u64| to.saturating_sub(from) / KEYS;
    println!("{by}: {} and {} bytes a key", each(before, one), each(one, two));
    drop((first, second));
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    for _ in 0..LOADS {
        let start = Instant::now();
        read(&path);
        let reading = ms(start.elapsed());
        let start = Instant::now();
        let policies = Policies::load(&path).unwrap();
        let loading = ms(start.elapsed());
        drop(policies);
        ratios.push(loading / reading);
        ours.push(loading);
        theirs.push(reading);
    }
    println!("{by}: loaded in {} ms, read in {} ms", shown(ours), shown(theirs));
    println!("{by}: loading beside reading {}", shown(ratios));
}

/// Requests of `keys` different keys, under a million tiers and under a thousand.
fn requests(folder: &Path, by: &str, keys: u64) {
    let gate = |tiers: u64| {
        let policies = Policies::load(folder.join(format!("{by}-{tiers}.toml"))).unwrap();
        Gate::new(policies, MemoryStore::new()).unwrap()
    };
    let sides = [gate(FEW), gate(KEYS)];
    let field = Field::parse(by).unwrap();
    let all: Vec<Request> =
        (0..keys).map(|n| Request(field.clone(), key(by, mixed(n) % keys))).collect();
    let ask = |gate: &Gate<MemoryStore>, n: u64| {
        let request = &all[usize::try_from(n % keys).unwrap()];
        black_box(at_once(gate.check(request)).unwrap().is_allowed());
    };
    for gate in &sides {
        (0..keys).for_each(|n| ask(gate, n));
    }
    let (mut ratios, mut few, mut many) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    for round in 0..ROUNDS {
        let mut times = [0.0; 2];
        for turn in 0..2 {
            let side = (turn + round) % 2;
            let start = Instant::now();
            (next..next + CALLS).for_each(|n| ask(&sides[side], n));
            times[side] = start.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
        }
        next += CALLS;
        few.push(times[0]);
        many.push(times[1]);
        ratios.push(times[1] / times[0]);
    }
    let (few, many) = (shown(few), shown(many));
    println!("{by}, {keys} keys asked: {many} ns under {KEYS} tiers, {few} ns under {FEW}");
    println!("{by}, {keys} keys asked: ratio {}", shown(ratios));
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    // Something is read and allocated before memory is measured.
    black_box(Policies::parse("version = 1", Format::Toml).is_err());
    for by in ["field.tenant", "api_key"] {
        load(folder.path(), by);
        files(folder.path(), by, FEW);
        for keys in [FEW, KEYS] {
            requests(folder.path(), by, keys);
        }
    }
}
