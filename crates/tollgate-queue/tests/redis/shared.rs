//! Offers that wait for the connection at the same time share a call, and are answered as if each
//! came alone; and offers wake no worker that has something to take.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Poll;

use tollgate::ManualClock;
use tollgate_queue::{Backend as _, Counts};

use super::*;

/// The calls of a command that a server has served.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let is = server.info("commandstats");
    let Some(line) = is.get(&format!("cmdstat_{command}")) else { return 0 };
    line.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap().parse().unwrap()
}

/// Polls all in this order before the connection has a turn, and answers in it.
async fn at_once<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|it| (Box::pin(it), None)).collect();
    poll_fn(|cx| {
        let mut is_ready = true;
        for (it, answer) in all.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match it.as_mut().poll(cx) {
                Poll::Ready(done) => *answer = Some(done),
                Poll::Pending => is_ready = false,
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Queues of which some are full, one counts those that are out, and one was made with other
/// settings: as the memory answers, and with fewer calls than offers.
#[tokio::test]
async fn offers_at_once_are_answered_as_if_each_came_alone() {
    let Some(server) = own() else { return };
    for form in FORMS {
        server.command(&[b"FLUSHALL"]);
        let clock = ManualClock::at_micros(1_700_000_000_123_456);
        let redis = RedisQueues::with_clock(options(&server), form, clock.clone()).await.unwrap();
        let memory = MemoryQueues::with_clock(clock.clone());
        let all = ProducerSettings::new(12).counts(Counts::All);
        let queues = [
            ("a", ProducerSettings::new(12)),
            ("b", ProducerSettings::new(30)),
            ("a", ProducerSettings::new(12)),
            ("b", ProducerSettings::new(31)),
            ("c", all),
        ];
        let before = calls(&server, "evalsha");
        let mut offers = 0;
        for round in 0..6 {
            let jobs: Vec<_> =
                (0..40).map(|n| Job::new().field("n", format!("{round}-{:02}", n % 100))).collect();
            let given: Vec<_> = queues.iter().cycle().zip(&jobs).collect();
            let mut expected = Vec::new();
            for ((queue, settings), job) in &given {
                expected.push(memory.offer(queue, settings, job).await.ok());
            }
            let asked = given.iter().map(|((queue, settings), job)| {
                let offer = redis.offer(queue, settings, job);
                async move { offer.await.ok() }
            });
            let answers = at_once(asked).await;
            assert_eq!(answers, expected, "{form:?}, round {round}");
            offers += answers.len() as u64;
            for queue in ["a", "b", "c"] {
                let stats = memory.stats(queue).await.unwrap();
                assert_eq!(redis.stats(queue).await.unwrap(), stats, "{form:?}, round {round}");
                // Some leave, so that a full queue says when there is room, and later has it.
                let consumer = ConsumerSettings::new();
                let taken = redis.take(queue, &consumer, "w", 3).await.unwrap();
                assert_eq!(taken, memory.take(queue, &consumer, "w", 3).await.unwrap());
                let ids: Vec<_> = taken.jobs.iter().map(|job| job.id).take(round % 3).collect();
                assert_eq!(
                    redis.ack(queue, &ids).await.unwrap(),
                    memory.ack(queue, &ids).await.unwrap()
                );
            }
            clock.advance(Duration::from_secs(4));
        }
        let calls = calls(&server, "evalsha") - before;
        assert!(calls < offers, "{form:?}: {calls} calls for {offers} offers");
    }
}

/// One of several queues holds something else: offers to it fail, and those to others do not.
#[tokio::test]
async fn an_offer_that_fails_leaves_those_beside_it() {
    let Some(server) = own() else { return };
    for form in FORMS {
        server.command(&[b"FLUSHALL"]);
        let redis = queues(&server, form).await;
        let settings = ProducerSettings::new(1_000);
        let names = ["a", "b", "c"];
        let job = Job::new();
        let mut accepted = BTreeMap::new();
        for round in 0..4 {
            if round == 2 {
                let key = if form == Layout::Stream { "jobs" } else { "waiting" };
                let key = format!("tgq1:{{queue:b}}:{key}");
                server.command(&[b"DEL", key.as_bytes()]);
                server.command(&[b"SET", key.as_bytes(), b"of others"]);
            }
            let asked = names.iter().cycle().take(12).map(|queue| {
                let offer = redis.offer(queue, &settings, &job);
                async move { (*queue, offer.await) }
            });
            for (queue, answer) in at_once(asked).await {
                if round >= 2 && queue == "b" {
                    let error = answer.unwrap_err().to_string();
                    assert!(error.contains("WRONGTYPE"), "{error}");
                } else {
                    assert!(matches!(answer.unwrap(), OfferOutcome::Accepted { .. }));
                    *accepted.entry(queue).or_insert(0) += 1;
                }
            }
        }
        for queue in ["a", "c"] {
            assert_eq!(redis.stats(queue).await.unwrap().waiting, accepted[queue], "{form:?}");
        }
    }
}

/// Who has something to take is not woken for more; who waits is, whatever counts as waiting.
#[tokio::test]
async fn only_an_offer_where_none_waits_wakes_workers() {
    let Some(server) = own() else { return };
    for form in FORMS {
        server.command(&[b"FLUSHALL"]);
        let queue = Queue::new(queues(&server, form).await, "q").unwrap();
        let producer = queue.producer(ProducerSettings::new(99)).unwrap();
        let consumer = queue.consumer(ConsumerSettings::new()).unwrap();
        let woken = calls(&server, "publish");
        for (offers, wakes) in [(3, 1), (2, 0)] {
            let before = calls(&server, "publish");
            for _ in 0..offers {
                producer.offer(&Job::new()).await.unwrap();
            }
            assert_eq!(calls(&server, "publish") - before, wakes, "{form:?}");
        }
        assert_eq!(consumer.take("w", 9).await.unwrap().jobs.len(), 5);
        // Offered together, they wake once.
        producer.offer_all(&[Job::new(), Job::new()]).await.unwrap();
        producer.offer(&Job::new().client("ann")).await.unwrap();
        assert_eq!(calls(&server, "publish") - woken, 2, "{form:?}");
    }
}

/// A job that another consumer of the group holds counts as waiting, and is nothing to take.
#[tokio::test]
async fn who_waits_beside_a_job_that_somebody_else_holds_is_woken() {
    let Some(server) = server() else { return };
    // As long as the test may take at all: no passing of time ends it.
    const LONG: Duration = Duration::from_secs(3_600);
    let name = name();
    let queue = Queue::new(queues(server, Layout::Stream).await, &name).unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    let mine = Queue::new(queues(server, Layout::Stream).await, &name).unwrap();
    let me = mine.consumer(ConsumerSettings::new()).unwrap();
    producer.offer(&Job::new()).await.unwrap();
    let taken = me.take("me", 1).await.unwrap().jobs;
    me.ack(&[taken[0].id]).await.unwrap();
    producer.offer(&Job::new()).await.unwrap();
    let jobs = format!("tgq1:{{queue:{name}}}:jobs");
    let ghost = [&b"XREADGROUP"[..], b"GROUP", b"workers", b"ghost", b"STREAMS"];
    let got = server.command(&[&ghost[..], &[jobs.as_bytes(), b">"]].concat());
    assert_eq!(got.items().len(), 1);
    // The first wait is short, while nobody hears anything yet.
    me.wait(LONG).await;
    while hearers(server, &name) == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        assert!(me.take("me", 1).await.unwrap().jobs.is_empty());
        let job = Job::new();
        let both = async { tokio::join!(me.wait(LONG), producer.offer(&job)) };
        let woken = tokio::time::timeout(Duration::from_secs(60), both).await;
        assert!(woken.is_ok(), "nobody woke it");
        let taken = me.take("me", 9).await.unwrap().jobs;
        assert_eq!(taken.len(), 1);
        me.ack(&[taken[0].id]).await.unwrap();
    }
    // The other has done it: nothing counts as waiting any more.
    let id = got.items()[0].items()[1].items()[0].items()[0].text().unwrap();
    server.command(&[b"XACK", jobs.as_bytes(), b"workers", id.as_bytes()]);
    server.command(&[b"XDEL", jobs.as_bytes(), id.as_bytes()]);
    assert!(me.take("me", 1).await.unwrap().jobs.is_empty());
    let meta = format!("tgq1:{{queue:{name}}}:meta");
    assert_eq!(server.command(&[b"HEXISTS", meta.as_bytes(), b"held"]).int(), Some(0));
}
