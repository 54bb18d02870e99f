//! Workers on a queue in memory, in time that passes as fast as nothing happens.

mod changes;
mod faults;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate::{Clock, Time};

use super::*;
use crate::job::{Delivery, Job};
use crate::memory::MemoryQueues;
use crate::outcome::OfferOutcome;
use crate::queue::Queue;
use crate::settings::{ConsumerSettings, ProducerSettings};

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

/// A job that could not be started has had no delivery.
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

/// The events of a worker, in its order.
fn recorded<B: Backend>(worker: Worker<B>) -> (Worker<B>, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    (worker.on_event(move |notice| tell.lock().push(format!("{notice:?}"))), told)
}
