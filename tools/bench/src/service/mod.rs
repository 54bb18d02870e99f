//! `server`: the service beside a peer, beside bare scripts, and behind nginx.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tollgate_testbed::RedisServer;

use crate::args::{BenchService, Comparison};
use crate::redis_server;
use crate::show::{self, note};

mod bench;
mod consoles;
mod loaders;
mod nginx;
mod program;
mod turns;

use bench::Bench;
pub(crate) use loaders::{CONNECTIONS, Wrk};
use loaders::{LIMIT, bare_script, check_script, throttle_script};
use nginx::behind_nginx;
pub(crate) use program::{Door, PEER, Program, Tollgate};
pub(crate) use turns::{Bar, RowJson, Run, Side, Turns};

/// The service over the peer, at least.
const OVER_PEER: Bar = Bar::AtLeast(1.0);

/// The service over a loader of bare scripts, at least.
const OVER_SCRIPT: Bar = Bar::AtLeast(0.8);

/// Calls a second that redis-benchmark is thought to make, until it has made some.
const FIRST_RATE: f64 = 40_000.0;

#[derive(Debug, Serialize)]
struct ServerJson {
    subjects: u32,
    connections: u32,
    seconds: u32,
    runs: u32,
    peer: Option<String>,
    rows: Vec<RowJson>,
}

pub(crate) fn server(args: &BenchService) -> Result<u8> {
    show::warn_of_debug();
    show::figures(args.server.turns.json, &measure(args)?, text)?;
    Ok(0)
}

fn measure(BenchService { only, server: args }: &BenchService) -> Result<ServerJson> {
    let tollgate = Tollgate::find(args.turns.program.as_deref())?;
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let wrk = Wrk::find(CONNECTIONS, args.turns.seconds)?;
    let turns = Turns::new(args.turns.runs);
    let script = dir.path().join("check.lua");
    std::fs::write(&script, check_script(args.subjects))?;
    let bench = Bench { tollgate: &tollgate, turns: &turns, wrk: &wrk, script: &script, args };
    let is_wanted = |comparison| only.is_none_or(|only| only == comparison);
    let mut rows = Vec::new();
    if is_wanted(Comparison::Peer) {
        rows.extend(bench.beside_peer(dir.path())?);
    }
    if is_wanted(Comparison::Consoles) {
        rows.extend(consoles::with_consoles(&bench)?);
    }
    if is_wanted(Comparison::Redis) {
        match redis_server::start(&[]) {
            Ok(redis) => rows.extend(bench.on_redis(&redis)?),
            Err(error) => note(&format!("SKIPPED: Redis: {error:#}")),
        }
    }
    if is_wanted(Comparison::Nginx) {
        match behind_nginx(&tollgate, &turns, &wrk, dir.path()) {
            Ok(more) => rows.extend(more),
            Err(error) => note(&format!("SKIPPED: nginx: {error:#}")),
        }
    }
    turns.end();
    Ok(ServerJson {
        subjects: args.subjects,
        connections: CONNECTIONS,
        seconds: args.turns.seconds,
        runs: args.turns.runs,
        peer: std::env::var(PEER).ok(),
        rows,
    })
}

impl Bench<'_> {
    /// The service and a peer, both in memory.
    fn beside_peer(&self, dir: &Path) -> Result<Vec<RowJson>> {
        let Self { wrk, script, .. } = self;
        let ours = self.tollgate.serve(&[])?;
        let peer_script = dir.join("throttle.lua");
        std::fs::write(&peer_script, throttle_script(self.args.subjects))?;
        let mut sides = vec![wrk.side("tollgate, memory", &ours.url("/v1/check"), Some(script))];
        let peer = Program::peer("http")?;
        if let Some(peer) = &peer {
            let url = peer.url("/throttle");
            sides.push(wrk.side("throttlecrab-server, memory", &url, Some(&peer_script)));
        } else {
            note(&format!(
                "SKIPPED: {PEER} names no throttlecrab-server (cargo install throttlecrab-server \
                 --version 0.4.40), so there is nothing to compare with"
            ));
        }
        self.turns.take(sides, Some(OVER_PEER))
    }

    /// The service and a bare script, both on one Redis.
    fn on_redis(&self, redis: &RedisServer) -> Result<Vec<RowJson>> {
        let ours = self.tollgate.serve(&["--store", &redis.url()])?;
        let url = ours.url("/v1/check");
        // Each run has the keys that expire to itself: removing those of another takes 4 to 19 ms
        // at a time, ten times a second, in which nobody is answered.
        let sides = vec![
            Side {
                what: "tollgate, Redis".to_owned(),
                load: Box::new(|_: Option<&Run>| {
                    redis_server::empty(redis)?;
                    self.wrk.load(&url, Some(self.script))
                }),
                runs: Vec::new(),
            },
            Side {
                what: "redis-benchmark, the bare script".to_owned(),
                load: Box::new(|before: Option<&Run>| {
                    redis_server::empty(redis)?;
                    let rate = before.map_or(FIRST_RATE, |run| run.per_second);
                    bare_script(redis, self.args, rate)
                }),
                runs: Vec::new(),
            },
        ];
        self.turns.take(sides, Some(OVER_SCRIPT))
    }
}

fn text(json: &ServerJson) -> String {
    let mut rows = show::table([
        "",
        "per second",
        "p50 ms",
        "p99 ms",
        "CPU us",
        "ratio",
        "middle half",
        "bar",
    ]);
    for row in &json.rows {
        let [ratio, half, bar] = row.beside_cells();
        rows.add_row([
            row.what.clone(),
            format!("{:.0}", row.per_second),
            format!("{:.3}", row.p50_ms),
            format!("{:.3}", row.p99_ms),
            row.cpu_us.map_or_else(String::new, |cpu_us| format!("{cpu_us:.2}")),
            ratio,
            half,
            bar,
        ]);
    }
    let mut text = format!("{rows}\n");
    let _ = writeln!(
        text,
        "\n{} connections, {} subjects, {LIMIT}; medians of {} runs of {} s, in turns; \
         ratio: over the next row in the same turn",
        json.connections, json.subjects, json.runs, json.seconds
    );
    for (said, of) in [
        ("did not count: others had the processors", |row: &RowJson| row.taken_again),
        ("count though others had the processors", |row: &RowJson| row.disturbed),
    ] as [(&str, fn(&RowJson) -> u32); 2]
    {
        let rows = json.rows.iter().filter(|row| of(row) > 0);
        let rows: Vec<String> = rows.map(|row| format!("{} of {}", of(row), row.what)).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "runs that {said}: {}", rows.join("; "));
        }
    }
    text
}
