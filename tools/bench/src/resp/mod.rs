//! `resp`: the Redis protocol of the service beside Redis, redis-cell and throttlecrab.

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use tollgate_testbed::RedisServer;

use crate::args::{BenchServer, BenchTurns};
use crate::processor::with_cpu;
use crate::redis_benchmark::{self, Commands};
use crate::redis_server;
use crate::service::{
    Bar, CONNECTIONS, Door, PEER as CRAB, Program, RowJson, Run, Side, Tollgate, Turns,
};
use crate::show::{self, note};

/// The module of redis-cell.
const CELL: &str = "TOLLGATE_PEER_REDIS_CELL";

/// Commands a second that a side is thought to answer, until it has answered some.
const FIRST_RATE: f64 = 80_000.0;

/// 1,000 at once for each subject, and 1,000 a second, so that nearly all is admitted.
const THROTTLE: [&str; 5] = ["CL.THROTTLE", "key:__rand_int__", "999", "1000", "1"];
const CRABS: [&str; 5] = ["THROTTLE", "key:__rand_int__", "1000", "1000", "1"];
const SET: [&str; 3] = ["SET", "key:__rand_int__", "1"];

/// How many commands are pipelined, and the ratio that the service has to reach there to each peer.
struct Pipelined {
    commands: u32,
    over_cell: Option<f64>,
    over_set: Option<f64>,
    over_crab: Option<f64>,
}

const PIPELINED: [Pipelined; 2] = [
    Pipelined { commands: 16, over_cell: Some(2.5), over_set: Some(1.0), over_crab: None },
    Pipelined { commands: 1, over_cell: Some(0.97), over_set: None, over_crab: Some(0.97) },
];

#[derive(Debug, Serialize)]
struct RespJson {
    subjects: u32,
    connections: u32,
    seconds: u32,
    runs: u32,
    groups: Vec<GroupJson>,
}

/// Sides that were measured in turns.
#[derive(Debug, Serialize)]
struct GroupJson {
    pipeline: u32,
    threads: u32,
    rows: Vec<RowJson>,
}

pub(crate) fn resp(args: &BenchServer) -> Result<u8> {
    show::warn_of_debug();
    show::figures(args.turns.json, &measure(args)?, text)?;
    Ok(0)
}

/// A server that is measured.
struct Measured {
    what: &'static str,
    address: String,
    process: u32,
    words: &'static [&'static str],
}

impl Measured {
    fn redis(what: &'static str, server: &RedisServer, words: &'static [&'static str]) -> Self {
        Self { what, address: server.address().to_string(), process: server.pid(), words }
    }

    /// As many commands as take the time of a run.
    fn load(&self, pipeline: u32, args: &BenchServer, before: Option<&Run>) -> Result<Run> {
        let (host, port) = self.address.rsplit_once(':').context("an address has a port")?;
        let rate = before.map_or(FIRST_RATE, |run| run.per_second);
        let calls =
            (f64::from(args.turns.seconds) * rate).max(f64::from(CONNECTIONS * pipeline)).round();
        let commands = Commands {
            connections: CONNECTIONS,
            pipeline,
            calls,
            subjects: args.subjects,
            words: self.words,
        };
        let port = port.parse()?;
        with_cpu(self.process, || Ok((redis_benchmark::send(host, port, commands)?, calls)))
    }
}

fn measure(args: &BenchServer) -> Result<RespJson> {
    let tollgate = Tollgate::find(args.turns.program.as_deref())?;
    let turns = Turns::new(args.turns.runs);
    let plain = redis_server::start(&[])?;
    let cell = match std::env::var(CELL) {
        Ok(module) => {
            let server = redis_server::start(&["--loadmodule", &module]);
            Some(server.with_context(|| format!("redis-cell ({CELL}={module})"))?)
        }
        Err(_) => {
            note(&format!("SKIPPED: {CELL} names no module of redis-cell"));
            None
        }
    };
    let crab = Program::peer("redis")?;
    if crab.is_none() {
        note(&format!("SKIPPED: {CRAB} names no throttlecrab-server"));
    }
    let mut groups = Vec::new();
    for threads in [1, 2] {
        let (ours, address) =
            tollgate.serve_also(Door::Redis, &["--threads", &threads.to_string()])?;
        for Pipelined { commands, over_cell, over_set, over_crab } in PIPELINED {
            let ours = Measured {
                what: "tollgate",
                address: address.clone(),
                process: ours.id(),
                words: &THROTTLE,
            };
            let mut measured = vec![(ours, None)];
            measured.push((Measured::redis("Redis, SET", &plain, &SET), over_set));
            if let Some(cell) = &cell {
                let cell = Measured::redis("redis-cell", cell, &THROTTLE);
                measured.push((cell, over_cell));
            }
            if let Some(crab) = &crab {
                let crab = Measured {
                    what: "throttlecrab",
                    address: crab.address.clone(),
                    process: crab.id(),
                    words: &CRABS,
                };
                measured.push((crab, over_crab));
            }
            let bars = measured.iter().skip(1).map(|(_, bar)| bar.map(Bar::AtLeast));
            let bars: Vec<Option<Bar>> = bars.collect();
            let side = |(measured, _): (Measured, Option<f64>)| Side {
                what: measured.what.to_owned(),
                load: Box::new(move |before| measured.load(commands, args, before)),
                runs: Vec::new(),
            };
            let sides = measured.into_iter().map(side).collect();
            let rows = turns.take_first_over_others(sides, &bars)?;
            groups.push(GroupJson { pipeline: commands, threads, rows });
        }
    }
    turns.end();
    if groups.is_empty() {
        bail!("nothing was measured");
    }
    let BenchServer { subjects, turns: BenchTurns { seconds, runs, .. } } = *args;
    Ok(RespJson { subjects, connections: CONNECTIONS, seconds, runs, groups })
}

fn text(json: &RespJson) -> String {
    let mut rows = show::table(RowJson::header(["-P", "threads"]));
    for GroupJson { pipeline, threads, rows: group } in &json.groups {
        for row in group {
            rows.add_row(row.cells([pipeline.to_string(), threads.to_string()]));
        }
    }
    let RespJson { subjects, connections, seconds, runs, .. } = json;
    format!(
        "{rows}\n\n{connections} connections, {subjects} subjects, 1000/s; medians of {runs} runs \
         of {seconds} s, in turns; threads: of tollgate; CPU: of the server for a command; ratio: \
         of tollgate over the row in the same turn, and the middle half of those\n"
    )
}
