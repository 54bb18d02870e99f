//! The cost that recording over time adds to a decision. All sides take turns in one process; each
//! figure is the median of the rounds.
//!
//! `cargo run --profile dist -p tollgate-service --example recorder_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use tollgate::MemoryStore;
use tollgate_policy::{Format, Gate, Policies};
use tollgate_service::{AnyStore, Metrics, Options, Server, TimeSeriesOptions};

/// Odd, so that there is a median.
const ROUNDS: usize = 21;

/// How long a side decides in a round: long enough that the counters are read in each.
const TURN: Duration = Duration::from_millis(2_200);

/// Decisions between two looks at the clock.
const CALLS: u32 = 10_000;

const SUBJECTS: u32 = 1_000;

const POLICIES: &str = "version = 1\n[[policies]]\nname = \"all\"\non_failure = \"deny\"\n\
                        limits = [{ subject = \"ip\", limit = \"1000000/s via gcra\" }]\n";

/// The work that happens besides deciding.
#[derive(Clone, Copy)]
enum Side {
    /// Nothing is counted but what the gate does itself.
    Bare,
    /// Counted by limit and time, as in every service; nobody reads it.
    Counted,
    /// A service reads the counters once a second.
    Recorded,
    /// And keeps what it read for time series on a server that is not there.
    Written,
}

const SIDES: [(Side, &str); 4] = [
    (Side::Bare, "a gate alone"),
    (Side::Counted, "with the service's counters"),
    (Side::Recorded, "and its recorder"),
    (Side::Written, "and time series, without their server"),
];

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ips: Vec<String> =
        (0..SUBJECTS).map(|number| format!("10.0.{}.{}", number / 256, number % 256)).collect();
    let mut rounds = [const { Vec::new() }; SIDES.len()];
    for _ in 0..ROUNDS {
        for ((side, _), times) in SIDES.iter().zip(&mut rounds) {
            // On this thread: the other work of the service has the other one.
            times.push(runtime.block_on(turn(*side, &ips))?);
        }
    }
    println!(
        "{:<40} {:>8} {:>8} {:>16}",
        "a decision in memory, one thread", "ns", "more", "middle half"
    );
    let mut before: Option<Vec<f64>> = None;
    for ((_, name), times) in SIDES.iter().zip(rounds) {
        let [_, ns, _] = quartiles(times.clone());
        // Within a round, so that the other work of the machine is in both.
        let more = before.map_or_else(String::new, |before| {
            let more = times.iter().zip(before).map(|(ns, before)| ns - before);
            let [low, middle, high] = quartiles(more.collect());
            format!("{middle:>+8.1} {:>16}", format!("{low:+.1} to {high:+.1}"))
        });
        println!("{name:<40} {ns:>8.1} {more}");
        before = Some(times);
    }
    Ok(())
}

/// A quarter of them are below the first, half below the second, three quarters below the third.
fn quartiles(mut of: Vec<f64>) -> [f64; 3] {
    of.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| of.get(of.len() * quarter / 4).copied().unwrap_or_default())
}

/// The nanoseconds of a decision.
async fn turn(side: Side, ips: &[String]) -> Result<f64, Error> {
    let policies =
        Policies::parse(POLICIES, Format::Toml).map_err(|problems| format!("{problems}"))?;
    let store = AnyStore::Memory(MemoryStore::new());
    let metrics = Metrics::new();
    let gate = match side {
        Side::Bare => Gate::new(policies, store)?,
        _ => metrics.gate(policies, store)?,
    };
    let server = match side {
        Side::Bare | Side::Counted => None,
        Side::Recorded | Side::Written => {
            let mut options = Options::new(vec!["127.0.0.1:0".parse()?]);
            options.metrics = metrics;
            if let Side::Written = side {
                let nobody = tollgate_redis::Options::tcp("127.0.0.1", 1);
                options.timeseries = Some(TimeSeriesOptions::new(nobody, Duration::ZERO)?);
            }
            Some(Server::start(gate.clone(), options).await?)
        }
    };
    let (began, mut calls) = (Instant::now(), 0_u32);
    while began.elapsed() < TURN {
        for ip in ips.iter().cycle().take(CALLS as usize) {
            let _ = black_box(gate.check(&[("ip", ip.as_str())]).await);
        }
        calls += CALLS;
    }
    let ns = began.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
    if let Some(server) = server {
        server.end().await;
    }
    Ok(ns)
}
