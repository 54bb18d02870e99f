//! `queue dead`: lists dead jobs, offers them again, or discards them. `queue done`: lists done
//! jobs.

use anyhow::{Result, anyhow, bail};
use tollgate_queue::{AnyQueues, DeadJobs, DeadLetter, DeadOutcome, Queue};

use super::open::open;
use crate::args::{QueueDead, QueueDone};
use crate::input;
use crate::show::{self, Output, count};

/// The longest text in a table.
const SHOWN: usize = 40;

pub(super) async fn dead(args: &QueueDead, out: &mut Output) -> Result<u8> {
    let QueueDead { which, again, forget, most } = args;
    let queue = open(which).await?;
    let (done, what) = match (again, forget) {
        (Some(text), _) => {
            let jobs = read(text)?;
            (found(jobs, &queue, queue.offer_dead_again(jobs).await?)?, "offered again")
        }
        (None, Some(text)) => {
            let jobs = read(text)?;
            (found(jobs, &queue, queue.forget_dead(jobs).await?)?, "deleted")
        }
        (None, None) => {
            show(&queue.dead_letters(usize::from(*most)).await?, which.json, out)?;
            return Ok(0);
        }
    };
    if which.json {
        out.json(&done)?;
    } else {
        let full = if done.full { "; the queue is full" } else { "" };
        let (DeadOutcome { jobs, dead, .. }, rest) = (&done, rest(&done));
        out.line(format!("{} {what}, {dead} dead{full}{rest}", count(*jobs, "job")))?;
    }
    Ok(u8::from(done.full || !done.no_job.is_empty()))
}

/// `all`, or the id of a job.
fn read(text: &str) -> Result<DeadJobs> {
    if text == "all" {
        return Ok(DeadJobs::All);
    }
    let id = text.parse().map_err(|_| {
        let text = input::shown(text);
        anyhow!("`{text}` is not the id of a job: write one, e.g. 1700000000000-0, or `all`")
    })?;
    Ok(DeadJobs::One(id))
}

/// The outcome, unless it is about a job that is not there.
fn found(jobs: DeadJobs, queue: &Queue<AnyQueues>, done: DeadOutcome) -> Result<DeadOutcome> {
    match jobs {
        DeadJobs::One(id) if done.is_nothing() => {
            bail!("no dead job {id} is kept in `{}`", queue.name())
        }
        _ => Ok(done),
    }
}

/// A note on entries that stay dead, since they are not valid jobs.
fn rest(done: &DeadOutcome) -> String {
    match &done.no_job[..] {
        [] => String::new(),
        [id] => format!("; {id} is not a valid job: `--forget {id}`"),
        [id, ..] => {
            format!("; {} are not valid jobs: `--forget {id}`, and so on", done.no_job.len())
        }
    }
}

fn show(dead: &[DeadLetter], is_json: bool, out: &mut Output) -> Result<()> {
    if is_json {
        return out.json(&dead);
    }
    if dead.is_empty() {
        return out.line("no dead jobs are kept");
    }
    let mut table = show::table(["job", "client", "deliveries", "why", "what"]);
    for dead in dead {
        table.add_row([
            dead.id.to_string(),
            one_line(dead.client().unwrap_or("-")),
            dead.deliveries.to_string(),
            one_line(dead.reason.as_deref().unwrap_or("-")),
            what(dead.bytes(), dead.fields()),
        ]);
    }
    out.line(table.to_string())
}

pub(super) async fn done(args: &QueueDone, out: &mut Output) -> Result<u8> {
    let queue = open(&args.which).await?;
    let done = queue.done_jobs(usize::from(args.most)).await?;
    if args.which.json {
        out.json(&done)?;
    } else if done.is_empty() {
        out.line("no jobs that were done are kept: `tollgate queue change NAME --keep-done 100`")?;
    } else {
        let mut table = show::table(["job", "deliveries", "what"]);
        for job in &done {
            let what = what(job.bytes(), job.fields());
            table.add_row([job.id.to_string(), job.deliveries.to_string(), what]);
        }
        out.line(table.to_string())?;
    }
    Ok(0)
}

/// The content of a job in short form.
pub(super) fn what(bytes: Option<&[u8]>, fields: &[(String, String)]) -> String {
    match bytes {
        Some(bytes) => count(bytes.len() as u64, "byte"),
        None => {
            let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
            one_line(&fields.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Text of another program, as one line of a table.
pub(super) fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(SHOWN).flat_map(plain).collect();
    if text.chars().nth(SHOWN).is_some() {
        line.push_str("...");
    }
    line
}

fn plain(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let as_it_is = escaped.is_none().then_some(c);
    escaped.into_iter().flatten().chain(as_it_is)
}
