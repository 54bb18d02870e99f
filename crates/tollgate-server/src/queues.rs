//! The queues that clients of a service may offer to, and take from.

use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Mutex as Turns, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tollgate_queue::{
    AnyQueues, Consumer, Error, Job, OfferOutcome, Producer, ProducerSettings, Queue, Stats,
    TakeOutcome,
};

/// How often it is looked what is in them, for `/metrics`.
const REFRESH: Duration = Duration::from_secs(1);

/// How long a look may take: then what was seen before is no longer so.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long nothing is looked at for those who wait for jobs, where nothing says that there is one.
const IDLE: Duration = Duration::from_millis(500);

/// The queues of a service, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<BTreeMap<String, ServedQueue>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct ServedQueue {
    queue: Queue<AnyQueues>,
    producer: RwLock<Producer<AnyQueues>>,
    /// How it was worked on when it was asked last; none before somebody does.
    consumer: RwLock<Option<Consumer<AnyQueues>>>,
    /// Whoever waits for a job has its turn before it looks again: all together look as often as
    /// one.
    turns: Turns<()>,
    /// How it is offered to was said to the service, and not asked of the queue.
    is_said: bool,
    counts: [AtomicU64; Outcome::ALL.len()],
    /// What was in it when it was looked last; none while that fails.
    seen: Mutex<Option<Stats>>,
}

/// What became of an offer that came here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Accepted,
    Known,
    Refused,
    Failed,
}

impl Outcome {
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Known, Self::Refused, Self::Failed];

    /// In small letters, for labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Known => "known",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Queues {
    /// These, each with how it is offered to; none for as it was made. Workers take from them
    /// elsewhere: `tollgate queue work`, or a program with `tollgate_queue::Worker`; and here,
    /// where [`crate::Options::queue_workers`] lets them.
    ///
    /// # Errors
    /// A setting that is not as it may be; a queue that was made with another; where they lie
    /// could not answer.
    pub async fn open(
        queues: impl IntoIterator<Item = (Queue<AnyQueues>, Option<ProducerSettings>)>,
    ) -> Result<Self, Error> {
        let mut served = BTreeMap::new();
        for (queue, offering) in queues {
            let is_said = offering.is_some();
            let offering = match offering {
                Some(offering) => offering,
                None => made(&queue).await?,
            };
            let producer = queue.producer(offering)?;
            // At the start somebody looks; at the first offer nobody may.
            producer.check_settings().await?;
            let producer = RwLock::new(producer);
            let name = queue.name().to_owned();
            let queue = ServedQueue {
                queue,
                producer,
                consumer: RwLock::default(),
                turns: Turns::default(),
                is_said,
                counts: Default::default(),
                seen: Mutex::default(),
            };
            served.insert(name, queue);
        }
        Ok(Self(Arc::new(served)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ServedQueue> {
        self.0.get(name)
    }

    /// All of them, with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ServedQueue)> {
        self.0.iter().map(|(name, queue)| (&**name, queue))
    }

    /// Looks at them again and again.
    pub(crate) async fn follow(self) {
        if self.is_empty() {
            return;
        }
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for queue in self.0.values() {
                let seen = timeout(PATIENCE, queue.queue.stats()).await;
                let seen = seen.ok().and_then(Result::ok);
                *queue.seen.lock() = seen;
            }
        }
    }
}

/// How a queue is offered to, by who made it.
async fn made(queue: &Queue<AnyQueues>) -> Result<ProducerSettings, Error> {
    queue.settings().await?.producer.ok_or_else(|| {
        Error::Invalid(format!(
            "the queue `{0}` is new: say how many jobs may wait, as `{0}=100`",
            queue.name()
        ))
    })
}

impl ServedQueue {
    pub(crate) async fn offer(&self, job: &Job) -> Result<OfferOutcome, Error> {
        let producer = self.producer.read().clone();
        let mut offered = producer.offer(job).await;
        if !self.is_said && matches!(offered, Err(Error::Settings { .. })) {
            // Somebody has changed it.
            let producer = self.queue.producer(made(&self.queue).await?)?;
            self.producer.write().clone_from(&producer);
            offered = producer.offer(job).await;
        }
        let outcome = match &offered {
            Ok(OfferOutcome::Accepted { .. }) => Outcome::Accepted,
            Ok(OfferOutcome::Duplicate { .. }) => Outcome::Known,
            Ok(_) => Outcome::Refused,
            // The client's mistake is in the status of its request.
            Err(Error::Invalid(_)) => return offered,
            Err(_) => Outcome::Failed,
        };
        if let Some(count) = self.counts.get(outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        offered
    }

    /// Does something as a worker, by how the queue is worked on now: as it was made, and by the
    /// defaults where nobody has worked on it.
    pub(crate) async fn work<T, F>(
        &self,
        act: impl Fn(Consumer<AnyQueues>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let known = self.consumer.read().clone();
        let consumer = match known {
            Some(consumer) => consumer,
            None => self.follow().await?,
        };
        match act(consumer).await {
            // Somebody has changed it.
            Err(Error::Settings { .. }) => act(self.follow().await?).await,
            answer => answer,
        }
    }

    async fn follow(&self) -> Result<Consumer<AnyQueues>, Error> {
        let working = self.queue.settings().await?.consumer.unwrap_or_default();
        let consumer = self.queue.consumer(working)?;
        *self.consumer.write() = Some(consumer.clone());
        Ok(consumer)
    }

    /// Takes jobs; waits so long for the first, and no longer than until the service ends. With how
    /// long the worker has for them.
    pub(crate) async fn take(
        &self,
        worker: &str,
        most: usize,
        wait: Duration,
        mut ending: watch::Receiver<bool>,
    ) -> Result<(TakeOutcome, Duration), Error> {
        let until = Instant::now() + wait;
        let mut turn = None;
        loop {
            let take = |hands: Consumer<AnyQueues>| async move {
                Ok((hands.take(worker, most).await?, hands))
            };
            let (taken, hands) = self.work(take).await?;
            let left = until.saturating_duration_since(Instant::now());
            let is_nothing = taken.jobs.is_empty() && taken.foreign.is_empty();
            if !is_nothing || left.is_zero() {
                return Ok((taken, hands.settings().visibility_timeout()));
            }
            let pause = taken.next.unwrap_or(IDLE).min(IDLE).min(left);
            let next = async {
                match &turn {
                    Some(_) => hands.wait(pause).await,
                    // Then it looks once more before it waits: this may have taken long.
                    None => turn = timeout_at(until, self.turns.lock()).await.ok(),
                }
            };
            tokio::select! {
                biased;
                _ = ending.wait_for(|ending| *ending) => {
                    return Ok((taken, hands.settings().visibility_timeout()));
                }
                () = next => {}
            }
        }
    }

    pub(crate) async fn stats(&self) -> Result<Stats, Error> {
        self.queue.stats().await
    }

    pub(crate) fn count(&self, outcome: Outcome) -> u64 {
        self.counts.get(outcome as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn seen(&self) -> Option<Stats> {
        *self.seen.lock()
    }
}
