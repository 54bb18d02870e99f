//! Queues in a file do what those in memory do, operation by operation; processes that are killed
//! lose nothing that was answered.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod histories;

use std::collections::BTreeMap;
use std::time::Duration;

use histories::formats;
use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_queue::{
    ConsumerSettings, Error, Job, MemoryQueues, OfferOutcome, ProducerSettings, Queue, SqliteQueues,
};
use tollgate_sqlite::rusqlite::Connection;
use tollgate_sqlite::{Options, SqliteStore};

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_file_does_what_memory_does(
        is in histories::settings(),
        steps in proptest::collection::vec(histories::step(), 1..80),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::at_micros(1_700_000_000_123_456);
            let options = Options::new(dir.path().join("q.db")).clock(clock.clone());
            let file = SqliteQueues::open_with(options).unwrap();
            let memory = MemoryQueues::with_clock(clock.clone());
            histories::both(&file, &memory, &clock, "q", &is, &steps).await;
            let counted = of_clients(&dir.path().join("q.db"));
            assert_eq!(counted, histories::of_clients(&file, "q").await);
        });
    }
}

/// The file's counts of clients.
fn of_clients(path: &std::path::Path) -> BTreeMap<String, (u64, u64)> {
    let conn = Connection::open(path).unwrap();
    let mut rows = conn.prepare("SELECT client, waiting, out FROM queue_clients").unwrap();
    let read = |row: &tollgate_sqlite::rusqlite::Row<'_>| {
        let count = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
        Ok((row.get(0)?, (count(1)?, count(2)?)))
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn what_earlier_builds_wrote_is_understood() {
    for build in formats::BUILDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.db");
        let written = std::fs::read_to_string(formats::file(build, "queue.sql")).unwrap();
        Connection::open(&path).unwrap().execute_batch(&written).unwrap();
        let file = SqliteQueues::open(path.to_str().unwrap()).unwrap();
        formats::is_understood(&Queue::new(file, formats::NAME).unwrap(), build).await;
    }
}

#[tokio::test]
async fn what_is_dead_and_forgotten_may_be_offered_again() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let options = Options::new(dir.path().join("q.db")).clock(clock.clone());
    let file = SqliteQueues::open_with(options).unwrap();
    histories::forgotten(Queue::new(file, "q").unwrap(), &clock).await;
}

#[tokio::test]
async fn more_than_one_look_finds_is_as_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at_micros(1_700_000_000_123_456);
    let options = Options::new(dir.path().join("q.db")).clock(clock.clone());
    let file = SqliteQueues::open_with(options).unwrap();
    histories::beyond_a_look(&file, &MemoryQueues::with_clock(clock.clone()), &clock).await;
}

#[tokio::test]
async fn a_queue_is_there_after_its_processes_are_gone_and_agrees_with_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counts.db");
    // The file of a store of counts.
    drop(SqliteStore::open_with(Options::new(&path)).unwrap());
    let open = || {
        let queues = SqliteQueues::open_with(Options::new(&path)).unwrap();
        Queue::new(queues, "mail").unwrap()
    };
    let (one, two) = (open(), open());
    let producer = one.producer(ProducerSettings::new(1)).unwrap();
    producer.offer(&Job::from_bytes(b"\0\xff")).await.unwrap();
    let full = two.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap();
    assert!(matches!(full, OfferOutcome::Full { depth: 1, .. }), "{full:?}");
    drop((one, producer, two));
    let queue = open();
    let error =
        queue.producer(ProducerSettings::new(2)).unwrap().offer(&Job::new()).await.unwrap_err();
    assert!(matches!(error, Error::Settings { .. }), "{error}");
    assert!(error.to_string().contains("a bound of 1 (waiting)"), "{error}");
    assert_eq!(queue.stats().await.unwrap().accepted, 1, "what was refused has changed nothing");
    let taken = queue.consumer(ConsumerSettings::new()).unwrap().take("w", 9).await.unwrap();
    assert_eq!(taken.jobs[0].bytes(), Some(&b"\0\xff"[..]));
}

#[tokio::test]
async fn a_rate_is_an_ordinary_count_of_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counts.db");
    let queues = SqliteQueues::open_with(Options::new(&path)).unwrap();
    let queue = Queue::new(queues, "mail").unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    for _ in 0..9 {
        producer.offer(&Job::new()).await.unwrap();
    }
    let limits: tollgate::LimitSet = "4/d via fixed_window".parse().unwrap();
    let consumer = queue.consumer(ConsumerSettings::new().rate(limits.clone())).unwrap();
    assert_eq!(consumer.take("w", 3).await.unwrap().jobs.len(), 3);
    let store = SqliteStore::open_with(Options::new(&path)).unwrap();
    let limiter = tollgate::Limiter::new(limits, store);
    // The last of the day is taken from outside.
    assert!(limiter.check("queue:mail").await.unwrap().is_allowed());
    let taken = consumer.take("w", 3).await.unwrap();
    assert!(taken.jobs.is_empty() && taken.next.is_some(), "{taken:?}");
    assert_eq!(queue.stats().await.unwrap().waiting, 6);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    drop(SqliteQueues::open_with(Options::new(&path)).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE guests SET format = 99", []).unwrap();
    let error = SqliteQueues::open_with(Options::new(&path)).unwrap_err().to_string();
    assert!(error.contains("format 99 of `queue`") && error.contains("newer tollgate"), "{error}");
}

/// Removes the changes of the fourth step again.
const WITHOUT_ONCES: &str = "
    ALTER TABLE queue_jobs DROP COLUMN once;
    ALTER TABLE queue_dead DROP COLUMN once;
    UPDATE guests SET format = 3 WHERE name = 'queue';
";

/// The same of the third.
const WITHOUT_CLIENTS: &str = "
    DROP TRIGGER queue_clients_come;
    DROP TRIGGER queue_clients_move;
    DROP TRIGGER queue_clients_go;
    DROP TABLE queue_clients;
    ALTER TABLE queue_jobs DROP COLUMN client;
    ALTER TABLE queue_dead DROP COLUMN client;
    UPDATE guests SET format = 2 WHERE name = 'queue';
";

/// The same of the second.
const WITHOUT_PAUSES: &str = "
    ALTER TABLE queues DROP COLUMN paused;
    UPDATE guests SET format = 1 WHERE name = 'queue';
";

#[tokio::test]
async fn a_file_of_an_older_version_is_brought_to_this_one() {
    let steps = [WITHOUT_ONCES, WITHOUT_CLIENTS, WITHOUT_PAUSES];
    for older in (1..=steps.len()).map(|many| &steps[..many]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queues.db");
        let path = path.to_str().unwrap();
        let queue = || Queue::new(SqliteQueues::open(path).unwrap(), "old").unwrap();
        let old = queue();
        // One that waits, one in hand, and one that is dead.
        let producer = old.producer(ProducerSettings::new(9)).unwrap();
        let consumer = old.consumer(ConsumerSettings::new().deliveries(1)).unwrap();
        let job = Job::new().dedup_id("x");
        for job in [&job, &Job::new(), &Job::new()] {
            producer.offer(job).await.unwrap();
        }
        let taken = consumer.take("w", 2).await.unwrap().jobs;
        consumer.nack(taken[0].tag(), Duration::ZERO, "no").await.unwrap();
        drop((old, producer, consumer));
        let conn = Connection::open(path).unwrap();
        for step in older {
            conn.execute_batch(step).unwrap();
        }
        drop(conn);
        let queue = queue();
        assert!(!queue.stats().await.unwrap().paused);
        let dead = queue.dead_letters(9).await.unwrap();
        assert_eq!(dead[0].client(), None);
        // It was not kept then under what this one was accepted.
        assert!(queue.forget_dead_letter(dead[0].id).await.unwrap().is_some());
        let known = queue.producer(ProducerSettings::new(9)).unwrap().offer(&job).await.unwrap();
        assert_eq!(known, OfferOutcome::Duplicate { id: dead[0].id });
        let consumer = queue.consumer(ConsumerSettings::new().deliveries(1)).unwrap();
        assert!(queue.pause().await.unwrap());
        assert!(consumer.take("w", 1).await.unwrap().paused);
        queue.resume().await.unwrap();
        // Its old jobs have no client, and a bound for each client counts the jobs from now on.
        let producer_settings = ProducerSettings::new(9).per_client(1);
        queue.change(producer_settings.clone()).await.unwrap();
        let producer = queue.producer(producer_settings).unwrap();
        let job = Job::new().client("ann");
        assert!(matches!(
            producer.offer(&job).await.unwrap(),
            OfferOutcome::Accepted { depth: 2, .. }
        ));
        assert_eq!(producer.offer(&job).await.unwrap(), OfferOutcome::ClientFull { of_client: 1 });
        assert_eq!(consumer.take("w", 9).await.unwrap().jobs.len(), 2);
        assert_eq!(consumer.ack(&[taken[1].id]).await.unwrap(), 1);
        assert!(matches!(producer.offer(&job).await.unwrap(), OfferOutcome::Accepted { .. }));
    }
}

/// A process of an older version may have the file open still. Its statements name no client, and
/// their changes to jobs that have one are counted all the same.
#[tokio::test]
async fn statements_of_an_older_version_keep_the_counts_of_clients() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let queue = Queue::new(SqliteQueues::open_with(Options::new(&path)).unwrap(), "q").unwrap();
    let producer = queue.producer(ProducerSettings::new(9).per_client(2)).unwrap();
    for _ in 0..2 {
        producer.offer(&Job::new().client("ann")).await.unwrap();
    }
    let conn = Connection::open(&path).unwrap();
    let counted = || of_clients(&path).get("ann").copied();
    let old_take = "UPDATE queue_jobs SET deliveries = deliveries + 1, held = 1, due_us = 5,
                                          worker = 'old'
                    WHERE id = (SELECT min(id) FROM queue_jobs)";
    conn.execute(old_take, []).unwrap();
    assert_eq!(counted(), Some((1, 1)));
    conn.execute("UPDATE queue_jobs SET due_us = 7 WHERE due_us = 5", []).unwrap();
    assert_eq!(counted(), Some((1, 1)));
    conn.execute("DELETE FROM queue_jobs WHERE due_us = 7", []).unwrap();
    assert_eq!(counted(), Some((1, 0)));
    conn.execute("DELETE FROM queue_jobs", []).unwrap();
    assert_eq!(counted(), None);
}

#[tokio::test]
async fn what_somebody_else_wrote_into_the_table_is_a_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let queue = Queue::new(SqliteQueues::open_with(Options::new(&path)).unwrap(), "q").unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
    for body in ["'no json'", "7", "7.5", "zeroblob(65537)", r#"'{"@x": "1"}'"#] {
        producer.offer(&Job::new()).await.unwrap();
        let conn = Connection::open(&path).unwrap();
        conn.execute(&format!("UPDATE queue_jobs SET body = {body}"), []).unwrap();
        producer.offer(&Job::new().field("to", "ann")).await.unwrap();
        let taken = consumer.take("w", 2).await.unwrap();
        assert_eq!((taken.jobs.len(), taken.foreign.len()), (1, 1), "{body}");
        assert_eq!(consumer.ack(&[taken.jobs[0].id]).await.unwrap(), 1);
        let dead = queue.take_dead_letter(taken.foreign[0].0).await.unwrap().unwrap();
        assert_eq!(dead.reason.as_ref(), Some(&taken.foreign[0].1), "{body}");
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.waiting, stats.in_flight, stats.dead), (0, 0, 0), "{body}");
    }
}
