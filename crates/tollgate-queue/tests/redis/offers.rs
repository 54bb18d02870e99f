//! Offers: many concurrent ones, and the bound of each client.

use tollgate_queue::{
    Backend, ConsumerSettings, Job, MemoryQueues, OfferOutcome, ProducerSettings, Queue,
};

use super::*;

#[tokio::test]
async fn many_are_offered_in_one_step() {
    let Some(server) = server() else { return };
    let memory = Queue::new(MemoryQueues::new(), name()).unwrap();
    let producer = memory.producer(ProducerSettings::new(9)).unwrap();
    let many = producer.offer_all(&vec![Job::new(); 1_001]).await.unwrap_err();
    assert!(many.to_string().contains("1001 jobs in one offer: at most 1000"), "{many}");
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

/// Many concurrent offers, each in a separate call: the bound is checked in the step that adds.
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
