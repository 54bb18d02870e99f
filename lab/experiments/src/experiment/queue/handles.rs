//! The queue of a case, and what a simulation does with it.

use core::future::Future;
use core::time::Duration;

use tollgate::{ManualClock, at_once};
use tollgate_queue::{
    Backend, Consumer, ConsumerSettings, Job, JobId, MemoryQueues, OfferOutcome, Producer,
    ProducerSettings, Queue, Stats, TakeOutcome,
};

use super::case::{QueueCase, VISIBILITY_US};
use crate::error::Error;

/// The queue of a case in any store, with its producers and its workers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueHandles<B> {
    /// The queue.
    pub queue: Queue<B>,
    /// Offers jobs.
    pub producer: Producer<B>,
    /// Takes jobs.
    pub consumer: Consumer<B>,
}

impl<B: Backend + Clone> QueueHandles<B> {
    /// The queue of this case under a name in `backend`.
    ///
    /// # Errors
    /// The name or a setting is invalid.
    pub fn new(backend: B, name: &str, case: &QueueCase) -> Result<Self, Error> {
        let queue = Queue::new(backend, name)?;
        let producer = queue.producer(ProducerSettings::new(case.bound).counts(case.counts))?;
        let working = ConsumerSettings::new().visibility(Duration::from_micros(VISIBILITY_US));
        let working = match &case.rate {
            Some(rate) => working.rate(rate.clone()),
            None => working,
        };
        let consumer = queue.consumer(working)?;
        Ok(Self { queue, producer, consumer })
    }
}

/// A queue in simulated time. Its clock is that of the events.
pub trait SimulatedQueue {
    /// Offers a job.
    ///
    /// # Errors
    /// The queue gave no answer; the run ends then, as with the others.
    fn offer(&mut self, job: &Job) -> Result<OfferOutcome, Error>;

    /// Takes at most one job for this worker.
    ///
    /// # Errors
    /// As [`SimulatedQueue::offer`].
    fn take(&mut self, worker: &str) -> Result<TakeOutcome, Error>;

    /// Reports a job as done, and returns how many existed.
    ///
    /// # Errors
    /// As [`SimulatedQueue::offer`].
    fn ack(&mut self, id: JobId) -> Result<u64, Error>;

    /// The current numbers and the totals.
    ///
    /// # Errors
    /// As [`SimulatedQueue::offer`].
    fn stats(&mut self) -> Result<Stats, Error>;
}

/// Opens the queues of an experiment in simulated time.
pub trait QueueOpener {
    /// A new queue for a case, with this clock.
    ///
    /// # Errors
    /// The queue cannot be used.
    fn open(
        &mut self,
        case: &QueueCase,
        clock: &ManualClock,
    ) -> Result<Box<dyn SimulatedQueue + '_>, Error>;
}

/// Opens queues in memory.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct QueuesInMemory;

/// The name of a case's queue in memory. Each case has its own store.
const NAME: &str = "lab";

impl QueuesInMemory {
    /// The queue of a case, with this clock.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn queue(
        case: &QueueCase,
        clock: &ManualClock,
    ) -> Result<QueueHandles<MemoryQueues>, Error> {
        QueueHandles::new(MemoryQueues::with_clock(clock.clone()), NAME, case)
    }
}

impl QueueOpener for QueuesInMemory {
    fn open(
        &mut self,
        case: &QueueCase,
        clock: &ManualClock,
    ) -> Result<Box<dyn SimulatedQueue + '_>, Error> {
        Ok(Box::new(Self::queue(case, clock)?))
    }
}

impl SimulatedQueue for QueueHandles<MemoryQueues> {
    fn offer(&mut self, job: &Job) -> Result<OfferOutcome, Error> {
        Ok(now(self.producer.offer(job))?)
    }

    fn take(&mut self, worker: &str) -> Result<TakeOutcome, Error> {
        Ok(now(self.consumer.take(worker, 1))?)
    }

    fn ack(&mut self, id: JobId) -> Result<u64, Error> {
        Ok(now(self.consumer.ack(&[id]))?)
    }

    fn stats(&mut self) -> Result<Stats, Error> {
        Ok(now(self.queue.stats())?)
    }
}

/// The result of a future of a queue in memory, which is always ready.
fn now<T>(answer: impl Future<Output = T>) -> T {
    at_once(answer).unwrap_or_else(|| unreachable!("queues in memory answer at once"))
}
