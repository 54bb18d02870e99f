//! The pace: that of the workers, or a rate that all of them share. Wherever the queue lies, by a
//! clock that is set, so that each figure is exact; and a rate in real time, by four workers.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::{ManualClock, Time};
use tollgate_queue::{
    AnyQueues, ConsumerSettings, Counts, Job, JobId, Layout, MemoryQueues, OfferOutcome,
    ProducerSettings, Queue, RedisQueues, Settings, SqliteQueues, Stats,
};
use tollgate_testbed::{RedisServer, redis_program};

const BEGIN_US: u64 = 1_700_000_000_000_000;
const SECOND_US: u64 = 1_000_000;

/// Does the same on each available place, by a separate clock.
fn everywhere<F: Future<Output = ()>>(
    run: impl Fn(&'static str, Queue<AnyQueues>, ManualClock) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = ManualClock::at_micros(BEGIN_US);
        let memory = AnyQueues::Memory(MemoryQueues::with_clock(clock.clone()));
        run("memory", Queue::new(memory, "q").unwrap(), clock).await;

        let clock = ManualClock::at_micros(BEGIN_US);
        let dir = tempfile::tempdir().unwrap();
        let options = tollgate_sqlite::Options::new(dir.path().join("q.db")).clock(clock.clone());
        let file = AnyQueues::Sqlite(SqliteQueues::open_with(options).unwrap());
        run("sqlite", Queue::new(file, "q").unwrap(), clock).await;

        if redis_program().is_none() {
            println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
            return;
        }
        let server = RedisServer::start();
        for (place, form) in [("a stream", Layout::Stream), ("a list", Layout::List)] {
            let clock = ManualClock::at_micros(BEGIN_US);
            let options = tollgate_redis::Options::from_url(&server.url()).unwrap();
            let options = options.deadline(Duration::from_secs(10));
            let redis = RedisQueues::with_clock(options, form, clock.clone()).await.unwrap();
            run(
                place,
                Queue::new(AnyQueues::Redis(redis), place.replace(' ', "-")).unwrap(),
                clock,
            )
            .await;
        }
    });
}

/// The next event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// This processor has done its job.
    Done(usize, JobId),
    /// This processor looks for one.
    Look(usize),
    Offer,
}

/// Offers every 50 ms for a minute, to this many processors that take 100 ms for a job.
async fn a_minute(queue: &Queue<AnyQueues>, clock: &ManualClock, processors: usize) -> Stats {
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
    let mut events = BTreeMap::new();
    for at in 0..60 * SECOND_US / 50_000 {
        events.insert((at * 50_000, 1, Event::Offer), ());
    }
    for processor in 0..processors {
        events.insert((0, 2, Event::Look(processor)), ());
    }
    while let Some(((at, _, event), ())) = events.pop_first() {
        if at >= 60 * SECOND_US {
            break;
        }
        clock.set(Time::from_micros(BEGIN_US + at));
        let mut looks = None;
        match event {
            Event::Offer => match producer.offer(&Job::new()).await.unwrap() {
                OfferOutcome::Accepted { depth, .. } => assert!(depth <= 10, "{depth} wait"),
                OfferOutcome::Full { depth, .. } => assert_eq!(depth, 10),
                other => panic!("{other:?}"),
            },
            Event::Done(processor, id) => {
                assert_eq!(consumer.ack(&[id]).await.unwrap(), 1);
                looks = Some(processor);
            }
            Event::Look(processor) => looks = Some(processor),
        }
        if let Some(processor) = looks {
            let name = format!("w{processor}");
            match consumer.take(&name, 1).await.unwrap().jobs.first() {
                Some(job) => events.insert((at + 100_000, 0, Event::Done(processor, job.id)), ()),
                None => events.insert((at + 1_000, 2, Event::Look(processor)), ()),
            };
        }
    }
    queue.stats().await.unwrap()
}

/// 001's example: bound 10, producers twice as fast as the processor. It takes 10 a second, and the
/// accepted jobs are as many; with two processors twice as many.
#[test]
fn what_is_accepted_is_what_the_processors_can_do() {
    everywhere(|place, queue, clock| async move {
        let stats = a_minute(&queue, &clock, 1).await;
        // 599 done and one in hand at the end of the minute, and ten that wait.
        let is = (stats.accepted, stats.refused, stats.done, stats.waiting, stats.in_flight);
        assert_eq!(is, (610, 590, 599, 10, 1), "{place}");
    });
    everywhere(|place, queue, clock| async move {
        let stats = a_minute(&queue, &clock, 2).await;
        let is = (stats.accepted, stats.refused, stats.done, stats.waiting, stats.in_flight);
        assert_eq!(is, (1_200, 0, 1_198, 0, 2), "{place}");
    });
}

/// A rate over four workers for ten seconds; each looks again at the announced time.
#[test]
fn a_rate_is_shared_exactly() {
    everywhere(|place, queue, clock| async move {
        let producer = queue.producer(ProducerSettings::new(10_000)).unwrap();
        for _ in 0..2_000 {
            producer.offer(&Job::new()).await.unwrap();
        }
        let rate = "100/s via sliding_log".parse().unwrap();
        let consumer = queue.consumer(ConsumerSettings::new().rate(rate)).unwrap();
        let mut events: BTreeMap<(u64, usize), ()> =
            (0..4).map(|it| ((7 * it as u64, it), ())).collect();
        let mut taken = Vec::new();
        while let Some(((at, worker), ())) = events.pop_first() {
            if at >= 10 * SECOND_US {
                break;
            }
            clock.set(Time::from_micros(BEGIN_US + at));
            let jobs = consumer.take(&format!("w{worker}"), 1 + worker * 7).await.unwrap();
            taken.extend(jobs.jobs.iter().map(|_| at));
            consumer.ack(&jobs.jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
            let next = u64::try_from(jobs.next.unwrap().as_micros()).unwrap();
            events.insert((at + next.max(1 + worker as u64), worker), ());
        }
        for (place_of, at) in taken.iter().enumerate().skip(100) {
            assert!(at - taken[place_of - 100] >= SECOND_US, "{place}: more than 100 in a second");
        }
        assert!(taken.len() >= 970, "{place}: {} of 1,000", taken.len());
    });
}

/// A removed queue is gone with all its jobs, and the next producer makes it again.
/// A script of Redis has no time zones: there such a rate is refused, and nothing is taken.
#[test]
fn a_rate_of_a_calendar_is_one_of_memory_or_a_file() {
    everywhere(|place, queue, clock| async move {
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        for n in 0..3 {
            producer.offer(&Job::new().field("n", n.to_string())).await.unwrap();
        }
        let rate = "2/day in Europe/Berlin".parse().unwrap();
        let consumer = queue.consumer(ConsumerSettings::new().rate(rate)).unwrap();
        if place.starts_with("a ") {
            let error = consumer.take("w", 3).await.unwrap_err().to_string();
            assert!(error.contains("takes a duration, such as `30d`"), "{place}: {error}");
            let plain = queue.consumer(ConsumerSettings::new()).unwrap();
            assert_eq!(plain.take("w", 3).await.unwrap().jobs.len(), 3, "{place}");
            return;
        }
        let jobs = consumer.take("w", 3).await.unwrap().jobs;
        assert_eq!(jobs.len(), 2, "{place}");
        consumer.ack(&jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
        let none = consumer.take("w", 3).await.unwrap();
        // 22:13:20 by UTC, and an hour later in Berlin.
        let midnight = Duration::from_secs(46 * 60 + 40);
        assert!(none.jobs.is_empty() && none.next == Some(midnight), "{place}: {none:?}");
        clock.advance(midnight);
        assert_eq!(consumer.take("w", 3).await.unwrap().jobs.len(), 1, "{place}");
    });
}

#[test]
fn a_queue_that_is_removed_is_as_if_it_had_never_been() {
    everywhere(|place, queue, _| async move {
        assert!(!queue.remove().await.unwrap(), "{place}: there is none yet");
        let producer = queue.producer(ProducerSettings::new(9)).unwrap();
        let consumer_settings = ConsumerSettings::new().deliveries(1).keep_done(9);
        let consumer = queue.consumer(consumer_settings).unwrap();
        for _ in 0..5 {
            producer.offer(&Job::new().deadline(Duration::from_secs(9))).await.unwrap();
        }
        // Its id is forgotten with it: offered to the next queue of this name, the job waits.
        let once = Job::new().dedup_id("order:4711");
        assert!(
            matches!(producer.offer(&once).await.unwrap(), OfferOutcome::Accepted { .. }),
            "{place}"
        );
        assert!(
            matches!(producer.offer(&once).await.unwrap(), OfferOutcome::Duplicate { .. }),
            "{place}"
        );
        let taken = consumer.take("w", 3).await.unwrap().jobs;
        consumer.ack(&[taken[0].id]).await.unwrap();
        consumer.nack(taken[1].tag(), Duration::ZERO, "no").await.unwrap();
        assert!(queue.remove().await.unwrap(), "{place}");
        assert_eq!(queue.stats().await.unwrap(), Stats::default(), "{place}");
        assert_eq!(queue.settings().await.unwrap(), Settings::default(), "{place}");
        assert!(queue.dead_letters(9).await.unwrap().is_empty(), "{place}");
        assert!(queue.done_jobs(9).await.unwrap().is_empty(), "{place}");
        assert!(!consumer.extend(taken[2].tag()).await.unwrap(), "{place}");
        assert!(!queue.remove().await.unwrap(), "{place}");
        let other =
            queue.producer(ProducerSettings::new(1)).unwrap().offer(&Job::new()).await.unwrap();
        assert!(matches!(other, OfferOutcome::Accepted { depth: 1, .. }), "{place}: {other:?}");
        assert_eq!(consumer.take("w", 9).await.unwrap().jobs.len(), 1, "{place}");
        let producer = queue.producer(ProducerSettings::new(1)).unwrap();
        let again = producer.offer(&once).await.unwrap();
        assert!(matches!(again, OfferOutcome::Accepted { .. }), "{place}: {again:?}");
        let again = producer.offer(&once).await.unwrap();
        assert!(matches!(again, OfferOutcome::Duplicate { .. }), "{place}: {again:?}");
    });
}

/// In real time, by the server's own clock: a delivery's time lies between question and answer.
#[test]
fn four_workers_of_a_redis_never_exceed_their_rate() {
    if redis_program().is_none() {
        println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
        return;
    }
    let server = RedisServer::start();
    let seconds = std::env::var("TOLLGATE_QUEUE_SECONDS").map_or(3, |text| text.parse().unwrap());
    let taken = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = tollgate_redis::Options::from_url(&server.url()).unwrap();
        let options = options.deadline(Duration::from_secs(10));
        let queues = RedisQueues::connect(options).await.unwrap();
        let queue = Queue::new(queues, "q").unwrap();
        let producer =
            queue.producer(ProducerSettings::new(10_000).counts(Counts::Waiting)).unwrap();
        for _ in 0..100 * (seconds + 1) {
            producer.offer(&Job::new()).await.unwrap();
        }
        let rate: tollgate::LimitSet = "100/s via sliding_log".parse().unwrap();
        let begin = Instant::now();
        let mut all = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let consumer = queue.consumer(ConsumerSettings::new().rate(rate.clone())).unwrap();
            let taken = Arc::clone(&taken);
            all.spawn(async move {
                while begin.elapsed() < Duration::from_secs(seconds) {
                    let asked = begin.elapsed();
                    let jobs = consumer.take(&format!("w{worker}"), 8).await.unwrap();
                    let answered = begin.elapsed();
                    let times = jobs.jobs.iter().map(|_| (asked, answered));
                    taken.lock().unwrap().extend(times);
                    let ids: Vec<JobId> = jobs.jobs.iter().map(|job| job.id).collect();
                    consumer.ack(&ids).await.unwrap();
                    let left = Duration::from_secs(seconds).saturating_sub(begin.elapsed());
                    let next = jobs.next.unwrap_or_default().min(left);
                    tokio::time::sleep(next).await; // tidy: sleep-ok as long as the answer says
                }
            });
        }
        all.join_all().await;
    });
    let mut taken = taken.lock().unwrap().clone();
    taken.sort_unstable();
    for (asked, _) in &taken {
        let until = *asked + Duration::from_secs(1);
        // Surely within this second: asked for after it began, and answered before it ended.
        let surely = taken.iter().filter(|(from, to)| from >= asked && *to < until).count();
        assert!(surely <= 100, "{surely} in the second from {asked:?}");
    }
    assert!(taken.len() >= 100, "a hundred may be taken at once, and {} were", taken.len());
    println!("{} of {} in {seconds} s", taken.len(), 100 * seconds);
}
