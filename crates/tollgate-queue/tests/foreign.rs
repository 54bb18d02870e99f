//! Interference with a queue beside its workers: others write to its keys, take from its group,
//! remove it, or change how it is worked on.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_queue::{
    ConsumerSettings, Job, Layout, MAX_FIELDS, MemoryQueues, OfferOutcome, ProducerSettings, Queue,
    RedisQueues, Worker, WorkerEvent,
};
use tollgate_redis::Options;
use tollgate_testbed::{RedisServer, redis_program};

fn server() -> Option<RedisServer> {
    if redis_program().is_none() {
        println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
        return None;
    }
    Some(RedisServer::start())
}

async fn queue(server: &RedisServer, form: Layout) -> Queue<RedisQueues> {
    let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(10));
    Queue::new(RedisQueues::connect_with(options, form).await.unwrap(), "q").unwrap()
}

fn command(server: &RedisServer, words: &str) {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    server.command(&words);
}

/// The first offer makes the group: a foreign worker takes, acknowledges and deletes before any
/// worker of ours was there. A producer without the right to make one offers all the same.
#[tokio::test]
async fn the_first_offer_makes_the_group_for_foreign_workers() {
    let Some(server) = server() else { return };
    let queue = queue(&server, Layout::Stream).await;
    let producer = queue.producer(ProducerSettings::new(2)).unwrap();
    producer.offer(&Job::new().field("n", "1")).await.unwrap();
    let key: &[u8] = b"tgq1:{queue:q}:jobs";
    let take: [&[u8]; 7] = [b"XREADGROUP", b"GROUP", b"workers", b"theirs", b"STREAMS", key, b">"];
    let taken = server.command(&take);
    let entry = &taken.items()[0].items()[1].items()[0];
    let id = entry.items()[0].text().unwrap();
    assert_eq!(entry.items()[1].items()[1].text().as_deref(), Some("1"), "{taken:?}");
    server.command(&[b"XACK", key, b"workers", id.as_bytes()]);
    server.command(&[b"XDEL", key, id.as_bytes()]);
    assert_eq!(queue.stats().await.unwrap().waiting, 0);
    // Two more fit, and a third does not.
    for wanted in [true, true, false] {
        let outcome = producer.offer(&Job::new().field("n", "2")).await.unwrap();
        assert_eq!(matches!(outcome, OfferOutcome::Accepted { .. }), wanted, "{outcome:?}");
    }
    command(&server, "ACL SETUSER default -xgroup|create");
    let other = Queue::new(queue.backend().clone(), "other").unwrap();
    let other = other.producer(ProducerSettings::new(2)).unwrap();
    other.offer(&Job::new().field("n", "1")).await.unwrap();
}

/// An entry that is not a job becomes a dead letter, and blocks nobody.
#[tokio::test]
async fn what_is_no_job_is_a_dead_letter() {
    for form in [Layout::Stream, Layout::List] {
        let Some(server) = server() else { return };
        let queue = queue(&server, form).await;
        let producer = queue.producer(ProducerSettings::new(10)).unwrap();
        producer.offer(&Job::new().field("n", "1")).await.unwrap();
        let foreign: &[&str] = match form {
            Layout::Stream => {
                let many = (0..=MAX_FIELDS).map(|n| format!(" f{n} v")).collect::<String>();
                command(&server, &format!("XADD tgq1:{{queue:q}}:jobs *{many}"));
                server.command(&[b"XADD", b"tgq1:{queue:q}:jobs", b"*", b"x", b"\xff\xfe"]);
                &["65 fields", "not written as jobs are"]
            }
            _ => {
                command(&server, "RPUSH tgq1:{queue:q}:waiting hello");
                server.command(&[b"RPUSH", b"tgq1:{queue:q}:waiting", b""]);
                command(&server, "RPUSH tgq1:{queue:q}:waiting 12-0 hello");
                server.command(&[b"RPUSH", b"tgq1:{queue:q}:waiting", b"13-0 1:a,1:"]);
                &["not written as jobs are"; 3]
            }
        };
        producer.offer(&Job::new().field("n", "2")).await.unwrap();
        assert!(queue.stats().await.unwrap().oldest.is_some());
        let (told, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let worker = Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w")
            .batch(9)
            .until_empty(true)
            .on_event({
                let told = Arc::clone(&told);
                move |notice| match notice {
                    WorkerEvent::Foreign { id, reason } => {
                        told.lock().unwrap().push((id, reason.to_owned()));
                    }
                    other => panic!("{other:?}"),
                }
            });
        let handle = |job: tollgate_queue::Delivery| {
            done.lock().unwrap().push(job.text("n").map(str::to_owned));
            async { Ok(()) }
        };
        worker.run(handle, std::future::pending()).await.unwrap();
        let done: Vec<String> = done.lock().unwrap().drain(..).flatten().collect();
        assert_eq!(done, ["1", "2"], "{form:?}");
        let dead = queue.dead_letters(9).await.unwrap();
        let told: Vec<_> = told.lock().unwrap().drain(..).collect();
        assert_eq!(told.len(), dead.len(), "{told:?}");
        assert!(dead.len() >= foreign.len(), "{dead:?}");
        for ((id, reason), dead) in told.iter().zip(&dead) {
            assert_eq!((Some(reason), id), (dead.reason.as_ref(), &dead.id));
            assert!(foreign.iter().any(|part| reason.contains(part)), "{reason}");
        }
        if form == Layout::List {
            assert_eq!(dead[0].bytes(), Some(&b"hello"[..]));
        }
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.waiting, stats.in_flight, stats.done), (0, 0, 2), "{form:?}");
    }
}

/// An entry with an id that only looks valid blocks nobody: one that is too large, or not written
/// as we do.
#[tokio::test]
async fn what_is_no_id_of_ours_is_a_dead_letter() {
    let Some(server) = server() else { return };
    let queue = queue(&server, Layout::List).await;
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    producer.offer(&Job::new().field("n", "1")).await.unwrap();
    let foreign = [
        "99999999999999999999999-0 hello",
        "18446744073709551616-0 1:a,1:b,",
        "5-18446744073709551616 1:a,1:b,",
        "007-0 1:a,1:b,",
        "7-00 1:a,1:b,",
    ];
    for text in foreign {
        server.command(&[b"RPUSH", b"tgq1:{queue:q}:waiting", text.as_bytes()]);
    }
    // The largest there is, is one.
    let largest = b"18446744073709551615-18446744073709551615 1:n,1:2,";
    server.command(&[b"RPUSH", b"tgq1:{queue:q}:waiting", largest]);
    assert_eq!(queue.waiting(9).await.unwrap().len(), 7);
    queue.stats().await.unwrap();
    let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
    let taken = consumer.take("w", 9).await.unwrap();
    let n: Vec<_> = taken.jobs.iter().map(|job| job.text("n")).collect();
    assert_eq!(n, [Some("1"), Some("2")]);
    assert_eq!(taken.foreign.len(), 5, "{taken:?}");
    let ids: Vec<_> = taken.jobs.iter().map(|job| job.id).collect();
    assert_eq!(consumer.ack(&ids).await.unwrap(), 2);
    let dead = queue.dead_letters(9).await.unwrap();
    let texts: Vec<_> = dead.iter().map(|dead| dead.bytes().unwrap()).collect();
    assert_eq!(texts, foreign.map(str::as_bytes));
    for dead in dead {
        assert!(queue.take_dead_letter(dead.id).await.unwrap().is_some());
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.dead), (0, 0, 0));
}

/// The same where there is always something to take, and behind more of our own than one look sees.
#[tokio::test]
async fn a_job_of_a_foreign_consumer_comes_back_whatever_waits() {
    let Some(server) = server() else { return };
    let queue = queue(&server, Layout::Stream).await;
    let producer = queue.producer(ProducerSettings::new(10_000)).unwrap();
    let consumer_settings =
        ConsumerSettings::new().visibility(Duration::from_millis(50)).deliveries(1_000);
    let consumer = queue.consumer(consumer_settings).unwrap();
    // Held by us for ever: they are idle, too.
    producer.offer_all(&vec![Job::new(); 1_000]).await.unwrap();
    producer.offer_all(&vec![Job::new(); 200]).await.unwrap();
    let mut tag = consumer.take("w", 1_000).await.unwrap().jobs;
    tag.extend(consumer.take("w", 200).await.unwrap().jobs);
    assert_eq!(tag.len(), 1_200);
    producer.offer(&Job::new().field("n", "ghost")).await.unwrap();
    command(&server, "XREADGROUP GROUP workers ghost COUNT 9 STREAMS tgq1:{queue:q}:jobs >");
    // As a worker extends them: only `out` shows it.
    let far = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
                 redis.call('ZADD', KEYS[1], '9999999999999999', id)
               end";
    server.command(&[b"EVAL", far.as_bytes(), b"1", b"tgq1:{queue:q}:out"]);
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never came back");
        // More waits than is taken.
        producer.offer_all(&[Job::new(), Job::new()]).await.unwrap();
        let taken = consumer.take("w", 1).await.unwrap().jobs;
        if taken.iter().any(|job| job.text("n") == Some("ghost")) {
            break;
        }
        consumer.ack(&taken.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
    }
}

/// A job that somebody else holds takes no units of a rate.
#[tokio::test]
async fn a_job_that_somebody_else_holds_uses_no_rate() {
    for deadline in [None, Some(Duration::from_secs(600))] {
        let Some(server) = server() else { return };
        let queue = queue(&server, Layout::Stream).await;
        let producer = queue.producer(ProducerSettings::new(10)).unwrap();
        let rate = "1/h via fixed_window".parse().unwrap();
        let consumer = queue.consumer(ConsumerSettings::new().rate(rate)).unwrap();
        let job = Job::new();
        let job = deadline.map_or(job.clone(), |deadline| job.deadline(deadline));
        // The group is there once something was taken.
        command(&server, "XGROUP CREATE tgq1:{queue:q}:jobs workers 0 MKSTREAM");
        producer.offer(&job).await.unwrap();
        command(&server, "XREADGROUP GROUP workers ghost COUNT 9 STREAMS tgq1:{queue:q}:jobs >");
        for _ in 0..3 {
            assert!(consumer.take("w", 9).await.unwrap().jobs.is_empty());
        }
        producer.offer(&job).await.unwrap();
        assert_eq!(consumer.take("w", 9).await.unwrap().jobs.len(), 1, "{deadline:?}");
    }
}

/// A consumer that takes from the group without our scripts and dies holds its job no longer than a
/// worker.
#[tokio::test]
async fn a_job_of_a_foreign_consumer_that_died_comes_back() {
    let Some(server) = server() else { return };
    let queue = queue(&server, Layout::Stream).await;
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    let consumer =
        queue.consumer(ConsumerSettings::new().visibility(Duration::from_millis(300))).unwrap();
    let OfferOutcome::Accepted { id: first, .. } = producer.offer(&Job::new()).await.unwrap()
    else {
        panic!("not accepted")
    };
    let taken = consumer.take("w", 1).await.unwrap().jobs;
    assert_eq!(consumer.ack(&[taken[0].id]).await.unwrap(), 1);
    let OfferOutcome::Accepted { id, .. } =
        producer.offer(&Job::new().field("n", "2")).await.unwrap()
    else {
        panic!("not accepted")
    };
    assert!(id > first);
    let since = Instant::now();
    command(&server, "XREADGROUP GROUP workers ghost COUNT 9 STREAMS tgq1:{queue:q}:jobs >");
    let taken = consumer.take("w", 9).await.unwrap();
    assert!(taken.jobs.is_empty());
    // It is not forgotten: a worker that ends when nothing is left does not end.
    assert_eq!(taken.next, Some(Duration::from_millis(300)));
    let back = loop {
        let mut jobs = consumer.take("w", 9).await.unwrap().jobs;
        if let Some(job) = jobs.pop() {
            break job;
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok it polls
    };
    assert!(since.elapsed() >= Duration::from_millis(300));
    assert_eq!((back.id, back.attempt, back.text("n")), (id, 2, Some("2")));
    assert_eq!(consumer.ack(&[id]).await.unwrap(), 1);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.done), (0, 0, 2));
}

/// A queue that is removed beside a worker stays away, until somebody makes it again.
#[tokio::test]
async fn a_queue_that_is_removed_beside_its_worker_leaves_no_key() {
    for form in [Layout::Stream, Layout::List] {
        let Some(server) = server() else { return };
        let queue = queue(&server, form).await;
        let producer = queue.producer(ProducerSettings::new(10)).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        for _ in 0..3 {
            producer.offer(&Job::new()).await.unwrap();
        }
        let taken = consumer.take("w", 2).await.unwrap().jobs;
        assert!(queue.remove().await.unwrap());
        assert_eq!(consumer.ack(&[taken[0].id]).await.unwrap(), 0);
        consumer.nack(taken[1].tag(), Duration::ZERO, "late").await.unwrap();
        assert!(!consumer.extend(taken[1].tag()).await.unwrap());
        let taken = consumer.take("w", 2).await.unwrap();
        assert!(taken.jobs.is_empty() && taken.absent);
        assert_eq!(server.command(&[b"DBSIZE"]).int(), Some(0), "{form:?}");
        producer.offer(&Job::new()).await.unwrap();
        assert_eq!(consumer.take("w", 2).await.unwrap().jobs.len(), 1);
    }
}

/// How a queue is worked on may be changed beside its workers: they follow.
#[tokio::test]
async fn workers_follow_a_change() {
    let Some(server) = server() else { return };
    for form in [Layout::Stream, Layout::List] {
        server.command(&[b"FLUSHALL"]);
        follow(queue(&server, form).await).await;
    }
    follow(Queue::new(MemoryQueues::new(), "q").unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/q.db", folder.path().display());
    let queues = tollgate_queue::SqliteQueues::open(&url).unwrap();
    follow(Queue::new(queues, "q").unwrap()).await;
}

async fn follow<B: tollgate_queue::Backend + 'static>(queue: Queue<B>) {
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    let changed = Arc::new(Mutex::new(Vec::new()));
    let worker =
        Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").max_jobs(2).on_event({
            let changed = Arc::clone(&changed);
            move |notice| match notice {
                WorkerEvent::Changed(consumer_settings) => {
                    changed.lock().unwrap().push(consumer_settings.clone());
                }
                other => panic!("{other:?}"),
            }
        });
    let other = ConsumerSettings::new().keep_dead(7).keep_done(3);
    producer.offer(&Job::new()).await.unwrap();
    let handle = |job: tollgate_queue::Delivery| {
        let (queue, other) = (queue.clone(), other.clone());
        // While the first is in hand.
        async move {
            if job.attempt == 1 && queue.settings().await.unwrap().consumer != Some(other.clone()) {
                queue.change(other).await.unwrap();
                queue
                    .producer(ProducerSettings::new(10))
                    .unwrap()
                    .offer(&Job::new())
                    .await
                    .unwrap();
            }
            Ok(())
        }
    };
    let ran = worker.run(handle, std::future::pending()).await.unwrap();
    assert_eq!((ran.done, ran.lost), (2, 0));
    assert_eq!(*changed.lock().unwrap(), [other]);
    assert_eq!(queue.done_jobs(9).await.unwrap().len(), 2);
    // Another text at its start is refused, as before.
    let worker =
        Worker::new(queue.consumer(ConsumerSettings::new()).unwrap(), "w").until_empty(true);
    let error = worker.run(|_| async { Ok(()) }, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, tollgate_queue::Error::Settings { .. }), "{error}");
}

/// A producer with the script from before clients offers on, and its jobs are read.
#[tokio::test]
async fn what_an_older_version_wrote_and_offers_is_understood() {
    let Some(server) = server() else { return };
    let queue = queue(&server, Layout::Stream).await;
    // As `tollgate scripts --queue q --bound 3` printed it.
    let settings = r#"{"bound":3,"all":false,"remember_us":600000000} in a stream"#;
    let offer = || {
        let keys = ["jobs", "out", "meta", "untils"].map(|key| format!("tgq1:{{queue:q}}:{key}"));
        let mut words: Vec<&[u8]> = vec![b"EVAL", include_bytes!("older/offer.lua"), b"4"];
        words.extend(keys.iter().map(String::as_bytes));
        let says = ["0", settings, "3", "0", "600000000", "2", "to", "ann"];
        words.extend(says.map(str::as_bytes));
        server.command(&words)
    };
    for _ in 0..3 {
        assert!(offer().items()[3].text().unwrap().contains('-'));
    }
    assert_eq!(offer().items()[3].text().unwrap(), "", "full");
    let producer = queue.producer(ProducerSettings::new(3)).unwrap();
    let ann = Job::new().client("ann");
    assert!(matches!(producer.offer(&ann).await.unwrap(), OfferOutcome::Full { depth: 3, .. }));
    let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
    let taken = consumer.take("w", 1).await.unwrap().jobs;
    assert_eq!(taken[0].text("to"), Some("ann"));
    assert_eq!(consumer.ack(&[taken[0].id]).await.unwrap(), 1);
    // A dead job as it was written then.
    let grave = "redis.call('RPUSH', KEYS[1], '7-0')
                 redis.call('HSET', KEYS[2], '7-0', cmsgpack.pack({2, 'no', {'to', 'bob'}}))";
    let keys = ["dead", "graves"].map(|key| format!("tgq1:{{queue:q}}:{key}"));
    let [ids, graves] = &keys;
    server.command(&[b"EVAL", grave.as_bytes(), b"2", ids.as_bytes(), graves.as_bytes()]);
    let dead = queue.dead_letters(1).await.unwrap();
    assert_eq!((dead[0].client(), dead[0].deliveries), (None, 2));
    // It has no client; later jobs may have one.
    assert!(matches!(producer.offer(&ann).await.unwrap(), OfferOutcome::Accepted { .. }));
    consumer.take("w", 1).await.unwrap();
    let producer_settings = ProducerSettings::new(3).per_client(1);
    queue.change(producer_settings.clone()).await.unwrap();
    let full = queue.producer(producer_settings).unwrap().offer(&ann).await.unwrap();
    assert_eq!(full, OfferOutcome::ClientFull { of_client: 1 });
    // A producer that does not know of that bound gets an error, and passes nothing by it.
    assert_eq!(offer().items()[1].text().unwrap(), "settings");
}

/// Jobs that others have taken away, or taken over, are counted for their client no longer than
/// they are there.
#[tokio::test]
async fn what_others_take_away_is_counted_for_nobody() {
    for form in [Layout::Stream, Layout::List] {
        let Some(server) = server() else { return };
        let queue = queue(&server, form).await;
        let producer = queue.producer(ProducerSettings::new(9).per_client(2)).unwrap();
        let consumer_settings = ConsumerSettings::new().visibility(Duration::from_millis(1));
        let consumer = queue.consumer(consumer_settings).unwrap();
        let ann = Job::new().client("ann");
        let is_counted = || server.command(&[b"EXISTS", b"tgq1:{queue:q}:clients"]).int();
        if form == Layout::Stream {
            consumer.take("w", 1).await.unwrap();
            for _ in 0..2 {
                producer.offer(&ann).await.unwrap();
            }
            consumer.take("w", 1).await.unwrap();
            command(
                &server,
                "XREADGROUP GROUP workers ghost COUNT 9 STREAMS tgq1:{queue:q}:jobs >",
            );
            // Both come back: the one that a worker of ours let lie, and the other's.
            let mut back = std::collections::BTreeSet::new();
            while back.len() < 2 {
                back.extend(consumer.take("w", 9).await.unwrap().jobs.iter().map(|job| job.id));
            }
            let out = server.command(&[b"HGET", b"tgq1:{queue:q}:clients", b"oann"]);
            assert_eq!(out.text().as_deref(), Some("2"));
            let back: Vec<_> = back.into_iter().collect();
            assert_eq!(consumer.ack(&back).await.unwrap(), 2);
            assert_eq!(is_counted(), Some(0));
        }
        for _ in 0..2 {
            producer.offer(&ann).await.unwrap();
        }
        assert_eq!(producer.offer(&ann).await.unwrap(), OfferOutcome::ClientFull { of_client: 2 });
        match form {
            Layout::Stream => command(&server, "XTRIM tgq1:{queue:q}:jobs MAXLEN 0"),
            _ => command(&server, "LTRIM tgq1:{queue:q}:waiting 1 0"),
        }
        assert_eq!(is_counted(), Some(1));
        assert!(consumer.take("w", 1).await.unwrap().jobs.is_empty());
        assert_eq!(is_counted(), Some(0), "{form:?}");
        assert!(matches!(producer.offer(&ann).await.unwrap(), OfferOutcome::Accepted { .. }));
    }
}
