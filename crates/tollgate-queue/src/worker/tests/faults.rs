//! A store that fails, for a while or for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::StoreError;

use super::*;
use crate::job::{DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, TakeOutcome, WaitingJob};
use crate::memory::MemoryQueues;
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::queue::Queue;
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

/// Queues that fail this often.
#[derive(Debug)]
struct Failing {
    queues: MemoryQueues,
    faults: Arc<AtomicU64>,
    is_permanent: bool,
}

impl Failing {
    fn fault(&self) -> Result<(), Error> {
        let take = |faults: u64| faults.checked_sub(1);
        match self.faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Err(_) => Ok(()),
            Ok(_) if self.is_permanent => Err(StoreError::permanent("no right to").into()),
            Ok(_) => Err(StoreError::transient("away").into()),
        }
    }
}

impl Backend for Failing {
    async fn offer(
        &self,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        self.queues.offer(queue, settings, job).await
    }

    async fn take(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        if !self.is_permanent {
            self.fault()?;
        }
        self.queues.take(queue, settings, worker, max).await
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        self.fault()?;
        self.queues.ack(queue, ids).await
    }

    async fn nack(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        self.queues.nack(queue, settings, tag, after, reason).await
    }

    async fn extend(
        &self,
        queue: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        self.queues.extend(queue, settings, tag).await
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        self.queues.release(queue, tag).await
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        self.queues.settings(queue).await
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        self.queues.change(queue, settings).await
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        self.queues.pause(queue, is_paused).await
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        self.queues.remove(queue).await
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        self.queues.names().await
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        self.queues.stats(queue).await
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        self.queues.waiting(queue, max).await
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        self.queues.in_flight(queue, max).await
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        self.queues.done_jobs(queue, max).await
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        self.queues.dead_letters(queue, max).await
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        self.queues.take_dead_letter(queue, id).await
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        self.queues.forget_dead_letter(queue, id).await
    }

    async fn wait(&self, queue: &str, max: Duration) {
        self.queues.wait(queue, max).await;
    }
}

fn failing(faults: u64, is_permanent: bool) -> Queue<Failing> {
    let queues = MemoryQueues::with_clock(TestClock(Instant::now()));
    let faults = Arc::new(faults.into());
    Queue::new(Failing { queues, faults, is_permanent }, "q").unwrap()
}

#[tokio::test(start_paused = true)]
async fn faults_that_pass_are_waited_for() {
    let queue = failing(7, false);
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").max_jobs(1);
    let ran = worker.run(|_| async { Ok(()) }, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, queue.stats().await.unwrap().done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_does_not_pass_ends_it_when_what_is_in_hand_is_finished() {
    let queue = failing(1, true);
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    for long in ["", "yes"] {
        producer.offer(&Job::new().field("long", long)).await.unwrap();
    }
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").concurrency(2);
    let handle = |job: Delivery| async move {
        if job.text("long") == Some("yes") {
            pass(Duration::from_secs(3)).await;
        }
        Ok(())
    };
    let error = worker.run(handle, core::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("no right to"), "{error}");
    // Both were done, and said to be so when it went again.
    assert_eq!(queue.stats().await.unwrap().done, 2);
}

/// The store is away for a moment when the last job ends, long after the worker was asked to stop.
#[tokio::test(start_paused = true)]
async fn the_grace_begins_when_the_last_job_is_over() {
    let (faults, queues) = (Arc::default(), MemoryQueues::with_clock(TestClock(Instant::now())));
    let failing = Failing { queues, faults: Arc::clone(&faults), is_permanent: false };
    let queue = Queue::new(failing, "q").unwrap();
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w");
    let handle = |_| {
        let faults: Arc<AtomicU64> = Arc::clone(&faults);
        async move {
            pass(millis(60_000)).await;
            faults.store(2, Ordering::Relaxed);
            Ok(())
        }
    };
    let ran = worker.run(handle, pass(millis(10))).await.unwrap();
    assert_eq!((ran.done, ran.unreported), (1, 0), "{ran:?}");
    assert_eq!(queue.stats().await.unwrap().done, 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_once_and_its_return_with_how_long() {
    let queue = failing(7, false);
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").max_jobs(1);
    let (worker, told) = recorded(worker);
    worker.run(|_| async { Ok(()) }, core::future::pending()).await.unwrap();
    let told = told.lock().clone();
    assert!(told.len() == 2 && told[0].starts_with("Fault("), "{told:?}");
    // 0.1 s, and twice as long each time up to 5 s.
    assert!(told[1].starts_with("Recovered(11.3"), "{told:?}");
}
