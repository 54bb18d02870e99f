//! `queue dead`: lists dead jobs, offers them again, or discards them. `queue done`: lists done
//! jobs.

use anyhow::{Result, anyhow, bail};
use serde::Serialize;
use tollgate_queue::{AnyQueues, DeadLetter, Error, JobId, OfferOutcome, Queue};

use super::open::open;
use crate::args::{QueueDead, QueueDone};
use crate::input;
use crate::show::{self, Output, count};

/// How many jobs are read at a time.
const PAGE: usize = 1_000;

/// The longest text in a table.
const SHOWN: usize = 40;

#[derive(Serialize)]
struct DeadJson {
    /// The jobs that were offered again, or discarded.
    jobs: u64,
    /// The jobs that are still dead.
    dead: u64,
    /// Whether the queue was full before the last one.
    full: bool,
    /// The entries that cannot be offered, since they are not valid jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    no_job: Vec<String>,
}

impl DeadJson {
    async fn now(queue: &Queue<AnyQueues>, jobs: u64) -> Result<Self> {
        Ok(Self { jobs, dead: queue.stats().await?.dead, full: false, no_job: Vec::new() })
    }

    /// A note on entries that stay dead, since they are not valid jobs.
    fn rest(&self) -> String {
        match &self.no_job[..] {
            [] => String::new(),
            [id] => format!("; {id} is not a valid job: `--forget {id}`"),
            [id, ..] => {
                format!("; {} are not valid jobs: `--forget {id}`, and so on", self.no_job.len())
            }
        }
    }
}

pub(super) async fn dead(args: &QueueDead, out: &mut Output) -> Result<u8> {
    let QueueDead { which, again, forget, most } = args;
    let queue = open(which).await?;
    let done = match (again, forget) {
        (Some(which), _) => offer_again(&queue, &Selection::read(which)?).await?,
        (None, Some(which)) => self::forget(&queue, &Selection::read(which)?).await?,
        (None, None) => {
            show(&queue.dead_letters(usize::from(*most)).await?, which.json, out)?;
            return Ok(0);
        }
    };
    if which.json {
        out.json(&done)?;
    } else {
        let what = if again.is_some() { "offered again" } else { "deleted" };
        let full = if done.full { "; the queue is full" } else { "" };
        let (DeadJson { jobs, dead, .. }, rest) = (&done, done.rest());
        out.line(format!("{} {what}, {dead} dead{full}{rest}", count(*jobs, "job")))?;
    }
    Ok(u8::from(done.full || !done.no_job.is_empty()))
}

/// The selected dead jobs.
enum Selection {
    All,
    One(JobId),
}

impl Selection {
    fn read(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Self::All);
        }
        let id = text.parse().map_err(|_| {
            let text = input::shown(text);
            anyhow!("`{text}` is not the id of a job: write one, e.g. 1700000000000-0, or `all`")
        })?;
        Ok(Self::One(id))
    }

    /// The selected jobs that exist now, at most one page.
    async fn select(&self, queue: &Queue<AnyQueues>) -> Result<Vec<DeadLetter>> {
        let mut dead = queue.dead_letters(PAGE).await?;
        if let Self::One(id) = self {
            dead.retain(|dead| dead.id == *id);
            if dead.is_empty() {
                bail!("no dead job {id} is kept in `{}`, among the oldest {PAGE}", queue.name());
            }
        }
        Ok(dead)
    }
}

/// Offers each job, and then removes the accepted one, in this order so that none is lost. A job
/// that was interrupted between the two steps is a known duplicate when it is offered again.
async fn offer_again(queue: &Queue<AnyQueues>, which: &Selection) -> Result<DeadJson> {
    let offering = queue.settings().await?.producer;
    let offering =
        offering.ok_or_else(|| anyhow!("no job was ever offered to `{}`", queue.name()))?;
    let producer = queue.producer(offering)?;
    let (mut jobs, mut full, mut no_job) = (0, false, Vec::new());
    'all: loop {
        let page = which.select(queue).await?;
        let before = jobs;
        no_job.clear();
        for dead in &page {
            match producer.offer(&dead.job()).await {
                Ok(OfferOutcome::Accepted { .. } | OfferOutcome::Duplicate { .. }) => {}
                // Another program wrote it, and it exceeds a job's bounds: it stays, and blocks no
                // other.
                Err(Error::Invalid(_)) => {
                    no_job.push(dead.id.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
                // This job's client has reached its maximum; other clients may not have.
                Ok(OfferOutcome::ClientFull { .. }) => {
                    full = true;
                    continue;
                }
                Ok(_) => {
                    full = true;
                    break 'all;
                }
            }
            queue.take_dead_letter(dead.id).await?;
            jobs += 1;
        }
        // Jobs that stay are on the next page again, so a page of only such jobs is the last.
        if page.len() < PAGE || jobs == before {
            break;
        }
    }
    Ok(DeadJson { full, no_job, ..DeadJson::now(queue, jobs).await? })
}

async fn forget(queue: &Queue<AnyQueues>, which: &Selection) -> Result<DeadJson> {
    let mut jobs = 0;
    if let Selection::One(id) = which {
        if queue.forget_dead_letter(*id).await?.is_none() {
            bail!("no dead job {id} is kept in `{}`", queue.name());
        }
        return DeadJson::now(queue, 1).await;
    }
    loop {
        let page = which.select(queue).await?;
        for dead in &page {
            jobs += u64::from(queue.forget_dead_letter(dead.id).await?.is_some());
        }
        if page.len() < PAGE {
            break;
        }
    }
    DeadJson::now(queue, jobs).await
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
