//! `queue push`: offers a job, or one for each line.

use std::io::{self, BufRead as _, Read as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Serialize;
use tollgate_queue::{AnyQueues, Job, MAX_JOB_BYTES, OfferOutcome, Producer};

use super::open::{open, warn_of_eviction};
use crate::args::QueuePush;
use crate::input;
use crate::show::{Output, count, duration};

/// The pause before the next offer if the time until the queue has room is unknown.
const UNKNOWN: Duration = Duration::from_millis(100);

/// The longest pause between offers, since jobs may leave faster than estimated.
const OFFER_AGAIN: Duration = Duration::from_secs(1);

/// After this long a wait for a line, the connection may have been closed.
const LONG_AGO: Duration = Duration::from_millis(100);

/// The longest line that is read: a job is never longer, even with every byte escaped.
const MAX_LINE: u64 = 8 * MAX_JOB_BYTES as u64;

/// The outcome of a job, with its line.
#[derive(Serialize)]
struct PushJson<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(flatten)]
    offered: &'p OfferOutcome,
}

pub(super) async fn push(args: &QueuePush, out: &mut Output) -> Result<u8> {
    let QueuePush { which, producer: producer_args, once, client, deadline, wait, .. } = args;
    let wait = wait.as_deref().map(input::wait).transpose()?.unwrap_or_default();
    let deadline = deadline.as_deref().map(input::wait).transpose()?;
    let with = |mut job: Job| {
        if let Some(once) = once {
            job = job.dedup_id(once);
        }
        if let Some(client) = client {
            job = job.client(client.as_str());
        }
        if let Some(deadline) = deadline {
            job = job.deadline(deadline);
        }
        job
    };
    let job = match (args.lines, args.stdin) {
        (true, _) => None,
        (false, true) => Some(bytes()?),
        (false, false) => Some(fields(&args.fields)?),
    };
    let queue = open(which).await?;
    warn_of_eviction(&queue).await;
    let producer =
        RetryingProducer { producer: queue.producer(producer_args.read(&queue).await?)?, wait };
    let Some(job) = job else { return lines(&producer, with, which.json, out).await };
    let offered = producer.offer(&with(job)).await?;
    if which.json {
        out.json(&PushJson { line: None, offered: &offered })?;
    } else {
        out.line(outcome_text(&offered))?;
    }
    Ok(code(&offered))
}

fn code(offered: &OfferOutcome) -> u8 {
    u8::from(offered.is_refused())
}

fn outcome_text(offered: &OfferOutcome) -> String {
    match offered {
        OfferOutcome::Accepted { id, depth } => format!("accepted: {id}, {depth} now"),
        OfferOutcome::Duplicate { id } => format!("known: {id}"),
        OfferOutcome::Full { depth, retry_after: Some(after) } => {
            format!("refused: full with {depth}, room in about {}", duration(*after))
        }
        OfferOutcome::Full { depth, .. } => {
            format!("refused: full with {depth}, and none has left in the last seconds")
        }
        OfferOutcome::ClientFull { of_client } => {
            format!("refused: this client has {of_client}, which is the bound for each client")
        }
        other => format!("{other:?}"),
    }
}

fn fields(texts: &[String]) -> Result<Job> {
    let mut job = Job::new();
    for text in texts {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            anyhow!("`{}` is not a field: write FIELD=VALUE, e.g. `to=ann`", input::shown(text))
        })?;
        job = job.field(name, value);
    }
    Ok(job)
}

/// A job from standard input. It reads one byte more than allowed, to detect a job that is too
/// large.
fn bytes() -> Result<Job> {
    let mut bytes = Vec::new();
    let most = MAX_JOB_BYTES as u64 + 1;
    let read = io::stdin().lock().take(most).read_to_end(&mut bytes);
    read.context("standard input cannot be read")?;
    if bytes.len() > MAX_JOB_BYTES {
        bail!(
            "standard input has more than {MAX_JOB_BYTES} bytes: store large data elsewhere, and \
             its place into the job"
        );
    }
    Ok(Job::from_bytes(&bytes))
}

/// Offers jobs, and waits for room.
struct RetryingProducer {
    producer: Producer<AnyQueues>,
    wait: Duration,
}

impl RetryingProducer {
    async fn offer(&self, job: &Job) -> Result<OfferOutcome> {
        let begin = Instant::now();
        loop {
            let offered = self.producer.offer(job).await?;
            let retry_after = match &offered {
                OfferOutcome::Full { retry_after, .. } => *retry_after,
                offered if offered.is_refused() => None,
                _ => return Ok(offered),
            };
            let left = self.wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(offered);
            }
            let pause = retry_after.unwrap_or(UNKNOWN).min(OFFER_AGAIN);
            tokio::time::sleep(pause.min(left)).await;
        }
    }
}

/// Offers a job for each line. Accepted jobs stay in the queue whatever happens to later ones.
async fn lines(
    producer: &RetryingProducer,
    with: impl Fn(Job) -> Job,
    is_json: bool,
    out: &mut Output,
) -> Result<u8> {
    let (mut accepted, mut known, mut refused) = (0, 0, 0);
    let mut stdin = io::stdin().lock();
    for line in 1.. {
        let mut text = Vec::new();
        let asked = Instant::now();
        let read = (&mut stdin).take(MAX_LINE).read_until(b'\n', &mut text);
        if asked.elapsed() > LONG_AGO {
            // The shortest timer makes the runtime poll its sockets, so that no job is sent over a
            // connection that was closed during the wait for a line.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let so_far = || {
            let lines = count(line - 1, "line");
            format!("line {line}; the {lines} before it were offered: {accepted} were accepted")
        };
        if read.with_context(so_far)? == 0 {
            break;
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let job = Job::from_json(&text).map_err(|error| anyhow!("{}: {error}", so_far()))?;
        let offered = producer.offer(&with(job)).await.with_context(so_far)?;
        match offered {
            OfferOutcome::Accepted { .. } => accepted += 1,
            OfferOutcome::Duplicate { .. } => known += 1,
            _ => refused += 1,
        }
        if is_json {
            out.json(&PushJson { line: Some(line), offered: &offered })?;
        }
    }
    if !is_json {
        let known = if known > 0 { format!(", {known} known") } else { String::new() };
        out.line(format!("{accepted} accepted{known}, {refused} refused"))?;
    }
    Ok(u8::from(refused > 0))
}
