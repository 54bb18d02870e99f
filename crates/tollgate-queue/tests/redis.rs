//! Queues on a real Redis do what those in memory do, operation by operation.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod histories;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{ManualClock, Time};
use tollgate_proof::redis::RedisServer;
use tollgate_queue::{
    Error, Job, MemoryQueues, Offered, Offering, Queue, RedisQueues, Worker, Working,
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn redis_does_what_memory_does(
        is in histories::settings(),
        steps in proptest::collection::vec(histories::step(), 1..80),
    ) {
        let Some(server) = server() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::at_micros(1_700_000_000_123_456);
            let redis = RedisQueues::with_clock(options(server), clock.clone()).await.unwrap();
            let memory = MemoryQueues::with_clock(clock.clone());
            histories::both(&redis, &memory, &clock, &name(), &is, &steps).await;
        });
    }
}

async fn queues(server: &RedisServer) -> RedisQueues {
    RedisQueues::connect(options(server)).await.unwrap()
}

#[tokio::test]
async fn workers_share_a_queue_by_the_servers_clock() {
    let Some(server) = server() else { return };
    let queue = Queue::new(queues(server).await, name()).unwrap();
    let door = queue.offering(Offering::new(500)).unwrap();
    let mut ids = Vec::new();
    for n in 0..500 {
        match door.offer(&Job::new().field("n", n.to_string())).await.unwrap() {
            Offered::Accepted { id, depth } => {
                assert_eq!(depth, n + 1);
                ids.push(id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(ids.is_sorted(), "ids grow");
    assert!(matches!(door.offer(&Job::new()).await.unwrap(), Offered::Full { depth: 500, .. }));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..4 {
        let consumer = queue.working(Working::new()).unwrap();
        let worker = Worker::new(consumer, format!("w{n}")).concurrency(8).batch(16);
        let (seen, mut stopped) = (seen.clone(), stop.subscribe());
        all.spawn(async move {
            let handle = move |job: tollgate_queue::TakenJob| {
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
    let name = name();
    let queues = queues(server).await;
    server.command(&[b"SET", format!("tgq1:{{queue:{name}}}:jobs").as_bytes(), b"x"]);
    let queue = Queue::new(queues.clone(), &name).unwrap();
    let error = queue.offering(Offering::new(1)).unwrap().offer(&Job::new()).await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    let name = self::name();
    let queue = Queue::new(queues, &name).unwrap();
    queue.offering(Offering::new(1)).unwrap().offer(&Job::new()).await.unwrap();
    let other = queue.offering(Offering::new(2)).unwrap();
    let error = other.offer(&Job::new()).await.unwrap_err();
    assert!(matches!(error, Error::Settings { .. }), "{error}");
    assert!(error.to_string().contains("a bound of 1 (waiting)"), "{error}");
}

#[tokio::test]
async fn a_server_that_forgot_everything_is_as_a_new_one() {
    let Some(server) = own() else { return };
    let queue = Queue::new(queues(&server).await, "q").unwrap();
    let door = queue.offering(Offering::new(9)).unwrap();
    let hands = queue.working(Working::new()).unwrap();
    door.offer(&Job::new()).await.unwrap();
    let held = hands.take("w", 1).await.unwrap().jobs[0].held();
    server.command(&[b"FLUSHALL"]);
    // Who is at work says something before anybody takes.
    assert!(!hands.extend(held).await.unwrap());
    assert!(hands.take("w", 1).await.unwrap().jobs.is_empty());
    door.offer(&Job::new()).await.unwrap();
    let id = hands.take("w", 1).await.unwrap().jobs[0].id;
    // The group alone is gone: what is out stays out, and what waits is delivered.
    door.offer(&Job::new()).await.unwrap();
    server.command(&[b"XGROUP", b"DESTROY", b"tgq1:{queue:q}:jobs", b"workers"]);
    let taken = hands.take("w", 9).await.unwrap();
    assert!(taken.jobs.len() == 1 && taken.jobs[0].id > id, "{taken:?}");
}

#[tokio::test]
async fn a_server_that_is_full_can_be_drained() {
    let Some(server) = own() else { return };
    let queue = Queue::new(queues(&server).await, "q").unwrap();
    let door = queue.offering(Offering::new(9)).unwrap();
    let hands = queue.working(Working::new()).unwrap();
    door.offer(&Job::new()).await.unwrap();
    server.command(&[b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction"]);
    server.command(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let error = door.offer(&Job::new()).await.unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    let id = hands.take("w", 1).await.unwrap().jobs[0].id;
    assert_eq!(hands.done(&[id]).await.unwrap(), 1);
    assert_eq!(queue.stats().await.unwrap().done, 1);
}

#[tokio::test]
async fn a_right_that_is_missing_is_no_fault_that_passes() {
    let Some(server) = server() else { return };
    let user = format!("u{}", name());
    server.command(&[
        b"ACL",
        b"SETUSER",
        user.as_bytes(),
        b"on",
        b"nopass",
        b"~*",
        b"+@all",
        b"-xadd",
    ]);
    let url = server.url().replace("redis://", &format!("redis://{user}:x@"));
    let options = Options::from_url(&url).unwrap().deadline(Duration::from_secs(10));
    let queue = Queue::new(RedisQueues::connect(options).await.unwrap(), name()).unwrap();
    let error = queue.offering(Offering::new(1)).unwrap().offer(&Job::new()).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test]
async fn ids_grow_also_when_the_servers_clock_goes_back() {
    let Some(server) = server() else { return };
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let queues = RedisQueues::with_clock(options(server), clock.clone()).await.unwrap();
    let queue = Queue::new(queues, name()).unwrap();
    let door = queue.offering(Offering::new(9)).unwrap();
    let mut ids = Vec::new();
    for us in [1_700_000_000_000_000, 1_699_999_000_000_000, 1_700_000_000_000_500] {
        clock.set(Time::from_micros(us));
        match door.offer(&Job::new()).await.unwrap() {
            Offered::Accepted { id, .. } => ids.push(id.to_string()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ids, ["1700000000000-0", "1700000000000-1", "1700000000000-2"]);
}
