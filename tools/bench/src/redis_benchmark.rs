//! redis-benchmark, which sends commands of the Redis protocol.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::service::Run;

/// The commands of redis-benchmark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commands<'c> {
    pub(crate) connections: u32,
    /// How many commands of a connection are in flight.
    pub(crate) pipeline: u32,
    /// How many commands in all.
    pub(crate) calls: f64,
    /// How many numbers take turns in place of `__rand_int__`.
    pub(crate) subjects: u32,
    pub(crate) words: &'c [&'c str],
}

/// Sends the commands to a server.
///
/// # Errors
/// redis-benchmark is not installed, or says something else than its figures.
pub(crate) fn send(host: &str, port: u16, commands: Commands<'_>) -> Result<Run> {
    let Commands { connections, pipeline, calls, subjects, words } = commands;
    let output = Command::new("redis-benchmark")
        .args(["-h", host, "-p", &port.to_string()])
        .args(["-c", &connections.to_string(), "-P", &pipeline.to_string()])
        .args(["-n", &format!("{calls:.0}"), "-r", &subjects.to_string(), "--csv"])
        .args(words)
        .output()
        .context("redis-benchmark sends the commands: install it with redis-server")?;
    let said = String::from_utf8_lossy(&output.stdout);
    figures(&said).with_context(|| format!("cannot read the output of redis-benchmark: {said}"))
}

/// The figures in the last line: `"test","rps","avg_latency_ms","min_latency_ms",
/// "p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"`. A name may have commas.
fn figures(said: &str) -> Result<Run> {
    let line = said.lines().last().unwrap_or_default();
    let cells = line.rsplit(',').map(|cell| cell.trim_matches('"').parse().unwrap_or(f64::NAN));
    match cells.take(7).collect::<Vec<f64>>()[..] {
        [_, p99_ms, _, p50_ms, _, _, per_second] if per_second.is_finite() => {
            Ok(Run { per_second, p50_ms, p99_ms, errors: 0, cpu_us: None })
        }
        _ => bail!("there are no figures"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_figures() {
        let said = "\"test\",\"rps\"\n\"CL.THROTTLE a,b\",\"518134.72\",\"1.469\",\"0.456\",\
                    \"1.447\",\"1.887\",\"2.311\",\"3.007\"\n";
        let run = figures(said).unwrap();
        assert_eq!([run.per_second, run.p50_ms, run.p99_ms], [518_134.72, 1.447, 2.311]);
        for said in ["", "Could not connect", "a,b,c,d,e,f,g,h"] {
            assert!(figures(said).is_err(), "{said}");
        }
    }
}
