//! Queues on a Redis behave as those in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_queue::{
    Backend as _, ConsumerSettings, DeadLetter, Job, Layout, MAX_FIELDS, MAX_JOB_BYTES,
    MemoryQueues, ProducerSettings, Queue, RedisQueues,
};
use tollgate_testbed::RedisServer;

use super::*;
use crate::histories;

fn redis_does_what_memory_does(form: Layout, is: &histories::Made, steps: &[histories::Step]) {
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = ManualClock::at_micros(1_700_000_000_123_456);
        let redis = RedisQueues::with_clock(options(server), form, clock.clone()).await.unwrap();
        let memory = MemoryQueues::with_clock(clock.clone());
        let name = name();
        histories::both(&redis, &memory, &clock, &name, is, steps).await;
        clients_are_counted(server, &redis, &name).await;
    });
}

/// The counts of clients match the jobs, and leave out jobs without a client.
async fn clients_are_counted(server: &RedisServer, on: &RedisQueues, name: &str) {
    let (mut counts, mut jobs) = (BTreeMap::new(), BTreeMap::new());
    for pair in hash(server, &format!("tgq1:{{queue:{name}}}:clients")).chunks(2) {
        let [field, value] = pair else { panic!("{pair:?}") };
        if field.starts_with(|first: char| first.is_ascii_digit()) {
            *jobs.entry(value.clone()).or_insert(0) += 1;
        } else {
            counts.insert(field.clone(), value.parse::<u64>().unwrap());
        }
    }
    assert_eq!(counts, jobs, "a count is of its jobs");
    // The memory of an accepted job belongs to one that is there.
    let onces = hash(server, &format!("tgq1:{{queue:{name}}}:onces"));
    let waiting = on.waiting(name, 1_000).await.unwrap().into_iter().map(|job| job.id);
    let out = on.in_flight(name, 1_000).await.unwrap().into_iter().map(|job| job.id);
    let ids: Vec<String> = waiting.chain(out).map(|id| id.to_string()).collect();
    assert!(onces.chunks(2).all(|pair| ids.contains(&pair[0])), "{onces:?} {ids:?}");
    let there = histories::of_clients(on, name).await;
    let there = there.iter().flat_map(|(client, (waiting, out))| {
        [(format!("w{client}"), *waiting), (format!("o{client}"), *out)]
    });
    assert_eq!(counts, there.filter(|(_, jobs)| *jobs > 0).collect());
}

fn hash(server: &RedisServer, key: &str) -> Vec<String> {
    let answer = server.command(&[b"HGETALL", key.as_bytes()]);
    answer.items().iter().map(|word| word.text().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_does_what_memory_does(
        is in histories::settings(),
        steps in proptest::collection::vec(histories::step(), 1..80),
    ) {
        redis_does_what_memory_does(Layout::Stream, &is, &steps);
    }

    #[test]
    fn a_list_does_what_memory_does(
        is in histories::settings(),
        steps in proptest::collection::vec(histories::step(), 1..80),
    ) {
        redis_does_what_memory_does(Layout::List, &is, &steps);
    }
}

#[tokio::test]
async fn what_is_dead_and_forgotten_may_be_offered_again() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let redis = RedisQueues::with_clock(options(server), form, clock.clone()).await.unwrap();
        histories::forgotten(Queue::new(redis, name()).unwrap(), &clock).await;
    }
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let memory = MemoryQueues::with_clock(clock.clone());
    histories::forgotten(Queue::new(memory, "q").unwrap(), &clock).await;
}

#[tokio::test]
async fn more_than_one_look_finds_is_as_in_memory() {
    let Some(server) = own() else { return };
    for form in FORMS {
        server.command(&[b"FLUSHALL"]);
        let clock = ManualClock::at_micros(1_700_000_000_123_456);
        let redis = RedisQueues::with_clock(options(&server), form, clock.clone()).await.unwrap();
        let memory = MemoryQueues::with_clock(clock.clone());
        histories::beyond_a_look(&redis, &memory, &clock).await;
    }
}

fn job_of(bytes: Option<&[u8]>, fields: &[(String, String)]) -> Job {
    bytes.map_or_else(|| Job::from_fields(fields.to_vec()), Job::from_bytes)
}

#[tokio::test]
async fn many_that_are_too_old_or_have_had_enough_are_put_away_as_in_memory() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let redis = RedisQueues::with_clock(options(server), form, clock.clone()).await.unwrap();
        let memory = MemoryQueues::with_clock(clock.clone());
        let name = name();
        let producer_settings = ProducerSettings::new(2_000);
        let consumer_settings =
            ConsumerSettings::new().deliveries(1).visibility(Duration::from_secs(30));
        for deadline_s in [10, 100] {
            let job = Job::new().deadline(Duration::from_secs(deadline_s));
            redis.offer_all(&name, &producer_settings, &vec![job.clone(); 600]).await.unwrap();
            memory.offer_all(&name, &producer_settings, &vec![job; 600]).await.unwrap();
            // In hand are those that will have had enough.
            if deadline_s == 100 {
                let taken = redis.take(&name, &consumer_settings, "w", 600).await.unwrap();
                assert_eq!(taken, memory.take(&name, &consumer_settings, "w", 600).await.unwrap());
            }
            clock.advance(Duration::from_secs(30));
            for turn in 0..4 {
                let taken = redis.take(&name, &consumer_settings, "w", 1).await.unwrap();
                let of_memory = memory.take(&name, &consumer_settings, "w", 1).await.unwrap();
                assert_eq!(taken, of_memory, "turn {turn} of {form:?}");
                let stats = memory.stats(&name).await.unwrap();
                assert_eq!(redis.stats(&name).await.unwrap(), stats, "turn {turn} of {form:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_largest_jobs_come_as_they_went() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let queue = Queue::new(queues(server, form).await, name()).unwrap();
        let sizes = [0, 1, 31, 32, 255, 256, 65_535, MAX_JOB_BYTES];
        let bytes = sizes.map(|size| Job::from_bytes(&vec![b','; size]));
        let fields = [1, 2, 7, 8, MAX_FIELDS].map(|fields| {
            Job::from_fields((0..fields).map(|n| (format!("{n}:"), "x".repeat(1_000))))
        });
        let jobs = [&bytes[..], &fields].concat();
        let producer = queue.producer(ProducerSettings::new(99)).unwrap();
        producer.offer_all(&jobs).await.unwrap();
        // Once, and once more; then they are dead.
        let consumer = queue.consumer(ConsumerSettings::new().deliveries(2)).unwrap();
        for attempt in [1, 2] {
            let taken = consumer.take("w", 99).await.unwrap().jobs;
            assert_eq!(taken.len(), jobs.len());
            for (taken, job) in taken.iter().zip(&jobs) {
                let same = job_of(taken.bytes(), taken.fields());
                assert_eq!((taken.attempt, same == *job), (attempt, true));
                consumer.nack(taken.tag(), Duration::ZERO, "no").await.unwrap();
            }
        }
        let dead = queue.dead_letters(99).await.unwrap();
        let same = dead.iter().map(|dead: &DeadLetter| job_of(dead.bytes(), dead.fields()));
        // Not `assert_eq`: it would print them.
        assert!(same.eq(jobs.iter().cloned()), "dead jobs are others");
    }
}
