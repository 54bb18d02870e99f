//! Workers over HTTP that go before they have read their answers: nobody has the jobs then.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_queue::{
    AnyQueues, Job, MemoryQueues, ProducerSettings, Queue, RedisQueues, SqliteQueues,
};
use tollgate_redis::Options;
use tollgate_service::Queues;
use tollgate_testbed::redis_or_skip;

use crate::Service;
use crate::client::Client;
use crate::hangups::{AT_ONCE, Goes, LONG, TRIES, go, http};

const TAKE: &str = "/v1/queues/mail/take";

/// How many wait and go.
const WAITING: usize = 10;

async fn serve(queue: &Queue<AnyQueues>) -> Service {
    let queues = [(queue.clone(), Some(ProducerSettings::new(1_000)))];
    let queues = Queues::open(queues).await.unwrap();
    Service::with(|options| {
        options.queues = queues;
        options.queue_workers = true;
        // However late a reset is seen on a busy machine, it was of an answer that nobody read.
        options.bounds.grace = LONG;
    })
    .await
}

async fn offer(queue: &Queue<AnyQueues>, jobs: usize) {
    let producer = queue.producer(ProducerSettings::new(1_000)).unwrap();
    let jobs = vec![Job::new().field("to", "ann"); jobs];
    for offered in producer.offer_all(&jobs).await.unwrap() {
        assert!(!offered.is_refused(), "{offered:?}");
    }
}

fn wait_for(max: usize, wait: &str) -> Value {
    json!({"worker": "w", "max": max, "wait": wait})
}

/// An honest worker gets this many jobs, each as its first delivery, and long before the timeout of
/// those who went. Returns how long it took.
async fn gets_all(service: &Service, jobs: usize, what: &str) -> Duration {
    let (mut client, began) = (service.client().await, Instant::now());
    let mut taken = Vec::new();
    while taken.len() < jobs {
        let reply = client.post(TAKE, &wait_for(100, "20s").to_string()).await.json();
        for job in reply["jobs"].as_array().unwrap_or_else(|| panic!("{what}: {reply}")) {
            assert_eq!(job["delivery"], 1, "{what}: {job}");
            taken.push(json!({"id": job["id"], "delivery": 1}));
        }
        assert!(began.elapsed() < LONG, "{what}: {} of {jobs}", taken.len());
    }
    for jobs in taken.chunks(100) {
        let done = client.post("/v1/queues/mail/done", &json!({ "jobs": jobs }).to_string()).await;
        assert!(!done.text.contains("lost"), "{what}: {}", done.text);
    }
    began.elapsed()
}

async fn all_of(queues: AnyQueues, what: &str) {
    let queue = Queue::new(queues, "mail").unwrap();
    let service = serve(&queue).await;
    let question = http(TAKE, &wait_for(1, "20s"));
    // Those that have hung up get nothing.
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(&question).await.unwrap();
        waiting.push(stream);
    }
    service.is_reached().await;
    drop(waiting);
    offer(&queue, WAITING).await;
    let took = gets_all(&service, WAITING, what).await;
    println!("{what}: {WAITING} jobs past {WAITING} that hung up, after {took:?}");
    // Nor does a client that goes while its answer is on its way.
    let question = http(TAKE, &wait_for(2, "0s"));
    for goes in [Goes::Closes, Goes::Resets] {
        offer(&queue, TRIES).await;
        for first in (0..TRIES).step_by(AT_ONCE) {
            let tries = first..first + AT_ONCE;
            let tries = tries.map(|number| go(service.address, (None, &question), goes, number));
            futures_util::future::join_all(tries).await;
        }
        let took = gets_all(&service, TRIES, what).await;
        println!("{what}, {goes:?}: all {TRIES} jobs after {took:?}");
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.died), (0, 0, 0), "{what}");
    let page = service.client().await.get("/metrics").await.text;
    let given = "tollgate_queue_undelivered_total{queue=\"mail\",result=\"given_back\"} ";
    let given = page.lines().find_map(|line| line.strip_prefix(given)).unwrap();
    let given: usize = given.parse().unwrap();
    println!("{what}: {given} jobs were given back");
    assert!(given > 0, "{what}: every client went before its answer");
    assert!(
        page.contains("tollgate_queue_undelivered_total{queue=\"mail\",result=\"failed\"} 0\n")
    );
}

#[tokio::test]
async fn memory_delivers_nothing_to_who_has_gone() {
    all_of(AnyQueues::Memory(MemoryQueues::new()), "memory").await;
}

#[tokio::test]
async fn a_file_delivers_nothing_to_who_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let queues =
        SqliteQueues::open(&folder.path().join("queues.db").display().to_string()).unwrap();
    all_of(AnyQueues::Sqlite(queues), "SQLite").await;
}

#[tokio::test]
async fn redis_delivers_nothing_to_who_has_gone() {
    let server = redis_or_skip!();
    let options = Options::from_url(&server.url()).unwrap();
    all_of(AnyQueues::Redis(RedisQueues::connect(options).await.unwrap()), "Redis").await;
}

/// The wait of who only stops to send ends, too: nobody can tell it from who has gone. It reads the
/// answer, which has the jobs that are there already.
#[tokio::test]
async fn who_stops_to_send_is_answered_at_once() {
    let queue = Queue::new(AnyQueues::Memory(MemoryQueues::new()), "mail").unwrap();
    let service = serve(&queue).await;
    for jobs in [0, 1] {
        offer(&queue, jobs).await;
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        // Of two requests the second was sent meanwhile, and is answered as well.
        let both = [http(TAKE, &wait_for(1, "60s")), http("/v1/queues/mail/nack", &json!({}))];
        stream.write_all(&both.concat()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = String::new();
        let read = tokio::time::timeout(LONG / 2, stream.read_to_string(&mut said)).await;
        read.expect("it waits").unwrap();
        assert_eq!(said.matches("\"delivery\":1").count(), jobs, "{said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 2, "{said}");
        assert!(said.contains("200 OK") && said.contains("400 Bad Request"), "{said}");
    }
    assert_eq!(queue.stats().await.unwrap().in_flight, 1, "what was read is delivered");
}

/// More than may wait in all have gone: an honest worker waits.
#[tokio::test]
async fn places_of_who_has_gone_are_free() {
    let queue = Queue::new(AnyQueues::Memory(MemoryQueues::new()), "mail").unwrap();
    let service = serve(&queue).await;
    let question = http(TAKE, &wait_for(1, "60s"));
    for _ in 0..11 {
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(service.address).await.unwrap();
            stream.write_all(&question).await.unwrap();
            waiting.push(stream);
        }
        service.is_reached().await;
        drop(waiting);
        is_alone(&service).await;
    }
    offer(&queue, 1).await;
    gets_all(&service, 1, "after 1,100 waits").await;
}

/// Waits until nobody else is connected.
async fn is_alone(service: &Service) {
    let (mut client, began): (Client, _) = (service.client().await, Instant::now());
    loop {
        let page = client.get("/metrics").await.text;
        if page.contains("\ntollgate_connections 1\n") {
            return;
        }
        let open = page.lines().find(|line| line.starts_with("tollgate_connections "));
        assert!(began.elapsed() < LONG, "{open:?}");
        tokio::task::yield_now().await;
    }
}
