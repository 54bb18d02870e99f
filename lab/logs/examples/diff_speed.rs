//! How long a diff takes beside a replay of one of its limits, each with its own reading of the
//! log: `diff_speed LOG [ROUNDS]`. The sides take turns. A diff decides its two sides on two
//! threads, so the time of the processors is measured too.

use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_logs::Reading;
use tollgate_logs::policy::{PolicyReading, diff, limits_as_policies};
use tollgate_logs::replay::{Plan, StrategyChoice, replay};

/// The limits of the diff; the replay is of the first.
const LIMITS: [&str; 2] = ["100/1m", "90/1m"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, rest @ ..] = args.as_slice() else {
        return Err("name a log: diff_speed LOG [ROUNDS]".into());
    };
    let path = Path::new(path);
    let rounds: usize = rest.first().map_or("7", String::as_str).parse()?;
    let plan = Plan::new(&LIMITS[..1], StrategyChoice::AsWritten)?;
    let [old, new] = LIMITS.map(|limits| limits_as_policies(limits, false));
    let (old, new) = (old?, new?);
    let (mut by_wall, mut by_processors) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let one = measure(|| {
            let traffic = Reading::default().read(path, |_| ())?;
            Ok(replay(&traffic, &plan, |_| ())?.events)
        })?;
        let two = measure(|| {
            let requests = PolicyReading::default().read(path, &[&old, &new], |_| ())?;
            Ok(diff(&requests, &old, &new, &mut |_| Ok(()), &mut |_| Ok(()))?.requests)
        })?;
        println!("replay {}, diff {}", in_words(one), in_words(two));
        by_wall.push(two.wall.as_secs_f64() / one.wall.as_secs_f64());
        by_processors.push(two.processors.as_secs_f64() / one.processors.as_secs_f64());
    }
    for (what, mut ratios) in [("time", by_wall), ("processor time", by_processors)] {
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
        println!(
            "{what} of the diff over that of the replay: {:.2}, middle half {:.2}-{:.2}, of \
             {rounds} rounds",
            at(2),
            at(1),
            at(3)
        );
    }
    Ok(())
}

/// The time and memory of one side.
#[derive(Clone, Copy)]
struct Took {
    events: u64,
    wall: Duration,
    processors: Duration,
}

fn measure(
    work: impl FnOnce() -> Result<u64, Box<dyn std::error::Error>>,
) -> Result<Took, Box<dyn std::error::Error>> {
    let (start, before) = (Instant::now(), processor_time()?);
    let events = work()?;
    let processors = processor_time()?.saturating_sub(before);
    Ok(Took { events, wall: start.elapsed(), processors })
}

/// The time that all threads of this process have had a processor, as Linux tells it.
fn processor_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before the parenthesis may have spaces. Ticks are of a hundredth of a second.
    let fields = stat.rsplit_once(')').ok_or("no process name in /proc/self/stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

fn in_words(Took { events, wall, processors }: Took) -> String {
    let (wall, processors) = (wall.as_secs_f64(), processors.as_secs_f64());
    format!("{wall:.2} s ({processors:.2} s of processors) for {events} requests")
}
