//! Queues on Redis in simulated time: every answer is compared with the same queue in memory.

use std::fmt::Debug;
use std::future::Future;

use anyhow::Result;
use tokio::runtime::Runtime;
use tollgate::{LimitSet, ManualClock, StoreError};
use tollgate_experiments::Error;
use tollgate_experiments::experiment::{
    QueueCase, QueueHandles, QueueOpener, QueuesInMemory, SimulatedQueue,
};
use tollgate_queue::{
    Job, JobId, Layout, MemoryQueues, OfferOutcome, Queue, RedisQueues, Stats, TakeOutcome,
};
use tollgate_redis::Options;

use super::offers::remove;
use crate::redis_decider::run_name;
use crate::store;

/// Opens queues on a Redis, one after the other.
pub(super) struct QueuesOnRedis {
    options: Options,
    runtime: Runtime,
    run: String,
    /// The queues so far, with their rates.
    opened: Vec<(Queue<RedisQueues>, Option<LimitSet>)>,
}

impl QueuesOnRedis {
    pub(super) fn new(options: Options) -> Result<Self> {
        let run = run_name("lab");
        Ok(Self { options, runtime: store::runtime()?, run, opened: Vec::new() })
    }

    /// Removes the queues, and the counts of their rates.
    pub(super) fn clear(&mut self) -> Result<(), tollgate::Error> {
        for (queue, rate) in self.opened.drain(..) {
            self.runtime.block_on(remove(&queue, rate.as_ref(), &self.options))?;
        }
        Ok(())
    }
}

impl QueueOpener for QueuesOnRedis {
    fn open(
        &mut self,
        case: &QueueCase,
        clock: &ManualClock,
    ) -> Result<Box<dyn SimulatedQueue + '_>, Error> {
        let options = self.options.clone();
        let connecting = RedisQueues::with_clock(options, Layout::default(), clock.clone());
        let queues = self.runtime.block_on(connecting)?;
        let name = format!("{}-{}", self.run, self.opened.len());
        let redis = QueueHandles::new(queues, &name, case)?;
        self.opened.push((redis.queue.clone(), case.rate.clone()));
        let memory = QueuesInMemory::queue(case, clock)?;
        Ok(Box::new(ComparedQueue { redis, memory, runtime: &self.runtime }))
    }
}

/// A queue on Redis, and the same in memory.
struct ComparedQueue<'r> {
    redis: QueueHandles<RedisQueues>,
    memory: QueueHandles<MemoryQueues>,
    runtime: &'r Runtime,
}

impl ComparedQueue<'_> {
    /// The answer of Redis, if memory's is the same.
    fn compare<T: PartialEq + Debug>(
        &self,
        redis: impl Future<Output = Result<T, tollgate_queue::Error>>,
        memory: Result<T, Error>,
    ) -> Result<T, Error> {
        let (redis, memory) = (self.runtime.block_on(redis)?, memory?);
        if redis == memory {
            return Ok(redis);
        }
        Err(StoreError::permanent(format!(
            "Redis and memory do not say the same of a queue: {redis:?} and {memory:?}; this is a \
             fault of Tollgate, or somebody else writes its keys"
        ))
        .into())
    }
}

impl SimulatedQueue for ComparedQueue<'_> {
    fn offer(&mut self, job: &Job) -> Result<OfferOutcome, Error> {
        let memory = self.memory.offer(job);
        self.compare(self.redis.producer.offer(job), memory)
    }

    fn take(&mut self, worker: &str) -> Result<TakeOutcome, Error> {
        let memory = SimulatedQueue::take(&mut self.memory, worker);
        self.compare(self.redis.consumer.take(worker, 1), memory)
    }

    fn ack(&mut self, id: JobId) -> Result<u64, Error> {
        let memory = self.memory.ack(id);
        self.compare(self.redis.consumer.ack(&[id]), memory)
    }

    fn stats(&mut self) -> Result<Stats, Error> {
        let memory = self.memory.stats();
        self.compare(self.redis.queue.stats(), memory)
    }
}
