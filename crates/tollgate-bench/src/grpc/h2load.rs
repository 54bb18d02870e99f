//! h2load, which sends calls over HTTP/2.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use prost::Message as _;
use tollgate_envoy_proto::SERVICE;
use tollgate_envoy_proto::service::RateLimitRequest;

use crate::service::Run;

/// What h2load sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) connections: u32,
    /// How many calls of a connection are on their way at once.
    pub(super) at_once: u32,
    pub(super) seconds: u32,
}

pub(super) struct H2load<'d> {
    dir: &'d Path,
}

impl<'d> H2load<'d> {
    /// A loader that sends one request again and again. `dir` is for files of its own.
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

    /// Loads the service at `address`; with how many calls it answered.
    pub(super) fn load(&self, address: &str, calls: Calls) -> Result<(Run, f64)> {
        let Calls { connections, at_once, seconds } = calls;
        let log = self.dir.join("log");
        // It adds to what is there.
        let _ = std::fs::remove_file(&log);
        let output = Command::new("h2load")
            .args(["-t1", &format!("-c{connections}"), &format!("-m{at_once}")])
            .arg(format!("-D{seconds}"))
            .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
            .arg(self.dir.join("body"))
            .arg(format!("--log-file={}", log.display()))
            .arg(format!("http://{address}/{SERVICE}/ShouldRateLimit"))
            .output()
            .context("h2load cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = rate(&said).with_context(|| format!("h2load says something else: {said}"))?;
        figures(rate, &std::fs::read_to_string(&log)?)
    }
}

/// The figure in `finished in 2.00s, 48211.50 req/s, 5.01MB/s`.
fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("finished in "))?;
    line.split(", ").find_map(|part| part.strip_suffix(" req/s"))?.parse().ok()
}

/// The figures of a log: in each line when a call began, its status of HTTP and the microseconds
/// that it took.
fn figures(per_second: f64, log: &str) -> Result<(Run, f64)> {
    let mut errors = 0;
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
    let answers = waits.len();
    let at = |percent: usize| waits.get(answers * percent / 100).copied();
    let (Some(p50), Some(p99)) = (at(50), at(99)) else { bail!("h2load was not answered") };
    let [p50_ms, p99_ms] = [p50, p99].map(|wait| f64::from(wait) / 1e3);
    Ok((Run { per_second, p50_ms, p99_ms, errors, cpu_us: None }, answers as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_lines() {
        let said = "progress: 100% done\n\nfinished in 2.00s, 48211.50 req/s, 5.01MB/s\n";
        assert_eq!(rate(said), Some(48_211.5));
        assert_eq!(rate("finished in 2.00s"), None);
        let log = "1\t200\t30\n2\t200\t10\n3\t503\t2000\n";
        let (run, answers) = figures(7.0, log).unwrap();
        assert_eq!((run.p50_ms, run.p99_ms, run.errors, answers), (0.03, 2.0, 1, 3.0));
        for log in ["", "1\t200", "1\t200\t-1"] {
            assert!(figures(7.0, log).is_err(), "{log}");
        }
    }
}
