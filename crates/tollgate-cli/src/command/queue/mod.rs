//! `queue`: the leaky bucket coupled with processing, from a shell.

use anyhow::{Result, bail};
use tollgate_queue::{
    AnyQueues, ConsumerSettings, Counts, ProducerSettings, Queue, Settings, Stats,
};

use crate::args;
use crate::args::{ConsumerArgs, ProducerArgs, QueueArgs, QueueChange, QueueCounts, QueueRemove};
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
async fn open(which: &QueueArgs) -> Result<Queue<AnyQueues>> {
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
    let policy = queues.eviction_policy().await.ok().flatten()?;
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

impl ProducerArgs {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { bound, count, per_client, remember } = self;
        bound.is_none() && count.is_none() && per_client.is_none() && remember.is_none()
    }

    /// What is said, and for the rest what the queue was made with.
    pub(crate) fn merged_with(
        &self,
        name: &str,
        made: Option<ProducerSettings>,
    ) -> Result<ProducerSettings> {
        let mut producer = match (self.bound, made) {
            (Some(bound), Some(made)) => made.with_bound(bound),
            (Some(bound), None) => ProducerSettings::new(bound),
            (None, Some(made)) => made,
            (None, None) => {
                bail!("the queue `{name}` is new: say how many jobs may wait, as with `--bound 10`")
            }
        };
        if let Some(count) = self.count {
            producer = producer.counts(match count {
                QueueCounts::Waiting => Counts::Waiting,
                QueueCounts::All => Counts::All,
            });
        }
        if let Some(most) = self.per_client {
            producer = producer.per_client(most);
        }
        if let Some(remember) = &self.remember {
            producer = producer.dedup_window(input::wait(remember)?);
        }
        Ok(producer)
    }

    /// How to offer: as the queue was made, unless something is said.
    async fn read(&self, queue: &Queue<AnyQueues>) -> Result<ProducerSettings> {
        // With a bound it is said: then one question is enough for a job.
        let made = match self.bound {
            Some(_) => None,
            None => queue.settings().await?.producer,
        };
        self.merged_with(queue.name(), made)
    }
}

impl ConsumerArgs {
    fn is_nothing(&self) -> bool {
        let Self { rate, visibility, deliveries, keep_dead, keep_done } = self;
        let is_kept = keep_dead.is_some() || keep_done.is_some();
        rate.is_empty() && visibility.is_none() && deliveries.is_none() && !is_kept
    }

    /// What is said, and for the rest what the queue was made with, or the defaults.
    fn merged_with(&self, made: Option<ConsumerSettings>) -> Result<ConsumerSettings> {
        let mut consumer = made.unwrap_or_default();
        if !self.rate.is_empty() {
            consumer = consumer.rate(input::limits(&self.rate, None)?);
        }
        if let Some(visibility) = &self.visibility {
            consumer = consumer.visibility(input::wait(visibility)?);
        }
        if let Some(deliveries) = self.deliveries {
            consumer = consumer.deliveries(deliveries);
        }
        if let Some(keep_dead) = self.keep_dead {
            consumer = consumer.keep_dead(keep_dead);
        }
        if let Some(keep_done) = self.keep_done {
            consumer = consumer.keep_done(keep_done);
        }
        Ok(consumer)
    }
}

async fn pause(which: &QueueArgs, is_paused: bool, out: &mut Output) -> Result<u8> {
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
    let QueueChange { which, producer, consumer, no_rate, no_per_client } = args;
    let is_offering = !producer.is_nothing() || *no_per_client;
    if !is_offering && consumer.is_nothing() && !no_rate {
        bail!("nothing is to be changed: say what, as with `--bound 20`");
    }
    let queue = open(which).await?;
    let made = queue.settings().await?;
    if made == Settings::default() {
        bail!("there is no queue `{}` there: nothing was changed", queue.name());
    }
    let mut settings = Settings::default();
    if is_offering {
        let producer = producer.merged_with(queue.name(), made.producer)?;
        settings.producer =
            Some(if *no_per_client { producer.without_per_client() } else { producer });
    }
    if !consumer.is_nothing() || *no_rate {
        let consumer = consumer.merged_with(made.consumer)?;
        settings.consumer = Some(if *no_rate { consumer.without_rate() } else { consumer });
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
