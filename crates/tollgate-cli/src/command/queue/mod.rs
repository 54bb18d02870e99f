//! `queue`: the leaky bucket coupled with processing, from a shell.

use anyhow::{Result, bail};
use tollgate_queue::{Settings, Stats};

use self::open::open;
use crate::args::{QueueArgs, QueueChange, QueueRemove};
use crate::show::Output;
use crate::{args, store};

mod dead;
mod list;
mod look;
mod open;
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
        let how = if is_paused { "paused" } else { "resumed" };
        out.line(format!("{how}: {waiting} waiting, {in_flight} in flight"))?;
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
        let what = format!("{waiting} waiting, {in_flight} in flight, {dead} dead");
        let how = if removed { "removed" } else { "kept, because `--force` is missing" };
        out.line(format!("{how}: {what}"))?;
    }
    Ok(u8::from(is_kept))
}

async fn change(args: &QueueChange, out: &mut Output) -> Result<u8> {
    let QueueChange { which, producer, consumer, no_rate, no_per_client } = args;
    let is_offering = !producer.is_nothing() || *no_per_client;
    if !is_offering && consumer.is_nothing() && !no_rate {
        bail!("no change is given: add one, e.g. `--bound 20`");
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
    // All settings change together, or none.
    queue.change(settings).await?;
    let now = queue.settings().await?;
    if which.json {
        out.json(&now)?;
    } else {
        out.text(&stats::settings(&now))?;
    }
    Ok(0)
}
