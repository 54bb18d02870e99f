//! What a server has used of its processor and been asked for, read beside the questions that are
//! measured: over a connection of its own, so that it takes no turn of theirs.

use core::fmt;

use redis::{Value, cmd};
use tollgate::StoreError;

use crate::client::Line;
use crate::fault::Fault;
use crate::options::Options;

/// The commands that call scripts.
const CALLS: [&str; 6] = ["evalsha", "evalsha_ro", "eval", "eval_ro", "fcall", "fcall_ro"];

/// What clients ask beside their questions: no part of a decision.
const ASIDE: [&str; 12] = [
    "info", "ping", "hello", "auth", "select", "client", "script", "scan", "unlink", "command",
    "config", "readonly",
];

/// Reads what a server says of itself. The server counts for all who ask it: figures are of one's
/// own questions where nobody else asks.
pub struct Meter {
    options: Options,
    line: Line,
}

/// Sums since the server was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Time of the processor, in microseconds: of the thread that runs commands, where the server
    /// tells it apart (from 7.0 on).
    pub cpu_us: u64,
    /// Calls of scripts.
    pub calls: u64,
    /// Commands that scripts ran, and data commands of others.
    pub commands: u64,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.options).finish()
    }
}

impl Meter {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses user, password or database.
    pub async fn connect(options: Options) -> Result<Self, StoreError> {
        let line = Line::open(options.clone()).await?;
        Ok(Self { options, line })
    }

    /// What was used so far.
    ///
    /// # Errors
    /// No answer in time, or one that does not say it.
    pub async fn read(&self) -> Result<Usage, StoreError> {
        let [cpu, stats] = [self.info("cpu").await?, self.info("commandstats").await?];
        let cpu_s = cpu_s(&cpu).ok_or_else(|| silent("the processor time it used: INFO cpu"))?;
        let (calls, commands) = counts(&stats);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
        Ok(Usage { cpu_us: (cpu_s * 1e6) as u64, calls, commands })
    }

    /// The time of the server's clock, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Meter::read`].
    pub async fn now_us(&self) -> Result<u64, StoreError> {
        let answer = self.line.exchange(&cmd("TIME"), self.options.deadline).await;
        let answer = answer.map_err(Fault::before_the_script)?;
        let time: Option<(u64, u64)> = redis::from_redis_value(answer).ok();
        let (seconds, micros) = time.ok_or_else(|| silent("its time"))?;
        Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }

    async fn info(&self, section: &str) -> Result<String, StoreError> {
        let mut command = cmd("INFO");
        command.arg(section);
        let answer = self.line.exchange(&command, self.options.deadline).await;
        match answer.map_err(Fault::before_the_script)? {
            Value::ServerError(error) => Err(StoreError::permanent(format!(
                "the server refuses INFO {section}: {}",
                error.details().unwrap_or_else(|| error.code())
            ))),
            answer => redis::from_redis_value(answer)
                .map_err(|_| silent(&format!("anything to INFO {section}"))),
        }
    }
}

fn silent(what: &str) -> StoreError {
    StoreError::permanent(format!("the server does not say {what}"))
}

/// The seconds of the processor in `INFO cpu`.
pub(crate) fn cpu_s(info: &str) -> Option<f64> {
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
        } else if !ASIDE.contains(&command) {
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
