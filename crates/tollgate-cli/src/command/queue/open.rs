//! Opens the queue of a command, and merges the settings of its arguments.

use anyhow::{Result, bail};
use tollgate_queue::{AnyQueues, ConsumerSettings, Counts, ProducerSettings, Queue};

use crate::args::{ConsumerArgs, ProducerArgs, QueueArgs, QueueCounts};
use crate::show;
use crate::{input, store};

/// The named queue in the given store.
pub(super) async fn open(which: &QueueArgs) -> Result<Queue<AnyQueues>> {
    // Check the name first: an invalid one must not open a store.
    Queue::new(tollgate_queue::MemoryQueues::new(), &which.name)?;
    Ok(Queue::new(store::queues(&which.place, which.form.into()).await?, &which.name)?)
}

/// Warns if the server may evict jobs. A server that does not report its eviction policy is not
/// asked again.
pub(super) async fn warn_of_eviction(queue: &Queue<AnyQueues>) {
    if let Some(warning) = store::eviction_warning(queue.backend()).await {
        show::note(&warning);
    }
}

impl ProducerArgs {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { bound, count, per_client, remember } = self;
        bound.is_none() && count.is_none() && per_client.is_none() && remember.is_none()
    }

    /// The given settings, completed by those of the queue.
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
                bail!("the queue `{name}` is new: set how many jobs may wait, e.g. `--bound 10`")
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

    /// The producer settings: those of the queue, unless arguments are given.
    pub(super) async fn read(&self, queue: &Queue<AnyQueues>) -> Result<ProducerSettings> {
        // With a bound no lookup is necessary: one call per job suffices.
        let made = match self.bound {
            Some(_) => None,
            None => queue.settings().await?.producer,
        };
        self.merged_with(queue.name(), made)
    }
}

impl ConsumerArgs {
    pub(super) fn is_nothing(&self) -> bool {
        let Self { rate, visibility, deliveries, keep_dead, keep_done } = self;
        let is_kept = keep_dead.is_some() || keep_done.is_some();
        rate.is_empty() && visibility.is_none() && deliveries.is_none() && !is_kept
    }

    /// The given settings, completed by those of the queue, or the defaults.
    pub(super) fn merged_with(&self, made: Option<ConsumerSettings>) -> Result<ConsumerSettings> {
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
