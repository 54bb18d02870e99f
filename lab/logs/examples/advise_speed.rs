//! How long an advice takes beside a replay of one limit under every strategy, each with its own
//! reading of the log: `advise_speed LOG [ROUNDS]`. The sides take turns; the memory is the
//! process's peak.

use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_logs::Reading;
use tollgate_logs::advise::{Options, Progress, Step, Target, advise};
use tollgate_logs::replay::{Plan, StrategyChoice, replay};

/// The limit of the replay.
const LIMIT: &str = "100/1m";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, rest @ ..] = args.as_slice() else {
        return Err("name a log: advise_speed LOG [ROUNDS]".into());
    };
    let path = Path::new(path);
    let rounds: usize = rest.first().map_or("3", String::as_str).parse()?;
    let targets = [
        ("--deny-clients 0.1%", Target::Clients("0.1%".parse()?)),
        ("--deny-requests 1%", Target::Requests("1%".parse()?)),
    ];
    let plan = Plan::new(&[LIMIT], StrategyChoice::All)?;
    let mut replays = Vec::new();
    let mut advices = vec![Vec::new(); targets.len()];
    for _ in 0..rounds {
        let start = Instant::now();
        let traffic = Reading::default().read(path, |_| ())?;
        replay(&traffic, &plan, |_| ())?;
        replays.push(start.elapsed());
        drop(traffic);
        println!("replay of {LIMIT}, every strategy: {}", seconds(start.elapsed()));
        for ((name, target), took) in targets.iter().zip(&mut advices) {
            let start = Instant::now();
            let traffic = Reading::default().with_descriptions().read(path, |_| ())?;
            let mut options = Options::default();
            options.target = *target;
            let (mut simulated, mut events) = (0_u64, 0_u64);
            let mut last: Option<Progress> = None;
            let advice = advise(&traffic, &options, &mut |progress| {
                let is_new =
                    last.is_none_or(|it| it.step != progress.step || progress.events <= it.events);
                if matches!(progress.step, Step::Replay(_)) {
                    simulated += u64::from(is_new);
                    let before = last.filter(|_| !is_new).map_or(0, |it| it.events);
                    events += progress.events - before;
                }
                last = Some(progress);
                Ok(())
            })?;
            took.push(start.elapsed());
            println!(
                "advise {name}: {}, {simulated} limits replayed over {events} events: {}",
                seconds(start.elapsed()),
                advice.recommended.limit
            );
        }
    }
    let base = median(&mut replays);
    for ((name, _), took) in targets.iter().zip(&mut advices) {
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
