//! `redis`: the cost of a check for a Redis, and the client beside a bare one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::runtime::{Builder, Runtime};
use tollgate::{StoreError, Strategy};
use tollgate_queue::{Job, Layout, MAX_BOUND, ProducerSettings, RedisQueues};
use tollgate_redis::Options;
use tollgate_stores::{Kind, scheme};
use tollgate_testbed::RedisServer;

use crate::args::BenchRedis;
use crate::redis_server;
use crate::show;

mod bench;
mod client;
mod server;

use bench::{Bench, Figures, Offers, Plan, Row};
use client::Clients;

pub(crate) use client::connect_bare;
pub(crate) use server::{Answers, PATIENCE, Questions, Server, failed};

/// The minimum share of the bare client's throughput that the store has to reach.
const CLIENT_AT_LEAST: f64 = 0.9;

/// The maximum number of bytes of an event.
const BYTES_AT_MOST: f64 = 16.0;

/// How many queues take turns: as many as subjects do.
const QUEUES: usize = 1_000;

/// So many times the checks of a run are asked by the client: it is faster, being many.
const CLIENT_CHECKS: usize = 5;

/// The correction for the choice of a server.
const STORES: &str = "leave `--store` out to start a server for this, or name one, e.g. \
                      `redis://127.0.0.1:6379`";

/// The number that a shell adds to that of a signal.
const KILLED: usize = 128;

#[derive(Debug, Serialize)]
struct RedisJson {
    server: String,
    checks: u32,
    runs: u32,
    depth: u32,
    rows: Vec<RowJson>,
    costs: Vec<CostJson>,
    bytes_per_event: f64,
    bytes_per_event_at_most: f64,
    events: usize,
    clients: Vec<ClientJson>,
}

#[derive(Debug, Serialize)]
struct RowJson {
    what: String,
    us: f64,
    beside: String,
    beside_us: f64,
    ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CostJson {
    what: String,
    admitted_us: f64,
    denied_us: f64,
}

/// The store beside a bare client, in one kind of runtime.
#[derive(Debug, Serialize)]
struct ClientJson {
    runtime: &'static str,
    tasks: u32,
    per_second: f64,
    bare_per_second: f64,
    ratio: f64,
    at_least: f64,
    client_us: f64,
    bare_client_us: f64,
}

pub(crate) fn redis(args: &BenchRedis) -> Result<u8> {
    show::warn_of_debug();
    let stop = Stop::listen()?;
    match args.store.as_deref().map(|url| (Kind::from_url(url), scheme(url))) {
        None | Some((Ok(Kind::Redis), _)) => {}
        // The scheme alone: the rest may hold a password.
        Some((_, Some(scheme))) => {
            bail!("`{}://` is not a Redis: {STORES}", scheme.escape_debug())
        }
        Some((_, None)) => bail!("the store has no scheme: {STORES}"),
    }
    let started = if args.store.is_none() { Some(redis_server::start(&[])?) } else { None };
    let own = started.as_ref().map(RedisServer::url);
    let url = args.store.clone().or(own).unwrap_or_default();
    match measure(args, &url, &stop) {
        Ok(json) if args.json => show::json(&json)?,
        Ok(json) => show::text(&text(&json))?,
        // Everything of ours has been removed.
        Err(_) if stop.signal().is_some() => {
            let code = stop.signal().map_or(KILLED, |signal| KILLED + signal);
            return Ok(u8::try_from(code)?);
        }
        Err(error) => return Err(error),
    }
    Ok(0)
}

/// The signal that came.
struct Stop {
    asked: Arc<AtomicUsize>,
}

impl Stop {
    fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicUsize::new(0));
        let twice = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal)?;
            // Asked again, it ends immediately; its keys expire by themselves.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&twice))?;
            signal_hook::flag::register(signal, Arc::clone(&twice))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&asked), number)?;
        }
        Ok(Self { asked })
    }

    fn signal(&self) -> Option<usize> {
        Some(self.asked.load(Ordering::Relaxed)).filter(|signal| *signal > 0)
    }
}

fn measure(args: &BenchRedis, url: &str, stop: &Stop) -> Result<RedisJson> {
    let progress = ProgressBar::new_spinner().with_style(show::bar("{spinner} {elapsed} {msg}"));
    let mut step = |what: &str| {
        progress.set_message(what.to_owned());
        progress.tick();
        stop.signal().is_none()
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let mut bench = Bench::open(url, &format!("bench-{}-{since}", std::process::id()))?;
    let plan = Plan {
        checks: args.checks as usize,
        runs: args.runs as usize,
        depth: args.depth as usize,
        entries: args.entries as usize,
    };
    let offers = offers(url)?;
    let figures = bench.server(&plan, &offers, &mut step)?;
    let clients = [("one thread", Builder::new_current_thread()), ("two threads", two_threads())]
        .into_iter()
        .map(|(name, mut builder)| {
            let runtime = builder.enable_all().build().context("no runtime can be started")?;
            client(args, name, &runtime, &mut bench, &mut step)
        })
        .collect::<Result<Vec<_>>>()?;
    progress.finish_and_clear();
    Ok(RedisJson::new(args, figures, clients))
}

/// Offers to queues, as streams and as lists, that are accepted and that are refused.
fn offers(url: &str) -> Result<Vec<Offers>> {
    let job = Job::new().field("to", "ann@example.com");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("no runtime can be started")?;
    let mut all = Vec::new();
    for (form, name) in [(Layout::Stream, "stream"), (Layout::List, "list")] {
        let options = Options::from_url(url)?.deadline(PATIENCE);
        let queues = runtime.block_on(RedisQueues::connect_with(options, form))?;
        for (bound, what, accepted) in [(MAX_BOUND, "offer", true), (1, "refused", false)] {
            let offering = ProducerSettings::new(bound);
            let (mut keys, mut rest) = (Vec::new(), (String::new(), Vec::new()));
            for queue in 0..QUEUES {
                let queue = format!("{name}-{what}-{queue:04}");
                let (script, words) =
                    queues.offer_command(&queue, &offering, std::slice::from_ref(&job));
                let words: Vec<String> =
                    words.into_iter().map(String::from_utf8).collect::<Result<_, _>>()?;
                // EVALSHA, the script's name, how many keys, the keys, and the arguments.
                let [_, _, number, words @ ..] = &words[..] else { bail!("no offer: {words:?}") };
                let (its, args) = words.split_at(number.parse::<usize>()?.min(words.len()));
                keys.push(its.to_vec());
                rest = (script, args.to_vec());
            }
            let ((script, args), name) = (rest, format!("queue as a {name}, {what}"));
            let beside = Strategy::SlidingLog;
            all.push(Offers { name, accepted, beside, script, keys, args });
        }
    }
    Ok(all)
}

fn two_threads() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    builder
}

/// One run of a client: checks per second, and the cost of one for this process, in microseconds.
struct Run {
    per_second: f64,
    client_us: f64,
}

fn client(
    args: &BenchRedis,
    runtime_name: &'static str,
    runtime: &Runtime,
    bench: &mut Bench,
    step: &mut dyn FnMut(&str) -> bool,
) -> Result<ClientJson> {
    let checks = args.checks as usize * CLIENT_CHECKS;
    let tasks = args.tasks as usize;
    let clients = runtime.block_on(bench.clients())?;
    let run = |ours: bool, clients: &Clients| -> Result<Run> {
        let (from, cpu_from) = (Instant::now(), process_us());
        runtime.block_on(async {
            if ours { clients.ours(tasks, checks).await } else { clients.bare(tasks, checks).await }
        })?;
        Ok(Run {
            per_second: checks as f64 / from.elapsed().as_secs_f64(),
            client_us: (process_us() - cpu_from) / checks as f64,
        })
    };
    let mut runs = [Vec::new(), Vec::new()];
    // The first of each loads the script and fills the queues, and does not count.
    for turn in 0..=args.runs {
        // Which goes first changes each time.
        for ours in [turn % 2 == 0, turn % 2 != 0] {
            if !step(if ours { "the store" } else { "a bare client" }) {
                return Err(StoreError::permanent("interrupted").into());
            }
            let run = run(ours, &clients)?;
            if turn > 0 {
                runs[usize::from(ours)].push(run);
            }
        }
    }
    let median = |runs: &[Run], of: fn(&Run) -> f64| {
        let mut figures: Vec<f64> = runs.iter().map(of).collect();
        figures.sort_unstable_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let [bare, ours] = &runs;
    let per_second = median(ours, |run| run.per_second);
    let bare_per_second = median(bare, |run| run.per_second);
    Ok(ClientJson {
        runtime: runtime_name,
        tasks: args.tasks,
        per_second,
        bare_per_second,
        ratio: per_second / bare_per_second,
        at_least: CLIENT_AT_LEAST,
        client_us: median(ours, |run| run.client_us),
        bare_client_us: median(bare, |run| run.client_us),
    })
}

/// The processor time that this process has used, in microseconds.
fn process_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

impl RedisJson {
    fn new(args: &BenchRedis, figures: Figures, clients: Vec<ClientJson>) -> Self {
        let (bytes_per_event, events) = figures.bytes_per_event;
        let row = |row: Row| RowJson {
            ratio: row.ratio(),
            what: row.what,
            us: row.us,
            beside: row.beside,
            beside_us: row.beside_us,
            at_most: row.at_most,
        };
        let costs = figures.costs.into_iter().map(|cost| CostJson {
            what: cost.what,
            admitted_us: cost.admitted_us,
            denied_us: cost.denied_us,
        });
        Self {
            server: figures.server,
            checks: args.checks,
            runs: args.runs,
            depth: args.depth,
            rows: figures.rows.into_iter().map(row).collect(),
            costs: costs.collect(),
            bytes_per_event,
            bytes_per_event_at_most: BYTES_AT_MOST,
            events,
            clients,
        }
    }
}

/// A bar, and whether it holds.
fn bar(words: &str, bar: f64, holds: bool) -> String {
    format!("{words} {bar}{}", if holds { "" } else { ": missed" })
}

fn text(json: &RedisJson) -> String {
    let mut rows = show::table(["check", "us", "beside", "us", "ratio", "bar"]);
    for row in &json.rows {
        rows.add_row([
            row.what.clone(),
            format!("{:.2}", row.us),
            row.beside.clone(),
            format!("{:.2}", row.beside_us),
            format!("{:.2}", row.ratio),
            row.at_most.map_or_else(String::new, |most| bar("<=", most, row.ratio <= most)),
        ]);
    }
    let mut costs = show::table(["check", "admitted us", "denied us"]);
    for cost in &json.costs {
        let us = |us: f64| format!("{us:.2}");
        costs.add_row([cost.what.clone(), us(cost.admitted_us), us(cost.denied_us)]);
    }
    let header = ["runtime", "store /s", "bare /s", "ratio", "bar", "store us", "bare us"];
    let mut clients = show::table(header);
    for row in &json.clients {
        clients.add_row([
            row.runtime.to_owned(),
            format!("{:.0}", row.per_second),
            format!("{:.0}", row.bare_per_second),
            format!("{:.2}", row.ratio),
            bar(">=", row.at_least, row.ratio >= row.at_least),
            format!("{:.2}", row.client_us),
            format!("{:.2}", row.bare_client_us),
        ]);
    }
    let RedisJson { server, checks, runs, depth, bytes_per_event, events, .. } = json;
    let most = json.bytes_per_event_at_most;
    let bytes = bar("<=", most, *bytes_per_event <= most);
    let tasks = json.clients.first().map_or(0, |row| row.tasks);
    format!(
        "{server}. us: microseconds of the server's processor for one check, {depth} sent at a \
         time;\n{checks} checks a run, medians of {runs} runs in turns.\n{rows}\n\
         bytes per event of a sliding_log of {events}: {bytes_per_event:.2} ({bytes})\n\n\
         What each costs the server:\n{costs}\n\
         Published, as times between two TIME commands on their authors' machines, not measured \
         here:\ntwo sorted sets 786 us admitted and 191 us denied; a stream 51 us, a sorted set \
         65 us.\n\n\
         {tasks} tasks on one connection; us: of this process for one check.\n{clients}\n"
    )
}
