//! A gate's other questions, beside the requests that policies decide.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_executor::block_on;
use tollgate::{Ask, Error, LimitSet, Limiter, MemoryStore};
use tollgate_policy::{
    Authority, CostRefused, Event, Format, Gate, OnFailure, Outcome, Policies, Terms,
};

const FILE: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "login"
    on_failure = "deny"
    when = { path = "/login", method = ["POST"] }
    limits = [{ subject = "ip", limit = "3/h" }]
    [[policies]]
    name = "trial"
    on_failure = "allow"
    shadow = true
    limits = [{ subject = "ip", limit = "1/h" }]
    [[policies]]
    name = "dear"
    on_failure = "allow"
    cost = 2
    limits = [{ subject = "ip", limit = "9/h" }]
"#;

fn gate() -> Gate<MemoryStore> {
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    Gate::new(policies, MemoryStore::new()).unwrap()
}

fn request(path: &str) -> HashMap<String, String> {
    let pairs = [("ip", "10.0.0.1"), ("method", "POST"), ("path", path), ("host", "a")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn a_peek_changes_nothing_and_is_not_counted() {
    let gate = gate();
    for _ in 0..5 {
        let answer = block_on(gate.ask(gate.prepare(&request("/login")).peek()));
        assert_eq!((answer.outcome(), answer.authority()), (Outcome::Allowed, Authority::Store));
        assert_eq!(answer.decision().unwrap().remaining(), 3);
        assert!(answer.decision().unwrap().receipt().is_none());
        assert_eq!(answer.shadows().count(), 0);
    }
    assert!(gate.counters().policies().iter().all(|(_, counters)| counters.iter().count() == 0));
    let answer = block_on(gate.check(&request("/login")));
    assert_eq!(answer.decision().unwrap().remaining(), 2);
}

#[test]
fn a_policy_is_asked_by_its_name_whatever_its_conditions() {
    let gate = gate();
    let prepared = gate.prepare_named("login", &request("/elsewhere")).unwrap();
    let answer = block_on(gate.ask(prepared));
    assert_eq!(answer.policy().unwrap().name, "login");
    assert_eq!(answer.decision().unwrap().remaining(), 2);
    // The same count as for a request that meets it.
    let answer = block_on(gate.check(&request("/login")));
    assert_eq!(answer.decision().unwrap().remaining(), 1);
    assert!(gate.prepare_named("logins", &request("/")).is_none());
    // One in shadow is asked, and never denies.
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        let answer = block_on(gate.ask(gate.prepare_named("trial", &request("/")).unwrap()));
        assert!(answer.is_allowed());
        assert_eq!(answer.shadows().next().unwrap().outcome(), outcome);
    }
}

#[test]
fn a_cost_takes_the_place_of_one_and_of_no_other() {
    let gate = gate();
    let mut prepared = gate.prepare(&request("/login"));
    prepared.cost(3).unwrap();
    assert_eq!(block_on(gate.ask(prepared)).decision().unwrap().remaining(), 0);
    let mut prepared = gate.prepare(&request("/"));
    let sets = prepared.cost(3).unwrap_err();
    assert!(matches!(&sets, CostRefused::Sets(policy) if policy.name == "dear"), "{sets:?}");
    // A refusal changed nothing.
    assert_eq!(block_on(gate.ask(prepared)).decision().unwrap().remaining(), 7);
}

#[test]
fn limits_that_a_caller_brings_count_as_everywhere() {
    let seen = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| {
        assert_eq!((event.policy, event.decides), (None, true));
        assert_eq!(event.limit.unwrap().to_string(), "2/h via sliding_log");
        told.fetch_add(1, Ordering::Relaxed);
    };
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    let gate = Gate::observed(policies, MemoryStore::new(), observer).unwrap();
    let limits: LimitSet = "2/h".parse().unwrap();
    let terms = Terms::new(OnFailure::Deny);
    let ask = || Ask::new("user:1").under(&limits);
    for outcome in [Outcome::Allowed, Outcome::Allowed, Outcome::Denied] {
        assert_eq!(block_on(gate.inline().check(ask().peek(), terms)).unwrap().outcome(), outcome);
        let answer = block_on(gate.inline().check(ask(), terms)).unwrap();
        assert_eq!((answer.outcome(), answer.authority()), (outcome, Authority::Store));
        assert!(answer.policy().is_none());
    }
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    let counters = gate.counters().inline_limits;
    assert_eq!(counters.total(Outcome::Allowed), 2);
    assert_eq!(counters.total(Outcome::Denied), 1);
    assert_eq!(gate.counters().unmatched.total(Outcome::NoPolicy), 0);
    // The count of a limiter without policies is the same one.
    let limiter = Limiter::new(limits.clone(), gate.store().clone());
    assert!(!limiter.check("user:1").now().unwrap().is_allowed());
    // Corrections go through the same door.
    assert_eq!(block_on(gate.admin().adjust(ask(), 1)).unwrap(), [1]);
    let receipt = block_on(gate.inline().check(ask(), terms)).unwrap();
    let receipt = receipt.decision().unwrap().receipt().unwrap();
    assert_eq!(block_on(gate.inline().refund(&receipt)).unwrap().given, [1]);
    assert!(block_on(gate.admin().inspect(ask())).unwrap().is_some());
    assert!(block_on(gate.admin().reset(ask())).unwrap());
    assert!(block_on(gate.admin().inspect(ask())).unwrap().is_none());
    // A senseless question is the caller's fault, and counted nowhere.
    let error = block_on(gate.inline().check(ask().cost(0), terms)).unwrap_err();
    assert!(matches!(error, Error::Ask(_)), "{error}");
    assert_eq!(counters.iter().map(|(.., number)| number).sum::<u64>(), 4);
}

#[test]
fn every_policy_says_why_it_does_not_apply() {
    let gate = gate();
    let current = gate.current();
    let found: Vec<(String, bool, Option<String>)> = current
        .policies()
        .standings(&request("/x"))
        .into_iter()
        .map(|standing| {
            let fails = standing.fails.map(|condition| condition.field.to_string());
            (standing.policy.name.clone(), standing.applies, fails)
        })
        .collect();
    let path = Some("path".to_owned());
    let expected = [("login", false, path), ("trial", true, None), ("dear", true, None)];
    assert_eq!(found, expected.map(|(name, applies, fails)| (name.to_owned(), applies, fails)));
    let standings = current.policies().standings(&request("/login"));
    let applies: Vec<bool> = standings.iter().map(|standing| standing.applies).collect();
    // The first that counts is the only one that does.
    assert_eq!(applies, [true, false, false]);
}
