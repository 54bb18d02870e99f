//! `queue work`: runs a command for each job.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tollgate_queue::{
    AnyQueues, Delivery, Failure, Queue, RunSummary, Settings, Worker, WorkerEvent,
};

use super::open::{open, warn_of_eviction};
use crate::args::QueueWork;
use crate::command::run::ignored_signals;
use crate::input;
use crate::show::{self, Output, duration};

/// How long a command may clean up after a signal, before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Two signals within this time count as one: a parent process may pass on a signal that the
/// terminal has already sent.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

#[derive(Serialize)]
struct SummaryJson {
    done: u64,
    again: u64,
    dead: u64,
    lost: u64,
    released: u64,
    unsaid: u64,
}

pub(super) async fn work(args: &QueueWork, out: &mut Output) -> Result<u8> {
    let QueueWork { which, consumer: consumer_args, pause, max_pause, timeout, .. } = args;
    let backoff = pause.as_deref().map_or(Ok(Duration::from_secs(1)), input::wait)?;
    let max_backoff = max_pause.as_deref().map_or(Ok(Duration::from_secs(600)), input::wait)?;
    let timeout = timeout.as_deref().map(input::wait).transpose()?;
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        bail!(
            "`--timeout 0` would end each command immediately: leave it out, or use `--timeout \
               5m`"
        );
    }
    // Before any job is taken, so that no early signal is lost.
    let mut signals = signals()?;
    let queue = open(which).await?;
    warn_of_eviction(&queue).await;
    let made = queue.settings().await?;
    let consumer = queue.consumer(consumer_args.merged_with(made.consumer.clone())?)?;
    if made == Settings::default() && !args.create {
        bail!(
            "there is no queue `{0}` there: check its name and the store. `tollgate queue push {0} \
             to=ann --bound 10` makes it, and `--create` waits for it",
            queue.name()
        );
    }
    if !args.until_empty {
        announce(&queue).await?;
    }
    let log = StderrLog { is_all: show::is_verbose() };
    let runner = Arc::new(CommandRunner {
        command: args.exec.clone(),
        timeout,
        running: Mutex::default(),
        log,
    });
    let worker = Worker::new(consumer, args.worker.clone().unwrap_or_else(worker_name))
        .concurrency(args.concurrency)
        .batch(args.batch)
        .max_jobs(args.max_jobs.unwrap_or(u64::MAX))
        .until_empty(args.until_empty)
        .backoff(backoff, max_backoff.max(backoff))
        .on_event(move |event| log.event(event));
    let handle = |job| {
        let runner = Arc::clone(&runner);
        async move { runner.work(job).await }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = worker.run(handle, async { drop(stopped.await) });
    tokio::pin!(running);
    let (mut stop, mut asked) = (Some(stop), None::<Instant>);
    let ran = loop {
        tokio::select! {
            ran = &mut running => break ran?,
            Some(signal) = signals.recv() => {
                // The first signal lets running commands finish; the second one ends them.
                match asked {
                    None => {
                        drop(stop.take());
                        asked = Some(Instant::now());
                    }
                    Some(asked) if asked.elapsed() >= SAME_SIGNAL => {
                        runner.end_all().await;
                        return Ok(u8::try_from(128 + signal)?);
                    }
                    Some(_) => {}
                }
            }
        }
    };
    print_summary(ran, which.json, out)?;
    Ok(0)
}

/// Prints what the worker waits for, if it would otherwise seem idle.
async fn announce(queue: &Queue<AnyQueues>) -> Result<()> {
    if queue.stats().await?.waiting == 0 {
        let name = queue.name();
        show::note(&format!("no job waits in `{name}`: waiting for the next, Ctrl-C ends"));
    }
    Ok(())
}

fn print_summary(ran: RunSummary, is_json: bool, out: &mut Output) -> Result<()> {
    let RunSummary { done, requeued: again, dead, lost, released, unreported, .. } = ran;
    if is_json {
        return out.json(&SummaryJson { done, again, dead, lost, released, unsaid: unreported });
    }
    let mut parts = vec![format!("{done} done")];
    for (number, what) in [
        (again, "to be redelivered"),
        (dead, "dead"),
        (lost, "taken over by another worker"),
        (released, "returned to the queue"),
        (unreported, "not acknowledged, to be redelivered"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    // Standard output is for the commands.
    let _ = writeln!(io::stderr().lock(), "{}", parts.join(", "));
    Ok(())
}

/// The host and the process id, so that two workers can be distinguished.
fn worker_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(64).collect();
    format!("{host}:{}", std::process::id())
}

/// The terminating signals, except those that were ignored when this process started.
fn signals() -> Result<mpsc::UnboundedReceiver<i32>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let ignored = ignored_signals();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let number = kind.as_raw_value();
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let (mut signal, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move {
            while signal.recv().await.is_some() && sender.send(number).is_ok() {}
        });
    }
    Ok(receiver)
}

/// Writes messages to stderr.
#[derive(Clone, Copy)]
struct StderrLog {
    is_all: bool,
}

impl StderrLog {
    fn event(self, event: WorkerEvent<'_>) {
        let line = match event {
            WorkerEvent::Fault(error) => format!("waiting: {error}"),
            WorkerEvent::Changed(settings) => {
                format!("the queue was changed: {settings} from now on")
            }
            WorkerEvent::Recovered(after) => format!("the store is back after {}", duration(after)),
            WorkerEvent::Removed => {
                "the queue was removed: waiting until it is made again, Ctrl-C ends".to_owned()
            }
            WorkerEvent::Paused => {
                "the queue is paused: waiting for `tollgate queue resume`".to_owned()
            }
            WorkerEvent::Resumed => "the queue was resumed".to_owned(),
            WorkerEvent::Foreign { id, reason } => {
                format!("{id} from another program is not a valid job: now a dead letter: {reason}")
            }
            _ => return,
        };
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    fn ended(self, id: &str, delivery: u32, how: &str) {
        let _ = writeln!(io::stderr().lock(), "job {id}, delivery {delivery}: {how}");
    }
}

/// Runs the commands.
struct CommandRunner {
    command: String,
    timeout: Option<Duration>,
    /// The process groups of the running commands.
    running: Mutex<BTreeSet<i32>>,
    log: StderrLog,
}

impl CommandRunner {
    async fn work(&self, job: Delivery) -> Result<(), Failure> {
        let (id, delivery) = (job.id.to_string(), job.attempt);
        // A program that cannot be started is a fault of this machine, not of the job.
        let child = self.start(&job, &id).map_err(|error| {
            let how = format!("not started: `sh` cannot be run: {error}");
            self.log.ended(&id, delivery, &how);
            Failure::not_started(how)
        })?;
        let ended = self.run(child, &job).await;
        match &ended {
            Ok(()) if self.log.is_all => self.log.ended(&id, delivery, "done"),
            Ok(()) => {}
            Err(how) => self.log.ended(&id, delivery, how),
        }
        ended.map_err(Failure::new)
    }

    /// Starts the command.
    fn start(&self, job: &Delivery, id: &str) -> io::Result<Child> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::piped()).kill_on_drop(true);
        // A separate process group: Ctrl-C is for this process, which lets the command finish.
        command.process_group(0);
        // Remove variables of another job, which this process may have inherited.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("JOB_") || text.starts_with("TOLLGATE_JOB_") {
                command.env_remove(&name);
            }
        }
        command.env("TOLLGATE_JOB_ID", id).env("TOLLGATE_JOB_DELIVERY", job.attempt.to_string());
        for (name, value) in job.fields() {
            // Other field names are available only in the JSON. A variable never has a bare field
            // name, since a producer must not be able to set PATH.
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name && !value.contains('\0') {
                command.env(format!("JOB_{name}"), value);
            }
        }
        command.spawn()
    }

    /// Passes the job to the command and waits for it; an error describes its failure.
    async fn run(&self, child: Child, job: &Delivery) -> Result<(), String> {
        let mut line = serde_json::to_vec(job).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let _running = group.map(|group| Running::new(&self.running, group));
        let ended = match self.timeout {
            None => feed(child, &line).await,
            Some(timeout) => {
                let fed = tokio::time::timeout(timeout, feed(child, &line)).await;
                fed.map_err(|_| {
                    if let Some(group) = group {
                        end(group, Signal::KILL);
                    }
                    format!("took longer than {}", duration(timeout))
                })?
            }
        };
        let status = ended.map_err(|error| format!("it cannot be waited for: {error}"))?;
        verdict(status)
    }

    /// Ends all commands; those that ignore the signal are killed.
    async fn end_all(&self) {
        for group in lock(&self.running).iter() {
            end(*group, Signal::TERM);
        }
        let gone = async {
            while !lock(&self.running).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, gone).await.is_err() {
            for group in lock(&self.running).iter() {
                end(*group, Signal::KILL);
            }
        }
    }
}

/// Writes the job to the command's standard input, and waits.
async fn feed(mut child: Child, line: &[u8]) -> io::Result<ExitStatus> {
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input has closed it, which is not an error.
            let _ = stdin.write_all(line).await;
        }
    };
    // Do not wait for the input of a child process that outlived the command.
    tokio::pin!(write);
    tokio::select! {
        () = &mut write => child.wait().await,
        status = child.wait() => status,
    }
}

fn verdict(status: ExitStatus) -> Result<(), String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(format!("exited with {code}")),
        (None, Some(signal)) => Err(format!("was ended by signal {signal}")),
        (None, None) => Err(format!("ended without an exit code: {status}")),
    }
}

fn end(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // The group may just have ended; then there is no process to signal.
        let _ = kill_process_group(group, signal);
    }
}

/// Registers a running command while it lives.
struct Running<'r> {
    all: &'r Mutex<BTreeSet<i32>>,
    group: i32,
}

impl<'r> Running<'r> {
    fn new(all: &'r Mutex<BTreeSet<i32>>, group: i32) -> Self {
        lock(all).insert(group);
        Self { all, group }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.group);
    }
}

/// The set is sound even if a thread panicked while it held the lock.
fn lock(running: &Mutex<BTreeSet<i32>>) -> MutexGuard<'_, BTreeSet<i32>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
