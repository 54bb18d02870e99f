//! `queue`: the leaky bucket coupled with processing, from a shell.

use anyhow::{Result, bail};
use tollgate_queue::{AnyQueues, Counts, Offering, Queue, Settings, Stats, Working};

use crate::args;
use crate::args::{Count, OfferingArgs, QueueChange, QueueRemove, WhichQueue, WorkingArgs};
use crate::input;
use crate::show::{self, Output};
use crate::store;

mod dead;
mod list;
mod look;
mod push;
mod stats;
mod work;

pub(crate) fn queue(args: &args::Queue, out: &mut Output) -> Result<u8> {
    let runtime = store::runtime()?;
    runtime.block_on(async {
        match args {
            args::Queue::Push(args) => push::push(args, out).await,
            args::Queue::Work(args) => work::work(args, out).await,
            args::Queue::Look(args) => look::look(args, out).await,
            args::Queue::Stats(args) => stats::stats(args, out).await,
            args::Queue::List(args) => list::list(args, out).await,
            args::Queue::Dead(args) => dead::dead(args, out).await,
            args::Queue::Done(args) => dead::done(args, out).await,
            args::Queue::Pause(which) => pause(which, true, out).await,
            args::Queue::Resume(which) => pause(which, false, out).await,
            args::Queue::Remove(args) => remove(args, out).await,
            args::Queue::Change(args) => change(args, out).await,
        }
    })
}

/// The queue that is named, where it is said to lie.
async fn open(which: &WhichQueue) -> Result<Queue<AnyQueues>> {
    // The name first: a wrong one opens nothing.
    Queue::new(tollgate_queue::MemoryQueues::new(), &which.name)?;
    Ok(Queue::new(store::queues(&which.place, which.form.into()).await?, &which.name)?)
}

/// Says where a server may lose what is entrusted to it. One that does not say what it does when
/// it is full is not asked twice.
async fn warn_of_eviction(queue: &Queue<AnyQueues>) {
    if let Some(warning) = eviction(queue.backend()).await {
        show::note(&warning);
    }
}

/// What is to be said of a server that may lose what lies in queues.
pub(crate) async fn eviction(queues: &AnyQueues) -> Option<String> {
    let AnyQueues::Redis(queues) = queues else { return None };
    let policy = queues.evicts().await.ok().flatten()?;
    let loses = if policy.starts_with("allkeys") {
        "jobs are lost then"
    } else {
        "ids of --once and counts of rates are forgotten then"
    };
    Some(format!(
        "this Redis evicts keys when it is full (maxmemory-policy {policy}), and {loses}: set \
         maxmemory-policy noeviction (tollgate doctor)"
    ))
}

impl OfferingArgs {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { bound, count, per_client, remember } = self;
        bound.is_none() && count.is_none() && per_client.is_none() && remember.is_none()
    }

    /// What is said, and for the rest what the queue was made with.
    pub(crate) fn over(&self, name: &str, made: Option<Offering>) -> Result<Offering> {
        let mut offering = match (self.bound, made) {
            (Some(bound), Some(made)) => made.bounded(bound),
            (Some(bound), None) => Offering::new(bound),
            (None, Some(made)) => made,
            (None, None) => {
                bail!("the queue `{name}` is new: say how many jobs may wait, as with `--bound 10`")
            }
        };
        if let Some(count) = self.count {
            offering = offering.counts(match count {
                Count::Waiting => Counts::Waiting,
                Count::All => Counts::All,
            });
        }
        if let Some(most) = self.per_client {
            offering = offering.per_client(most);
        }
        if let Some(remember) = &self.remember {
            offering = offering.remember(input::wait(remember)?);
        }
        Ok(offering)
    }

    /// How to offer: as the queue was made, unless something is said.
    async fn read(&self, queue: &Queue<AnyQueues>) -> Result<Offering> {
        // With a bound it is said: then one question is enough for a job.
        let made = match self.bound {
            Some(_) => None,
            None => queue.settings().await?.offering,
        };
        self.over(queue.name(), made)
    }
}

impl WorkingArgs {
    fn is_nothing(&self) -> bool {
        let Self { rate, visibility, deliveries, keep_dead, keep_done } = self;
        let is_kept = keep_dead.is_some() || keep_done.is_some();
        rate.is_empty() && visibility.is_none() && deliveries.is_none() && !is_kept
    }

    /// What is said, and for the rest what the queue was made with, or the defaults.
    fn over(&self, made: Option<Working>) -> Result<Working> {
        let mut working = made.unwrap_or_default();
        if !self.rate.is_empty() {
            working = working.rate(input::limits(&self.rate, None)?);
        }
        if let Some(visibility) = &self.visibility {
            working = working.visibility(input::wait(visibility)?);
        }
        if let Some(deliveries) = self.deliveries {
            working = working.deliveries(deliveries);
        }
        if let Some(keep_dead) = self.keep_dead {
            working = working.keep_dead(keep_dead);
        }
        if let Some(keep_done) = self.keep_done {
            working = working.keep_done(keep_done);
        }
        Ok(working)
    }
}

async fn pause(which: &WhichQueue, is_paused: bool, out: &mut Output) -> Result<u8> {
    let queue = open(which).await?;
    let is_made = if is_paused { queue.pause().await? } else { queue.resume().await? };
    if !is_made {
        bail!("there is no queue `{}` there: nothing was changed", queue.name());
    }
    let Stats { waiting, in_flight, .. } = queue.stats().await?;
    if which.json {
        out.json(&serde_json::json!({
            "paused": is_paused, "waiting": waiting, "in_flight": in_flight,
        }))?;
    } else {
        let how = if is_paused { "paused" } else { "goes on" };
        out.line(format!("{how}: {waiting} waiting, {in_flight} in hand or to come back"))?;
    }
    Ok(0)
}

async fn remove(args: &QueueRemove, out: &mut Output) -> Result<u8> {
    let QueueRemove { which, force } = args;
    let queue = open(which).await?;
    let Stats { waiting, in_flight, dead, .. } = queue.stats().await?;
    let is_kept = waiting + in_flight > 0 && !force;
    let removed = !is_kept && queue.remove().await?;
    if !removed && !is_kept {
        bail!("there is no queue `{}` there: nothing was removed", queue.name());
    }
    if which.json {
        out.json(&serde_json::json!({
            "removed": removed, "waiting": waiting, "in_flight": in_flight, "dead": dead,
        }))?;
    } else {
        let what = format!("{waiting} waiting, {in_flight} in hand or to come back, {dead} dead");
        let how = if removed { "removed" } else { "kept, for `--force` was not said" };
        out.line(format!("{how}: {what}"))?;
    }
    Ok(u8::from(is_kept))
}

async fn change(args: &QueueChange, out: &mut Output) -> Result<u8> {
    let QueueChange { which, offering, working, no_rate, no_per_client } = args;
    let is_offering = !offering.is_nothing() || *no_per_client;
    if !is_offering && working.is_nothing() && !no_rate {
        bail!("nothing is to be changed: say what, as with `--bound 20`");
    }
    let queue = open(which).await?;
    let made = queue.settings().await?;
    if made == Settings::default() {
        bail!("there is no queue `{}` there: nothing was changed", queue.name());
    }
    let mut settings = Settings::default();
    if is_offering {
        let offering = offering.over(queue.name(), made.offering)?;
        settings.offering =
            Some(if *no_per_client { offering.without_per_client() } else { offering });
    }
    if !working.is_nothing() || *no_rate {
        let working = working.over(made.working)?;
        settings.working = Some(if *no_rate { working.without_rate() } else { working });
    }
    // All of it or nothing.
    queue.change(settings).await?;
    let now = queue.settings().await?;
    if which.json {
        out.json(&now)?;
    } else {
        out.text(&stats::settings(&now))?;
    }
    Ok(0)
}
