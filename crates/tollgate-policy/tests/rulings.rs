//! Bans and exemptions that are set while a gate is asked.
#![allow(clippy::unwrap_used)] // tests may

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use tollgate::operation::{Operation, Post};
use tollgate::{Around, MemoryStore, Notice, Store, StoreError};
use tollgate_policy::{
    Answer, Authority, Condition, Effect, Format, Gate, Outcome, Policies, Ruling, subject_of,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// `a` for `/a`, `b` for `/a` and `/b`, and one in shadow for both.
const POLICIES: &str = r#"
    version = 1
    match = "all"
    [[policies]]
    name = "a"
    on_failure = "deny"
    when = { path = "/a" }
    limits = [{ subject = "ip", limit = "1000/h via gcra" }]
    [[policies]]
    name = "b"
    on_failure = "deny"
    when = { path = ["/a", "/b"] }
    limits = [{ subject = "ip", limit = "2000/h via gcra" }]
    [[policies]]
    name = "trial"
    on_failure = "allow"
    shadow = true
    when = { path = ["/a", "/b"] }
    limits = [{ subject = "ip", limit = "1000/h via gcra" }]
"#;

fn policies(text: &str) -> Policies {
    Policies::parse(text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

fn gate() -> Gate<MemoryStore> {
    Gate::new(policies(POLICIES), MemoryStore::new()).unwrap()
}

fn condition(field: &str, value: &str) -> Condition {
    Condition::parse(field, [value]).unwrap()
}

fn ruling(effect: Effect, field: &str, value: &str, policy: Option<&str>) -> Ruling {
    let ruling = Ruling::new(effect, vec![condition(field, value)]).unwrap();
    match policy {
        Some(policy) => ruling.in_policy(policy),
        None => ruling,
    }
}

fn rule<S: Store>(gate: &Gate<S>, ruling: &Ruling) {
    block_on(gate.admin().rule(ruling, HOUR)).unwrap();
}

fn ask<S: Store>(gate: &Gate<S>, path: &str) -> Answer<'static> {
    block_on(gate.check(&[("ip", "192.0.2.7"), ("path", path), ("user", "ann")]))
}

fn name(answer: &Answer) -> Option<String> {
    answer.policy().map(|policy| policy.name.clone())
}

/// Every set of rulings about a request, beside the rule as the page says it.
#[test]
fn what_goes_before_what() {
    let all: Vec<(Effect, Option<&str>)> = [Effect::Ban, Effect::Exempt]
        .into_iter()
        .flat_map(|effect| [None, Some("a"), Some("b")].map(|policy| (effect, policy)))
        .collect();
    for set in 0..1_u32 << all.len() {
        let there = |effect, policy| {
            all.iter().zip(0..).any(|(one, at)| *one == (effect, policy) && set >> at & 1 == 1)
        };
        let gate = gate();
        for (effect, policy) in all.iter().filter(|(effect, policy)| there(*effect, *policy)) {
            // Two about one policy would be one: a ban by address, an exemption by name.
            let (field, value) = match effect {
                Effect::Ban => ("ip", "192.0.2.0/24"),
                _ => ("user", "ann"),
            };
            rule(&gate, &ruling(*effect, field, value, *policy));
        }
        let exempt = |policy| there(Effect::Exempt, None) || there(Effect::Exempt, Some(policy));
        let banned = |policy| there(Effect::Ban, None) || there(Effect::Ban, Some(policy));
        for (path, meets) in [("/", &[][..]), ("/a", &["a", "b"]), ("/b", &["b"])] {
            let ban_for_all = there(Effect::Ban, None) && !there(Effect::Exempt, None);
            let ban = meets.iter().any(|policy| banned(policy) && !exempt(policy));
            let left: Vec<&str> = meets.iter().copied().filter(|policy| !exempt(policy)).collect();
            let expected = match (ban_for_all || ban, meets.is_empty(), left.is_empty()) {
                (true, ..) => (Outcome::Banned, Authority::Ruling),
                (false, true, _) => (Outcome::NoPolicy, Authority::Policy),
                (false, false, true) => (Outcome::Unlimited, Authority::Ruling),
                (false, false, false) => (Outcome::Allowed, Authority::Store),
            };
            let answer = ask(&gate, path);
            let said = (answer.outcome(), answer.authority());
            assert_eq!(said, expected, "set {set:06b}, {path}");
            let asked: Vec<String> =
                answer.reports().map(|(policy, _)| policy.name.clone()).collect();
            let expected: &[&str] = if said.0 == Outcome::Allowed { &left } else { &[] };
            assert_eq!(asked, expected, "set {set:06b}, {path}");
            assert_eq!(name(&answer).is_none(), meets.is_empty(), "set {set:06b}, {path}");
            // A trial sees what passes, unless nothing is to hold for it.
            let tried = answer.shadows().count() == 1;
            let tries = answer.is_allowed() && !meets.is_empty() && !exempt("trial");
            assert_eq!(tried, tries, "set {set:06b}, {path}");
        }
    }
}

#[test]
fn every_condition_must_hold_and_any_value_of_one() {
    let gate = gate();
    let when = vec![
        Condition::parse("ip", ["10.0.0.0/8", "192.0.2.0/24"]).unwrap(),
        condition("user", "mallory"),
    ];
    rule(&gate, &Ruling::new(Effect::Ban, when.clone()).unwrap());
    let banned = |ip: &str, user: &str| {
        let request = [("ip", ip), ("path", "/a"), ("user", user)];
        block_on(gate.check(&request)).outcome() == Outcome::Banned
    };
    assert!(banned("10.9.9.9", "mallory") && banned("192.0.2.1", "mallory"));
    assert!(!banned("11.0.0.0", "mallory") && !banned("10.9.9.9", "ann"));
    let unmatched = gate.counters().unmatched;
    assert_eq!(unmatched.total(Outcome::Banned), 0);
    let nowhere = [("ip", "10.0.0.1"), ("path", "/"), ("user", "mallory")];
    assert_eq!(block_on(gate.check(&nowhere)).outcome(), Outcome::Banned);
    assert_eq!(unmatched.get(Outcome::Banned, Authority::Ruling), 1);
    assert!(block_on(gate.admin().lift(&when, None)).unwrap());
    assert!(!block_on(gate.admin().lift(&when, None)).unwrap());
    assert!(!banned("10.9.9.9", "mallory"));
}

#[test]
fn a_policy_that_is_none_is_ruled_about_by_nobody() {
    let ruling = ruling(Effect::Ban, "ip", "192.0.2.7", Some("logn"));
    let error = block_on(gate().admin().rule(&ruling, HOUR)).unwrap_err();
    assert_eq!(error.to_string(), "there is no policy `logn` to rule about");
}

#[test]
fn a_peek_and_a_policy_by_its_name_see_them() {
    let gate = gate();
    rule(&gate, &ruling(Effect::Ban, "ip", "192.0.2.7", Some("a")));
    let request = [("ip", "192.0.2.7"), ("path", "/a")];
    assert_eq!(block_on(gate.ask(gate.prepare(&request).peek())).outcome(), Outcome::Banned);
    let a = gate.prepare_named("a", &request).unwrap();
    assert_eq!(block_on(gate.ask(a)).outcome(), Outcome::Banned);
    let b = gate.prepare_named("b", &request).unwrap();
    assert_eq!(block_on(gate.ask(b)).outcome(), Outcome::Allowed);
    let enforces = |field: &str| gate.prepare(&request).enforces(&condition(field, "x").field);
    assert!(!enforces("user"));
    rule(&gate, &ruling(Effect::Ban, "user", "mallory", None));
    assert!(enforces("user"), "what a ban looks at must be told rightly");
}

/// The shortest way is left while there is a ruling, and taken again after its end.
#[test]
fn the_usual_way_comes_back() {
    let text = "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
                limits = [{ subject = \"ip\", limit = \"1000/h via gcra\" }]";
    let gate = Gate::new(policies(text), MemoryStore::new()).unwrap();
    let request = [("ip", "192.0.2.7")];
    let short = || {
        let subject = |field: &_, prefix: &_| subject_of(&request, field, prefix);
        #[expect(clippy::redundant_closure_for_method_calls, reason = "it is not general enough")]
        let judged = gate.check_at_once(None, subject, |answer| answer.outcome());
        judged.map(|(_, outcome)| outcome)
    };
    assert_eq!(short(), Some(Outcome::Allowed));
    let ban = ruling(Effect::Ban, "ip", "192.0.2.7", None);
    rule(&gate, &ban);
    assert_eq!(short(), None);
    assert_eq!(block_on(gate.check(&request)).outcome(), Outcome::Banned);
    gate.replace(policies(&text.replace("1000/h", "999/h")));
    assert_eq!(short(), None, "other policies, the same ban");
    assert_eq!(block_on(gate.check(&request)).outcome(), Outcome::Banned);
    assert!(block_on(gate.admin().lift(&ban.when, None)).unwrap());
    assert_eq!(short(), Some(Outcome::Allowed));
    block_on(gate.admin().rule(&ban, Duration::from_millis(1))).unwrap();
    let ended = Instant::now();
    while short().is_none() {
        block_on(gate.admin().read_rulings()).unwrap();
        assert!(ended.elapsed() < Duration::from_secs(20));
    }
}

/// A store whose notices are unavailable when the test asks for it.
#[derive(Clone, Default)]
struct Away(MemoryStore, Arc<AtomicBool>);

impl Away {
    fn there(&self) -> Result<&MemoryStore, StoreError> {
        if self.1.load(Ordering::Relaxed) {
            Err(StoreError::transient("gone"))
        } else {
            Ok(&self.0)
        }
    }
}

impl Around for Away {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        self.there()?.perform(operation).await
    }
}

#[test]
fn while_the_store_is_away_what_is_known_holds_until_its_end() {
    let store = Away::default();
    let gate = Gate::new(policies(POLICIES), store.clone()).unwrap();
    let lasting = ruling(Effect::Ban, "ip", "192.0.2.7", None);
    rule(&gate, &lasting);
    let asked = Instant::now();
    let lasts = Duration::from_millis(80);
    block_on(gate.admin().rule(&ruling(Effect::Ban, "ip", "192.0.2.9", None), lasts)).unwrap();
    store.1.store(true, Ordering::Relaxed);
    assert!(block_on(gate.admin().read_rulings()).is_err());
    assert!(block_on(gate.admin().rule(&lasting, HOUR)).is_err());
    let banned =
        |ip: &str| block_on(gate.check(&[("ip", ip), ("path", "/a")])).outcome() == Outcome::Banned;
    assert_eq!(gate.admin().rulings().len(), 2);
    while banned("192.0.2.9") {
        assert!(asked.elapsed() < Duration::from_secs(20));
    }
    assert!(asked.elapsed() >= lasts, "it ended early");
    assert!(banned("192.0.2.7"));
    assert_eq!(gate.admin().rulings().len(), 1);
    // A gate that begins now knows nothing, until the store is back.
    let other = Gate::new(policies(POLICIES), store.clone()).unwrap();
    assert!(block_on(other.admin().read_rulings()).is_err());
    assert!(ask(&other, "/").is_allowed());
    store.1.store(false, Ordering::Relaxed);
    assert!(block_on(other.admin().read_rulings()).unwrap());
    assert_eq!(ask(&other, "/").outcome(), Outcome::Banned);
    assert!(!block_on(other.admin().read_rulings()).unwrap(), "nothing has changed");
}

/// A notice that means nothing to this version has no effect.
#[test]
fn what_cannot_be_read_is_left_out() {
    let store = MemoryStore::new();
    let gate = Gate::new(policies(POLICIES), store.clone()).unwrap();
    for (name, text) in [("x", "{}"), ("y", r#"{"effect":"slow","when":{"ip":["192.0.2.7"]}}"#)] {
        let notice = Notice::new(name, text, HOUR).unwrap();
        block_on(store.perform(&Post::new(&notice))).unwrap();
    }
    assert!(block_on(gate.admin().read_rulings()).unwrap());
    assert_eq!(ask(&gate, "/a").outcome(), Outcome::Allowed);
    assert!(gate.admin().rulings().is_empty());
}

#[test]
fn there_are_at_most_ten_thousand() {
    let store = MemoryStore::new();
    for n in 0..tollgate::MAX_NOTICES {
        let notice = Notice::new(format!("{n}"), "", HOUR).unwrap();
        block_on(store.perform(&Post::new(&notice))).unwrap();
    }
    let gate = Gate::new(policies(POLICIES), store).unwrap();
    let ban = ruling(Effect::Ban, "ip", "192.0.2.7", None);
    let error = block_on(gate.admin().rule(&ban, HOUR)).unwrap_err().to_string();
    assert!(error.contains("10000 notices already"), "{error}");
}
