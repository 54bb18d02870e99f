//! The driver of a program that answers JSON lines: in any language, with a clock that is set.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tollgate_proof::history::CallOutcome;
use tollgate_proof::judge::{Abilities, Ask, Disturbance, Driver, DriverError, Reply};

use super::clock::Clock;
use crate::input::shown;

/// How long a program may take for a line.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first line of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    /// The version of the lines.
    judge: u64,
    #[serde(default)]
    clock: bool,
    #[serde(default)]
    steps: bool,
    #[serde(default)]
    costs: bool,
    #[serde(default)]
    odd_costs: bool,
    #[serde(default)]
    requests: bool,
    #[serde(default)]
    peeks: bool,
    #[serde(default)]
    limits: bool,
    #[serde(default)]
    restart: bool,
    #[serde(default)]
    failover: bool,
}

#[derive(Debug, Serialize)]
struct AskLine<'a> {
    ask: u64,
    client: usize,
    subject: &'a str,
    cost: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    now_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    peek: bool,
}

/// A line of a program: the answer to a question, or the end of a disturbance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyLine {
    ask: Option<u64>,
    done: Option<String>,
    allowed: Option<bool>,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    /// The cost is above the limit, and never admitted.
    #[serde(default)]
    never: bool,
    /// The limiter's time of the decision, if it is not the one that was set.
    now_us: Option<u64>,
    /// It was refused, and nothing was charged.
    error: Option<String>,
    /// Nobody knows whether it was charged.
    #[serde(default)]
    unknown: bool,
}

impl ReplyLine {
    fn outcome(&self) -> Result<CallOutcome, &'static str> {
        let Self { remaining, retry_after_us, never, unknown, .. } = *self;
        match (self.allowed, &self.error) {
            _ if unknown => Ok(CallOutcome::Unknown),
            (_, Some(_)) => Ok(CallOutcome::NotCharged),
            (Some(true), None) => Ok(CallOutcome::Allowed { remaining }),
            (Some(false), None) if never => Ok(CallOutcome::Never),
            (Some(false), None) => Ok(CallOutcome::Denied { retry_after_us, remaining }),
            (None, None) => Err("it has none of `allowed`, `error`, `unknown`"),
        }
    }
}

/// A program.
pub(super) struct Program {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
    able: Abilities,
    clock: Clock,
}

impl Program {
    /// Starts it, and reads its first line.
    pub(super) fn start(words: &[String]) -> Result<Self> {
        let Some((name, rest)) = words.split_first() else { bail!("--command is empty") };
        let mut command = Command::new(name);
        command.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("`{name}` cannot be started"))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else { bail!("`{name}` has no pipes") };
        let (send, lines) = channel();
        // A line may never come: it is waited for beside the reader.
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let clock = Clock::new();
        let mut program = Self { child, input, lines, able: Abilities::default(), clock };
        let first = program.line().map_err(|error| anyhow!("`{name}`: {error}"))?;
        let hello: Hello = serde_json::from_str(&first).with_context(|| {
            format!(
                "`{name}`: its first line is `{}`, where it states its abilities, as in \
                 {{\"judge\":1,\"clock\":true,\"costs\":true}}",
                shown(&first)
            )
        })?;
        if hello.judge != 1 {
            bail!("`{name}`: it writes lines of version {}; this judge reads 1", hello.judge);
        }
        program.able = Abilities {
            clock: hello.clock,
            steps: hello.steps,
            costs: hello.costs,
            odd_costs: hello.odd_costs,
            requests: hello.requests,
            peeks: hello.peeks,
            limits: hello.limits,
            restart: hello.restart,
            failover: hello.failover,
            lose: false,
        };
        Ok(program)
    }

    fn line(&mut self) -> Result<String, DriverError> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(error)) => Err(DriverError::new(format!("its output cannot be read: {error}"))),
            Err(RecvTimeoutError::Timeout) => {
                let waited = PATIENCE.as_secs();
                Err(DriverError::new(format!("the program wrote no line for {waited} s")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().map(|status| status.to_string());
                let status = status.unwrap_or_else(|error| error.to_string());
                Err(DriverError::new(format!("the program ended ({status})")))
            }
        }
    }

    fn reply(&mut self) -> Result<ReplyLine, DriverError> {
        let line = self.line()?;
        let wrong = |error: serde_json::Error| {
            DriverError::new(format!(
                "the program wrote `{}`, which is no reply: {error}",
                shown(&line)
            ))
        };
        serde_json::from_str(&line).map_err(wrong)
    }

    fn write(&mut self, text: &str) -> Result<(), DriverError> {
        let wrote = self.input.write_all(text.as_bytes()).and_then(|()| self.input.flush());
        wrote.map_err(|error| DriverError::new(format!("the program reads no more: {error}")))
    }
}

impl Driver for Program {
    fn abilities(&self) -> Abilities {
        self.able
    }

    fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Reply>, DriverError> {
        let mut text = String::new();
        for ask in asks {
            let line = AskLine {
                ask: ask.id,
                client: ask.client,
                subject: &ask.subject,
                cost: ask.cost,
                now_us: ask.now_us,
                request: ask.request.as_deref(),
                limits: ask.limits.as_deref(),
                peek: ask.peek,
            };
            text += &serde_json::to_string(&line).map_err(|e| DriverError::new(e.to_string()))?;
            text.push('\n');
        }
        let invoked_us = self.clock.now_us();
        self.write(&text)?;
        let mut replies: BTreeMap<u64, Reply> = BTreeMap::new();
        while replies.len() < asks.len() {
            let line = self.reply()?;
            let id = line.ask.filter(|id| asks.iter().any(|ask| ask.id == *id));
            let Some(id) = id.filter(|id| !replies.contains_key(id)) else {
                let text = "the program answered a question that is not open: its `ask` is wrong";
                return Err(DriverError::new(text));
            };
            let wrong = |reason| DriverError::new(format!("the reply to {id}: {reason}"));
            let outcome = line.outcome().map_err(wrong)?;
            let returned_us = self.clock.now_us();
            let reply = Reply { outcome, decided_us: line.now_us, invoked_us, returned_us };
            replies.insert(id, reply);
        }
        Ok(asks.iter().filter_map(|ask| replies.get(&ask.id).copied()).collect())
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), DriverError> {
        let name = disturbance.name();
        self.write(&format!("{{\"do\":\"{name}\"}}\n"))?;
        match self.reply()?.done {
            Some(done) if done == name => Ok(()),
            _ => {
                Err(DriverError::new(format!("the program did not answer {{\"done\":\"{name}\"}}")))
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    fn sleep_until(&mut self, until_us: u64) {
        self.clock.sleep_until(until_us);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
