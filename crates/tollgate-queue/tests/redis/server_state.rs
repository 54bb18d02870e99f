//! A server that forgets, is full, refuses, or whose clock goes back.

use std::time::Duration;

use tollgate::{ManualClock, Time};
use tollgate_queue::{
    ConsumerSettings, Job, Layout, OfferOutcome, ProducerSettings, Queue, RedisQueues,
};
use tollgate_redis::Options;
use tollgate_testbed::RedisServer;

use super::*;

#[tokio::test]
async fn a_server_that_forgot_everything_is_as_a_new_one() {
    for form in FORMS {
        let Some(server) = own() else { return };
        let queue = Queue::new(queues(&server, form).await, "q").unwrap();
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        producer.offer(&Job::new()).await.unwrap();
        let tag = consumer.take("w", 1).await.unwrap().jobs[0].tag();
        server.command(&[b"FLUSHALL"]);
        // A worker sends something before anybody takes.
        assert!(!consumer.extend(tag).await.unwrap());
        assert_eq!(consumer.ack(&[tag.id]).await.unwrap(), 0);
        assert!(consumer.take("w", 1).await.unwrap().jobs.is_empty());
        producer.offer(&Job::new()).await.unwrap();
        assert_eq!(consumer.take("w", 1).await.unwrap().jobs.len(), 1);
    }
}

#[tokio::test]
async fn a_group_that_is_gone_is_made_anew_and_loses_nothing() {
    let Some(server) = server() else { return };
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let queues = RedisQueues::with_clock(options(server), Layout::Stream, clock.clone());
    let name = name();
    let queue = Queue::new(queues.await.unwrap(), &name).unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    let consumer =
        queue.consumer(ConsumerSettings::new().visibility(Duration::from_secs(30))).unwrap();
    let key = format!("tgq1:{{queue:{name}}}:jobs");
    let destroy = || {
        server.command(&[b"XGROUP", b"DESTROY", key.as_bytes(), b"workers"]);
    };
    for _ in 0..3 {
        producer.offer(&Job::new()).await.unwrap();
    }
    let first = consumer.take("w", 1).await.unwrap().jobs[0].id;
    // Held jobs stay held, and waiting jobs are delivered.
    destroy();
    let second = consumer.take("w", 1).await.unwrap().jobs[0].id;
    assert!(second > first, "{second} {first}");
    // Held jobs come back.
    clock.advance(Duration::from_secs(30));
    destroy();
    let back = consumer.take("w", 2).await.unwrap().jobs;
    let back: Vec<_> = back.iter().map(|job| (job.id, job.attempt)).collect();
    assert_eq!(back, [(first, 2), (second, 2)]);
    // Finished jobs stay finished.
    destroy();
    assert_eq!(consumer.ack(&[first, second]).await.unwrap(), 2);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.done), (1, 0, 2));
    assert_eq!(server.command(&[b"XLEN", key.as_bytes()]).int(), Some(1));
    // Jobs that the new group does not know are not cut off with the finished ones.
    for _ in 0..2 {
        producer.offer(&Job::new()).await.unwrap();
    }
    let unknown = consumer.take("w", 1).await.unwrap().jobs[0].id;
    destroy();
    let known = consumer.take("w", 2).await.unwrap().jobs;
    let ids: Vec<_> = known.iter().map(|job| job.id).collect();
    assert_eq!((consumer.ack(&ids).await.unwrap(), ids.len()), (2, 2));
    clock.advance(Duration::from_secs(30));
    let back = consumer.take("w", 9).await.unwrap().jobs;
    assert_eq!(back.iter().map(|job| job.id).collect::<Vec<_>>(), [unknown]);
}

#[tokio::test]
async fn a_server_that_is_full_can_be_drained() {
    for form in FORMS {
        let Some(server) = own() else { return };
        let queue = Queue::new(queues(&server, form).await, "q").unwrap();
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        producer.offer(&Job::new()).await.unwrap();
        server.command(&[b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction"]);
        server.command(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        let error = producer.offer(&Job::new()).await.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let id = consumer.take("w", 1).await.unwrap().jobs[0].id;
        assert_eq!(consumer.ack(&[id]).await.unwrap(), 1);
        assert_eq!(queue.stats().await.unwrap().done, 1);
    }
}

#[tokio::test]
async fn a_right_that_is_missing_is_no_fault_that_passes() {
    let Some(server) = server() else { return };
    for (form, right) in [(Layout::Stream, &b"-xadd"[..]), (Layout::List, b"-rpush")] {
        let user = format!("u{}", name());
        server.command(&[
            b"ACL",
            b"SETUSER",
            user.as_bytes(),
            b"on",
            b"nopass",
            b"~*",
            b"+@all",
            right,
        ]);
        let url = server.url().replace("redis://", &format!("redis://{user}:x@"));
        let options = Options::from_url(&url).unwrap().deadline(Duration::from_secs(10));
        let queues = RedisQueues::connect_with(options, form).await.unwrap();
        let queue = Queue::new(queues, name()).unwrap();
        let error =
            queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap_err();
        assert!(!error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn ids_grow_also_when_the_servers_clock_goes_back() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let queues = RedisQueues::with_clock(options(server), form, clock.clone()).await.unwrap();
        let queue = Queue::new(queues, name()).unwrap();
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        let mut ids = Vec::new();
        for us in [1_700_000_000_000_000, 1_699_999_000_000_000, 1_700_000_000_000_500] {
            clock.set(Time::from_micros(us));
            match producer.offer(&Job::new()).await.unwrap() {
                OfferOutcome::Accepted { id, .. } => ids.push(id.to_string()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ids, ["1700000000000-0", "1700000000000-1", "1700000000000-2"]);
    }
}

#[tokio::test]
async fn what_is_gone_leaves_nothing_behind() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let queues = RedisQueues::with_clock(options(server), form, clock.clone()).await.unwrap();
        let name = name();
        let queue = Queue::new(queues, &name).unwrap();
        let producer =
            queue.producer(ProducerSettings::new(9).dedup_window(Duration::from_secs(60))).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new().deliveries(2).keep_dead(0)).unwrap();
        let job = Job::new().dedup_id("x").client("ann").deadline(Duration::from_secs(600));
        let known = producer.offer(&job).await.unwrap();
        clock.advance(Duration::from_micros(59_999_999));
        assert!(
            matches!(producer.offer(&job).await.unwrap(), OfferOutcome::Duplicate { .. }),
            "{known:?}"
        );
        clock.advance(Duration::from_micros(1));
        assert!(matches!(producer.offer(&job).await.unwrap(), OfferOutcome::Accepted { .. }));
        for reason in ["", "it broke"] {
            for job in consumer.take("w", 9).await.unwrap().jobs {
                consumer.nack(job.tag(), Duration::ZERO, reason).await.unwrap();
            }
        }
        producer.offer(&Job::new().client("bob").deadline(Duration::from_secs(1))).await.unwrap();
        clock.advance(Duration::from_secs(1));
        consumer.take("w", 9).await.unwrap();
        for _ in 0..3 {
            let job = Job::new().client("cem").deadline(Duration::from_secs(600));
            producer.offer(&job).await.unwrap();
        }
        let ids: Vec<_> =
            consumer.take("w", 9).await.unwrap().jobs.iter().map(|it| it.id).collect();
        assert_eq!(consumer.ack(&ids[..1]).await.unwrap(), 1);
        assert_eq!(consumer.ack(&ids[1..]).await.unwrap(), 2);
        // The stream, which is empty; the other keys; and the ids that are remembered.
        let keys = keys_of(server, &name).into_iter().map(|key| String::from_utf8(key).unwrap());
        let keys: Vec<_> = keys.map(|key| key.rsplit('}').next().unwrap().to_owned()).collect();
        let stream = if form == Layout::Stream { vec![":jobs"] } else { vec![] };
        assert_eq!(keys, [stream, vec![":meta", ":once:x"]].concat());
    }
}

/// The keys of a queue.
pub(crate) fn keys_of(server: &RedisServer, name: &str) -> Vec<Vec<u8>> {
    let begin = format!("tgq1:{{queue:{name}}}:").into_bytes();
    let mut keys: Vec<_> =
        server.keys().into_iter().filter(|key| key.starts_with(&begin)).collect();
    keys.sort_unstable();
    keys
}
