//! The queues that clients of a service may offer jobs to and take jobs from.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::Mutex as Turns;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tollgate_queue::{
    AnyQueues, Consumer, DeadJobs, DeadLetter, DeadOutcome, DeliveryTag, Error, Job, OfferOutcome,
    Producer, ProducerSettings, Queue, Settings, Stats, TakeOutcome,
};

use crate::listen::Undelivered;
use crate::service::{Deliveries, Fate};

/// How often the queues' statistics are read, for `/metrics`.
const REFRESH: Duration = Duration::from_secs(1);

/// How many of these pass before the settings are read again.
const REFRESHES: u32 = 10;

/// The most dead jobs in a list, each with its content.
const MAX_DEAD: usize = 20;

/// How long reading the statistics may take before the previous ones count as stale.
const PATIENCE: Duration = Duration::from_secs(3);

/// The polling interval for waiting workers when no signal announces a job.
const IDLE: Duration = Duration::from_millis(500);

/// The pauses between attempts to give a job back: each is twice as long as the one before, up to
/// the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(3_200);

/// The queues of a service, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<BTreeMap<String, ServedQueue>>);

/// One queue of the service.
#[derive(Debug)]
pub(crate) struct ServedQueue {
    queue: Queue<AnyQueues>,
    /// How jobs are offered; `None` until the queue's record was read.
    producer: RwLock<Option<Producer<AnyQueues>>>,
    /// Whether the settings were compared with those of the queue's record.
    is_checked: AtomicBool,
    /// The worker settings that were last read from the queue; `None` before the first use.
    consumer: RwLock<Option<Consumer<AnyQueues>>>,
    /// Requests that wait for a job take turns to look, so that all together look as often as one.
    turns: Turns<()>,
    /// Whether the service's settings, and not the queue's record, define how jobs are offered.
    is_said: bool,
    counts: [AtomicU64; Reception::ALL.len()],
    /// The outcomes of jobs that were taken for clients that did not confirm them.
    deliveries: Arc<Deliveries>,
    /// The last statistics of the queue; `None` while reading them fails.
    seen: Mutex<Option<Stats>>,
    /// The settings in the queue's record, as they were last read, or else those of the service.
    settings: Mutex<Settings>,
}

/// The outcome of an offer that this service received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reception {
    Accepted,
    Known,
    Refused,
    Failed,
}

impl Reception {
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Known, Self::Refused, Self::Failed];

    /// The outcome in lower case, for labels.
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
    /// Opens these queues, each with its producer settings; `None` takes those of the queue's
    /// record. Workers take jobs with `tollgate queue work` or `tollgate_queue::Worker`. They can
    /// also take them from this service if [`crate::Options::queue_workers`] allows it.
    ///
    /// # Errors
    /// An invalid setting, a queue that was made with other settings, or a store that could not
    /// answer.
    pub async fn open(
        queues: impl IntoIterator<Item = (Queue<AnyQueues>, Option<ProducerSettings>)>,
    ) -> Result<Self, Error> {
        let served = Self::unopened(queues)?;
        // Check at startup, when an operator reads the error, not at the first offer.
        for queue in served.0.values() {
            queue.check().await?;
        }
        Ok(served)
    }

    /// The same while the store is away: its knowledge of the queues is read when it has come.
    /// Settings that do not fit are logged then, and offers fail.
    ///
    /// # Errors
    /// An invalid setting.
    pub fn unopened(
        queues: impl IntoIterator<Item = (Queue<AnyQueues>, Option<ProducerSettings>)>,
    ) -> Result<Self, Error> {
        let mut served = BTreeMap::new();
        for (queue, offering) in queues {
            let producer = offering.clone().map(|it| queue.producer(it)).transpose()?;
            let name = queue.name().to_owned();
            let queue = ServedQueue {
                is_said: producer.is_some(),
                producer: RwLock::new(producer),
                is_checked: AtomicBool::new(false),
                queue,
                consumer: RwLock::default(),
                turns: Turns::default(),
                counts: Default::default(),
                deliveries: Arc::default(),
                seen: Mutex::default(),
                settings: Mutex::new(offering.map(Settings::from).unwrap_or_default()),
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

    /// All queues with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ServedQueue)> {
        self.0.iter().map(|(name, queue)| (&**name, queue))
    }

    /// Refreshes the statistics of all queues periodically.
    pub(crate) async fn follow(self) {
        if self.is_empty() {
            return;
        }
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for tick in (0..REFRESHES).cycle() {
            ticks.tick().await;
            for (name, queue) in &*self.0 {
                queue.check_late(name).await;
                if tick == 0
                    && let Ok(Ok(mut settings)) = timeout(PATIENCE, queue.queue.settings()).await
                {
                    // Of a queue without a job the service alone knows the bound.
                    let mut known = queue.settings.lock();
                    settings.producer = settings.producer.or_else(|| known.producer.take());
                    *known = settings;
                }
                let seen = timeout(PATIENCE, queue.queue.stats()).await;
                let seen = seen.ok().and_then(Result::ok);
                *queue.seen.lock() = seen;
            }
        }
    }
}

/// The producer settings in the queue's record.
async fn made(queue: &Queue<AnyQueues>) -> Result<ProducerSettings, Error> {
    queue.settings().await?.producer.ok_or_else(|| {
        Error::Invalid(format!(
            "the queue `{0}` is new: set how many jobs may wait, e.g. `{0}=100`",
            queue.name()
        ))
    })
}

impl ServedQueue {
    /// Compares the settings with those of the queue's record, or takes those.
    async fn check(&self) -> Result<(), Error> {
        self.producer().await?.check_settings().await?;
        self.is_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The same after a start without the store. Settings that do not fit are logged once.
    async fn check_late(&self, name: &str) {
        if self.is_checked.load(Ordering::Relaxed) {
            return;
        }
        let checked = timeout(PATIENCE, self.check()).await;
        // Any other error is of a store that is still away, or away again.
        if let Ok(Err(error @ (Error::Settings { .. } | Error::Invalid(_)))) = checked {
            self.is_checked.store(true, Ordering::Relaxed);
            tracing::error!(target: "tollgate", "`--queue {name}`: offers fail: {error}");
        }
    }

    /// The producer that offers jobs, by the settings of the service or of the queue's record.
    async fn producer(&self) -> Result<Producer<AnyQueues>, Error> {
        let known = self.producer.read().clone();
        match known {
            Some(producer) => Ok(producer),
            None => self.read_producer().await,
        }
    }

    async fn read_producer(&self) -> Result<Producer<AnyQueues>, Error> {
        let producer = self.queue.producer(made(&self.queue).await?)?;
        *self.producer.write() = Some(producer.clone());
        Ok(producer)
    }

    pub(crate) async fn offer(&self, job: &Job) -> Result<OfferOutcome, Error> {
        let mut offered = match self.producer().await {
            Ok(producer) => producer.offer(job).await,
            Err(error) => Err(error),
        };
        if !self.is_said && matches!(offered, Err(Error::Settings { .. })) {
            // The settings were changed meanwhile.
            offered = self.read_producer().await?.offer(job).await;
        }
        let outcome = match &offered {
            Ok(OfferOutcome::Accepted { .. }) => Reception::Accepted,
            Ok(OfferOutcome::Duplicate { .. }) => Reception::Known,
            Ok(_) => Reception::Refused,
            // The status of the response reports an error of the client.
            Err(Error::Invalid(_)) => return offered,
            Err(_) => Reception::Failed,
        };
        if let Some(count) = self.counts.get(outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        offered
    }

    /// Runs an action of a worker with the queue's current settings: those of its record, or the
    /// defaults where no worker has set any.
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
            // The settings were changed meanwhile.
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

    /// Takes jobs. Waits up to this long for the first one, and no longer than until `stops` is
    /// ready. Also returns the consumer that took them.
    pub(crate) async fn take(
        &self,
        worker: &str,
        most: usize,
        wait: Duration,
        stops: impl Future<Output = ()>,
    ) -> Result<(TakeOutcome, Consumer<AnyQueues>), Error> {
        let until = Instant::now() + wait;
        let mut stops = pin!(stops);
        let mut turn = None;
        loop {
            let take = |hands: Consumer<AnyQueues>| async move {
                Ok((hands.take(worker, most).await?, hands))
            };
            let (taken, hands) = self.work(take).await?;
            let left = until.saturating_duration_since(Instant::now());
            let is_nothing = taken.jobs.is_empty() && taken.foreign.is_empty();
            if !is_nothing || left.is_zero() {
                return Ok((taken, hands));
            }
            let pause = taken.next.unwrap_or(IDLE).min(IDLE).min(left);
            let next = async {
                match &turn {
                    Some(_) => hands.wait(pause).await,
                    // Waiting for the turn may take long, so the queue is read once more before the
                    // next wait.
                    None => turn = timeout_at(until, self.turns.lock()).await.ok(),
                }
            };
            tokio::select! {
                biased;
                () = &mut stops => return Ok((taken, hands)),
                () = next => {}
            }
        }
    }

    /// Gives these jobs back if their answer is not delivered, as if they had not been taken.
    pub(crate) fn undelivered(
        &self,
        taken: &TakeOutcome,
        hands: Consumer<AnyQueues>,
    ) -> Undelivered {
        let tags: Vec<DeliveryTag> =
            taken.jobs.iter().map(|job| DeliveryTag::new(job.id, job.attempt)).collect();
        let (deliveries, runtime) = (Arc::clone(&self.deliveries), Handle::try_current().ok());
        Undelivered::new(move || {
            let counts = Arc::clone(&deliveries);
            deliveries.later(runtime, async move {
                for tag in tags {
                    counts.count(Fate::of(give_back(&hands, tag).await));
                }
            });
        })
    }

    /// The oldest dead jobs that are kept.
    pub(crate) async fn dead(&self) -> Result<Vec<DeadLetter>, Error> {
        self.queue.dead_letters(MAX_DEAD).await
    }

    pub(crate) async fn offer_dead_again(&self, jobs: DeadJobs) -> Result<DeadOutcome, Error> {
        self.queue.offer_dead_again(jobs).await
    }

    pub(crate) async fn forget_dead(&self, jobs: DeadJobs) -> Result<DeadOutcome, Error> {
        self.queue.forget_dead(jobs).await
    }

    /// The number of jobs whose answers were not delivered, with this fate.
    pub(crate) fn undelivered_jobs(&self, fate: Fate) -> u64 {
        self.deliveries.get(fate)
    }

    pub(crate) async fn stats(&self) -> Result<Stats, Error> {
        self.queue.stats().await
    }

    pub(crate) fn count(&self, outcome: Reception) -> u64 {
        self.counts.get(outcome as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn seen(&self) -> Option<Stats> {
        *self.seen.lock()
    }

    /// The settings in the queue's record, as they were seconds ago.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }
}

/// Gives a job back, and tries again while the store fails, until the job comes back by itself.
/// False when it is done or in other hands; `None` if the store failed throughout.
async fn give_back(hands: &Consumer<AnyQueues>, tag: DeliveryTag) -> Option<bool> {
    let until = Instant::now() + hands.settings().visibility_timeout();
    let (mut pause, mut is_unsure) = (PAUSE, false);
    loop {
        match hands.release(tag).await {
            // An attempt whose answer was lost has done it.
            Ok(was_held) => return Some(was_held || is_unsure),
            Err(error) => is_unsure |= matches!(error, Error::Store(it) if it.is_ambiguous()),
        }
        if Instant::now() + pause >= until {
            return None;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
