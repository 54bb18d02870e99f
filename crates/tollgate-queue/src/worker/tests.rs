//! Workers on a queue in memory, in time that passes as fast as nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate::{Clock, StoreError, Time};

use super::*;
use crate::job::{DeadLetter, DoneJob, InFlightJob, Job, TakeOutcome, WaitingJob};
use crate::memory::MemoryQueues;
use crate::model::{OfferOutcome, Stats};
use crate::queue::Queue;
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};

const START_US: u64 = 1_700_000_000_000_000;

/// The time of tokio's tests.
#[derive(Clone, Debug)]
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Time {
        let us = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Time::from_micros(START_US + us)
    }
}

fn queue() -> Queue<MemoryQueues> {
    Queue::new(MemoryQueues::with_clock(TestClock(Instant::now())), "q").unwrap()
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So long of the time that is paused.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // tidy: sleep-ok tokio's time is paused
}

/// Offers two hundred a second for ten seconds; how many were accepted and refused.
async fn press(queue: &Queue<MemoryQueues>) -> (u64, u64) {
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..2_000 {
        match producer.offer(&Job::new()).await.unwrap() {
            OfferOutcome::Accepted { .. } => accepted += 1,
            _ => refused += 1,
        }
        pass(millis(5)).await;
    }
    (accepted, refused)
}

/// Document 001: the processor decides how fast requests are let in, and two let in twice as many.
#[tokio::test(start_paused = true)]
async fn what_is_let_in_is_what_is_worked_off() {
    for (workers, expected) in [(1, 1_000), (2, 2_000)] {
        let queue = queue();
        let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
        let mut all = JoinSet::new();
        for n in 0..workers {
            let worker = Worker::new(
                queue.consumer(ConsumerSettings::new()).unwrap(),
                format!("worker {n}"),
            );
            let mut stopped = stop.subscribe();
            all.spawn(async move {
                // A hundred a second each.
                let handle = |_| async {
                    pass(millis(10)).await;
                    Ok(())
                };
                worker.run(handle, async { drop(stopped.recv().await) }).await.unwrap()
            });
        }
        let (accepted, refused) = press(&queue).await;
        // Timers are exact to a millisecond.
        let off = accepted.abs_diff(expected);
        assert!(off <= expected / 8 + 10, "{workers}: {accepted} accepted, {refused} refused");
        assert_eq!(accepted + refused, 2_000);
        assert!(workers == 2 || refused > 800, "{refused}");
        stop.send(()).unwrap();
        let mut done = 0;
        while let Some(ran) = all.join_next().await {
            done += ran.unwrap().done;
        }
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.done, stats.refused, stats.accepted), (done, refused, accepted));
        assert_eq!(stats.in_flight, 0, "what was in hand is done");
        assert_eq!(stats.waiting, accepted - done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_over_all_workers_is_used_and_never_exceeded() {
    let queue = queue();
    let producer = queue.producer(ProducerSettings::new(2_000)).unwrap();
    for _ in 0..2_000 {
        producer.offer(&Job::new()).await.unwrap();
    }
    let rate = "100/s via sliding_log".parse().unwrap();
    let settings = ConsumerSettings::new().rate(rate);
    let begin = Instant::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let mut all = JoinSet::new();
    for n in 0..4 {
        let worker = Worker::new(queue.consumer(settings.clone()).unwrap(), format!("worker {n}"))
            .concurrency(10)
            .batch(10);
        let times = Arc::clone(&times);
        all.spawn(async move {
            let handle = move |_| {
                times.lock().push(begin.elapsed());
                async { Ok(()) }
            };
            worker.run(handle, pass(Duration::from_millis(9_999))).await.unwrap()
        });
    }
    while all.join_next().await.is_some() {}
    let times = times.lock().clone();
    for (place, from) in times.iter().enumerate() {
        let within = times[place..].iter().take_while(|at| **at < *from + millis(1_000)).count();
        assert!(within <= 100, "{within} from {from:?} on");
    }
    assert!(times.len() >= 970, "{} of 1,000", times.len());
}

#[tokio::test(start_paused = true)]
async fn what_fails_comes_back_later_each_time_and_dies() {
    let queue = queue();
    queue
        .producer(ProducerSettings::new(9))
        .unwrap()
        .offer(&Job::new().field("a", "1"))
        .await
        .unwrap();
    let settings = ConsumerSettings::new().deliveries(4);
    let worker =
        Worker::new(queue.consumer(settings).unwrap(), "w").backoff(millis(1_000), millis(3_000));
    let begin = Instant::now();
    let times = Mutex::new(Vec::new());
    let handle = |job: Delivery| {
        times.lock().push(begin.elapsed());
        assert_ne!(job.attempt, 2, "a panic before there is a future is a failure");
        async move {
            assert_ne!(job.attempt, 3, "and one within it");
            Err(Failure::new("no such mailbox"))
        }
    };
    let ran = worker.run(handle, pass(Duration::from_secs(60))).await.unwrap();
    assert_eq!((ran.requeued, ran.dead, ran.done), (3, 1, 0));
    let times = times.lock().clone();
    let pauses: Vec<Duration> = times.windows(2).map(|two| two[1] - two[0]).collect();
    for (pause, longest) in pauses.iter().zip([1_000, 2_000, 3_000]) {
        // Looked for when it is due, to a millisecond.
        let range = millis(longest / 2)..=millis(longest + 2);
        assert!(range.contains(pause), "{pauses:?}");
    }
    let dead = queue.dead_letters(9).await.unwrap();
    assert_eq!((dead[0].deliveries, dead[0].reason.as_deref()), (4, Some("no such mailbox")));
}

#[tokio::test(start_paused = true)]
async fn who_takes_long_keeps_its_job_and_who_is_dead_does_not() {
    let queue = queue();
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let settings = ConsumerSettings::new().visibility(millis(300));
    // Somebody took it and died.
    assert_eq!(
        queue.consumer(settings.clone()).unwrap().take("dead", 1).await.unwrap().jobs.len(),
        1
    );
    let count = AtomicUsize::new(0);
    let count = &count;
    let run = |name: &str| {
        let worker = Worker::new(queue.consumer(settings.clone()).unwrap(), name);
        async move {
            let handle = |job: Delivery| {
                count.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert_eq!(job.attempt, 2);
                    pass(Duration::from_secs(5)).await;
                    Ok(())
                }
            };
            worker.run(handle, pass(Duration::from_secs(10))).await.unwrap()
        }
    };
    let (one, other) = tokio::join!(run("one"), run("other"));
    assert_eq!((one.done + other.done, count.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_in_hand_is_done_and_what_was_taken_given_back() {
    let queue = queue();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    for _ in 0..9 {
        producer.offer(&Job::new()).await.unwrap();
    }
    let worker =
        Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").concurrency(2).batch(5);
    let handle = |_| async {
        pass(millis(100)).await;
        Ok(())
    };
    let ran = worker.run(handle, pass(millis(50))).await.unwrap();
    assert_eq!((ran.done, ran.released), (2, 3));
    let ran = worker.clone().max_jobs(3).run(handle, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, ran.released), (3, 0));
    let taken = queue.consumer(ConsumerSettings::new()).unwrap().take("w", 9).await.unwrap();
    assert!(taken.jobs.len() == 4 && taken.jobs.iter().all(|job| job.attempt == 1), "{taken:?}");
}

/// Queues that fail as often as is said.
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

/// The store is away for a moment when the last job ends, long after the worker was told to stop.
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

/// What could not be begun has had no delivery.
#[tokio::test(start_paused = true)]
async fn what_was_not_begun_is_given_back_and_the_worker_waits() {
    let queue = Queue::new(MemoryQueues::with_clock(TestClock(Instant::now())), "q").unwrap();
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let settings = ConsumerSettings::new().deliveries(2);
    let worker = Worker::new(queue.consumer(settings).unwrap(), "w").until_empty(true);
    let tries = AtomicUsize::new(0);
    let begin = Instant::now();
    let handle = |job: Delivery| {
        let nth = tries.fetch_add(1, Ordering::Relaxed);
        async move {
            assert_eq!(job.attempt, 1);
            if nth < 9 { Err(Failure::not_started("no program")) } else { Ok(()) }
        }
    };
    let ran = worker.run(handle, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, ran.released, ran.dead), (1, 9, 0), "{ran:?}");
    assert!(begin.elapsed() >= Duration::from_secs(9), "it has waited: {:?}", begin.elapsed());
}

/// A change is followed whatever is said or asked before the worker has followed: what failed, what
/// is held across a beat, and the next jobs.
#[tokio::test(start_paused = true)]
async fn a_change_is_followed_also_where_several_questions_are_refused() {
    let others = [
        ConsumerSettings::new().visibility(millis(1_800)).keep_dead(7),
        ConsumerSettings::new().visibility(millis(1_800)).rate("100/s".parse().unwrap()),
        ConsumerSettings::new().visibility(millis(200)),
        ConsumerSettings::new().visibility(millis(9_000)),
    ];
    for other in others {
        // The first fails when it is time to take again, too: before the beat, at it, and after it.
        // A second is held across it or not.
        for (fails_ms, jobs) in [550, 550, 600, 601, 700].into_iter().zip([1, 2, 2, 2, 2]) {
            let queue = queue();
            let producer = queue.producer(ProducerSettings::new(9)).unwrap();
            for _ in 0..jobs {
                producer.offer(&Job::new()).await.unwrap();
            }
            let settings = ConsumerSettings::new().visibility(millis(1_800));
            let changed = Arc::new(Mutex::new(Vec::new()));
            let worker = Worker::new(queue.consumer(settings).unwrap(), "w")
                .concurrency(usize::try_from(jobs).unwrap())
                .backoff(millis(1), millis(1))
                .until_empty(true)
                .on_event({
                    let changed = Arc::clone(&changed);
                    move |notice| match notice {
                        WorkerEvent::Changed(settings) => changed.lock().push(settings.clone()),
                        other => panic!("{other:?}"),
                    }
                });
            let begun = AtomicUsize::new(0);
            let handle = |job: Delivery| {
                let is_first = begun.fetch_add(1, Ordering::Relaxed) == 0;
                let (queue, other) = (queue.clone(), other.clone());
                async move {
                    if is_first {
                        pass(millis(20)).await;
                        queue.change(other).await.unwrap();
                        pass(millis(fails_ms - 20)).await;
                        return Err(Failure::new("no"));
                    }
                    pass(millis(if job.attempt == 1 { 1_000 } else { 1 })).await;
                    Ok(())
                }
            };
            let ran = worker.run(handle, core::future::pending()).await.unwrap();
            assert_eq!((ran.done, ran.requeued, ran.lost), (jobs, 1, 0), "{other:?} {fails_ms}");
            assert_eq!(*changed.lock(), std::slice::from_ref(&other));
        }
    }
}

/// Two changes, the second of which takes the first back or comes while the first is followed.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_is_none() {
    let queue = queue();
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let settings = ConsumerSettings::new();
    let worker = Worker::new(queue.consumer(settings.clone()).unwrap(), "w").until_empty(true);
    let handle = |_| {
        let (queue, settings) = (queue.clone(), settings.clone());
        async move {
            queue.change(settings.clone().keep_dead(7)).await.unwrap();
            pass(millis(700)).await;
            queue.change(settings).await.unwrap();
            Ok(())
        }
    };
    let ran = worker.concurrency(2).run(handle, core::future::pending()).await.unwrap();
    assert_eq!(ran.done, 1);
}

/// A job that is taken after the visibility timeout was lowered is extended in time.
#[tokio::test(start_paused = true)]
async fn a_visibility_that_is_lowered_delivers_nothing_twice() {
    let queue = queue();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    producer.offer(&Job::new()).await.unwrap();
    let settings = ConsumerSettings::new().visibility(millis(30_000));
    let worker = Worker::new(queue.consumer(settings.clone()).unwrap(), "w").concurrency(4);
    let count = AtomicUsize::new(0);
    let handle = |_| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let (queue, producer, settings) = (queue.clone(), producer.clone(), settings.clone());
        async move {
            if is_first {
                queue.change(settings.visibility(millis(300))).await.unwrap();
                producer.offer(&Job::new()).await.unwrap();
            }
            pass(Duration::from_secs(5)).await;
            Ok(())
        }
    };
    let ran = worker.run(handle, pass(Duration::from_secs(6))).await.unwrap();
    assert_eq!((ran.done, ran.lost, count.load(Ordering::Relaxed)), (2, 0, 2));
}

/// What a worker tells of, in its order.
fn told<B: Backend>(worker: Worker<B>) -> (Worker<B>, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    (worker.on_event(move |notice| tell.lock().push(format!("{notice:?}"))), told)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_once_and_its_return_with_how_long() {
    let queue = failing(7, false);
    queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").max_jobs(1);
    let (worker, told) = told(worker);
    worker.run(|_| async { Ok(()) }, core::future::pending()).await.unwrap();
    let told = told.lock().clone();
    assert!(told.len() == 2 && told[0].starts_with("Fault("), "{told:?}");
    // 0.1 s, and twice as long each time up to 5 s.
    assert!(told[1].starts_with("Recovered(11.3"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_removed_beside_its_worker_is_told_once_each_time() {
    let queue = queue();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w");
    let (worker, told) = told(worker);
    let removes = async {
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        // Nobody has made it yet: that is nothing that was removed.
        pass(millis(2_000)).await;
        for _ in 0..2 {
            producer.offer(&Job::new()).await.unwrap();
            pass(millis(2_000)).await;
            assert!(queue.remove().await.unwrap());
            pass(millis(2_000)).await;
        }
    };
    let ran = worker.run(|_| async { Ok(()) }, removes).await.unwrap();
    assert_eq!(ran.done, 2);
    assert_eq!(*told.lock(), ["Removed", "Removed"]);
}
