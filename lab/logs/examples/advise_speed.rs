//! How long an advice takes beside a replay of one limit under every strategy, each with its own
//! reading of the log: `advise_speed LOG [ROUNDS]`. The sides take turns; the memory is the
//! process's peak.

use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_logs::advise::{MAX_CLIENTS, Options, Progress, Step, Target, advise, advise_each};
use tollgate_logs::replay::{Plan, StrategyChoice, replay};
use tollgate_logs::{By, Reading};

/// The limit of the replay.
const LIMIT: &str = "100/1m";

/// The limits that are advised.
enum Side {
    /// One limit that keeps to this share.
    One(Target),
    /// One with a window beside it.
    Two,
    /// A limit for each path.
    EachPath,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, rest @ ..] = args.as_slice() else {
        return Err("name a log: advise_speed LOG [ROUNDS]".into());
    };
    let path = Path::new(path);
    let rounds: usize = rest.first().map_or("3", String::as_str).parse()?;
    let sides = [
        ("--deny-clients 0.1%", Side::One(Target::Clients("0.1%".parse()?))),
        ("--deny-requests 1%", Side::One(Target::Requests("1%".parse()?))),
        ("--limits 2", Side::Two),
        ("--each path", Side::EachPath),
    ];
    let plan = Plan::new(&[LIMIT], StrategyChoice::All)?;
    let mut replays = Vec::new();
    let mut advices = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        let start = Instant::now();
        let traffic = Reading::default().read(path, |_| ())?;
        replay(&traffic, &plan, |_| ())?;
        replays.push(start.elapsed());
        drop(traffic);
        println!("replay of {LIMIT}, every strategy: {}", seconds(start.elapsed()));
        for ((name, side), took) in sides.iter().zip(&mut advices) {
            let start = Instant::now();
            let found = advised(path, side)?;
            took.push(start.elapsed());
            println!("advise {name}: {}, {found}", seconds(start.elapsed()));
        }
    }
    let base = median(&mut replays);
    for ((name, _), took) in sides.iter().zip(&mut advices) {
        let took = median(took);
        let hundredths = took.as_millis() * 100 / base.as_millis().max(1);
        println!(
            "median of {rounds}: advise {name} {} / replay {} = {}.{:02}",
            seconds(took),
            seconds(base),
            hundredths / 100,
            hundredths % 100
        );
    }
    println!("peak memory {}", peak_memory());
    Ok(())
}

/// Reads the log and advises: what was found, in words.
fn advised(path: &Path, side: &Side) -> Result<String, Box<dyn std::error::Error>> {
    let reading = Reading::default().with_descriptions();
    let reading = reading.with_max_clients(MAX_CLIENTS.try_into()?);
    let mut options = Options::default();
    match side {
        Side::One(target) => options.target = *target,
        Side::Two => options.wants_second = true,
        Side::EachPath => {
            let traffic = reading.with_each(Some(By::Path)).read(path, |_| ())?;
            let advice = advise_each(&traffic, (&options, &By::Path), &mut |_| Ok(()))?;
            return Ok(format!("{} limits", advice.values.len()));
        }
    }
    let traffic = reading.read(path, |_| ())?;
    let mut replayed = 0_u64;
    let mut last: Option<Progress> = None;
    let advice = advise(&traffic, &options, &mut |progress| {
        let is_new = last.is_none_or(|it| it.step != progress.step || progress.events <= it.events);
        replayed += u64::from(is_new && matches!(progress.step, Step::Replay(_)));
        last = Some(progress);
        Ok(())
    })?;
    Ok(format!("{}, {replayed} limits replayed", advice.recommended.limit))
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
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
