//! Checks that are decided together.

use std::sync::{Arc, Mutex};

use tollgate::{Counted, Decision, LimitSet, MemoryStore, Subject};
use tollgate_policy::{Authority, Event, Format, Gate, Observer, Outcome, Policies};

use super::failing::Failing;

const FILE: &str = "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
                    limits = [{ subject = \"ip\", limit = \"1/h\" }]";

/// An event without its duration, as it is compared.
type Seen = (Outcome, String, String, u64);

#[test]
fn answers_together_count_as_those_alone_and_are_one_event_for_each_outcome() {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let told = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| {
        assert_eq!((event.policy, event.authority), (None, Authority::Store));
        assert!(event.decides && event.error.is_none());
        let (limit, subject) = (event.limit.unwrap().to_string(), event.subject.unwrap());
        told.lock().unwrap().push((event.outcome, limit, subject.to_owned(), event.answers));
    };
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    let gate = Gate::observed(policies, MemoryStore::new(), observer).unwrap();
    let limits: LimitSet = "2/h via gcra".parse().unwrap();
    let mut together = gate.inline().batch().unwrap();
    let mut check = |text: &str, cost: u64| {
        let subject = Subject::literal(text).unwrap();
        let counted = Counted::new(&subject, &limits);
        let left = |decision: &Decision<'_>| (decision.remaining(), decision.is_allowed());
        gate.inline().check_in(&mut together, counted, cost, left)
    };
    // A new subject, a known one, and one that is denied, which costs nothing.
    let all = ["ann", "bob", "bob", "bob"].map(|name| check(name, 1).unwrap());
    assert_eq!(all, [(1, true), (1, true), (0, true), (0, false)]);
    assert_eq!(check("ann", 2).unwrap(), (1, false));
    assert_eq!(check("ann", 3).unwrap(), (1, false));
    assert!(check("ann", 0).is_err());
    assert!(seen.lock().unwrap().is_empty(), "they are reported at the end");
    gate.inline().report(together);
    let event = |outcome, name: &str, answers| {
        (outcome, "2/h burst 2 via gcra".to_owned(), name.to_owned(), answers)
    };
    let all = vec![
        event(Outcome::Allowed, "ann", 3),
        event(Outcome::Denied, "bob", 2),
        event(Outcome::Never, "ann", 1),
    ];
    assert_eq!(*seen.lock().unwrap(), all);
    let counters = gate.counters().inline_limits;
    let counted: Vec<_> = counters.iter().map(|(outcome, _, number)| (outcome, number)).collect();
    assert_eq!(
        counted,
        [(Outcome::Allowed, 3), (Outcome::Denied, 2), (Outcome::Never, 1)],
        "and counted"
    );
    // An empty batch is not an event.
    gate.inline().report(gate.inline().batch().unwrap());
    assert_eq!(seen.lock().unwrap().len(), 3);
}

/// Every subject and outcome, once for each answer.
#[derive(Clone, Default)]
struct Subjects {
    wants: bool,
    seen: Arc<Mutex<Vec<(String, Outcome)>>>,
}

impl Observer for Subjects {
    fn observe(&self, event: &Event<'_>) {
        self.observe_further(event.subject.unwrap(), event.outcome);
    }

    fn wants_further(&self) -> bool {
        self.wants
    }

    fn observe_further(&self, subject: &str, outcome: Outcome) {
        self.seen.lock().unwrap().push((subject.to_owned(), outcome));
    }
}

#[test]
fn who_wants_it_is_told_the_subject_of_each_answer() {
    let (yes, no) = (Outcome::Allowed, Outcome::Denied);
    let all = vec![("bob", yes), ("bob", no), ("bob", no), ("cat", yes), ("ann", yes), ("bob", no)];
    let first = vec![("ann", yes), ("bob", no)];
    for (wants, expected) in [(true, all), (false, first)] {
        let subjects = Subjects { wants, ..Subjects::default() };
        let policies = Policies::parse(FILE, Format::Toml).unwrap();
        let gate = Gate::observed(policies, MemoryStore::new(), subjects.clone()).unwrap();
        let limits: LimitSet = "1/h via gcra".parse().unwrap();
        let mut together = gate.inline().batch().unwrap();
        for text in ["ann", "bob", "bob", "bob", "bob", "cat"] {
            let subject = Subject::literal(text).unwrap();
            let counted = Counted::new(&subject, &limits);
            gate.inline().check_in(&mut together, counted, 1, |_| ()).unwrap();
        }
        gate.inline().report(together);
        let seen = subjects.seen.lock().unwrap();
        let seen: Vec<_> = seen.iter().map(|(name, outcome)| (name.as_str(), *outcome)).collect();
        assert_eq!(seen, expected, "wants: {wants}");
    }
}

#[test]
fn a_store_that_waits_decides_nothing_together() {
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    let gate = Gate::new(policies, Failing::new()).unwrap();
    assert!(gate.inline().batch().is_none());
}
