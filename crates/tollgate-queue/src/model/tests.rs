//! The promises of a queue, over histories that are drawn by chance.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::settings::Counts;

const S: u64 = 1_000_000;

fn all(jobs: usize) -> Result<Granted, Error> {
    Ok(Granted { jobs, next: None })
}

fn job(name: &str) -> Job {
    Job::new().field("name", name)
}

fn accepted(offered: Offered) -> JobId {
    match offered {
        Offered::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// A queue with its settings.
struct Tried {
    model: Model,
    offering: Offering,
    working: Working,
}

impl Tried {
    fn new(bound: u64) -> Self {
        let offering = Offering::new(bound);
        Self { model: Model::new(), offering, working: Working::new() }
    }

    fn offer(&mut self, now: u64, job: &Job) -> Offered {
        self.model.offer(now, "q", &self.offering, job).unwrap()
    }

    fn take(&mut self, now: u64, most: usize) -> Taken {
        self.model.take(now, "q", &self.working, most, all).unwrap()
    }

    fn names(taken: &Taken) -> Vec<String> {
        taken.jobs.iter().map(|job| job.text("name").unwrap().to_owned()).collect()
    }

    fn again(&mut self, now: u64, held: Held, after: Duration) -> Afterwards {
        self.model.again(now, "q", &self.working, held, after, "it broke").unwrap()
    }
}

#[test]
fn as_many_wait_as_may_and_no_more() {
    let mut tried = Tried::new(2);
    assert_eq!(tried.offer(1_000, &job("a")), Offered::Accepted { id: JobId::new(1, 0), depth: 1 });
    accepted(tried.offer(1_000, &job("b")));
    let full = Offered::Full { depth: 2, retry_after: None };
    assert_eq!(tried.offer(S, &job("c")), full, "nobody left, so nobody knows");
    assert_eq!(Tried::names(&tried.take(2 * S, 1)), ["a"]);
    accepted(tried.offer(2 * S, &job("d")));
    // One left in the first two seconds of a window.
    let Offered::Full { retry_after: Some(retry_after), .. } = tried.offer(2 * S, &job("e")) else {
        panic!()
    };
    assert_eq!(retry_after, Duration::from_secs(12));
    let stats = tried.model.stats(3 * S);
    assert_eq!((stats.accepted, stats.refused, stats.waiting, stats.in_flight), (3, 2, 2, 1));
    assert_eq!(stats.oldest, Some(Duration::from_micros(3 * S - 1_000)));
}

#[test]
fn a_bound_of_all_counts_what_is_not_done() {
    let mut tried = Tried::new(1);
    tried.offering = tried.offering.counts(Counts::All);
    let id = accepted(tried.offer(0, &job("a")));
    tried.take(0, 1);
    assert!(matches!(tried.offer(0, &job("b")), Offered::Full { depth: 1, .. }));
    assert_eq!((tried.model.done(0, &[id]), tried.model.done(0, &[id])), (1, 0));
    accepted(tried.offer(0, &job("b")));
}

#[test]
fn one_client_has_no_more_than_its_share() {
    let mut tried = Tried::new(3);
    tried.offering = tried.offering.per_client(1);
    let of = |name: &str| job("j").client(name);
    accepted(tried.offer(0, &of("ann")));
    assert_eq!(tried.offer(0, &of("ann")), Offered::ClientFull { of_client: 1 });
    accepted(tried.offer(0, &of("bob")));
    // A job of nobody is under the bound of the queue alone.
    accepted(tried.offer(0, &job("j")));
    assert!(matches!(tried.offer(0, &of("ann")), Offered::Full { depth: 3, .. }), "both bounds");
    assert_eq!(tried.model.stats(0).refused, 2);
    // Who is in hand waits no more.
    tried.take(0, 1);
    accepted(tried.offer(0, &of("ann")));
    // What a bound of all counts is there, whichever it was before.
    let all = Offering::new(9).per_client(3).counts(Counts::All);
    tried.model.change(&all.clone().into());
    tried.offering = all;
    accepted(tried.offer(0, &of("ann")));
    assert_eq!(tried.offer(0, &of("ann")), Offered::ClientFull { of_client: 3 });
}

#[test]
fn a_dead_job_keeps_its_client_and_is_not_counted() {
    let mut tried = Tried::new(9);
    tried.offering = tried.offering.per_client(1).counts(Counts::All);
    tried.working = Working::new().deliveries(1);
    accepted(tried.offer(0, &job("a").client("ann")));
    let held = tried.take(0, 1).jobs[0].held();
    assert_eq!(tried.again(0, held, Duration::ZERO), Afterwards::Dead);
    assert!(tried.model.clients.is_empty(), "{:?}", tried.model.clients);
    let dead = tried.model.dead(1).remove(0);
    assert_eq!(dead.client(), Some("ann"));
    accepted(tried.offer(0, &dead.job()));
    assert_eq!(tried.offer(0, &job("b").client("ann")), Offered::ClientFull { of_client: 1 });
}

#[test]
fn a_job_that_says_its_id_is_accepted_once() {
    let mut tried = Tried::new(9);
    tried.offering = tried.offering.remember(Duration::from_secs(60));
    let id = accepted(tried.offer(0, &job("a").once("x")));
    tried.take(0, 1);
    tried.model.done(0, &[id]);
    assert_eq!(tried.offer(60 * S - 1, &job("a").once("x")), Offered::Known { id });
    accepted(tried.offer(60 * S, &job("a").once("x")));
}

#[test]
fn who_is_refused_is_not_remembered() {
    let mut tried = Tried::new(1);
    accepted(tried.offer(0, &job("a")));
    assert!(matches!(tried.offer(0, &job("b").once("x")), Offered::Full { .. }));
    tried.take(0, 1);
    accepted(tried.offer(0, &job("b").once("x")));
}

#[test]
fn what_is_not_done_comes_back_until_it_is_dead() {
    let mut tried = Tried::new(9);
    tried.working = Working::new().deliveries(2).visibility(Duration::from_secs(30));
    accepted(tried.offer(0, &job("a")));
    accepted(tried.offer(0, &job("b")));
    let first = tried.take(0, 1);
    assert_eq!(first.next, Some(Duration::ZERO), "there may be more");
    assert_eq!(Tried::names(&tried.take(30 * S - 1, 9)), ["b"]);
    let back = tried.take(30 * S, 9);
    assert_eq!((Tried::names(&back), back.jobs[0].delivery), (vec!["a".to_owned()], 2));
    assert_eq!(back.next, Some(Duration::from_secs(30) - Duration::from_micros(1)));
    // Who had it first is late, and so is what it says of its delivery.
    assert_eq!(tried.again(31 * S, first.jobs[0].held(), Duration::ZERO), Afterwards::Lost);
    assert_eq!(tried.again(31 * S, back.jobs[0].held(), Duration::ZERO), Afterwards::Dead);
    let dead = tried.model.dead(9);
    assert_eq!((dead[0].deliveries, dead[0].why.as_deref()), (2, Some("it broke")));
    // Offered again it is accepted once, by an id that nobody else can say.
    let again = dead[0].job();
    assert_eq!((again.body(), again.check().is_ok()), (job("a").body(), true));
    assert!(job("a").once(again.once_id().unwrap()).check().is_err());
    assert_eq!(tried.model.take_dead(dead[0].id).as_ref(), Some(&dead[0]));
    // The other dies without a word.
    assert_eq!(Tried::names(&tried.take(60 * S, 9)), ["b"]);
    let none = tried.take(90 * S, 9);
    assert_eq!((none.jobs.len(), none.next, tried.model.dead(9).len()), (0, None, 1));
    assert_eq!(tried.model.dead(9)[0].why, None);
}

#[test]
fn done_is_done_also_when_it_is_said_late() {
    let mut tried = Tried::new(9);
    let id = accepted(tried.offer(0, &job("a")));
    tried.take(0, 1);
    assert_eq!(tried.take(30 * S, 1).jobs[0].delivery, 2);
    assert_eq!(tried.model.done(31 * S, &[id]), 1, "by the first, while the second has it");
    assert!(tried.take(90 * S, 9).jobs.is_empty());
}

#[test]
fn an_extension_is_for_who_holds_it() {
    let mut tried = Tried::new(9);
    accepted(tried.offer(0, &job("a")));
    let held = tried.take(0, 1).jobs[0].held();
    let mut extend = |now, held| tried.model.extend(now, "q", &tried.working, held).unwrap();
    assert!(extend(20 * S, held));
    assert!(!extend(20 * S, Held { delivery: 2, ..held }));
    assert!(tried.take(49 * S, 1).jobs.is_empty());
    assert_eq!(tried.take(50 * S, 1).jobs.len(), 1);
    assert!(!tried.model.extend(51 * S, "q", &tried.working, held).unwrap());
}

#[test]
fn what_is_given_back_was_not_delivered() {
    let mut tried = Tried::new(9);
    tried.working = Working::new().deliveries(1);
    accepted(tried.offer(0, &job("a")));
    accepted(tried.offer(0, &job("b")));
    let held = tried.take(0, 1).jobs[0].held();
    assert!(tried.model.release(0, held));
    assert!(!tried.model.release(0, held), "once");
    let taken = tried.take(0, 9);
    assert_eq!(Tried::names(&taken), ["a", "b"]);
    assert_eq!(taken.jobs[0].delivery, 1);
}

#[test]
fn what_is_too_old_is_dropped_when_its_turn_comes() {
    let mut tried = Tried::new(9);
    let old = Duration::from_secs(5);
    for name in ["a", "b", "c"] {
        let job = job(name);
        let job = if name == "b" { job } else { job.deadline(old) };
        accepted(tried.offer(0, &job));
    }
    assert_eq!(Tried::names(&tried.take(5 * S - 1, 1)), ["a"]);
    assert_eq!(Tried::names(&tried.take(5 * S, 9)), ["b"]);
    assert_eq!(tried.model.stats(5 * S).too_old, 1);
    // One that comes back is too old as well, and its rate is asked for what is delivered.
    let now = 35 * S - 1;
    let taken = tried.model.take(now, "q", &tried.working, 9, |there| panic!("{there}"));
    assert!(taken.unwrap().jobs.is_empty());
    assert_eq!(tried.model.stats(now).too_old, 2);
}

#[test]
fn who_does_not_agree_is_told_both() {
    let mut tried = Tried::new(9);
    accepted(tried.offer(0, &job("a")));
    let other = Offering::new(10);
    let error = tried.model.offer(0, "q", &other, &job("b")).unwrap_err().to_string();
    assert!(error.contains("a bound of 9 (waiting)") && error.contains("of 10"), "{error}");
    tried.take(0, 1);
    let other = Working::new().rate("5/s via gcra".parse().unwrap());
    let error = tried.model.take(0, "q", &other, 1, all).unwrap_err().to_string();
    assert!(error.contains("no rate") && error.contains("a rate of 5/s"), "{error}");
    assert_eq!(tried.model.stats(0).waiting, 0, "and nothing is changed");
}

#[test]
fn only_so_many_dead_ones_are_kept() {
    let mut tried = Tried::new(9);
    tried.working = Working::new().deliveries(1).keep_dead(2);
    for name in ["a", "b", "c"] {
        accepted(tried.offer(0, &job(name)));
        let held = tried.take(0, 1).jobs[0].held();
        assert_eq!(tried.again(0, held, Duration::ZERO), Afterwards::Dead);
    }
    let kept: Vec<_> = tried.model.dead(9).iter().map(|dead| dead.fields()[0].1.clone()).collect();
    assert_eq!((kept, tried.model.stats(0).died), (vec!["b".to_owned(), "c".to_owned()], 3));
}

#[test]
fn the_rate_of_leaving_is_that_of_the_last_windows() {
    let mut drain = Drain::default();
    assert_eq!(drain.one_more(0), None);
    for at in 0..20 {
        drain.count(at * S / 2);
    }
    // Twenty in ten seconds, which is the window before now.
    assert_eq!(drain.one_more(10 * S), Some(Duration::from_millis(500)));
    assert_eq!(drain.one_more(20 * S), None, "that is too long ago");
    drain.count(25 * S);
    assert_eq!(drain.one_more(25 * S), Some(Duration::from_secs(15)));
}

/// What happens at random.
#[derive(Clone, Debug)]
enum Step {
    Offer { once: Option<u8>, client: Option<u8>, deadline_s: Option<u8> },
    Take { most: u8, grants: u8 },
    Done { nth: u8 },
    Again { nth: u8, after_s: u8 },
    Extend { nth: u8 },
    Release { nth: u8 },
    Pass { s: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let some = |most: u8| proptest::option::weighted(0.3, 0..most);
    prop_oneof![
        4 => (some(6), proptest::option::weighted(0.7, 0..3_u8), some(60))
            .prop_map(|(once, client, deadline_s)| Step::Offer { once, client, deadline_s }),
        4 => (0..5_u8, 0..5_u8).prop_map(|(most, grants)| Step::Take { most, grants }),
        3 => any::<u8>().prop_map(|nth| Step::Done { nth }),
        2 => (any::<u8>(), 0..40_u8).prop_map(|(nth, after_s)| Step::Again { nth, after_s }),
        1 => any::<u8>().prop_map(|nth| Step::Extend { nth }),
        1 => any::<u8>().prop_map(|nth| Step::Release { nth }),
        2 => (0..20_u8).prop_map(|s| Step::Pass { s }),
    ]
}

/// What is counted of clients, by walking over all jobs.
fn counts_of(model: &Model) -> HashMap<Arc<str>, OfClient> {
    let mut counts = HashMap::<Arc<str>, OfClient>::new();
    for client in model.waiting.iter().filter_map(|job| job.client.clone()) {
        counts.entry(client).or_default().waiting += 1;
    }
    for client in model.out.values().filter_map(|out| out.job.client.clone()) {
        counts.entry(client).or_default().out += 1;
    }
    counts
}

/// The same of one client, under what the bound counts.
fn of(model: &Model, counts_all: bool, client: &str) -> u64 {
    let OfClient { waiting, out } = counts_of(model).get(client).copied().unwrap_or_default();
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
        let mut tried = Tried::new(bound);
        if counts_all {
            tried.offering = tried.offering.counts(Counts::All);
        }
        if let Some(most) = per_client {
            tried.offering = tried.offering.per_client(most);
        }
        tried.working = Working::new().deliveries(deliveries);
        let mut now = 1_700_000_000 * S;
        // What was accepted with when it is too old, deliveries, and those that are done.
        let mut jobs: BTreeMap<JobId, (u64, u32)> = BTreeMap::new();
        let mut done: BTreeSet<JobId> = BTreeSet::new();
        let mut held: Vec<Held> = Vec::new();
        let mut newest = JobId::default();
        let pick = |nth: u8, held: &[Held]| {
            (!held.is_empty()).then(|| held[usize::from(nth) % held.len()])
        };
        for step in steps {
            let before = tried.model.stats(now);
            match step {
                Step::Pass { s } => now += u64::from(s) * S,
                Step::Offer { once, client, deadline_s } => {
                    let mut job = job("j");
                    if let Some(once) = once {
                        job = job.once(format!("once {once}"));
                    }
                    if let Some(s) = deadline_s {
                        job = job.deadline(Duration::from_secs(u64::from(s)));
                    }
                    let name = client.map(|client| format!("client {client}"));
                    if let Some(name) = &name {
                        job = job.client(name.as_str());
                    }
                    let of_client = name.map_or(0, |name| of(&tried.model, counts_all, &name));
                    let depth = before.waiting + if counts_all { before.in_flight } else { 0 };
                    match tried.offer(now, &job) {
                        Offered::Accepted { id, depth: with } => {
                            prop_assert!(depth < bound && with == depth + 1);
                            prop_assert!(jobs.last_key_value().is_none_or(|(last, _)| *last < id));
                            let until = deadline_s.map_or(u64::MAX, |s| now + u64::from(s) * S);
                            jobs.insert(id, (until, 0));
                        }
                        Offered::Full { depth: with, .. } => {
                            prop_assert_eq!((depth, with), (bound, bound));
                        }
                        Offered::Known { id } => prop_assert!(jobs.contains_key(&id)),
                        Offered::ClientFull { of_client: with } => {
                            prop_assert!(depth < bound, "the queue had room");
                            prop_assert_eq!((Some(of_client), of_client), (per_client, with));
                        }
                    }
                }
                Step::Take { most, grants } => {
                    let most = usize::from(most);
                    let grants = usize::from(grants);
                    let mut asked = None;
                    let grant = |there: usize| {
                        asked = Some(there);
                        Ok(Granted { jobs: grants.min(there), next: None })
                    };
                    let taken = tried.model.take(now, "q", &tried.working, most, grant).unwrap();
                    let there = asked.unwrap_or(0);
                    prop_assert!(there <= most && asked != Some(0));
                    prop_assert_eq!(taken.jobs.len(), there.min(grants), "as many as granted");
                    for job in &taken.jobs {
                        let (until, delivered) = jobs.get_mut(&job.id).expect("it was accepted");
                        prop_assert!(*until > now && !done.contains(&job.id));
                        *delivered += 1;
                        prop_assert!(job.delivery <= deliveries);
                        if *delivered == 1 {
                            prop_assert!(job.id > newest, "first deliveries are in order");
                            newest = job.id;
                        }
                        held.push(job.held());
                    }
                }
                Step::Done { nth } => {
                    if let Some(it) = pick(nth, &held) {
                        let removed = tried.model.done(now, &[it.id]);
                        prop_assert!(removed == 0 || done.insert(it.id), "done once");
                    }
                }
                Step::Again { nth, after_s } => {
                    if let Some(it) = pick(nth, &held) {
                        let after = Duration::from_secs(u64::from(after_s));
                        tried.again(now, it, after);
                    }
                }
                Step::Extend { nth } => {
                    if let Some(it) = pick(nth, &held) {
                        tried.model.extend(now, "q", &tried.working, it).unwrap();
                    }
                }
                Step::Release { nth } => {
                    if let Some(it) = pick(nth, &held) {
                        // Who gives a job back has it no more.
                        held.retain(|other| *other != it);
                        tried.model.release(now, it);
                    }
                }
            }
            let stats = tried.model.stats(now);
            let bounded = stats.waiting + if counts_all { stats.in_flight } else { 0 };
            prop_assert!(bounded <= bound, "never above the bound");
            for client in (0..3).map(|client| format!("client {client}")) {
                let counted = of(&tried.model, counts_all, &client);
                prop_assert!(per_client.is_none_or(|most| counted <= most), "never above its own");
            }
            prop_assert_eq!(&tried.model.clients, &counts_of(&tried.model));
            // Nothing is lost: whatever was accepted waits, is out, or has an end that is counted.
            prop_assert_eq!(
                stats.accepted,
                stats.waiting + stats.in_flight + stats.done + stats.too_old + stats.died
            );
            prop_assert_eq!(stats.accepted, jobs.len() as u64);
            prop_assert_eq!(tried.model.due.len() as u64, stats.in_flight);
        }
        // In the end whoever takes gets everything that is left, or it is counted.
        for _ in 0..deliveries + 2 {
            now += 100 * S;
            while !tried.take(now, 100).jobs.is_empty() {}
        }
        let stats = tried.model.stats(now);
        prop_assert_eq!((stats.waiting, stats.in_flight), (0, 0));
        prop_assert!(tried.model.clients.is_empty(), "nothing is kept of who has no job");
    }
}
