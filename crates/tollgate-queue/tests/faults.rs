//! The state of a queue when its store is killed, or away.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_queue::{
    ConsumerSettings, Error, Job, JobId, Layout, OfferOutcome, Producer, ProducerSettings, Queue,
    RedisQueues, Worker, WorkerEvent,
};
use tollgate_redis::Options;
use tollgate_testbed::{RedisServer, redis_program};

fn server(arguments: &[&str]) -> Option<RedisServer> {
    if redis_program().is_none() {
        println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
        return None;
    }
    Some(RedisServer::with(arguments))
}

async fn queue(server: &RedisServer, form: Layout, deadline: Duration) -> Queue<RedisQueues> {
    let options = Options::from_url(&server.url()).unwrap().deadline(deadline);
    Queue::new(RedisQueues::connect_with(options, form).await.unwrap(), "q").unwrap()
}

async fn accepted(producer: &Producer<RedisQueues>, job: &Job) -> JobId {
    match producer.offer(job).await.unwrap() {
        OfferOutcome::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// The contents of Redis's append-only file are there again after `kill -9`.
#[tokio::test]
async fn a_redis_that_is_killed_keeps_what_it_has_answered() {
    for form in [Layout::Stream, Layout::List] {
        keeps(form).await;
    }
}

async fn keeps(form: Layout) {
    let Some(mut server) = server(&["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    let visibility = Duration::from_secs(2);
    let consumer_settings = ConsumerSettings::new().visibility(visibility);
    let mut all = BTreeSet::new();
    let (done, tag) = {
        let queue = queue(&server, form, Duration::from_secs(10)).await;
        let producer = queue.producer(ProducerSettings::new(100)).unwrap();
        for n in 0..60 {
            all.insert(
                accepted(&producer, &Job::new().field("n", n.to_string()).dedup_id(format!("{n}")))
                    .await,
            );
        }
        let consumer = queue.consumer(consumer_settings.clone()).unwrap();
        let taken = consumer.take("w", 30).await.unwrap().jobs;
        let ids: Vec<JobId> = taken.iter().map(|job| job.id).collect();
        let (done, tag) = ids.split_at(10);
        assert_eq!(consumer.ack(done).await.unwrap(), 10);
        (done.to_vec(), tag.to_vec())
    };
    server.restart();
    let queue = queue(&server, form, Duration::from_secs(10)).await;
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.accepted, stats.waiting, stats.in_flight, stats.done), (60, 30, 20, 10));
    let producer = queue.producer(ProducerSettings::new(100)).unwrap();
    let known = producer.offer(&Job::new().dedup_id("59")).await.unwrap();
    assert!(matches!(known, OfferOutcome::Duplicate { .. }), "{known:?}");
    // Waiting jobs are there immediately, held ones after their timeout, and finished ones never.
    let consumer = queue.consumer(consumer_settings).unwrap();
    let (mut first, mut again) = (BTreeSet::new(), BTreeSet::new());
    let begin = Instant::now();
    while first.len() + again.len() < 50 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} {}", first.len(), again.len());
        let taken = consumer.take("v", 100).await.unwrap();
        for job in &taken.jobs {
            assert!(if job.attempt == 1 { &mut first } else { &mut again }.insert(job.id), "twice");
        }
        consumer.ack(&taken.jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
        consumer.wait(taken.next.unwrap_or(visibility)).await;
    }
    assert_eq!(again, tag.into_iter().collect());
    let done: BTreeSet<JobId> = done.into_iter().collect();
    assert_eq!(&(&(&all - &done) - &again), &first);
    assert_eq!(queue.stats().await.unwrap().done, 60);
}

/// A producer gets an error immediately; a worker waits, and goes on.
#[tokio::test]
async fn a_redis_that_is_away_refuses_offers_and_is_waited_for_by_workers() {
    for form in [Layout::Stream, Layout::List] {
        is_waited_for(form).await;
    }
}

async fn is_waited_for(form: Layout) {
    let Some(mut server) = server(&["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    let queue = queue(&server, form, Duration::from_secs(1)).await;
    let producer = queue.producer(ProducerSettings::new(100)).unwrap();
    for _ in 0..20 {
        accepted(&producer, &Job::new()).await;
    }
    let (faults, handled) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let worker =
        Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").max_jobs(20).on_event({
            let faults = Arc::clone(&faults);
            // Once that it is away, and once that it is back.
            move |notice| match (notice, faults.fetch_add(1, Ordering::Relaxed)) {
                (WorkerEvent::Fault(error), 0) if error.is_transient() => {}
                (WorkerEvent::Recovered(_), 1) => {}
                (notice, nth) => panic!("{nth}: {notice:?}"),
            }
        });
    let (at, go) = tokio::sync::oneshot::channel::<()>();
    let came = Arc::new(tokio::sync::Notify::new());
    let at = std::sync::Mutex::new(Some(at));
    let handle = |_| {
        let nth = handled.fetch_add(1, Ordering::Relaxed);
        let came = Arc::clone(&came);
        let at = (nth == 9).then(|| at.lock().unwrap().take().unwrap());
        async move {
            if let Some(at) = at {
                // In the middle of this one the server goes, and comes back.
                at.send(()).unwrap();
                came.notified().await;
            }
            Ok(())
        }
    };
    let breaks = async {
        go.await.unwrap();
        server.kill();
        let error = producer.offer(&Job::new()).await.unwrap_err();
        assert!(matches!(&error, Error::Store(_)) && error.is_transient(), "{error}");
        came.notify_one();
        // The worker has something to say, and nobody to say it to.
        while faults.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok between two looks
        }
        server.restart();
    };
    let (ran, ()) = tokio::join!(worker.run(handle, core::future::pending()), breaks);
    let ran = ran.unwrap();
    assert_eq!((ran.done, ran.lost, ran.unreported), (20, 0, 0), "{ran:?}");
    assert_eq!(faults.load(Ordering::Relaxed), 2);
    assert_eq!(queue.stats().await.unwrap().done, 20);
}
