//! Random histories, which every place where queues lie answers as the memory does.

pub(crate) mod formats;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_queue::{
    Backend, ConsumerSettings, Counts, DeliveryTag, Job, MemoryQueues, OfferOutcome,
    ProducerSettings, Queue, Settings,
};

/// A job that is drawn by chance.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    once: Option<u8>,
    client: Option<&'static str>,
    deadline_s: Option<u8>,
    size: u8,
}

/// Names of clients that scripts and tables must not take for something else.
const CLIENTS: [&str; 3] = ["ann", "1-0 w\n", "wo\0ü"];

impl Drawn {
    fn job(&self) -> Job {
        let Self { once, client, deadline_s, size } = *self;
        let mut job = match size % 3 {
            0 => Job::new(),
            1 => Job::from_bytes(&vec![size; usize::from(size)]),
            _ => Job::new().field("a", "ü\n").field("b", "x".repeat(usize::from(size))),
        };
        if let Some(once) = once {
            job = job.dedup_id(format!("once {once}"));
        }
        if let Some(client) = client {
            job = job.client(client);
        }
        if let Some(s) = deadline_s {
            job = job.deadline(Duration::from_secs(u64::from(s)));
        }
        job
    }
}

/// The random steps.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Offer { job: Drawn },
    OfferAll { jobs: Vec<Drawn> },
    Take { max: u8 },
    Done { nth: u8, count: u8 },
    Again { nth: u8, after_s: u8, reason: bool },
    Extend { nth: u8 },
    Release { nth: u8 },
    TakeDead { nth: u8 },
    ForgetDead { nth: u8 },
    OfferAgain { nth: u8 },
    Change { bound: Option<u8>, per_client: Option<u8>, deliveries: Option<u8> },
    Pause { is_paused: bool },
    Pass { us: u64 },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let some = |max: u8| proptest::option::weighted(0.3, 0..max);
    let seconds = 0..20_000_000_u64;
    let job = move || {
        let client = proptest::option::weighted(0.7, proptest::sample::select(CLIENTS.to_vec()));
        (some(6), client, some(60), any::<u8>())
            .prop_map(|(once, client, deadline_s, size)| Drawn { once, client, deadline_s, size })
    };
    prop_oneof![
        4 => job().prop_map(|job| Step::Offer { job }),
        2 => proptest::collection::vec(job(), 0..6).prop_map(|jobs| Step::OfferAll { jobs }),
        4 => (1..5_u8).prop_map(|max| Step::Take { max }),
        3 => (any::<u8>(), 1..4_u8).prop_map(|(nth, count)| Step::Done { nth, count }),
        2 => (any::<u8>(), 0..40_u8, any::<bool>())
            .prop_map(|(nth, after_s, reason)| Step::Again { nth, after_s, reason }),
        1 => any::<u8>().prop_map(|nth| Step::Extend { nth }),
        1 => any::<u8>().prop_map(|nth| Step::Release { nth }),
        1 => any::<u8>().prop_map(|nth| Step::TakeDead { nth }),
        2 => any::<u8>().prop_map(|nth| Step::ForgetDead { nth }),
        1 => any::<u8>().prop_map(|nth| Step::OfferAgain { nth }),
        1 => (some(6), some(4), some(4)).prop_map(|(bound, per_client, deliveries)| {
            Step::Change { bound, per_client, deliveries }
        }),
        1 => proptest::bool::weighted(0.3).prop_map(|is_paused| Step::Pause { is_paused }),
        3 => prop_oneof![seconds, 0..3_000_u64].prop_map(|us| Step::Pass { us }),
    ]
}

/// How a queue is offered to and worked on.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    bound: u64,
    counts_all: bool,
    per_client: Option<u64>,
    remember_s: u64,
    deliveries: u32,
    keep_dead: u32,
    keep_done: u32,
    rate: Option<&'static str>,
}

pub(crate) fn settings() -> impl Strategy<Value = Made> {
    let rates = [
        None,
        Some("3/5s via sliding_log"),
        Some("2/7s via gcra"),
        Some("2/3s via fixed_window, 5/10s via token_bucket"),
        Some("1/2s via uniform"),
    ];
    (
        1..6_u64,
        any::<bool>(),
        proptest::option::weighted(0.7, 1..4_u64),
        0..40_u64,
        1..4_u32,
        0..3_u32,
        0..3_u32,
        proptest::sample::select(rates.to_vec()),
    )
        .prop_map(|drawn| {
            let (bound, counts_all, per_client, remember_s, deliveries, ..) = drawn;
            let (.., keep_dead, keep_done, rate) = drawn;
            Made {
                bound,
                counts_all,
                per_client,
                remember_s,
                deliveries,
                keep_dead,
                keep_done,
                rate,
            }
        })
}

/// Does the same on both, and says where they differ.
#[expect(clippy::too_many_lines, reason = "an arm for each operation")]
pub(crate) async fn both(
    other: &impl Backend,
    memory: &MemoryQueues,
    clock: &ManualClock,
    queue: &str,
    is: &Made,
    steps: &[Step],
) {
    let counts = if is.counts_all { Counts::All } else { Counts::Waiting };
    let producer_settings = ProducerSettings::new(is.bound).counts(counts);
    let mut producer_settings = producer_settings.dedup_window(Duration::from_secs(is.remember_s));
    if let Some(max) = is.per_client {
        producer_settings = producer_settings.per_client(max);
    }
    let mut consumer_settings =
        ConsumerSettings::new().deliveries(is.deliveries).keep_dead(is.keep_dead);
    consumer_settings = consumer_settings.keep_done(is.keep_done);
    if let Some(rate) = is.rate {
        consumer_settings = consumer_settings.rate(rate.parse().unwrap());
    }
    let mut tag: Vec<DeliveryTag> = Vec::new();
    let mut dead = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let pick = |nth: u8| (!tag.is_empty()).then(|| tag[usize::from(nth) % tag.len()]);
        macro_rules! same {
            ($backend:ident => $ask:expr) => {{
                let $backend = other;
                let of_other = $ask.await.unwrap();
                let $backend = memory;
                let of_memory = $ask.await.unwrap();
                assert_eq!(of_other, of_memory, "step {place}: {step:?}");
                of_memory
            }};
        }
        match *step {
            Step::Pass { us } => clock.advance(Duration::from_micros(us)),
            Step::Offer { ref job } => {
                let job = job.job();
                same!(on => on.offer(queue, &producer_settings, &job));
            }
            Step::OfferAll { ref jobs } => {
                let jobs: Vec<_> = jobs.iter().map(Drawn::job).collect();
                same!(on => on.offer_all(queue, &producer_settings, &jobs));
            }
            Step::Take { max } => {
                let taken = same!(on => on.take(queue, &consumer_settings, "w", usize::from(max)));
                tag.extend(taken.jobs.iter().map(tollgate_queue::Delivery::tag));
            }
            Step::Done { nth, count } => {
                let ids: Vec<_> = (nth..nth.saturating_add(count))
                    .filter_map(|nth| pick(nth).map(|tag| tag.id))
                    .collect();
                same!(on => on.ack(queue, &ids));
                same!(on => on.done_jobs(queue, 0));
                same!(on => on.done_jobs(queue, 9));
            }
            Step::Again { nth, after_s, reason } => {
                if let Some(it) = pick(nth) {
                    let after = Duration::from_secs(u64::from(after_s));
                    let reason = if reason { "it broke\nh9" } else { "" };
                    same!(on => on.nack(queue, &consumer_settings, it, after, reason));
                }
            }
            Step::Pause { is_paused } => {
                same!(on => on.pause(queue, is_paused));
            }
            Step::Extend { nth } => {
                if let Some(it) = pick(nth) {
                    same!(on => on.extend(queue, &consumer_settings, it));
                }
            }
            Step::Release { nth } => {
                if let Some(it) = pick(nth) {
                    tag.retain(|other| *other != it);
                    same!(on => on.release(queue, it));
                }
            }
            Step::Change { bound, per_client, deliveries } => {
                let mut settings = Settings::default();
                if let Some(bound) = bound {
                    // The counted jobs change, too.
                    let counts = if bound % 2 == 0 { Counts::All } else { Counts::Waiting };
                    let dedup_window = Duration::from_secs(is.remember_s);
                    producer_settings = ProducerSettings::new(u64::from(bound) + 1)
                        .counts(counts)
                        .dedup_window(dedup_window);
                    if let Some(max) = per_client {
                        producer_settings = producer_settings.per_client(u64::from(max) + 1);
                    }
                    settings.producer = Some(producer_settings.clone());
                }
                if let Some(deliveries) = deliveries {
                    consumer_settings =
                        consumer_settings.clone().deliveries(u32::from(deliveries) + 1);
                    consumer_settings = consumer_settings.keep_done(u32::from(deliveries) % 3);
                    settings.consumer = Some(consumer_settings.clone());
                }
                same!(on => on.change(queue, &settings));
            }
            Step::OfferAgain { nth } => {
                let dead = same!(on => on.dead_letters(queue, 9));
                if !dead.is_empty() {
                    let again = dead[usize::from(nth) % dead.len()].job();
                    same!(on => on.offer(queue, &producer_settings, &again));
                }
            }
            Step::ForgetDead { nth } => {
                dead.extend(same!(on => on.dead_letters(queue, 9)).iter().map(|dead| dead.id));
                if !dead.is_empty() {
                    let id = dead[usize::from(nth) % dead.len()];
                    same!(on => on.forget_dead_letter(queue, id));
                }
            }
            Step::TakeDead { nth } => {
                same!(on => on.dead_letters(queue, 0));
                dead.extend(same!(on => on.dead_letters(queue, 9)).iter().map(|dead| dead.id));
                if !dead.is_empty() {
                    let id = dead[usize::from(nth) % dead.len()];
                    same!(on => on.take_dead_letter(queue, id));
                }
            }
        }
        same!(on => on.stats(queue));
        same!(on => on.settings(queue));
        same!(on => on.done_jobs(queue, 2));
        for max in [0, 2, 9] {
            same!(on => on.waiting(queue, max));
            same!(on => on.in_flight(queue, max));
        }
    }
    // Others may lie there too.
    let is_named = |names: Vec<String>| {
        assert!(names.is_sorted(), "{names:?}");
        names.iter().any(|name| name == queue)
    };
    let (theirs, mine) = (other.names().await.unwrap(), memory.names().await.unwrap());
    assert_eq!(is_named(theirs), is_named(mine));
}

/// How many jobs of each client wait and are out, by looking at each job: the expected counts, and
/// none for a client without a job.
pub(crate) async fn of_clients(on: &impl Backend, queue: &str) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::<String, (u64, u64)>::new();
    for job in on.waiting(queue, 1_000).await.unwrap() {
        if let Some(client) = job.client() {
            counts.entry(client.to_owned()).or_default().0 += 1;
        }
    }
    for job in on.in_flight(queue, 1_000).await.unwrap() {
        if let Some(client) = job.client() {
            counts.entry(client.to_owned()).or_default().1 += 1;
        }
    }
    counts
}

/// More jobs that are of no use than one look finds: the same of both.
pub(crate) async fn beyond_a_look(
    other: &impl Backend,
    memory: &MemoryQueues,
    clock: &ManualClock,
) {
    const MANY: usize = 700;
    let (queue, producer_settings) = ("beyond", ProducerSettings::new(2 * MANY as u64));
    let consumer_settings =
        ConsumerSettings::new().deliveries(1).keep_dead(3).visibility(Duration::from_secs(1));
    macro_rules! same {
        ($backend:ident => $ask:expr) => {{
            let $backend = other;
            let of_other = $ask.await.unwrap();
            let $backend = memory;
            let of_memory = $ask.await.unwrap();
            assert_eq!(of_other, of_memory);
            of_memory
        }};
    }
    let short = vec![Job::new().client("ann").deadline(Duration::from_secs(1)); MANY];
    let long = vec![Job::new().client("bob"); MANY];
    same!(on => on.offer_all(queue, &producer_settings, &short));
    same!(on => on.offer_all(queue, &producer_settings, &long));
    clock.advance(Duration::from_secs(2));
    // One look drops this many of those that are too old and no more, and reports that there are
    // more.
    let (mut taken, mut looks) = (0, 0);
    while taken < MANY {
        let is = same!(on => on.take(queue, &consumer_settings, "w", 300));
        same!(on => on.stats(queue));
        (taken, looks) = (taken + is.jobs.len(), looks + 1);
        assert!(looks < 50, "no progress");
    }
    assert!(looks > MANY / 300 + 1, "one look found all");
    // All of them have had enough: as many looks bury them.
    clock.advance(Duration::from_secs(2));
    let mut buried = 0;
    while same!(on => on.stats(queue)).in_flight > 0 {
        same!(on => on.take(queue, &consumer_settings, "w", 5));
        buried += 1;
        assert!(buried < 50, "no progress");
    }
    assert!(buried > 1, "one look buried all");
    same!(on => on.dead_letters(queue, 9));
    // Another rate, another timeout, and fewer dead jobs that are kept.
    same!(on => on.offer_all(queue, &producer_settings, &long));
    let rate = "3/h via fixed_window".parse().unwrap();
    let other_way =
        consumer_settings.clone().rate(rate).visibility(Duration::from_secs(9)).keep_dead(1);
    let mut settings = Settings::default();
    settings.consumer = Some(other_way.clone());
    same!(on => on.change(queue, &settings));
    assert_eq!(same!(on => on.take(queue, &other_way, "w", 9)).jobs.len(), 3);
    same!(on => on.stats(queue));
    // It has a name until it is removed.
    for is_there in [true, false] {
        for names in [other.names().await.unwrap(), memory.names().await.unwrap()] {
            assert_eq!(names.iter().any(|name| name == queue), is_there, "{names:?}");
        }
        assert_eq!(same!(on => on.remove(queue)), is_there);
    }
}

/// A job that is dead and forgotten may be offered again under its id. No other id that was
/// accepted once may: neither one that is dead or offered again, nor one that was accepted since.
pub(crate) async fn forgotten<B: Backend>(queue: Queue<B>, clock: &ManualClock) {
    let dedup_window = Duration::from_secs(60);
    let producer = queue.producer(ProducerSettings::new(9).dedup_window(dedup_window)).unwrap();
    let consumer = queue.consumer(ConsumerSettings::new().deliveries(1)).unwrap();
    let (producer, consumer, queue) = (&producer, &consumer, &queue);
    let job = Job::new().field("n", "1").dedup_id("a b");
    let offer = async || producer.offer(&job).await.unwrap();
    let accept = async || match offer().await {
        OfferOutcome::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    };
    let die = async || {
        let taken = consumer.take("w", 1).await.unwrap().jobs[0].tag();
        consumer.nack(taken, Duration::ZERO, "no").await.unwrap();
        let dead = queue.dead_letters(9).await.unwrap();
        dead.last().unwrap().clone()
    };
    let first = accept().await;
    let dead = die().await;
    assert_eq!(offer().await, OfferOutcome::Duplicate { id: first }, "it is dead, and remembered");
    // It is offered again, and dies again: it is the same still.
    producer.offer(&dead.job()).await.unwrap();
    assert_eq!(queue.take_dead_letter(first).await.unwrap().unwrap(), dead);
    assert_eq!(offer().await, OfferOutcome::Duplicate { id: first });
    let again = die().await;
    assert_eq!(offer().await, OfferOutcome::Duplicate { id: first });
    assert!(queue.forget_dead_letter(first).await.unwrap().is_none(), "it is not there any more");
    assert_eq!(offer().await, OfferOutcome::Duplicate { id: first });
    assert!(queue.forget_dead_letter(again.id).await.unwrap().is_some());
    assert!(queue.forget_dead_letter(again.id).await.unwrap().is_none());
    let second = accept().await;
    // A late forgetting removes nothing that was accepted since.
    die().await;
    clock.advance(dedup_window);
    let third = accept().await;
    assert!(queue.forget_dead_letter(second).await.unwrap().is_some());
    assert_eq!(offer().await, OfferOutcome::Duplicate { id: third });
    // A job that nobody named is forgotten as before.
    let taken = consumer.take("w", 1).await.unwrap().jobs;
    assert_eq!(consumer.ack(&[taken[0].id]).await.unwrap(), 1);
    producer.offer(&Job::new()).await.unwrap();
    let other = die().await;
    assert!(queue.forget_dead_letter(other.id).await.unwrap().is_some());
    assert_eq!(queue.stats().await.unwrap().dead, 0);
}
