//! Queues as earlier builds wrote them, in `vectors/formats`: six jobs. The first is done, the
//! second failed once, and the third was held by a worker that died.

use std::path::{Path, PathBuf};

use tollgate_queue::{Backend, ConsumerSettings, Job, OfferOutcome, ProducerSettings, Queue};

/// The builds whose formats are kept.
pub(crate) const BUILDS: [&str; 2] = ["a791ffb", "b2f3974b"];

/// The name of the queue in all of them.
pub(crate) const NAME: &str = "mail";

/// A file that a build wrote.
pub(crate) fn file(build: &str, name: &str) -> PathBuf {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/formats");
    formats.join(build).join(name)
}

/// Takes all jobs of such a queue, and goes on with it.
pub(crate) async fn is_understood<B: Backend>(queue: &Queue<B>, what: &str) {
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.done), (3, 2, 1), "{what}: {stats:?}");
    assert_eq!((stats.accepted, stats.delivered), (6, 3), "{what}: {stats:?}");
    let done = queue.done_jobs(9).await.unwrap();
    assert_eq!(done.len(), 1, "{what}");
    assert!(done[0].fields().contains(&("n".to_owned(), "1".to_owned())), "{what}: {done:?}");
    let settings = ConsumerSettings::new().deliveries(3).keep_done(5);
    let consumer = queue.consumer(settings).unwrap();
    let jobs = consumer.take("another", 9).await.unwrap().jobs;
    let taken: Vec<_> = jobs.iter().map(|job| (job.text("n").unwrap(), job.attempt)).collect();
    assert_eq!(taken, [("2", 2), ("3", 2), ("4", 1), ("5", 1), ("6", 1)], "{what}");
    let producer = queue.producer(ProducerSettings::new(10)).unwrap();
    let offered = producer.offer(&Job::new().field("n", "7")).await.unwrap();
    assert!(matches!(offered, OfferOutcome::Accepted { depth: 1, .. }), "{what}: {offered:?}");
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(consumer.ack(&ids).await.unwrap(), 5, "{what}");
    assert_eq!(queue.stats().await.unwrap().done, 6, "{what}");
}
