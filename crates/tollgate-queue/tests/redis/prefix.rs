//! Queues of two environments on one server share nothing.

use std::time::Duration;

use tollgate_queue::{
    Backend as _, ConsumerSettings, Error, Job, OfferCall, OfferOutcome, ProducerSettings, Queue,
    RedisQueues,
};
use tollgate_redis::{KeyPrefix, Options};

use super::{FORMS, own};

#[tokio::test]
async fn two_prefixes_share_no_queue() {
    let Some(server) = own() else { return };
    for form in FORMS {
        let queues = async |query: &str| {
            let options = Options::from_url(&format!("{}{query}", server.url())).unwrap();
            let options = options.deadline(Duration::from_secs(10));
            RedisQueues::connect_with(options, form).await.unwrap()
        };
        let all = [
            ("tgq1:", "tg1:", queues("").await),
            ("staging:tgq1:", "staging:tg1:", queues("?prefix=staging").await),
            ("b:tgq1:", "b:tg1:", queues("?prefix=b").await),
        ];
        let name = |n: usize| format!("q{n}");
        for (n, (_, _, queues)) in all.iter().enumerate() {
            for queue in ["mail".to_owned(), name(n)] {
                // Settings of an environment's own, and one job that it accepts once.
                let queue = Queue::new(queues.clone(), &queue).unwrap();
                let producer = queue.producer(ProducerSettings::new(n as u64 + 1)).unwrap();
                let offered = producer.offer(&Job::new().dedup_id("once")).await.unwrap();
                assert!(matches!(offered, OfferOutcome::Accepted { depth: 1, .. }), "{offered:?}");
            }
            let names = queues.names().await.unwrap();
            assert_eq!(names, ["mail".to_owned(), name(n)]);
        }
        for (_, _, queues) in &all {
            let queue = Queue::new(queues.clone(), "mail").unwrap();
            let settings = ConsumerSettings::new().rate("1/h via gcra".parse().unwrap());
            let consumer = queue.consumer(settings).unwrap();
            consumer.wait(Duration::from_millis(1)).await;
            let jobs = consumer.take("w", 9).await.unwrap().jobs;
            assert_eq!(jobs.len(), 1, "the rate of another environment");
            assert_eq!(consumer.ack(&[jobs[0].id]).await.unwrap(), 1);
        }
        for key in server.keys() {
            let key = String::from_utf8(key).unwrap();
            let of = all.iter().filter(|(a, b, _)| key.starts_with(a) || key.starts_with(b));
            assert_eq!(of.count(), 1, "{key}");
        }
        for (jobs, _, _) in &all {
            let channel = format!("{jobs}{{queue:mail}}:wake");
            let heard = || server.command(&[b"PUBSUB", b"NUMSUB", channel.as_bytes()]);
            let begin = std::time::Instant::now();
            while heard().items()[1].int() != Some(1) {
                assert!(begin.elapsed() < Duration::from_secs(60), "{channel}: nobody hears it");
                tokio::task::yield_now().await;
            }
        }
        drop(all);
        server.command(&[b"FLUSHALL"]);
    }
}

#[test]
fn a_printed_offer_is_of_its_environment() -> Result<(), Error> {
    let staging = KeyPrefix::new("staging").unwrap();
    let job = Job::new().field("to", "ann").dedup_id("x");
    let call = OfferCall::new(&staging, "mail", &ProducerSettings::new(9), &job)?;
    assert!(call.keys.iter().all(|key| key.starts_with("staging:tgq1:{queue:mail}:")), "{call:?}");
    assert_eq!(call.keys.last().unwrap(), "staging:tgq1:{queue:mail}:once:x");
    Ok(())
}
