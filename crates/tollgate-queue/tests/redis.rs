//! Queues on a real Redis, in both forms, do what those in memory do, operation by operation.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod histories;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{ManualClock, Time};
use tollgate_proof::redis::RedisServer;
use tollgate_queue::{
    Backend, ConsumerSettings, DeadLetter, Delivery, DeliveryTag, Error, Job, Layout, MAX_FIELDS,
    MAX_JOB_BYTES, MemoryQueues, OfferOutcome, ProducerSettings, Queue, RedisQueues, Worker,
};
use tollgate_redis::Options;

/// One server for all tests; none where none is installed.
fn server() -> Option<&'static RedisServer> {
    static SERVER: LazyLock<Option<RedisServer>> = LazyLock::new(own);
    SERVER.as_ref()
}

/// A server of a test's own.
fn own() -> Option<RedisServer> {
    if RedisServer::find().is_none() {
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

/// What is counted of clients is what there is, and nothing of those that have none.
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
    // What is known of a job's being accepted once is of one that is there.
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
        assert!(begin.elapsed() < Duration::from_secs(60), "they stand still");
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

/// What there is of a queue.
fn keys_of(server: &RedisServer, name: &str) -> Vec<Vec<u8>> {
    let begin = format!("tgq1:{{queue:{name}}}:").into_bytes();
    let mut keys: Vec<_> =
        server.keys().into_iter().filter(|key| key.starts_with(&begin)).collect();
    keys.sort_unstable();
    keys
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
async fn a_server_that_forgot_everything_is_as_a_new_one() {
    for form in FORMS {
        let Some(server) = own() else { return };
        let queue = Queue::new(queues(&server, form).await, "q").unwrap();
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        producer.offer(&Job::new()).await.unwrap();
        let tag = consumer.take("w", 1).await.unwrap().jobs[0].tag();
        server.command(&[b"FLUSHALL"]);
        // Who is at work says something before anybody takes.
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
    // What is out stays out, and what waits is delivered.
    destroy();
    let second = consumer.take("w", 1).await.unwrap().jobs[0].id;
    assert!(second > first, "{second} {first}");
    // What was out comes back.
    clock.advance(Duration::from_secs(30));
    destroy();
    let back = consumer.take("w", 2).await.unwrap().jobs;
    let back: Vec<_> = back.iter().map(|job| (job.id, job.attempt)).collect();
    assert_eq!(back, [(first, 2), (second, 2)]);
    // What is done is done.
    destroy();
    assert_eq!(consumer.ack(&[first, second]).await.unwrap(), 2);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.done), (1, 0, 2));
    assert_eq!(server.command(&[b"XLEN", key.as_bytes()]).int(), Some(1));
    // What the new group does not know of is not cut off with what is done.
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

#[tokio::test]
async fn many_are_offered_in_one_step() {
    let Some(server) = server() else { return };
    let memory = Queue::new(MemoryQueues::new(), name()).unwrap();
    let producer = memory.producer(ProducerSettings::new(9)).unwrap();
    let many = producer.offer_all(&vec![Job::new(); 1_001]).await.unwrap_err();
    assert!(many.to_string().contains("1001 jobs offered at once: at most 1000"), "{many}");
    for form in FORMS {
        let queue = Queue::new(queues(server, form).await, name()).unwrap();
        let producer = queue.producer(ProducerSettings::new(999)).unwrap();
        assert_eq!(producer.offer_all(&[]).await.unwrap(), []);
        let jobs: Vec<_> = (0..1_000)
            .map(|n| Job::new().field("n", n.to_string()).dedup_id(format!("{}", n % 999)))
            .collect();
        let offered = producer.offer_all(&jobs).await.unwrap();
        let mut ids = Vec::new();
        for (place, offered) in offered.iter().enumerate() {
            match offered {
                OfferOutcome::Accepted { id, depth } => {
                    assert_eq!(*depth, place as u64 + 1);
                    ids.push(*id);
                }
                OfferOutcome::Duplicate { id } => assert_eq!((place, ids[0]), (999, *id)),
                other => panic!("{other:?}"),
            }
        }
        assert!(ids.is_sorted() && ids.len() == 999, "ids grow");
        assert!(matches!(
            producer.offer_all(&[Job::new(), Job::new()]).await.unwrap()[..],
            [OfferOutcome::Full { depth: 999, .. }, OfferOutcome::Full { depth: 999, .. }]
        ));
        let taken =
            queue.consumer(ConsumerSettings::new()).unwrap().take("w", 1_000).await.unwrap();
        let n: Vec<_> = taken.jobs.iter().map(|job| job.text("n").unwrap().to_owned()).collect();
        assert_eq!(n, (0..999).map(|n: u64| n.to_string()).collect::<Vec<_>>());
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
        // The stream is there, empty; what there was; and the ids that are remembered.
        let keys = keys_of(server, &name).into_iter().map(|key| String::from_utf8(key).unwrap());
        let keys: Vec<_> = keys.map(|key| key.rsplit('}').next().unwrap().to_owned()).collect();
        let stream = if form == Layout::Stream { vec![":jobs"] } else { vec![] };
        assert_eq!(keys, [stream, vec![":meta", ":once:x"]].concat());
    }
}

/// How many hear what is said to those who wait for jobs of this queue.
fn hearers(server: &RedisServer, queue: &str) -> i64 {
    let channel = format!("tgq1:{{queue:{queue}}}:wake");
    let answer = server.command(&[b"PUBSUB", b"NUMSUB", channel.as_bytes()]);
    answer.items()[1].int().unwrap()
}

#[tokio::test]
async fn who_waits_is_woken_by_what_there_is_to_take_and_not_by_the_clock() {
    let Some(server) = server() else { return };
    // As long as the test may take at all: what ends it is no time that passes.
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
            // Nothing is taken; what comes after that is what a wait is for.
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

#[tokio::test]
async fn one_client_cannot_fill_a_queue_also_when_it_offers_many_at_once() {
    let Some(server) = server() else { return };
    for form in FORMS {
        let name = name();
        let queue = Queue::new(queues(server, form).await, &name).unwrap();
        let producer = queue.producer(ProducerSettings::new(9).per_client(2)).unwrap();
        let jobs = ["ann", "bob", "ann", "ann", "bob"].map(|client| Job::new().client(client));
        let offered = producer.offer_all(&jobs).await.unwrap();
        let is_in = |offered: &OfferOutcome| matches!(offered, OfferOutcome::Accepted { .. });
        let accepted: Vec<bool> = offered.iter().map(is_in).collect();
        assert_eq!(accepted, [true, true, true, false, true]);
        assert_eq!(offered[3], OfferOutcome::ClientFull { of_client: 2 });
        assert!(matches!(offered[4], OfferOutcome::Accepted { depth: 4, .. }));
        // A job without a client leaves nothing of one.
        let other = self::name();
        let queue = Queue::new(queues(server, form).await, &other).unwrap();
        queue.producer(ProducerSettings::new(9)).unwrap().offer(&Job::new()).await.unwrap();
        let keys = keys_of(server, &other);
        assert!(!keys.iter().any(|key| key.ends_with(b":clients")), "{form:?}");
    }
}

/// Many at once, each in a call of its own: the bound is looked at in the step that adds.
#[tokio::test]
async fn offers_at_once_do_not_pass_the_clients_bound() {
    let Some(server) = server() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file =
        tollgate_queue::SqliteQueues::open(dir.path().join("q.db").to_str().unwrap()).unwrap();
    at_once(Queue::new(file, "q").unwrap()).await;
    at_once(Queue::new(MemoryQueues::new(), "q").unwrap()).await;
    for form in FORMS {
        at_once(Queue::new(queues(server, form).await, name()).unwrap()).await;
    }
}

async fn at_once<B: Backend + 'static>(queue: Queue<B>) {
    let producer = queue.producer(ProducerSettings::new(1_000).per_client(5)).unwrap();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (producer, client) = (producer.clone(), if n % 2 == 0 { "ann" } else { "bob" });
        all.spawn(async move { producer.offer(&Job::new().client(client)).await.unwrap() });
    }
    let offered = all.join_all().await;
    let accepted = offered.iter().filter(|it| matches!(it, OfferOutcome::Accepted { .. })).count();
    let refused =
        offered.iter().filter(|it| **it == OfferOutcome::ClientFull { of_client: 5 }).count();
    assert_eq!((accepted, refused), (10, 30));
}
