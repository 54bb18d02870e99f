//! How fast limits are replayed, and in how much memory: `replay_speed LOG STRATEGY LIMIT...`.
//! STRATEGY is `all`, a strategy, or `as-written`; each LIMIT is a separate replay, over one
//! reading of the log. Reading and decisions are timed apart; the memory is the process's peak.

use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_logs::Reading;
use tollgate_logs::replay::{Plan, StrategyChoice, replay};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, strategy, limits @ ..] = args.as_slice() else {
        return Err("name a log and limits: replay_speed LOG STRATEGY LIMIT...".into());
    };
    let choice = match strategy.as_str() {
        "as-written" => StrategyChoice::AsWritten,
        other => other.parse()?,
    };
    let plans =
        limits.iter().map(|limit| Plan::new(&[limit], choice)).collect::<Result<Vec<_>, _>>()?;

    let start = Instant::now();
    let traffic = Reading::default().read(Path::new(path), |_| ())?;
    let (summary, elapsed) = (&traffic.summary, start.elapsed());
    println!(
        "read and ordered: {} lines, {} clients, {} runs on disk, {} lines/s ({}); peak {}",
        summary.lines,
        summary.clients,
        traffic.ordered.runs(),
        per_second(summary.lines, elapsed),
        seconds(elapsed),
        peak_memory()
    );
    for plan in &plans {
        let start = Instant::now();
        let report = replay(&traffic, plan, |_| ())?;
        println!("replay of {} events, {}:", report.events, seconds(start.elapsed()));
        for case in &report.cases {
            println!(
                "  {:>9} decisions/s ({})  admitted {}, denied {}, peak {}, clients denied {}: {}",
                case.decisions_per_second(),
                seconds(case.elapsed),
                case.admitted,
                case.denied,
                case.peak_in_window(),
                case.clients_denied,
                case.limit
            );
        }
        for refused in &report.refused {
            println!("  {}: {}", refused.strategy, refused.why.what());
        }
        println!("  peak memory so far {}", peak_memory());
    }
    Ok(())
}

fn per_second(count: u64, elapsed: Duration) -> u128 {
    u128::from(count) * 1_000_000 / elapsed.as_micros().max(1)
}

fn seconds(elapsed: Duration) -> String {
    format!("{}.{:03} s", elapsed.as_secs(), elapsed.subsec_millis())
}

/// The most memory that this process ever had resident, as Linux tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "not known on this system".to_owned(), |peak| peak.trim().to_owned())
}
