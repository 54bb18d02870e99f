//! Queues on a real Redis, in both forms, do what those in memory do, operation by operation.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../histories/mod.rs"]
mod histories;
mod offers;
mod parity;
mod prefix;
mod refused;
mod server_state;
mod shared;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use histories::formats;
use server_state::keys_of;
use tollgate_queue::{
    ConsumerSettings, Delivery, DeliveryTag, Error, Job, Layout, MemoryQueues, OfferOutcome,
    ProducerSettings, Queue, RedisQueues, Worker,
};
use tollgate_redis::Options;
use tollgate_testbed::{RedisServer, redis_program};

/// One server for all tests; none where none is installed.
fn server() -> Option<&'static RedisServer> {
    static SERVER: LazyLock<Option<RedisServer>> = LazyLock::new(own);
    SERVER.as_ref()
}

/// A server of a test's own.
fn own() -> Option<RedisServer> {
    if redis_program().is_none() {
        println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
        return None;
    }
    Some(RedisServer::start())
}

fn options(server: &RedisServer) -> Options {
    Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(10))
}

fn name() -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("q{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

const FORMS: [Layout; 2] = [Layout::Stream, Layout::List];

async fn queues(server: &RedisServer, form: Layout) -> RedisQueues {
    RedisQueues::connect_with(options(server), form).await.unwrap()
}

#[tokio::test]
async fn workers_share_a_queue_by_the_servers_clock() {
    let Some(server) = server() else { return };
    for form in FORMS {
        workers_share(Queue::new(queues(server, form).await, name()).unwrap()).await;
    }
}

async fn workers_share(queue: Queue<RedisQueues>) {
    let producer = queue.producer(ProducerSettings::new(500)).unwrap();
    let mut ids = Vec::new();
    for n in 0..500 {
        match producer.offer(&Job::new().field("n", n.to_string())).await.unwrap() {
            OfferOutcome::Accepted { id, depth } => {
                assert_eq!(depth, n + 1);
                ids.push(id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(ids.is_sorted(), "ids grow");
    assert!(matches!(
        producer.offer(&Job::new()).await.unwrap(),
        OfferOutcome::Full { depth: 500, .. }
    ));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..4 {
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        let worker = Worker::new(consumer, format!("w{n}")).concurrency(8).batch(16);
        let (seen, mut stopped) = (seen.clone(), stop.subscribe());
        all.spawn(async move {
            let handle = move |job: Delivery| {
                seen.lock().unwrap().push(job.text("n").unwrap().parse::<u64>().unwrap());
                async { Ok(()) }
            };
            worker.run(handle, async { drop(stopped.recv().await) }).await.unwrap()
        });
    }
    let begin = std::time::Instant::now();
    while queue.stats().await.unwrap().done < 500 {
        assert!(begin.elapsed() < Duration::from_secs(60), "no progress");
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    let mut done = 0;
    while let Some(ran) = all.join_next().await {
        done += ran.unwrap().done;
    }
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!((done, seen), (500, (0..500).collect()));
}

#[tokio::test]
async fn what_earlier_builds_wrote_is_understood() {
    let Some(server) = own() else { return };
    for build in formats::BUILDS {
        for (form, file) in [(Layout::Stream, "queue-stream.txt"), (Layout::List, "queue-list.txt")]
        {
            server.command(&[b"FLUSHALL"]);
            let written = std::fs::read_to_string(formats::file(build, file)).unwrap();
            for line in written.lines() {
                let (key, dump) = line.rsplit_once(' ').unwrap();
                let dump: Vec<u8> = (0..dump.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&dump[at..at + 2], 16).unwrap())
                    .collect();
                let restored = server.command(&[b"RESTORE", key.as_bytes(), b"0", &dump]);
                assert_eq!(restored.text().as_deref(), Some("OK"), "{key}: {restored:?}");
            }
            let queue = Queue::new(queues(&server, form).await, formats::NAME).unwrap();
            formats::is_understood(&queue, &format!("{build}, {file}")).await;
        }
    }
}

#[tokio::test]
async fn what_lies_there_otherwise_is_told() {
    let Some(server) = server() else { return };
    for (form, key) in [(Layout::Stream, "jobs"), (Layout::List, "waiting")] {
        let name = name();
        let queues = queues(server, form).await;
        server.command(&[b"SET", format!("tgq1:{{queue:{name}}}:{key}").as_bytes(), b"x"]);
        let queue = Queue::new(queues.clone(), &name).unwrap();
        let error = queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await;
        assert!(error.as_ref().unwrap_err().to_string().contains("WRONGTYPE"), "{error:?}");
        let error = queue.consumer(ConsumerSettings::new()).unwrap().take("w", 1).await;
        assert!(error.as_ref().unwrap_err().to_string().contains("WRONGTYPE"), "{error:?}");
        let name = self::name();
        let queue = Queue::new(queues, &name).unwrap();
        queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap();
        let other = queue.producer(ProducerSettings::new(2)).unwrap();
        let error = other.offer(&Job::new()).await.unwrap_err();
        assert!(matches!(error, Error::Settings { .. }), "{error}");
        assert!(error.to_string().contains("a bound of 1 (waiting)"), "{error}");
    }
}

/// A delivery of some other queue's.
async fn some_held() -> DeliveryTag {
    let queue = Queue::new(MemoryQueues::new(), name()).unwrap();
    queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap();
    queue.consumer(ConsumerSettings::new()).unwrap().take("w", 1).await.unwrap().jobs[0].tag()
}

#[tokio::test]
async fn a_queue_stays_in_the_form_it_was_made_in() {
    let Some(server) = server() else { return };
    for (form, other, told) in [
        (
            Layout::Stream,
            Layout::List,
            "made with its jobs in a stream, and not with its jobs in a list",
        ),
        (
            Layout::List,
            Layout::Stream,
            "made with its jobs in a list, and not with its jobs in a stream",
        ),
    ] {
        for is_offered_first in [true, false] {
            let name = name();
            let queue = Queue::new(queues(server, form).await, &name).unwrap();
            let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
            if is_offered_first {
                queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap();
            } else {
                queue.change(ConsumerSettings::new()).await.unwrap();
            }
            let taken = consumer.take("w", 1).await.unwrap();
            let tag = taken.jobs.first().map_or(some_held().await, Delivery::tag);
            let wrong = Queue::new(queues(server, other).await, &name).unwrap();
            let consumer = wrong.consumer(ConsumerSettings::new()).unwrap();
            let before = keys_of(server, &name);
            for error in [
                wrong
                    .producer(ProducerSettings::new(1))
                    .unwrap()
                    .offer(&Job::new())
                    .await
                    .unwrap_err(),
                wrong
                    .producer(ProducerSettings::new(7))
                    .unwrap()
                    .offer(&Job::new())
                    .await
                    .unwrap_err(),
                consumer.take("w", 1).await.unwrap_err(),
                consumer.ack(&[tag.id]).await.unwrap_err(),
                consumer.extend(tag).await.unwrap_err(),
                consumer.release(tag).await.unwrap_err(),
                consumer.nack(tag, Duration::ZERO, "").await.unwrap_err(),
                wrong.stats().await.unwrap_err(),
                wrong.dead_letters(9).await.unwrap_err(),
                wrong.take_dead_letter(tag.id).await.unwrap_err(),
            ] {
                assert!(matches!(error, Error::Settings { .. }), "{error}");
                assert!(error.to_string().contains(told), "{error}");
            }
            assert_eq!(before, keys_of(server, &name), "nothing is made or removed");
            assert_eq!(queue.stats().await.unwrap().in_flight, u64::from(is_offered_first));
        }
    }
}

#[tokio::test]
async fn who_has_what_is_to_be_seen() {
    let Some(server) = server() else { return };
    let name = name();
    let queue = Queue::new(queues(server, Layout::List).await, &name).unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    producer.offer(&Job::new().field("to", "ann")).await.unwrap();
    let key = |of: &str| format!("tgq1:{{queue:{name}}}:{of}").into_bytes();
    let waits = server.command(&[b"LINDEX", &key("waiting"), b"0"]).text().unwrap();
    assert!(waits.ends_with(" 2:to,3:ann,"), "{waits}");
    let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
    let job = consumer.take("wendy:1", 1).await.unwrap().jobs[0].clone();
    let body = |id: String| server.command(&[b"HGET", &key("bodies"), id.as_bytes()]).text();
    assert_eq!(body(job.id.to_string()).unwrap(), "7:wendy:1,2:to,3:ann,");
    consumer.release(job.tag()).await.unwrap();
    assert_eq!(consumer.take("will", 1).await.unwrap().jobs[0].text("to"), Some("ann"));
    assert_eq!(body(job.id.to_string()).unwrap(), "4:will,2:to,3:ann,");
    consumer.ack(&[job.id]).await.unwrap();
    assert_eq!(body(job.id.to_string()), None);
}

/// How many receive the messages to those who wait for jobs of this queue.
fn hearers(server: &RedisServer, queue: &str) -> i64 {
    let channel = format!("tgq1:{{queue:{queue}}}:wake");
    let answer = server.command(&[b"PUBSUB", b"NUMSUB", channel.as_bytes()]);
    answer.items()[1].int().unwrap()
}

#[tokio::test]
async fn who_waits_is_woken_by_what_there_is_to_take_and_not_by_the_clock() {
    let Some(server) = server() else { return };
    // As long as the test may take at all: no passing of time ends it.
    const LONG: Duration = Duration::from_secs(3_600);
    for form in FORMS {
        let name = name();
        let connect = || async { RedisQueues::connect_with(options(server), form).await.unwrap() };
        let (theirs, mine) = (connect().await, connect().await);
        let queue = Queue::new(theirs, &name).unwrap();
        let (producer, consumer_settings) =
            (queue.producer(ProducerSettings::new(9)).unwrap(), ConsumerSettings::new());
        producer.offer(&Job::new()).await.unwrap();
        let worker = queue.consumer(consumer_settings.clone()).unwrap();
        let tag = worker.take("w", 1).await.unwrap().jobs[0].tag();
        let waiting = Queue::new(mine, &name).unwrap();
        let me = waiting.consumer(consumer_settings).unwrap();
        // The first wait is short, while nobody hears anything yet.
        me.wait(LONG).await;
        while hearers(server, &name) == 0 {
            tokio::task::yield_now().await;
        }
        for news in 0..3 {
            // Nothing is taken; a wait is for the jobs that come after that.
            queue.pause().await.unwrap();
            assert!(me.take("me", 1).await.unwrap().paused);
            let happens = async {
                match news {
                    0 => drop(producer.offer(&Job::new()).await.unwrap()),
                    1 => drop(queue.resume().await.unwrap()),
                    _ => assert!(worker.release(tag).await.unwrap()),
                }
            };
            let both = async { tokio::join!(me.wait(LONG), happens) };
            let woken = tokio::time::timeout(Duration::from_secs(60), both).await;
            assert!(woken.is_ok(), "nobody woke it: {news}");
        }
    }
}
