//! The programs that send the requests: wrk, and redis-benchmark for bare scripts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use tollgate::engine::Mode;
use tollgate::{LimitSet, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::{Check, Parts, ReplyFormat};
use tollgate_testbed::RedisServer;

use super::turns::{Run, Side};
use crate::args::BenchServer;
use crate::redis_benchmark::{self, Commands};

/// A limit which admits nearly everything, the same for every side: a burst of 1,000 units for each
/// subject, and 1,000 a second.
pub(super) const LIMIT: &str = "1000/s via gcra";

/// How many connections ask concurrently.
pub(crate) const CONNECTIONS: u32 = 50;

/// The loader of HTTP.
pub(crate) struct Wrk {
    connections: u32,
    seconds: u32,
}

impl Wrk {
    pub(crate) fn find(connections: u32, seconds: u32) -> Result<Self> {
        let found = Command::new("wrk").arg("-v").output();
        found.context("wrk sends the requests: install it (apt-get install wrk)")?;
        Ok(Self { connections, seconds })
    }

    pub(crate) fn side<'s>(&'s self, what: &str, url: &str, script: Option<&'s Path>) -> Side<'s> {
        let url = url.to_owned();
        let load = Box::new(move |_: Option<&Run>| self.load(&url, script));
        Side { what: what.to_owned(), load, runs: Vec::new() }
    }

    pub(super) fn load(&self, url: &str, script: Option<&Path>) -> Result<Run> {
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
            .args([
                "-t1",
                &format!("-c{}", self.connections),
                &format!("-d{}s", self.seconds),
                "-s",
            ])
            .arg(&script)
            .arg(url)
            .output()
            .context("wrk cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| {
            anyhow!("wrk reports nothing about {url}: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(serde_json::from_str(line)?)
    }
}

/// The end of wrk's output.
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

pub(super) fn check_script(subjects: u32) -> String {
    let body = format!(r#"{{"subject": "user:%d", "limit": "{LIMIT}"}}"#);
    requests("/v1/check", subjects, &body)
}

pub(super) fn throttle_script(subjects: u32) -> String {
    // The same limit in its words: the burst excludes the first.
    let body = r#"{"key": "user:%d", "max_burst": 1000, "count_per_period": 1000, "period": 1}"#;
    requests("/throttle", subjects, body)
}

/// The rate of redis-benchmark with the script that the service sends. It makes as many calls as
/// take the time of a run at this rate, so that as many keys expire meanwhile as in the others.
pub(super) fn bare_script(redis: &RedisServer, args: &BenchServer, rate: f64) -> Result<Run> {
    let limits: LimitSet = LIMIT.parse()?;
    let mut check = Check::new(Mode::Whole);
    check.reply = ReplyFormat::Verbose;
    let script = check
        .compose(&[&limits], &Parts::default())
        .ok_or_else(|| anyhow!("a strategy of {LIMIT} has no script"))?;
    // redis-benchmark puts twelve digits in place of this word, for each call others.
    let subject = Subject::new("user", "__rand_int__")?;
    let names = Keys::new();
    let keys = Keys::for_check(&names.state(&subject, &limits), &limits);
    let (host, port) = (redis.address().ip().to_string(), redis.port());
    let loaded = Command::new("redis-cli")
        .args(["-h", &host, "-p", &port.to_string()])
        .args(["script", "load", script.text()])
        .output()
        .context("redis-cli loads the script: install it with redis-server")?;
    if !loaded.status.success() {
        bail!("the script cannot be loaded: {}", String::from_utf8_lossy(&loaded.stdout));
    }
    let calls = f64::from(args.turns.seconds) * rate;
    let key_count = keys.len().to_string();
    let mut words = vec!["evalsha", script.sha(), &key_count];
    words.extend(keys.iter().map(String::as_str));
    words.extend(["1", "0"]);
    let commands = Commands {
        connections: CONNECTIONS,
        pipeline: 1,
        calls,
        subjects: args.subjects,
        words: &words,
    };
    redis_benchmark::send(&host, port, commands)
}
