//! `bench server`: the service beside a peer, beside bare scripts, and behind nginx.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use tollgate::engine::Mode;
use tollgate::{LimitSet, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::{Answer, Check, Parts};

use super::redis_server::Server;
use super::stolen::{Taken, undisturbed};
use crate::args::BenchServer;
use crate::show::{self, Output, note};

/// The peer: throttlecrab-server, a GCRA over HTTP.
const PEER: &str = "TOLLGATE_PEER_THROTTLECRAB";

/// The service over the peer, at least.
const PEER_AT_LEAST: f64 = 1.0;

/// The service over a loader of bare scripts, at least.
const SCRIPT_AT_LEAST: f64 = 0.8;

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A limit under which nearly all is admitted, for every side the same: 1,000 units at once for
/// each subject, and 1,000 a second.
const LIMIT: &str = "1000/s via gcra";

/// Calls a second that redis-benchmark is thought to make, until it has made some.
const FIRST_RATE: f64 = 40_000.0;

/// How many connections ask at once.
const CONNECTIONS: u32 = 50;

#[derive(Debug, Serialize)]
struct ServerJson {
    subjects: u32,
    connections: u32,
    seconds: u32,
    runs: u32,
    peer: Option<String>,
    rows: Vec<RowJson>,
}

/// One way to ask, with the medians of its runs.
#[derive(Debug, Serialize)]
struct RowJson {
    what: String,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Beside the next row.
    #[serde(flatten)]
    beside: Option<BesideJson>,
    /// Runs that did not count, since others had the processors.
    taken_again: u32,
    /// Runs that count though others had the processors.
    disturbed: u32,
}

/// One side over the other in each turn, since a processor that is shared can be half as fast a
/// second later.
#[derive(Debug, Serialize)]
struct BesideJson {
    /// The median of the turns.
    ratio: f64,
    /// A quarter of the turns are below.
    ratio_low: f64,
    /// A quarter of the turns are above.
    ratio_high: f64,
    at_least: f64,
}

/// What a loader says of one run.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Run {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    #[serde(default)]
    errors: u64,
}

/// Loads something once, knowing its run before.
type Load<'s> = Box<dyn Fn(Option<&Run>) -> Result<Run> + 's>;

/// Something that is measured.
struct Side<'s> {
    what: String,
    load: Load<'s>,
    runs: Vec<Taken<Run>>,
}

pub(crate) fn server(args: &BenchServer, out: &mut Output) -> Result<u8> {
    super::warn_of_debug();
    let json = measure(args)?;
    if args.json {
        out.json(&json)?;
    } else {
        out.text(&text(&json))?;
    }
    Ok(0)
}

fn measure(args: &BenchServer) -> Result<ServerJson> {
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let progress = ProgressBar::new_spinner().with_style(show::bar("{spinner} {elapsed} {msg}"));
    let wrk = Wrk::find(args)?;
    let turns = Turns { runs: args.runs, progress: &progress };
    let mut rows = Vec::new();

    // Against the peer, both in memory.
    let ours = Program::tollgate(&[])?;
    let (script, peer_script) = (dir.path().join("check.lua"), dir.path().join("throttle.lua"));
    std::fs::write(&script, check_script(args.subjects))?;
    std::fs::write(&peer_script, throttle_script(args.subjects))?;
    let mut sides = vec![wrk.side("tollgate, memory", &ours.url("/v1/check"), Some(&script))];
    let peer = Program::peer()?;
    if let Some(peer) = &peer {
        let url = peer.url("/throttle");
        sides.push(wrk.side("throttlecrab-server, memory", &url, Some(&peer_script)));
    } else {
        note(&format!(
            "SKIPPED: {PEER} names no throttlecrab-server (cargo install throttlecrab-server \
             --version 0.4.40), so there is nothing to compare with"
        ));
    }
    rows.extend(turns.take(sides, Some(PEER_AT_LEAST))?);
    drop((ours, peer));

    // On Redis, beside the bare script.
    match Server::start() {
        Ok(redis) => {
            let ours = Program::tollgate(&["--store", &redis.url()])?;
            let url = ours.url("/v1/check");
            // Each run has the keys that expire to itself: removing those of another takes 4 to
            // 19 ms at a time, ten times a second, in which nobody is answered.
            let sides = vec![
                Side {
                    what: "tollgate, Redis".to_owned(),
                    load: Box::new(|_: Option<&Run>| {
                        redis.empty()?;
                        wrk.load(&url, Some(&script))
                    }),
                    runs: Vec::new(),
                },
                Side {
                    what: "redis-benchmark, the bare script".to_owned(),
                    load: Box::new(|before: Option<&Run>| {
                        redis.empty()?;
                        bare_script(&redis, args, before.map_or(FIRST_RATE, |run| run.per_second))
                    }),
                    runs: Vec::new(),
                },
            ];
            rows.extend(turns.take(sides, Some(SCRIPT_AT_LEAST))?);
        }
        Err(error) => note(&format!("SKIPPED: Redis: {error:#}")),
    }

    // Behind nginx.
    match behind_nginx(&turns, &wrk, dir.path()) {
        Ok(more) => rows.extend(more),
        Err(error) => note(&format!("SKIPPED: nginx: {error:#}")),
    }
    progress.finish_and_clear();
    Ok(ServerJson {
        subjects: args.subjects,
        connections: CONNECTIONS,
        seconds: args.seconds,
        runs: args.runs,
        peer: std::env::var(PEER).ok(),
        rows,
    })
}

/// Runs of all sides, one after the other, in turns.
struct Turns<'t> {
    runs: u32,
    progress: &'t ProgressBar,
}

impl Turns<'_> {
    /// The medians of each side; with a bar, the first is compared with the second.
    fn take(&self, mut sides: Vec<Side<'_>>, at_least: Option<f64>) -> Result<Vec<RowJson>> {
        // How many of each may be taken again.
        let mut spare = vec![self.runs; sides.len()];
        for turn in 0..=self.runs {
            for (side, spare) in sides.iter_mut().zip(&mut spare) {
                self.progress.set_message(format!("{} ({turn} of {})", side.what, self.runs));
                let before = side.runs.last().map(|taken| &taken.run);
                let taken = undisturbed(spare, || {
                    self.progress.tick();
                    let run = (side.load)(before)?;
                    if run.errors > 0 {
                        bail!("{}: {} requests were not answered with 200", side.what, run.errors);
                    }
                    Ok(run)
                })?;
                // The first of each fills caches, and does not count.
                if turn == 1 {
                    side.runs.clear();
                }
                side.runs.push(taken);
            }
        }
        let mut rows: Vec<RowJson> = sides.iter().map(RowJson::of).collect();
        if let (Some(at_least), [row, ..], [first, second, ..]) =
            (at_least, &mut rows[..], &sides[..])
        {
            row.beside = Some(BesideJson::of(&first.runs, &second.runs, at_least));
        }
        Ok(rows)
    }
}

impl BesideJson {
    fn of(ours: &[Taken<Run>], others: &[Taken<Run>], at_least: f64) -> Self {
        let turns = ours.iter().zip(others);
        let ratios = turns.map(|(ours, other)| ours.run.per_second / other.run.per_second);
        let [ratio_low, ratio, ratio_high] = quartiles(ratios.collect());
        Self { ratio, ratio_low, ratio_high, at_least }
    }
}

/// The figures of which a quarter, a half and three quarters are less: each one of those given.
fn quartiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures.get(figures.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}

impl RowJson {
    fn of(side: &Side<'_>) -> Self {
        let median = |of: fn(&Run) -> f64| {
            let [_, median, _] = quartiles(side.runs.iter().map(|taken| of(&taken.run)).collect());
            median
        };
        Self {
            what: side.what.clone(),
            per_second: median(|run| run.per_second),
            p50_ms: median(|run| run.p50_ms),
            p99_ms: median(|run| run.p99_ms),
            beside: None,
            taken_again: side.runs.iter().map(|taken| taken.again).sum(),
            disturbed: side.runs.iter().map(|taken| u32::from(taken.disturbed)).sum(),
        }
    }
}

/// The loader of HTTP.
struct Wrk {
    seconds: u32,
}

impl Wrk {
    fn find(args: &BenchServer) -> Result<Self> {
        let found = Command::new("wrk").arg("-v").output();
        found.context("wrk sends the requests: install it (apt-get install wrk)")?;
        Ok(Self { seconds: args.seconds })
    }

    fn side<'s>(&'s self, what: &str, url: &str, script: Option<&'s Path>) -> Side<'s> {
        let url = url.to_owned();
        let load = Box::new(move |_: Option<&Run>| self.load(&url, script));
        Side { what: what.to_owned(), load, runs: Vec::new() }
    }

    fn load(&self, url: &str, script: Option<&Path>) -> Result<Run> {
        let dir = tempfile::tempdir()?;
        let script = match script {
            Some(script) => script.to_owned(),
            None => {
                let plain = dir.path().join("plain.lua");
                std::fs::write(&plain, DONE)?;
                plain
            }
        };
        let output = Command::new("wrk")
            .args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}s", self.seconds), "-s"])
            .arg(&script)
            .arg(url)
            .output()
            .context("wrk cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| {
            anyhow!("wrk says nothing of {url}: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(serde_json::from_str(line)?)
    }
}

/// What wrk prints at the end of a run.
const DONE: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"per_second": %f, "p50_ms": %f, "p99_ms": %f, "errors": %d}\n',
    summary.requests / (summary.duration / 1e6),
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.timeout + e.status))
end
"#;

/// Requests that are made before they are sent, so that the loader is not what is measured.
fn requests(path: &str, subjects: u32, body: &str) -> String {
    format!(
        r#"{DONE}
local made = {{}}
init = function(args)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  for i = 1, {subjects} do
    made[i] = wrk.format("POST", "{path}", nil, string.format('{body}', i))
  end
end
request = function()
  return made[math.random({subjects})]
end
"#
    )
}

fn check_script(subjects: u32) -> String {
    let body = format!(r#"{{"subject": "user:%d", "limit": "{LIMIT}"}}"#);
    requests("/v1/check", subjects, &body)
}

fn throttle_script(subjects: u32) -> String {
    // The same limit in its words: the burst is what is beyond the first.
    let body = r#"{"key": "user:%d", "max_burst": 1000, "count_per_period": 1000, "period": 1}"#;
    requests("/throttle", subjects, body)
}

/// A program that serves, ended with this.
struct Program {
    child: Child,
    address: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// This program as a service.
    fn tollgate(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "off"])
            .args(args)
            .env_remove("TOLLGATE_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("the service cannot be started")?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            let mut out = BufReader::new(out);
            out.read_line(&mut line)?;
            // What it prints later is read, so that it is never held up.
            std::thread::spawn(move || out.read_to_string(&mut String::new()));
        }
        let address = line.trim_end().strip_prefix("listening  http://").map(str::to_owned);
        let Some(address) = address else {
            let _ = child.kill();
            bail!("the service did not start: {line}");
        };
        Ok(Self { child, address })
    }

    /// The peer, when it is named.
    fn peer() -> Result<Option<Self>> {
        let Some(path) = std::env::var_os(PEER) else { return Ok(None) };
        let port = free_port()?;
        let (text, host) = (port.to_string(), Ipv4Addr::LOCALHOST.to_string());
        let args = ["--http", "--http-host", &host, "--http-port", &text, "--log-level", "error"];
        Self::start(path, &args, port).map(Some)
    }

    fn start(program: OsString, args: &[&str], port: u16) -> Result<Self> {
        let child = Command::new(&program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut started = Self { child, address: format!("127.0.0.1:{port}") };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&started.address).is_err() {
            if let Some(status) = started.child.try_wait()? {
                bail!("{} ended at once: {status}", program.display());
            }
            if Instant::now() > deadline {
                bail!("{} does not answer", program.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(started)
    }
}

/// A port that is free now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// What redis-benchmark reaches with the script that the service sends. It is told how many calls
/// to make: as many as take the time of a run at this rate, so that as many keys expire meanwhile
/// as in the others.
fn bare_script(redis: &Server, args: &BenchServer, rate: f64) -> Result<Run> {
    let limits: LimitSet = LIMIT.parse()?;
    let mut check = Check::new(Mode::Whole);
    check.answer = Answer::Verbose;
    let script = check
        .compose(&[&limits], &Parts::default())
        .ok_or_else(|| anyhow!("a strategy of {LIMIT} has no script"))?;
    // redis-benchmark puts twelve digits in place of this word, for each call others.
    let subject = Subject::of("user", "__rand_int__")?;
    let names = Keys::new();
    let keys = Keys::of_check(&names.state(&subject, &limits), &limits);
    let (host, port) = redis.host_and_port();
    let port = port.to_string();
    let at = ["-h", &host, "-p", &port];
    let loaded = Command::new("redis-cli")
        .args(at)
        .args(["script", "load", script.text()])
        .output()
        .context("redis-cli loads the script: install it with redis-server")?;
    if !loaded.status.success() {
        bail!("the script cannot be loaded: {}", String::from_utf8_lossy(&loaded.stdout));
    }
    let calls = f64::from(args.seconds) * rate;
    let output = Command::new("redis-benchmark")
        .args(at)
        .args(["-c", &CONNECTIONS.to_string(), "-n", &format!("{calls:.0}")])
        .args(["-r", &args.subjects.to_string(), "--csv", "evalsha", script.sha()])
        .arg(keys.len().to_string())
        .args(&keys)
        .args(["1", "0"])
        .output()
        .context("redis-benchmark sends the scripts: install it with redis-server")?;
    let said = String::from_utf8_lossy(&output.stdout);
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_...
    let figures = said.lines().last().map(|line| {
        let cells = line.rsplit(',').map(|cell| cell.trim_matches('"').parse().unwrap_or(f64::NAN));
        cells.take(7).collect::<Vec<f64>>()
    });
    match figures.as_deref() {
        Some([_, p99, _, p50, _, _, per_second]) if per_second.is_finite() => {
            Ok(Run { per_second: *per_second, p50_ms: *p50, p99_ms: *p99, errors: 0 })
        }
        _ => bail!("redis-benchmark says something else: {said}"),
    }
}

/// nginx with a page: alone, with its own limits, and with the service's.
fn behind_nginx(turns: &Turns<'_>, wrk: &Wrk, dir: &Path) -> Result<Vec<RowJson>> {
    let ours = Program::tollgate(&["--config", &policies(dir)?])?;
    let port = free_port()?;
    std::fs::write(dir.join("page"), "ok\n")?;
    let conf = dir.join("nginx.conf");
    std::fs::write(&conf, nginx_conf(dir, port, &ours.address))?;
    let conf = conf.display().to_string();
    let prefix = dir.display().to_string();
    let nginx = ["-p", &prefix, "-c", &conf, "-e", "stderr", "-g", "daemon off;"];
    let nginx = Program::start("nginx".into(), &nginx, port)?;
    let sides = [("alone", "/alone"), ("limit_req", "/own"), ("tollgate, /v1/auth", "/asked")];
    let sides = sides
        .into_iter()
        .map(|(what, path)| wrk.side(&format!("nginx, {what}"), &nginx.url(path), None))
        .collect();
    turns.take(sides, None)
}

/// A policy under which nothing is denied.
fn policies(dir: &Path) -> Result<String> {
    let path = dir.join("policies.toml");
    let text = "version = 1\n[[policies]]\nname = \"pages\"\non_failure = \"allow\"\n\
                limits = [{ subject = \"ip\", limit = \"1000000000/h via gcra\" }]\n";
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

fn nginx_conf(dir: &Path, port: u16, address: &str) -> String {
    let dir = dir.display();
    format!(
        "worker_processes 1;\nmaster_process off;\npid {dir}/nginx.pid;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {dir}/body;\n\
         proxy_temp_path {dir}/proxy;\n  fastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\n  scgi_temp_path {dir}/scgi;\n\
         limit_req_zone $binary_remote_addr zone=own:10m rate=1000000r/s;\n\
         upstream tollgate {{ server {address}; keepalive 64; }}\n\
         server {{\n    listen 127.0.0.1:{port};\n\
         root {dir};\n         location = /alone {{ try_files /page =404; }}\n\
         location = /own {{ limit_req zone=own burst=1000000 nodelay; try_files /page =404; }}\n\
         location = /asked {{ auth_request /_limits; try_files /page =404; }}\n\
         location = /_limits {{\n      internal;\n      proxy_pass http://tollgate/v1/auth;\n\
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n\
         proxy_pass_request_body off;\n      proxy_set_header Content-Length \"\";\n\
         proxy_set_header X-Original-URI $request_uri;\n\
         proxy_set_header X-Original-Method $request_method;\n\
         proxy_set_header X-Forwarded-For $remote_addr;\n    }}\n  }}\n}}\n"
    )
}

fn text(json: &ServerJson) -> String {
    let mut rows =
        show::table(["", "per second", "p50 ms", "p99 ms", "ratio", "middle half", "bar"]);
    for row in &json.rows {
        let [ratio, half, bar] = row.beside.as_ref().map_or_else(Default::default, |beside| {
            let missed = if beside.ratio < beside.at_least { ": missed" } else { "" };
            [
                format!("{:.2}", beside.ratio),
                format!("{:.2}-{:.2}", beside.ratio_low, beside.ratio_high),
                format!(">= {}{missed}", beside.at_least),
            ]
        });
        rows.add_row([
            row.what.clone(),
            format!("{:.0}", row.per_second),
            format!("{:.3}", row.p50_ms),
            format!("{:.3}", row.p99_ms),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_figures_that_were_seen() {
        assert_eq!(quartiles((0..15).rev().map(f64::from).collect()), [3.0, 7.0, 11.0]);
        assert_eq!(quartiles(vec![2.0]), [2.0; 3]);
        assert!(quartiles(Vec::new()).iter().all(|figure| figure.is_nan()));
    }

    #[test]
    fn sides_are_compared_turn_by_turn() {
        let runs = |speeds: [f64; 5]| {
            speeds.map(|per_second| {
                let run = Run { per_second, p50_ms: 1.0, p99_ms: 2.0, errors: 0 };
                Taken { run, again: 0, disturbed: false }
            })
        };
        // A machine that is half as fast for two turns. The medians, 90 and 110, say 0.82.
        let ours = runs([100.0, 50.0, 60.0, 90.0, 120.0]);
        let other = runs([110.0, 40.0, 60.0, 120.0, 120.0]);
        let beside = BesideJson::of(&ours, &other, 0.8);
        assert!((beside.ratio - 1.0).abs() < 1e-9, "{beside:?}");
        assert!((beside.ratio_low - 100.0 / 110.0).abs() < 1e-9, "{beside:?}");
        assert!((beside.ratio_high - 1.0).abs() < 1e-9, "{beside:?}");
    }
}
