//! Foreign data at a key of a queue, or a missing right: the caller gets an error, and nothing is
//! changed.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_queue::{
    Consumer, ConsumerSettings, Delivery, DeliveryTag, Error, Job, ProducerSettings, Queue,
    RedisQueues,
};
use tollgate_redis::Options;
use tollgate_testbed::{RedisServer, Reply};

use crate::{FORMS, own, queues};

const OPERATIONS: [&str; 15] = [
    "offer",
    "offer plain",
    "offer plain ones",
    "offer too many",
    "offer more",
    "offer at once",
    "offer at once again",
    "take",
    "nack",
    "bury",
    "extend",
    "release",
    "ack",
    "change",
    "requeue",
];

const NAME: &str = "mail";

/// Everything on a server.
fn all(server: &RedisServer) -> BTreeMap<Vec<u8>, Reply> {
    let dump = |key: &Vec<u8>| server.command(&[b"DUMP", key]);
    server.keys().iter().map(|key| (key.clone(), dump(key))).collect()
}

fn producer_settings() -> ProducerSettings {
    ProducerSettings::new(20).per_client(9)
}

fn consumer_settings() -> ConsumerSettings {
    ConsumerSettings::new().deliveries(3).keep_done(5)
}

fn job(of: &str) -> Job {
    let job = Job::new().field("of", of).client("ann").dedup_id(format!("a job of {of}"));
    job.deadline(Duration::from_secs(3_600))
}

/// A job at its last delivery, held.
async fn delivered_thrice(consumer: &Consumer<RedisQueues>) -> Delivery {
    loop {
        let job = consumer.take("w", 1).await.unwrap().jobs.pop().unwrap();
        if job.attempt == 3 {
            return job;
        }
        consumer.nack(job.tag(), Duration::ZERO, "no").await.unwrap();
    }
}

/// A queue with jobs of each kind: dead, done, failed, held by a worker, waiting. Returns one that
/// is held for the first time and one that is held for the last.
async fn prepare(queue: &Queue<RedisQueues>) -> [DeliveryTag; 2] {
    let producer = queue.producer(producer_settings()).unwrap();
    let consumer = queue.consumer(consumer_settings()).unwrap();
    for number in 0..8 {
        producer.offer(&job(&format!("number {number}"))).await.unwrap();
    }
    let taken = consumer.take("w", 3).await.unwrap().jobs;
    consumer.ack(&[taken[0].id]).await.unwrap();
    consumer.nack(taken[1].tag(), Duration::from_secs(60), "not now").await.unwrap();
    let dead = delivered_thrice(&consumer).await;
    consumer.nack(dead.tag(), Duration::ZERO, "no").await.unwrap();
    [taken[2].tag(), delivered_thrice(&consumer).await.tag()]
}

async fn operate(
    queue: &Queue<RedisQueues>,
    what: &str,
    [held, last]: [DeliveryTag; 2],
) -> Result<(), Error> {
    let producer = queue.producer(producer_settings())?;
    let consumer = queue.consumer(consumer_settings())?;
    match what {
        "offer" => drop(producer.offer(&job("another")).await?),
        "offer plain" => drop(producer.offer(&Job::new()).await?),
        "offer plain ones" => drop(producer.offer_all(&[Job::new(), Job::new()]).await?),
        "offer too many" => drop(producer.offer_all(&vec![Job::new(); 30]).await?),
        "offer more" => {
            drop(producer.offer_all(&[Job::new(), job("the last"), Job::new()]).await?);
        }
        // They share a call from the second time on, when the server has the script for it.
        "offer at once" | "offer at once again" => {
            let job = Job::new();
            let offers = tokio::join!(producer.offer(&job), producer.offer(&job));
            let _ = (offers.0?, offers.1?);
        }
        "take" => drop(consumer.take("w", 2).await?),
        "nack" => drop(consumer.nack(held, Duration::ZERO, "no").await?),
        "bury" => drop(consumer.nack(last, Duration::ZERO, "no").await?),
        "extend" => drop(consumer.extend(held).await?),
        "release" => drop(consumer.release(held).await?),
        "ack" => drop(consumer.ack(&[held.id]).await?),
        "change" => queue.change(producer_settings()).await?,
        _ => {
            for dead in queue.dead_letters(1).await? {
                queue.take_dead_letter(dead.id).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_key_of_another_kind_is_met_before_anything_is_written() {
    let Some(server) = own() else { return };
    for form in FORMS {
        let queue = Queue::new(queues(&server, form).await, NAME).unwrap();
        prepare(&queue).await;
        let keys = server.keys();
        assert!(keys.len() >= 10, "{form:?}: {keys:?}");
        let mut refused = 0;
        for key in &keys {
            for what in OPERATIONS {
                server.command(&[b"FLUSHALL"]);
                let held = prepare(&queue).await;
                server.command(&[b"DEL", key]);
                // None is a set.
                server.command(&[b"SADD", key, b"of others"]);
                let before = all(&server);
                let Err(error) = operate(&queue, what, held).await else { continue };
                refused += 1;
                let key = String::from_utf8_lossy(key);
                assert!(all(&server) == before, "{form:?}: {what} at {key}: {error}");
            }
        }
        println!("{form:?}: {refused} were refused");
        assert!(refused > 60, "{form:?}: {refused}");
        server.command(&[b"FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_missing_right_is_met_before_anything_is_written() {
    let Some(server) = own() else { return };
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/queue.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let line = docs.lines().find(|line| line.starts_with("ACL SETUSER queue")).unwrap();
    let granted: Vec<&str> = line.split(' ').filter(|word| word.starts_with('+')).collect();
    let to_call = ["+auth", "+ping", "+select", "+eval", "+evalsha", "+script|load"];
    for form in FORMS {
        let queue = Queue::new(queues(&server, form).await, NAME).unwrap();
        let mut refused = 0;
        for right in granted.iter().filter(|right| !to_call.contains(right)) {
            let rights = granted.iter().filter(|one| *one != right).copied();
            let user = ["ACL", "SETUSER", "u", "reset", "on", "nopass", "~*", "&*", "-@all"];
            let words: Vec<&[u8]> = user.into_iter().chain(rights).map(str::as_bytes).collect();
            server.command(&words);
            let url = server.url().replace("redis://", "redis://u:x@");
            let options = Options::from_url(&url).unwrap().deadline(Duration::from_secs(10));
            let limited = RedisQueues::connect_with(options, form).await.unwrap();
            let limited = Queue::new(limited, NAME).unwrap();
            let mut prepared = None;
            for what in OPERATIONS {
                let (held, before) = match prepared.take() {
                    Some(is) => is,
                    None => {
                        server.command(&[b"FLUSHALL"]);
                        (prepare(&queue).await, all(&server))
                    }
                };
                let Err(error) = operate(&limited, what, held).await else { continue };
                refused += 1;
                let is_same = all(&server) == before;
                assert!(is_same, "{form:?}: {what} without {right}: {error}");
                let name = &right[1..];
                assert!(error.to_string().contains(name), "{what} without {right}: {error}");
                prepared = Some((held, before));
            }
        }
        println!("{form:?}: {refused} were refused");
        assert!(refused > 60, "{form:?}: {refused}");
        server.command(&[b"FLUSHALL"]);
    }
}
