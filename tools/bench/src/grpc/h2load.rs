//! h2load, which sends calls over HTTP/2.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use prost::Message as _;
use tollgate_envoy::proto::SERVICE;
use tollgate_envoy::proto::service::RateLimitRequest;

use crate::service::Run;

/// The calls of h2load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) connections: u32,
    /// How many calls of a connection are in flight.
    pub(super) at_once: u32,
    pub(super) seconds: u32,
}

#[derive(Clone, Copy)]
pub(super) struct H2load<'d> {
    dir: &'d Path,
}

impl<'d> H2load<'d> {
    /// A loader that sends one request again and again. `dir` is for its files.
    pub(super) fn new(dir: &'d Path, request: &RateLimitRequest) -> Result<Self> {
        let found = Command::new("h2load").arg("--version").output();
        found.context("h2load sends the calls: install it (apt-get install nghttp2-client)")?;
        let message = request.encode_to_vec();
        // It is not compressed, and this long.
        let mut body = vec![0];
        body.extend(u32::try_from(message.len())?.to_be_bytes());
        body.extend(message);
        std::fs::write(dir.join("body"), body)?;
        Ok(Self { dir })
    }

    /// How many calls the service at `address` answers a second, and how many it answered. The
    /// waits are unknown: a log of them takes the loader as long as the calls.
    pub(super) fn rate(&self, address: &str, calls: Calls) -> Result<(Run, f64)> {
        let said = self.send(address, calls, &[])?;
        rate(&said).with_context(|| format!("cannot read the output of h2load: {said}"))
    }

    /// The same run with the waits of calls, which are sent after those that were counted.
    pub(super) fn waits(&self, address: &str, calls: Calls, run: Run) -> Result<Run> {
        let log = self.dir.join("log");
        // It adds to the existing files.
        let _ = std::fs::remove_file(&log);
        let calls = Calls { seconds: 1, ..calls };
        self.send(address, calls, &[format!("--log-file={}", log.display())])?;
        with_waits(run, &std::fs::read_to_string(&log)?)
    }

    fn send(&self, address: &str, calls: Calls, more: &[String]) -> Result<String> {
        let Calls { connections, at_once, seconds } = calls;
        let output = Command::new("h2load")
            .args(["-t1", &format!("-c{connections}"), &format!("-m{at_once}")])
            .arg(format!("-D{seconds}"))
            .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
            .arg(self.dir.join("body"))
            .args(more)
            .arg(format!("http://{address}/{SERVICE}/ShouldRateLimit"))
            .output()
            .context("h2load cannot be started")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The figures of the lines `finished in 2.00s, 48211.50 req/s, 5.01MB/s` and `requests: 96423
/// total, 96473 started, 96423 done, 96423 succeeded, 0 failed, 0 errored, 0 timeout`.
fn rate(said: &str) -> Option<(Run, f64)> {
    let part = |line: &str, end: &str| {
        let line = said.lines().find_map(|said| said.strip_prefix(line))?;
        line.split(", ").find_map(|part| part.strip_suffix(end))
    };
    let per_second = part("finished in ", " req/s")?.parse().ok()?;
    let [done, succeeded] = [part("requests: ", " done")?, part("requests: ", " succeeded")?];
    let errors = done.parse::<u64>().ok()?.checked_sub(succeeded.parse().ok()?)?;
    let run = Run { per_second, p50_ms: f64::NAN, p99_ms: f64::NAN, errors, cpu_us: None };
    Some((run, done.parse().ok()?))
}

/// Adds the waits of a log: in each line when a call began, its status of HTTP and the microseconds
/// that it took.
fn with_waits(run: Run, log: &str) -> Result<Run> {
    let mut errors = run.errors;
    let mut waits = Vec::new();
    for line in log.lines() {
        let mut cells = line.split_whitespace().skip(1);
        let (Some(status), Some(Ok(wait))) = (cells.next(), cells.next().map(str::parse::<u32>))
        else {
            bail!("h2load logs something else: {line}");
        };
        errors += u64::from(status != "200");
        waits.push(wait);
    }
    waits.sort_unstable();
    let at = |percent: usize| waits.get(waits.len() * percent / 100).copied();
    let (Some(p50), Some(p99)) = (at(50), at(99)) else { bail!("h2load was not answered") };
    let [p50_ms, p99_ms] = [p50, p99].map(|wait| f64::from(wait) / 1e3);
    Ok(Run { p50_ms, p99_ms, errors, ..run })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_lines() {
        let said = "progress: 100% done\n\nfinished in 2.00s, 48211.50 req/s, 5.01MB/s\n\
                    requests: 96423 total, 96473 started, 96423 done, 96421 succeeded, 2 failed, \
                    2 errored, 0 timeout\n";
        let (run, answers) = rate(said).unwrap();
        assert_eq!((run.per_second, run.errors, answers), (48_211.5, 2, 96_423.0));
        assert!(rate("finished in 2.00s").is_none());
        let log = "1\t200\t30\n2\t200\t10\n3\t503\t2000\n";
        let run = with_waits(run, log).unwrap();
        assert_eq!((run.p50_ms, run.p99_ms, run.errors), (0.03, 2.0, 3));
        for log in ["", "1\t200", "1\t200\t-1"] {
            assert!(with_waits(run, log).is_err(), "{log}");
        }
    }
}
