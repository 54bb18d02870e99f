//! The promises of a queue, over histories that are drawn by chance.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::settings::Counts;

const S: u64 = 1_000_000;

fn all(jobs: usize) -> Result<Grant, Error> {
    Ok(Grant { jobs, next: None })
}

fn job(name: &str) -> Job {
    Job::new().field("name", name)
}

fn accepted(offered: OfferOutcome) -> JobId {
    match offered {
        OfferOutcome::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// A queue with its settings.
struct TestQueue {
    model: Model,
    producer: ProducerSettings,
    consumer: ConsumerSettings,
}

impl TestQueue {
    fn new(bound: u64) -> Self {
        let producer = ProducerSettings::new(bound);
        Self { model: Model::new(), producer, consumer: ConsumerSettings::new() }
    }

    fn offer(&mut self, now: u64, job: &Job) -> OfferOutcome {
        self.model.offer(now, "q", &self.producer, job).unwrap()
    }

    fn take(&mut self, now: u64, max: usize) -> TakeOutcome {
        self.model.take(now, "q", &self.consumer, max, all).unwrap()
    }

    fn names(taken: &TakeOutcome) -> Vec<String> {
        taken.jobs.iter().map(|job| job.text("name").unwrap().to_owned()).collect()
    }

    fn nack(&mut self, now: u64, tag: DeliveryTag, after: Duration) -> NackOutcome {
        self.model.nack(now, "q", &self.consumer, tag, after, "it broke").unwrap()
    }
}

#[test]
fn as_many_wait_as_may_and_no_more() {
    let mut queue = TestQueue::new(2);
    assert_eq!(
        queue.offer(1_000, &job("a")),
        OfferOutcome::Accepted { id: JobId::new(1, 0), depth: 1 }
    );
    accepted(queue.offer(1_000, &job("b")));
    let full = OfferOutcome::Full { depth: 2, retry_after: None };
    assert_eq!(queue.offer(S, &job("c")), full, "nobody left, so nobody knows");
    assert_eq!(TestQueue::names(&queue.take(2 * S, 1)), ["a"]);
    accepted(queue.offer(2 * S, &job("d")));
    // One left in the first two seconds of a window.
    let OfferOutcome::Full { retry_after: Some(retry_after), .. } = queue.offer(2 * S, &job("e"))
    else {
        panic!()
    };
    assert_eq!(retry_after, Duration::from_secs(12));
    let stats = queue.model.stats(3 * S);
    assert_eq!((stats.accepted, stats.refused, stats.waiting, stats.in_flight), (3, 2, 2, 1));
    assert_eq!(stats.oldest, Some(Duration::from_micros(3 * S - 1_000)));
}

#[test]
fn a_bound_of_all_counts_what_is_not_done() {
    let mut queue = TestQueue::new(1);
    queue.producer = queue.producer.counts(Counts::All);
    let id = accepted(queue.offer(0, &job("a")));
    queue.take(0, 1);
    assert!(matches!(queue.offer(0, &job("b")), OfferOutcome::Full { depth: 1, .. }));
    assert_eq!((queue.model.ack(0, &[id]), queue.model.ack(0, &[id])), (1, 0));
    accepted(queue.offer(0, &job("b")));
}

#[test]
fn one_client_has_no_more_than_its_share() {
    let mut queue = TestQueue::new(3);
    queue.producer = queue.producer.per_client(1);
    let job_of = |name: &str| job("j").client(name);
    accepted(queue.offer(0, &job_of("ann")));
    assert_eq!(queue.offer(0, &job_of("ann")), OfferOutcome::ClientFull { of_client: 1 });
    accepted(queue.offer(0, &job_of("bob")));
    // A job of nobody is under the bound of the queue alone.
    accepted(queue.offer(0, &job("j")));
    assert!(
        matches!(queue.offer(0, &job_of("ann")), OfferOutcome::Full { depth: 3, .. }),
        "both bounds"
    );
    assert_eq!(queue.model.stats(0).refused, 2);
    // A job that is taken waits no more.
    queue.take(0, 1);
    accepted(queue.offer(0, &job_of("ann")));
    // A bound that counts all jobs includes those that came under another bound.
    let all = ProducerSettings::new(9).per_client(3).counts(Counts::All);
    queue.model.change(&all.clone().into());
    queue.producer = all;
    accepted(queue.offer(0, &job_of("ann")));
    assert_eq!(queue.offer(0, &job_of("ann")), OfferOutcome::ClientFull { of_client: 3 });
}

#[test]
fn a_dead_job_keeps_its_client_and_is_not_counted() {
    let mut queue = TestQueue::new(9);
    queue.producer = queue.producer.per_client(1).counts(Counts::All);
    queue.consumer = ConsumerSettings::new().deliveries(1);
    accepted(queue.offer(0, &job("a").client("ann")));
    let tag = queue.take(0, 1).jobs[0].tag();
    assert_eq!(queue.nack(0, tag, Duration::ZERO), NackOutcome::DeadLettered);
    assert!(queue.model.clients.is_empty(), "{:?}", queue.model.clients);
    let dead = queue.model.dead_letters(1).remove(0);
    assert_eq!(dead.client(), Some("ann"));
    accepted(queue.offer(0, &dead.job()));
    assert_eq!(queue.offer(0, &job("b").client("ann")), OfferOutcome::ClientFull { of_client: 1 });
}

#[test]
fn a_job_that_says_its_id_is_accepted_once() {
    let mut queue = TestQueue::new(9);
    queue.producer = queue.producer.dedup_window(Duration::from_secs(60));
    let id = accepted(queue.offer(0, &job("a").dedup_id("x")));
    queue.take(0, 1);
    queue.model.ack(0, &[id]);
    assert_eq!(queue.offer(60 * S - 1, &job("a").dedup_id("x")), OfferOutcome::Duplicate { id });
    accepted(queue.offer(60 * S, &job("a").dedup_id("x")));
}

#[test]
fn who_is_refused_is_not_remembered() {
    let mut queue = TestQueue::new(1);
    accepted(queue.offer(0, &job("a")));
    assert!(matches!(queue.offer(0, &job("b").dedup_id("x")), OfferOutcome::Full { .. }));
    queue.take(0, 1);
    accepted(queue.offer(0, &job("b").dedup_id("x")));
}

#[test]
fn what_is_not_done_comes_back_until_it_is_dead() {
    let mut queue = TestQueue::new(9);
    queue.consumer = ConsumerSettings::new().deliveries(2).visibility(Duration::from_secs(30));
    accepted(queue.offer(0, &job("a")));
    accepted(queue.offer(0, &job("b")));
    let first = queue.take(0, 1);
    assert_eq!(first.next, Some(Duration::ZERO), "there may be more");
    assert_eq!(TestQueue::names(&queue.take(30 * S - 1, 9)), ["b"]);
    let back = queue.take(30 * S, 9);
    assert_eq!((TestQueue::names(&back), back.jobs[0].attempt), (vec!["a".to_owned()], 2));
    assert_eq!(back.next, Some(Duration::from_secs(30) - Duration::from_micros(1)));
    // The first holder is late, and so is its report of the delivery.
    assert_eq!(queue.nack(31 * S, first.jobs[0].tag(), Duration::ZERO), NackOutcome::Lost);
    assert_eq!(queue.nack(31 * S, back.jobs[0].tag(), Duration::ZERO), NackOutcome::DeadLettered);
    let dead = queue.model.dead_letters(9);
    assert_eq!((dead[0].deliveries, dead[0].reason.as_deref()), (2, Some("it broke")));
    // Offered again it is accepted once, by an id that nobody else can say.
    let again = dead[0].job();
    assert_eq!((again.body(), again.check().is_ok()), (job("a").body(), true));
    assert!(job("a").dedup_id(again.requested_dedup_id().unwrap()).check().is_err());
    assert_eq!(queue.model.take_dead_letter(dead[0].id).as_ref(), Some(&dead[0]));
    // The other dies without a word.
    assert_eq!(TestQueue::names(&queue.take(60 * S, 9)), ["b"]);
    let none = queue.take(90 * S, 9);
    assert_eq!((none.jobs.len(), none.next, queue.model.dead_letters(9).len()), (0, None, 1));
    assert_eq!(queue.model.dead_letters(9)[0].reason, None);
}

#[test]
fn done_is_done_also_when_it_is_said_late() {
    let mut queue = TestQueue::new(9);
    let id = accepted(queue.offer(0, &job("a")));
    queue.take(0, 1);
    assert_eq!(queue.take(30 * S, 1).jobs[0].attempt, 2);
    assert_eq!(queue.model.ack(31 * S, &[id]), 1, "by the first, while the second has it");
    assert!(queue.take(90 * S, 9).jobs.is_empty());
}

#[test]
fn an_extension_is_for_who_holds_it() {
    let mut queue = TestQueue::new(9);
    accepted(queue.offer(0, &job("a")));
    let tag = queue.take(0, 1).jobs[0].tag();
    let mut extend = |now, tag| queue.model.extend(now, "q", &queue.consumer, tag).unwrap();
    assert!(extend(20 * S, tag));
    assert!(!extend(20 * S, DeliveryTag { attempt: 2, ..tag }));
    assert!(queue.take(49 * S, 1).jobs.is_empty());
    assert_eq!(queue.take(50 * S, 1).jobs.len(), 1);
    assert!(!queue.model.extend(51 * S, "q", &queue.consumer, tag).unwrap());
}

#[test]
fn what_is_given_back_was_not_delivered() {
    let mut queue = TestQueue::new(9);
    queue.consumer = ConsumerSettings::new().deliveries(1);
    accepted(queue.offer(0, &job("a")));
    accepted(queue.offer(0, &job("b")));
    let tag = queue.take(0, 1).jobs[0].tag();
    assert!(queue.model.release(0, tag));
    assert!(!queue.model.release(0, tag), "once");
    let taken = queue.take(0, 9);
    assert_eq!(TestQueue::names(&taken), ["a", "b"]);
    assert_eq!(taken.jobs[0].attempt, 1);
}

#[test]
fn what_is_too_old_is_dropped_when_its_turn_comes() {
    let mut queue = TestQueue::new(9);
    let old = Duration::from_secs(5);
    for name in ["a", "b", "c"] {
        let job = job(name);
        let job = if name == "b" { job } else { job.deadline(old) };
        accepted(queue.offer(0, &job));
    }
    assert_eq!(TestQueue::names(&queue.take(5 * S - 1, 1)), ["a"]);
    assert_eq!(TestQueue::names(&queue.take(5 * S, 9)), ["b"]);
    assert_eq!(queue.model.stats(5 * S).expired, 1);
    // A job that comes back is too old as well, and a delivery takes units of its rate.
    let now = 35 * S - 1;
    let taken = queue.model.take(now, "q", &queue.consumer, 9, |there| panic!("{there}"));
    assert!(taken.unwrap().jobs.is_empty());
    assert_eq!(queue.model.stats(now).expired, 2);
}

#[test]
fn who_does_not_agree_is_told_both() {
    let mut queue = TestQueue::new(9);
    accepted(queue.offer(0, &job("a")));
    let other = ProducerSettings::new(10);
    let error = queue.model.offer(0, "q", &other, &job("b")).unwrap_err().to_string();
    assert!(error.contains("a bound of 9 (waiting)") && error.contains("of 10"), "{error}");
    queue.take(0, 1);
    let other = ConsumerSettings::new().rate("5/s via gcra".parse().unwrap());
    let error = queue.model.take(0, "q", &other, 1, all).unwrap_err().to_string();
    assert!(error.contains("no rate") && error.contains("a rate of 5/s"), "{error}");
    assert_eq!(queue.model.stats(0).waiting, 0, "and nothing is changed");
}

#[test]
fn only_so_many_dead_ones_are_kept() {
    let mut queue = TestQueue::new(9);
    queue.consumer = ConsumerSettings::new().deliveries(1).keep_dead(2);
    for name in ["a", "b", "c"] {
        accepted(queue.offer(0, &job(name)));
        let tag = queue.take(0, 1).jobs[0].tag();
        assert_eq!(queue.nack(0, tag, Duration::ZERO), NackOutcome::DeadLettered);
    }
    let kept: Vec<_> =
        queue.model.dead_letters(9).iter().map(|dead| dead.fields()[0].1.clone()).collect();
    assert_eq!((kept, queue.model.stats(0).died), (vec!["b".to_owned(), "c".to_owned()], 3));
}

#[test]
fn the_rate_of_leaving_is_that_of_the_last_windows() {
    let mut drain = Drain::default();
    assert_eq!(drain.time_to_next(0), None);
    for at in 0..20 {
        drain.count(at * S / 2);
    }
    // Twenty in ten seconds, which is the window before now.
    assert_eq!(drain.time_to_next(10 * S), Some(Duration::from_millis(500)));
    assert_eq!(drain.time_to_next(20 * S), None, "that is too long ago");
    drain.count(25 * S);
    assert_eq!(drain.time_to_next(25 * S), Some(Duration::from_secs(15)));
}

/// The random steps.
#[derive(Clone, Debug)]
enum Step {
    Offer { once: Option<u8>, client: Option<u8>, deadline_s: Option<u8> },
    Take { max: u8, grants: u8 },
    Done { nth: u8 },
    Again { nth: u8, after_s: u8 },
    Extend { nth: u8 },
    Release { nth: u8 },
    Pass { s: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let some = |max: u8| proptest::option::weighted(0.3, 0..max);
    prop_oneof![
        4 => (some(6), proptest::option::weighted(0.7, 0..3_u8), some(60))
            .prop_map(|(once, client, deadline_s)| Step::Offer { once, client, deadline_s }),
        4 => (0..5_u8, 0..5_u8).prop_map(|(max, grants)| Step::Take { max, grants }),
        3 => any::<u8>().prop_map(|nth| Step::Done { nth }),
        2 => (any::<u8>(), 0..40_u8).prop_map(|(nth, after_s)| Step::Again { nth, after_s }),
        1 => any::<u8>().prop_map(|nth| Step::Extend { nth }),
        1 => any::<u8>().prop_map(|nth| Step::Release { nth }),
        2 => (0..20_u8).prop_map(|s| Step::Pass { s }),
    ]
}

/// The counts of clients, by walking over all jobs.
fn counts_of(model: &Model) -> HashMap<Arc<str>, ClientCounts> {
    let mut counts = HashMap::<Arc<str>, ClientCounts>::new();
    for client in model.waiting.iter().filter_map(|job| job.client.clone()) {
        counts.entry(client).or_default().waiting += 1;
    }
    for client in model.in_flight.values().filter_map(|out| out.job.client.clone()) {
        counts.entry(client).or_default().out += 1;
    }
    counts
}

/// The same of one client, under what the bound counts.
fn counted(model: &Model, counts_all: bool, client: &str) -> u64 {
    let ClientCounts { waiting, out } = counts_of(model).get(client).copied().unwrap_or_default();
    waiting + if counts_all { out } else { 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_promises_hold(
        steps in proptest::collection::vec(step(), 1..200),
        bound in 1..6_u64,
        counts_all in any::<bool>(),
        deliveries in 1..4_u32,
        per_client in proptest::option::weighted(0.7, 1..4_u64),
    ) {
        let mut queue = TestQueue::new(bound);
        if counts_all {
            queue.producer = queue.producer.counts(Counts::All);
        }
        if let Some(max) = per_client {
            queue.producer = queue.producer.per_client(max);
        }
        queue.consumer = ConsumerSettings::new().deliveries(deliveries);
        let mut now = 1_700_000_000 * S;
        // Accepted jobs: the time when each is too old, and its deliveries. Then the finished ones.
        let mut jobs: BTreeMap<JobId, (u64, u32)> = BTreeMap::new();
        let mut done: BTreeSet<JobId> = BTreeSet::new();
        let mut tag: Vec<DeliveryTag> = Vec::new();
        let mut newest = JobId::default();
        let pick = |nth: u8, tag: &[DeliveryTag]| {
            (!tag.is_empty()).then(|| tag[usize::from(nth) % tag.len()])
        };
        for step in steps {
            let before = queue.model.stats(now);
            match step {
                Step::Pass { s } => now += u64::from(s) * S,
                Step::Offer { once, client, deadline_s } => {
                    let mut job = job("j");
                    if let Some(once) = once {
                        job = job.dedup_id(format!("once {once}"));
                    }
                    if let Some(s) = deadline_s {
                        job = job.deadline(Duration::from_secs(u64::from(s)));
                    }
                    let name = client.map(|client| format!("client {client}"));
                    if let Some(name) = &name {
                        job = job.client(name.as_str());
                    }
                    let of_client = name.map_or(0, |name| counted(&queue.model, counts_all, &name));
                    let depth = before.waiting + if counts_all { before.in_flight } else { 0 };
                    match queue.offer(now, &job) {
                        OfferOutcome::Accepted { id, depth: with } => {
                            prop_assert!(depth < bound && with == depth + 1);
                            prop_assert!(jobs.last_key_value().is_none_or(|(last, _)| *last < id));
                            let until = deadline_s.map_or(u64::MAX, |s| now + u64::from(s) * S);
                            jobs.insert(id, (until, 0));
                        }
                        OfferOutcome::Full { depth: with, .. } => {
                            prop_assert_eq!((depth, with), (bound, bound));
                        }
                        OfferOutcome::Duplicate { id } => prop_assert!(jobs.contains_key(&id)),
                        OfferOutcome::ClientFull { of_client: with } => {
                            prop_assert!(depth < bound, "the queue had room");
                            prop_assert_eq!((Some(of_client), of_client), (per_client, with));
                        }
                    }
                }
                Step::Take { max, grants } => {
                    let max = usize::from(max);
                    let grants = usize::from(grants);
                    let mut asked = None;
                    let grant = |there: usize| {
                        asked = Some(there);
                        Ok(Grant { jobs: grants.min(there), next: None })
                    };
                    let taken = queue.model.take(now, "q", &queue.consumer, max, grant).unwrap();
                    let there = asked.unwrap_or(0);
                    prop_assert!(there <= max && asked != Some(0));
                    prop_assert_eq!(taken.jobs.len(), there.min(grants), "as many as granted");
                    for job in &taken.jobs {
                        let (until, delivered) = jobs.get_mut(&job.id).expect("it was accepted");
                        prop_assert!(*until > now && !done.contains(&job.id));
                        *delivered += 1;
                        prop_assert!(job.attempt <= deliveries);
                        if *delivered == 1 {
                            prop_assert!(job.id > newest, "first deliveries are in order");
                            newest = job.id;
                        }
                        tag.push(job.tag());
                    }
                }
                Step::Done { nth } => {
                    if let Some(it) = pick(nth, &tag) {
                        let removed = queue.model.ack(now, &[it.id]);
                        prop_assert!(removed == 0 || done.insert(it.id), "done once");
                    }
                }
                Step::Again { nth, after_s } => {
                    if let Some(it) = pick(nth, &tag) {
                        let after = Duration::from_secs(u64::from(after_s));
                        queue.nack(now, it, after);
                    }
                }
                Step::Extend { nth } => {
                    if let Some(it) = pick(nth, &tag) {
                        queue.model.extend(now, "q", &queue.consumer, it).unwrap();
                    }
                }
                Step::Release { nth } => {
                    if let Some(it) = pick(nth, &tag) {
                        // A worker that gives a job back has it no more.
                        tag.retain(|other| *other != it);
                        queue.model.release(now, it);
                    }
                }
            }
            let stats = queue.model.stats(now);
            let bounded = stats.waiting + if counts_all { stats.in_flight } else { 0 };
            prop_assert!(bounded <= bound, "never above the bound");
            for client in (0..3).map(|client| format!("client {client}")) {
                let counted = counted(&queue.model, counts_all, &client);
                prop_assert!(per_client.is_none_or(|max| counted <= max), "never above its own");
            }
            prop_assert_eq!(&queue.model.clients, &counts_of(&queue.model));
            // Nothing is lost: whatever was accepted waits, is out, or has an end that is counted.
            prop_assert_eq!(
                stats.accepted,
                stats.waiting + stats.in_flight + stats.done + stats.expired + stats.died
            );
            prop_assert_eq!(stats.accepted, jobs.len() as u64);
            prop_assert_eq!(queue.model.due.len() as u64, stats.in_flight);
        }
        // In the end takers get everything that is left, or it is counted.
        for _ in 0..deliveries + 2 {
            now += 100 * S;
            while !queue.take(now, 100).jobs.is_empty() {}
        }
        let stats = queue.model.stats(now);
        prop_assert_eq!((stats.waiting, stats.in_flight), (0, 0));
        prop_assert!(queue.model.clients.is_empty(), "nothing is kept of who has no job");
    }
}
