//! Producers and workers that are processes, some of them killed in the middle. Every accepted job
//! is handled, no refused one is, and the bound is never exceeded.
//!
//! The children are this very test program, started again with variables that say what to do. Each
//! writes its acts to a separate file, line by line, and that history is checked.
//!
//! `TOLLGATE_QUEUE_JOBS=100000 TOLLGATE_QUEUE_KILL_MS=1000` make it as large as it is meant: by
//! itself it is small, and kills more often.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_queue::{
    AnyQueues, ConsumerSettings, Counts, Delivery, Job, Layout, OfferOutcome, ProducerSettings,
    Queue, RedisQueues, SqliteQueues, Stats, Worker,
};
use tollgate_testbed::{RedisServer, redis_program};

const ROLE: &str = "TOLLGATE_TEST_ROLE";
const PLACE: &str = "TOLLGATE_TEST_PLACE";
const HISTORY: &str = "TOLLGATE_TEST_HISTORY";
const FROM: &str = "TOLLGATE_TEST_FROM";
const TO: &str = "TOLLGATE_TEST_TO";

const BOUND: u64 = 40;
const PRODUCERS: u64 = 8;
const WORKERS: usize = 8;
/// The jobs of a worker that was killed come back soon.
const VISIBILITY: Duration = Duration::from_millis(500);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

async fn queue(place: &str) -> Queue<AnyQueues> {
    let redis = |url: &str| {
        tollgate_redis::Options::from_url(url).unwrap().deadline(Duration::from_secs(10))
    };
    let queues = if let Some(url) = place.strip_prefix("list of ") {
        AnyQueues::Redis(RedisQueues::connect_with(redis(url), Layout::List).await.unwrap())
    } else if place.starts_with("redis://") {
        AnyQueues::Redis(RedisQueues::connect(redis(place)).await.unwrap())
    } else {
        let options = tollgate_sqlite::Options::new(place).deadline(Duration::from_secs(60));
        AnyQueues::Sqlite(SqliteQueues::open_with(options).unwrap())
    };
    Queue::new(queues, "mail").unwrap()
}

fn producer_settings() -> ProducerSettings {
    ProducerSettings::new(BOUND).counts(Counts::All)
}

fn consumer_settings() -> ConsumerSettings {
    ConsumerSettings::new().visibility(VISIBILITY).deliveries(1_000)
}

/// A file that lines are added to, each by one write: a written line is there, whoever is killed.
fn history(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

fn child(role: &str, place: &str, history: &Path, from: u64, to: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "when_started_as_a_child_it_does_its_part", "--nocapture"])
        .env(ROLE, role)
        .env(PLACE, place)
        .env(HISTORY, history)
        .env(FROM, from.to_string())
        .env(TO, to.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Not a separate test: the work of the other test's children. Started by hand it does nothing.
#[test]
fn when_started_as_a_child_it_does_its_part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = std::env::var(PLACE).unwrap();
    let mut file = history(Path::new(&std::env::var(HISTORY).unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if role == "producer" {
        runtime.block_on(produce(&place, &mut file));
        return;
    }
    // Its parent closes its input when it is to end.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(stop);
    });
    runtime.block_on(async {
        let consumer = queue(&place).await.consumer(consumer_settings()).unwrap();
        let worker = Worker::new(consumer, format!("w{}", std::process::id()));
        let file = Arc::new(Mutex::new(file));
        let handle = |job: Delivery| {
            let file = Arc::clone(&file);
            async move {
                let line = format!("{} {}\n", job.id, job.text("n").unwrap());
                file.lock().unwrap().write_all(line.as_bytes()).unwrap();
                Ok(())
            }
        };
        let worker = worker.concurrency(4).batch(16);
        worker.run(handle, async { drop(stopped.await) }).await.unwrap();
    });
}

async fn produce(place: &str, file: &mut File) {
    let producer = queue(place).await.producer(producer_settings()).unwrap();
    for n in number(FROM, 0)..number(TO, 0) {
        let offered = producer.offer(&Job::new().field("n", n.to_string())).await.unwrap();
        let line = match offered {
            OfferOutcome::Accepted { id, depth } => format!("{n} {id} {depth}\n"),
            OfferOutcome::Full { depth, .. } => {
                // Refused it stays; the next comes when there may be room.
                let pause = Duration::from_millis(2);
                tokio::time::sleep(pause).await; // tidy: sleep-ok a producer's pace
                format!("{n} refused {depth}\n")
            }
            other => panic!("{other:?}"),
        };
        file.write_all(line.as_bytes()).unwrap();
    }
}

fn parts(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// The outcome.
struct Came {
    accepted: usize,
    refused: usize,
    handled: usize,
    killed: usize,
}

fn run(place: &str, dir: &Path) -> Came {
    let jobs = number("TOLLGATE_QUEUE_JOBS", 4_000);
    let kill = Duration::from_millis(number("TOLLGATE_QUEUE_KILL_MS", 150));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let queue = runtime.block_on(queue(place));
    let look = || -> Stats { runtime.block_on(queue.stats()).unwrap() };
    let mut files = 0;
    let mut worker = || {
        files += 1;
        child("worker", place, &dir.join(format!("worker{files}")), 0, 0)
    };
    let share = jobs / PRODUCERS;
    let mut producers: Vec<Child> = (0..PRODUCERS)
        .map(|at| {
            let history = dir.join(format!("producer{at}"));
            child("producer", place, &history, at * share, (at + 1) * share)
        })
        .collect();
    // The queue is full once, whoever is faster: only then somebody works.
    let begin = Instant::now();
    while look().refused == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is never full: {:?}", look());
        std::thread::sleep(Duration::from_millis(2)); // tidy: sleep-ok between two looks
    }
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| worker()).collect();
    let (mut killed, mut next) = (0, Instant::now() + kill);
    loop {
        let stats = look();
        assert!(stats.waiting + stats.in_flight <= BOUND, "{stats:?}");
        let are_over = producers.iter_mut().all(|child| child.try_wait().unwrap().is_some());
        if are_over && stats.waiting + stats.in_flight == 0 {
            break;
        }
        if Instant::now() >= next {
            let mut dead = std::mem::replace(&mut workers[killed % WORKERS], worker());
            // `Child::kill` is SIGKILL.
            dead.kill().unwrap();
            dead.wait().unwrap();
            (killed, next) = (killed + 1, Instant::now() + kill);
        }
        assert!(begin.elapsed() < Duration::from_secs(1_200), "no progress: {stats:?}");
        std::thread::sleep(Duration::from_millis(2)); // tidy: sleep-ok between two looks
    }
    for child in &mut producers {
        assert!(child.wait().unwrap().success(), "a producer failed");
    }
    for mut child in workers {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "a worker failed");
    }
    check(dir, &look(), killed)
}

/// Checks the history.
fn check(dir: &Path, stats: &Stats, killed: usize) -> Came {
    let (mut accepted, mut refused) = (BTreeMap::new(), BTreeSet::new());
    let mut handled: BTreeMap<String, String> = BTreeMap::new();
    let mut handlings = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for line in parts(&path) {
            match (&line[..], name.starts_with("producer")) {
                ([n, what, depth], true) if what == "refused" => {
                    assert!(depth.parse::<u64>().unwrap() >= BOUND, "refused with {depth}");
                    refused.insert(n.clone());
                }
                ([n, id, depth], true) => {
                    assert!(depth.parse::<u64>().unwrap() <= BOUND, "accepted as the {depth}th");
                    assert!(accepted.insert(id.clone(), n.clone()).is_none(), "two jobs {id}");
                }
                ([id, n], false) if name.starts_with("worker") => {
                    handlings += 1;
                    let before = handled.insert(id.clone(), n.clone());
                    assert!(before.is_none_or(|before| before == *n), "{id} was two jobs");
                }
                _ => {}
            }
        }
    }
    assert!(!accepted.is_empty() && !refused.is_empty(), "producers were faster and slower");
    assert_eq!(handled, accepted, "handled is what was accepted, and nothing else");
    assert_eq!(stats.accepted, accepted.len() as u64);
    assert_eq!(stats.refused, refused.len() as u64);
    assert_eq!((stats.done, stats.dead), (stats.accepted, 0));
    println!(
        "{} accepted, {} refused, {handlings} handlings, {} deliveries again, {killed} workers killed",
        accepted.len(),
        refused.len(),
        stats.redelivered
    );
    Came { accepted: accepted.len(), refused: refused.len(), handled: handlings, killed }
}

#[test]
fn workers_that_are_killed_lose_nothing_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    let came = run(place.path().join("q.db").to_str().unwrap(), dir.path());
    assert!(came.killed > 0 && came.handled >= came.accepted && came.refused > 0);
}

/// A Redis of a test's own; none where none is installed.
fn redis() -> Option<RedisServer> {
    if redis_program().is_none() {
        println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
        return None;
    }
    Some(RedisServer::start())
}

#[test]
fn workers_that_are_killed_lose_nothing_of_a_stream() {
    let Some(server) = redis() else { return };
    let dir = tempfile::tempdir().unwrap();
    let came = run(&server.url(), dir.path());
    assert!(came.killed > 0 && came.handled >= came.accepted && came.refused > 0);
}

#[test]
fn workers_that_are_killed_lose_nothing_of_a_list() {
    let Some(server) = redis() else { return };
    let dir = tempfile::tempdir().unwrap();
    let came = run(&format!("list of {}", server.url()), dir.path());
    assert!(came.killed > 0 && came.handled >= came.accepted && came.refused > 0);
}
