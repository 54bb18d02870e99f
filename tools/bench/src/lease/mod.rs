//! `lease`: how many questions leases and the deny cache spare a Redis.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use serde::Serialize;
use tollgate_testbed::RedisServer;

use crate::args::{BenchLease, LeaseNode};
use crate::processor::processor_us;
use crate::redis_server;
use crate::show;
use crate::sqlite::median;

mod node;

use node::Done;

/// How many processes ask.
const PROCESSES: u32 = 4;

/// How many tasks each has.
const TASKS: u32 = 64;

/// The limit of the hot key, and of each of many.
const LIMIT: &str = "100000/s via gcra";

/// At 40,000 checks a second, each of 1,000 subjects is asked about 40 times a second, and admitted
/// twice in the first and 1.5 times after that.
const FLOODED: &str = "3/2s burst 1 via gcra";
const FLOOD_RATE: u32 = 40_000;

/// One side: the work of each of the processes.
struct Side {
    name: &'static str,
    limits: String,
    subjects: u32,
    rate: u32,
    deny_cache: usize,
    in_memory: bool,
    processes: u32,
    tasks: u32,
    /// The side of the same load that this one is compared with.
    beside: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct LeaseJson {
    seconds: u32,
    runs: u32,
    processes: u32,
    tasks: u32,
    rows: Vec<RowJson>,
}

/// The medians of one side.
#[derive(Debug, Serialize)]
struct RowJson {
    side: &'static str,
    limits: String,
    decisions_per_second: f64,
    admitted_per_second: f64,
    decisions_per_question: f64,
    decisions_per_redis_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'static str>,
    /// Decisions a second, and decisions for each microsecond of Redis, over those of `beside`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redis_ratio: Option<f64>,
}

/// One run of a side.
#[derive(Clone, Copy, Debug)]
struct Run {
    done: Done,
    redis_us: f64,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.done.decisions as f64 / self.done.seconds
    }

    fn per_redis_us(&self) -> f64 {
        self.done.decisions as f64 / self.redis_us.max(1.0)
    }
}

fn sides() -> Vec<Side> {
    let side = |name, limits: String, beside| Side {
        name,
        limits,
        subjects: 1,
        rate: 0,
        deny_cache: 0,
        in_memory: false,
        processes: PROCESSES,
        tasks: TASKS,
        beside,
    };
    let many = |it: Side| Side { subjects: 100_000, ..it };
    let flood = |processes, deny_cache, it: Side| {
        let rate = FLOOD_RATE / processes;
        Side { subjects: 1_000, rate, processes, deny_cache, ..it }
    };
    let alone = |it: Side| Side { processes: 1, tasks: 1, ..it };
    vec![
        side("one hot key", LIMIT.to_owned(), None),
        side("one hot key, auto", format!("{LIMIT} lease auto 0.25%"), Some("one hot key")),
        side("one hot key, 500", format!("{LIMIT} lease 500 for 200ms"), Some("one hot key")),
        many(side("100,000 keys", LIMIT.to_owned(), None)),
        many(side("100,000 keys, auto", format!("{LIMIT} lease auto"), Some("100,000 keys"))),
        flood(1, 0, side("denied flood", FLOODED.to_owned(), None)),
        flood(1, 65_536, side("denied flood, cached", FLOODED.to_owned(), Some("denied flood"))),
        flood(4, 65_536, side("the same in four", FLOODED.to_owned(), Some("denied flood"))),
        Side {
            in_memory: true,
            ..alone(side("one task, memory", "1000000000/s via gcra".to_owned(), None))
        },
        alone(side(
            "one task, lease",
            "1000000000/s via gcra lease 1000000 for 1s".to_owned(),
            Some("one task, memory"),
        )),
        Side {
            deny_cache: 1_000,
            ..alone(side("one task, denials", "1/h via gcra".to_owned(), Some("one task, memory")))
        },
    ]
}

/// Asks as one process, and prints what was done.
pub(crate) fn ask(args: &LeaseNode) -> Result<u8> {
    show::json(&node::run(args)?)?;
    Ok(0)
}

pub(crate) fn lease(args: &BenchLease) -> Result<u8> {
    show::warn_of_debug();
    let only = args.only.as_deref().unwrap_or_default();
    let sides: Vec<Side> = sides().into_iter().filter(|side| side.name.contains(only)).collect();
    if sides.is_empty() {
        bail!("no row has `{only}` in its name: `keys`, `hot`, `flood` and `task` are in some");
    }
    let server = redis_server::start(&[])?;
    let progress = ProgressBar::new(u64::from(args.runs) * sides.len() as u64)
        .with_style(show::bar("{bar} {pos}/{len} {elapsed} {msg}"));
    let mut runs: Vec<Vec<Run>> = sides.iter().map(|_| Vec::new()).collect();
    for turn in 0..args.runs {
        let mut order: Vec<_> = sides.iter().zip(&mut runs).collect();
        // In both orders, so that none always follows the same other.
        if turn % 2 == 1 {
            order.reverse();
        }
        for (side, runs) in order {
            progress.set_message(side.name);
            runs.push(run(&server, side, args.seconds)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let rows = sides.iter().zip(&runs).map(|(side, own)| {
        let place = sides.iter().position(|other| Some(other.name) == side.beside);
        let beside = place.and_then(|place| runs.get(place));
        let ratio = |of: fn(&Run) -> f64| {
            beside.map(|beside| median_of(own.iter().zip(beside).map(|(a, b)| of(a) / of(b))))
        };
        RowJson {
            side: side.name,
            limits: side.limits.clone(),
            decisions_per_second: median_of(own.iter().map(Run::per_second)),
            admitted_per_second: median_of(
                own.iter().map(|run| run.done.allowed as f64 / run.done.seconds),
            ),
            decisions_per_question: median_of(
                own.iter().map(|run| run.done.decisions as f64 / run.done.asked.max(1) as f64),
            ),
            decisions_per_redis_us: median_of(own.iter().map(Run::per_redis_us)),
            beside: side.beside,
            ratio: ratio(Run::per_second),
            redis_ratio: ratio(Run::per_redis_us).filter(|_| !side.name.starts_with("one task")),
        }
    });
    let json = LeaseJson {
        seconds: args.seconds,
        runs: args.runs,
        processes: PROCESSES,
        tasks: TASKS,
        rows: rows.collect(),
    };
    show::figures(args.json, &json, text)?;
    Ok(0)
}

/// One run: all processes at the same time.
fn run(server: &RedisServer, side: &Side, seconds: u32) -> Result<Run> {
    redis_server::empty(server)?;
    let before_us = processor_us(server.pid())?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    let start = || {
        let mut command = Command::new(&program);
        command
            .arg("lease-node")
            .args(["--url", &server.url(), "--limits", &side.limits])
            .args(["--subjects", &side.subjects.to_string()])
            .args(["--tasks", &side.tasks.to_string(), "--rate", &side.rate.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .args(["--deny-cache", &side.deny_cache.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if side.in_memory {
            command.arg("--in-memory");
        }
        command.spawn().context("a process cannot be started")
    };
    let children = (0..side.processes).map(|_| start()).collect::<Result<Vec<_>>>()?;
    let mut all = Done::default();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("a process of `{}` ended with {}", side.name, output.status);
        }
        all = all.and(serde_json::from_slice(&output.stdout)?);
    }
    Ok(Run { done: all, redis_us: processor_us(server.pid())? - before_us })
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(values.collect())
}

fn text(json: &LeaseJson) -> String {
    let header =
        ["side", "decisions/s", "admitted/s", "a question", "a Redis us", "ratio", "of Redis"];
    let mut table = show::table(header);
    for row in &json.rows {
        let times = |ratio: Option<f64>| ratio.map_or_else(String::new, |it| format!("{it:.2}"));
        table.add_row([
            row.side.to_owned(),
            format!("{:.0}", row.decisions_per_second),
            format!("{:.0}", row.admitted_per_second),
            format!("{:.1}", row.decisions_per_question),
            format!("{:.2}", row.decisions_per_redis_us),
            times(row.ratio),
            times(row.redis_ratio),
        ]);
    }
    format!(
        "{table}\n{} processes of {} tasks, runs of {} s, medians of {} in turns. `ratio` is over the \
         side without a lease or a cache: decisions a second, and decisions for each microsecond of \
         Redis. The last three are one task in one process, beside the memory store.\n",
        json.processes, json.tasks, json.seconds, json.runs
    )
}
