//! The processor time and the calls that servers report, read during a measurement. Each reading
//! opens separate connections. So it does not delay the measured calls, and works whatever
//! happened to their connections.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::{Pipeline, Value, cmd};
use tollgate::StoreError;

use crate::client::open_each;
use crate::fault::Fault;
use crate::node::CommandConnection;
use crate::options::Options;

/// The timeout for connecting and for each answer; no production call waits for them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of attempts to read the server's time; the quickest answer counts.
const ATTEMPTS: usize = 5;

/// The commands that call scripts.
const CALLS: [&str; 6] = ["evalsha", "evalsha_ro", "eval", "eval_ro", "fcall", "fcall_ro"];

/// Commands that touch no data; none of our scripts calls them.
const NON_DATA_COMMANDS: [&str; 20] = [
    "info", "ping", "hello", "auth", "select", "client", "script", "scan", "unlink", "command",
    "config", "readonly", "replconf", "psync", "publish", "cluster", "slowlog", "latency",
    "memory", "acl",
];

/// Sums since the server's start, over all its clients. A difference covers only one's own calls if
/// no other client is active.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Processor time in microseconds: of the thread that runs commands, where the server reports
    /// it separately (since 7.0).
    pub cpu_us: u64,
    /// The calls of scripts.
    pub calls: u64,
    /// The commands run by scripts, and other data commands.
    pub commands: u64,
    /// Changes at each start of a server, and with the servers.
    run_id: String,
}

impl Usage {
    /// The usage so far: of the server, of the primary that sentinels name, or of all primaries of
    /// a cluster together.
    ///
    /// # Errors
    /// A server cannot be reached, refuses the login or `INFO`, or does not report usage.
    pub async fn read(options: &Options) -> Result<Self, StoreError> {
        let connections = open(options).await?;
        let mut all = try_join_all(connections.iter().map(Self::of)).await?;
        // Of a cluster the servers come in any order.
        all.sort_by(|one, other| one.run_id.cmp(&other.run_id));
        Ok(all.into_iter().fold(Self::default(), |sum, one| Self {
            cpu_us: sum.cpu_us.saturating_add(one.cpu_us),
            calls: sum.calls.saturating_add(one.calls),
            commands: sum.commands.saturating_add(one.commands),
            run_id: sum.run_id + &one.run_id,
        }))
    }

    /// The usage of one server.
    async fn of(connection: &CommandConnection) -> Result<Self, StoreError> {
        let mut questions = Pipeline::new();
        for section in ["server", "cpu", "commandstats"] {
            questions.cmd("INFO").arg(section);
        }
        let answers = connection.exchange_all(&questions, TIMEOUT).await;
        let mut answers = answers.map_err(Fault::before_the_script)?.into_iter().map(text);
        let mut next = || answers.next().unwrap_or_else(|| Err(missing("anything to INFO")));
        let (server, cpu, stats) = (next()?, next()?, next()?);
        let cpu_s = cpu_s(&cpu).ok_or_else(|| missing("the processor time it used: INFO cpu"))?;
        let (calls, commands) = counts(&stats);
        let run_id = server.lines().find_map(|line| line.strip_prefix("run_id:"));
        let run_id = run_id.unwrap_or_default().trim().to_owned();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
        Ok(Self { cpu_us: (cpu_s * 1e6) as u64, calls, commands, run_id })
    }

    /// The usage since `before`; `None` if a server was restarted or replaced, or its statistics
    /// were reset.
    #[must_use]
    pub fn since(self, before: &Self) -> Option<Self> {
        if self.run_id != before.run_id {
            return None;
        }
        Some(Self {
            cpu_us: self.cpu_us.checked_sub(before.cpu_us)?,
            calls: self.calls.checked_sub(before.calls)?,
            commands: self.commands.checked_sub(before.commands)?,
            run_id: self.run_id,
        })
    }
}

/// The keys that begin with a prefix, and what the servers use for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Memory {
    /// The number of keys.
    pub keys: usize,
    /// Their bytes, as `MEMORY USAGE` estimates them.
    pub bytes: usize,
}

impl Memory {
    /// Scans all keys of the server, of the primary that sentinels name, or of all primaries of a
    /// cluster.
    ///
    /// # Errors
    /// A server cannot be reached, or refuses the login, `SCAN` or `MEMORY`.
    pub async fn read(options: &Options, prefix: &str) -> Result<Self, StoreError> {
        let connections = open(options).await?;
        let all = try_join_all(connections.iter().map(|it| Self::of(it, prefix))).await?;
        Ok(all.into_iter().fold(Self::default(), |sum, one| Self {
            keys: sum.keys + one.keys,
            bytes: sum.bytes + one.bytes,
        }))
    }

    /// The keys of one server.
    async fn of(connection: &CommandConnection, prefix: &str) -> Result<Self, StoreError> {
        let mut memory = Self::default();
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{prefix}:*")).arg("COUNT").arg(10_000);
            let found =
                connection.exchange(&scan, TIMEOUT).await.map_err(Fault::before_the_script)?;
            let (next, keys): (String, Vec<Vec<u8>>) =
                redis::from_redis_value(found).map_err(|_| missing("keys to SCAN"))?;
            let mut questions = Pipeline::new();
            for key in &keys {
                questions.cmd("MEMORY").arg("USAGE").arg(key);
            }
            if !keys.is_empty() {
                let sizes = connection.exchange_all(&questions, TIMEOUT).await;
                for size in sizes.map_err(Fault::before_the_script)? {
                    // A key that has expired meanwhile has no size.
                    let size: Option<usize> = redis::from_redis_value(size)
                        .map_err(|_| missing("the size of a key: MEMORY USAGE"))?;
                    memory.keys += usize::from(size.is_some());
                    memory.bytes += size.unwrap_or(0);
                }
            }
            if next == "0" {
                return Ok(memory);
            }
            cursor = next;
        }
    }
}

/// A server's clock at one moment of the local clock, in microseconds since the Unix epoch. It is
/// exact to half of the round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ServerTime {
    /// The server's time.
    pub us: u64,
    /// The local moment.
    pub at: Instant,
    /// The round trip.
    pub took: Duration,
}

impl ServerTime {
    /// Asks several times, and takes the quickest answer. Of a cluster it is that of one node.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the login, or does not report its time.
    pub async fn read(options: &Options) -> Result<Self, StoreError> {
        let connections = open(options).await?;
        let connection = connections.first().ok_or_else(|| missing("its time"))?;
        let mut best: Option<Self> = None;
        for _ in 0..ATTEMPTS {
            let asked = Instant::now();
            let answer = connection.exchange(&cmd("TIME"), TIMEOUT).await;
            let took = asked.elapsed();
            let answer = answer.map_err(Fault::before_the_script)?;
            let time: Option<(u64, u64)> = redis::from_redis_value(answer).ok();
            let (seconds, micros) = time.ok_or_else(|| missing("its time"))?;
            let us = seconds.saturating_mul(1_000_000).saturating_add(micros);
            let this = Self { us, at: asked + took / 2, took };
            best = Some(best.filter(|best| best.took <= took).unwrap_or(this));
        }
        best.ok_or_else(|| missing("its time"))
    }
}

async fn open(options: &Options) -> Result<Vec<CommandConnection>, StoreError> {
    Ok(open_each(options.clone().connect_timeout(TIMEOUT)).await?)
}

fn text(answer: Value) -> Result<String, StoreError> {
    match answer {
        Value::ServerError(error) => Err(StoreError::permanent(format!(
            "the server refuses INFO: {}",
            error.details().unwrap_or_else(|| error.code())
        ))),
        answer => redis::from_redis_value(answer).map_err(|_| missing("anything to INFO")),
    }
}

fn missing(what: &str) -> StoreError {
    StoreError::permanent(format!("the server does not say {what}"))
}

/// The seconds of processor time in the text of `INFO cpu`: of the thread that runs commands, where
/// reported separately. `None` if the text does not contain it.
#[must_use]
pub fn cpu_s(info: &str) -> Option<f64> {
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse::<f64>().ok()
    };
    let both = |system, user| Some(of(system)? + of(user)?);
    both("used_cpu_sys_main_thread", "used_cpu_user_main_thread")
        .or_else(|| both("used_cpu_sys", "used_cpu_user"))
}

/// The calls of scripts, and other commands, in `INFO commandstats`.
fn counts(info: &str) -> (u64, u64) {
    let (mut calls, mut commands) = (0, 0);
    for line in info.lines() {
        let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|it| it.split_once(':'))
        else {
            continue;
        };
        let count = rest.strip_prefix("calls=").and_then(|it| it.split(',').next()?.parse().ok());
        let Some(count): Option<u64> = count else { continue };
        // Subcommands are counted separately: `script|load`.
        let command = name.split('|').next().unwrap_or(name);
        if CALLS.contains(&command) {
            calls += count;
        } else if !NON_DATA_COMMANDS.contains(&command) {
            commands += count;
        }
    }
    (calls, commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_runs_commands_is_told_apart_where_it_can_be() {
        let six =
            "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9.0\r\n";
        assert_eq!(cpu_s(six), Some(3.75));
        let seven = "used_cpu_sys_main_thread:0.25\r\nused_cpu_user_main_thread:0.5\r\n";
        assert_eq!(cpu_s(&format!("{six}{seven}")), Some(0.75));
        assert_eq!(cpu_s("used_cpu_sys:x\r\nused_cpu_user:1\r\n"), None);
    }

    #[test]
    fn what_was_used_by_another_start_is_not_known() {
        let usage =
            |run_id: &str, calls| Usage { run_id: run_id.to_owned(), calls, ..Usage::default() };
        assert_eq!(usage("a", 5).since(&usage("a", 2)).map(|it| it.calls), Some(3));
        assert_eq!(usage("b", 5).since(&usage("a", 2)), None, "started again");
        assert_eq!(usage("a", 1).since(&usage("a", 2)), None, "CONFIG RESETSTAT");
    }

    #[test]
    fn calls_and_what_they_ran_are_counted_apart() {
        let info = "# Commandstats\r\n\
            cmdstat_evalsha:calls=10,usec=99,usec_per_call=9.90,rejected_calls=0\r\n\
            cmdstat_get:calls=7,usec=1,usec_per_call=0.1\r\n\
            cmdstat_time:calls=10,usec=1\r\n\
            cmdstat_fcall:calls=2,usec=1\r\n\
            cmdstat_script|load:calls=3,usec=1\r\n\
            cmdstat_info:calls=5,usec=1\r\ncmdstat_odd\r\ncmdstat_set:calls=x\r\n";
        assert_eq!(counts(info), (12, 17));
    }
}
