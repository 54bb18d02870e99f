//! A queue that is changed or removed while a worker is at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::job::{Delivery, Job};
use crate::settings::{ConsumerSettings, ProducerSettings};

/// A change is followed whatever is reported or asked before the worker has followed: failures,
/// jobs that are held across a beat, and the next jobs.
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

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_removed_beside_its_worker_is_told_once_each_time() {
    let queue = queue();
    let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w");
    let (worker, told) = recorded(worker);
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
