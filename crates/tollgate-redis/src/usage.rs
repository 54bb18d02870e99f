//! What a server has used of its processor and been asked for, read beside the questions that are
//! measured: over a connection of its own, made each time, so that it takes no turn of theirs and
//! is there after whatever happened meanwhile.

use std::time::{Duration, Instant};

use redis::{Pipeline, Value, cmd};
use tollgate::StoreError;

use crate::client::CommandConnection;
use crate::fault::Fault;
use crate::options::Options;

/// How long connecting and each answer may take: nobody waits at a door.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a server is asked for its time; the quickest answer counts.
const ATTEMPTS: usize = 5;

/// The commands that call scripts.
const CALLS: [&str; 6] = ["evalsha", "evalsha_ro", "eval", "eval_ro", "fcall", "fcall_ro"];

/// What is no data: no script of ours asks for it.
const NON_DATA_COMMANDS: [&str; 20] = [
    "info", "ping", "hello", "auth", "select", "client", "script", "scan", "unlink", "command",
    "config", "readonly", "replconf", "psync", "publish", "cluster", "slowlog", "latency",
    "memory", "acl",
];

/// Sums since the server was started, for all who ask it: differences are of one's own questions
/// where nobody else asks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Time of the processor, in microseconds: of the thread that runs commands, where the server
    /// tells it apart (from 7.0 on).
    pub cpu_us: u64,
    /// Calls of scripts.
    pub calls: u64,
    /// Commands that scripts ran, and data commands of others.
    pub commands: u64,
    /// Another after each start.
    run_id: String,
}

impl Usage {
    /// What the server used so far.
    ///
    /// # Errors
    /// It cannot be reached, refuses us or `INFO`, or does not say it.
    pub async fn read(options: &Options) -> Result<Self, StoreError> {
        let connection = open(options).await?;
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

    /// What was used since `before`; none where the server was started again, or its statistics
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

/// The time of a server's clock, in microseconds since the Unix epoch, as it was at a moment here:
/// exact to half of the time that the question took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ServerTime {
    /// The time there.
    pub us: u64,
    /// The moment here.
    pub at: Instant,
    /// How long the question took.
    pub took: Duration,
}

impl ServerTime {
    /// Asks a few times, and takes the answer that was the quickest.
    ///
    /// # Errors
    /// The server cannot be reached, refuses us, or does not say its time.
    pub async fn read(options: &Options) -> Result<Self, StoreError> {
        let connection = open(options).await?;
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

async fn open(options: &Options) -> Result<CommandConnection, StoreError> {
    Ok(CommandConnection::open(options.clone().connect_timeout(TIMEOUT)).await?)
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

/// The seconds of the processor in the text of `INFO cpu`: of the thread that runs commands, where
/// the server tells it apart. None where the text does not say it.
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

/// Calls of scripts, and other commands, in `INFO commandstats`.
fn counts(info: &str) -> (u64, u64) {
    let (mut calls, mut commands) = (0, 0);
    for line in info.lines() {
        let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|it| it.split_once(':'))
        else {
            continue;
        };
        let count = rest.strip_prefix("calls=").and_then(|it| it.split(',').next()?.parse().ok());
        let Some(count): Option<u64> = count else { continue };
        // Subcommands are counted by themselves: `script|load`.
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
