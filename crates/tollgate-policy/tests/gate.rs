//! The gate: what it answers in each case, who says so, refunds, charges afterwards, reloads.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use tollgate::engine::Outcome as Engine;
use tollgate::{
    Ask, Counted, Inspection, LimitSet, ManualClock, MemoryStore, Question, Receipt, Refund, Store,
    StoreError, Subject, SubjectPrefix,
};
use tollgate_policy::{
    Answer, AnswerView, Authority, Event, Field, Fields, Format, Gate, OnFailure, Outcome,
    Policies, Reload, Terms, Watch, subject_of,
};

fn parse(text: &str) -> Policies {
    Policies::parse(text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

fn gate_of(policies: Policies) -> (Gate<MemoryStore>, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Gate::new(policies, store).unwrap(), clock)
}

fn gate(text: &str) -> (Gate<MemoryStore>, ManualClock) {
    gate_of(parse(text))
}

fn example(name: &str) -> (Gate<MemoryStore>, ManualClock) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    gate_of(Policies::load(folder.join(name)).unwrap())
}

fn ask<S: Store>(gate: &Gate<S>, fields: &[(&str, &str)]) -> Answer {
    let fields: HashMap<String, String> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    block_on(gate.check(&fields))
}

/// The outcomes of the same request, asked so often.
fn asked<S: Store>(gate: &Gate<S>, times: usize, fields: &[(&str, &str)]) -> Vec<Outcome> {
    (0..times).map(|_| ask(gate, fields).outcome()).collect()
}

fn admitted(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.admits()).count()
}

/// One policy with these lines.
fn one(lines: &str) -> String {
    format!("version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n{lines}\n")
}

#[test]
fn address_and_user_are_limited_both_and_strangers_by_address_alone() {
    let (gate, clock) = example("api.toml");
    assert_eq!(admitted(&asked(&gate, 12, &[("ip", "10.0.0.1")])), 10);
    // The same user from another address has a count of their own, in the same check.
    assert_eq!(admitted(&asked(&gate, 6, &[("ip", "10.0.0.2"), ("user", "ann")])), 6);
    assert_eq!(admitted(&asked(&gate, 6, &[("ip", "10.0.0.3"), ("user", "ann")])), 4);
    // What the user's limit denied did not count for the address.
    let answer = ask(&gate, &[("ip", "10.0.0.3")]);
    assert_eq!(answer.decision().unwrap().remaining(), 5);
    clock.advance(Duration::from_secs(1));
    let heavy = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "7")]);
    assert_eq!(heavy.decision().unwrap().granted(), 7);
    let heavier = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "51")]);
    assert_eq!((heavier.outcome(), heavier.authority()), (Outcome::Never, Authority::Policy));
    let never = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "11")]);
    assert_eq!((never.outcome(), never.authority()), (Outcome::Never, Authority::Store));
    assert_eq!(never.retry_after(), None);
    for odd in ["x", "-1", "1.5", "0", "00", "", "+1"] {
        let light = ask(&gate, &[("ip", "10.0.0.5"), ("field.weight", odd)]);
        assert_eq!(light.decision().unwrap().granted(), 1, "{odd}");
    }
    let huge = "9".repeat(1_000);
    let answer = ask(&gate, &[("ip", "10.0.0.6"), ("field.weight", huge.as_str())]);
    assert_eq!(answer.outcome(), Outcome::Never);
}

#[test]
fn a_resource_and_its_consumers_are_one_check() {
    let (gate, clock) = example("resource-and-consumers.toml");
    let call = |consumer| ask(&gate, &[("field.resource", "12"), ("field.consumer", consumer)]);
    assert!((0..3).all(|_| call("1").is_allowed()));
    let denied = call("1");
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
    assert_eq!(denied.limit().unwrap().quota().units, 3);
    // The denial took nothing of the resource.
    assert!((0..2).all(|_| call("2").is_allowed()));
    assert_eq!(call("3").limit().unwrap().quota().units, 5);
    clock.advance(Duration::from_secs(10));
    assert!(call("1").is_allowed());
    let missing = ask(&gate, &[("field.resource", "12")]);
    assert_eq!((missing.outcome(), missing.authority()), (Outcome::Missing, Authority::Policy));
    assert_eq!(missing.missing(), Some(&Field::parse("field.consumer").unwrap()));
}

#[test]
fn a_thousand_an_hour_for_each_address() {
    let (gate, _) = example("1000-per-hour.toml");
    assert_eq!(admitted(&asked(&gate, 1_200, &[("ip", "10.0.0.1")])), 1_000);
    assert!(ask(&gate, &[("ip", "10.0.0.2")]).is_allowed());
    // A front that tells no address gets no count of nobody.
    let nobody = ask(&gate, &[]);
    assert_eq!((nobody.outcome(), nobody.missing()), (Outcome::Missing, Some(&Field::Ip)));
}

#[test]
fn a_pair_of_caller_and_resource_is_one_subject() {
    let (gate, _) = example("caller-and-resource.toml");
    let call = |user, resource| ask(&gate, &[("user", user), ("field.resource", resource)]);
    assert_eq!((0..101).filter(|_| call("ann", "a").is_allowed()).count(), 100);
    assert!(call("ann", "b").is_allowed() && call("bob", "a").is_allowed());
    let answer = ask(&gate, &[("ip", "10.0.0.1"), ("field.resource", "a")]);
    let (_, report) = answer.reports().next().unwrap();
    assert_eq!(report.subject(), "field.resource:a,ip:10.0.0.1");
    assert_eq!(ask(&gate, &[("user", "ann")]).outcome(), Outcome::Missing);
    // Values cannot leave their dimension.
    let answer = call("x,ip:10.0.0.1", "a");
    let (_, report) = answer.reports().next().unwrap();
    assert_eq!(report.subject(), "field.resource:a,user:x%2Cip:10.0.0.1");
}

#[test]
fn what_stands_in_counts_as_what_it_is() {
    let (gate, _) =
        gate(&one(r#"limits = [{ subject = ["user", "ip"], limit = "1/h", absent = "ip" }]"#));
    let subject = |fields: &[(&str, &str)]| {
        let answer = ask(&gate, fields);
        let (_, report) = answer.reports().next().unwrap();
        report.subject().to_owned()
    };
    assert_eq!(subject(&[("ip", "1.1.1.1"), ("user", "ann")]), "ip:1.1.1.1,user:ann");
    assert_eq!(subject(&[("ip", "1.1.1.1")]), "ip:1.1.1.1");
    // An empty value is an absent one.
    assert_eq!(subject(&[("ip", "1.1.1.2"), ("user", "")]), "ip:1.1.1.2");
    let huge = "x".repeat(100_000);
    let answer = ask(&gate, &[("ip", "1.1.1.1"), ("user", huge.as_str())]);
    assert_eq!(answer.outcome(), Outcome::Missing);
}

#[test]
fn overrides_take_the_place_of_a_limit() {
    let (gate, _) = gate(&one(r#"
        [[policies.limits]]
        subject = "user"
        limit = "2/h"
        absent = "skip"
        [[policies.limits.overrides]]
        when = { user = "mallory" }
        limit = "banned"
        [[policies.limits.overrides]]
        when = { field.plan = "pro" }
        limit = "5/h"
        [[policies.limits.overrides]]
        when = { user = "root*" }
        limit = "unlimited"
        "#));
    assert_eq!(admitted(&asked(&gate, 9, &[("user", "ann")])), 2);
    // The identity of the limits is the same, and so is the count.
    assert_eq!(admitted(&asked(&gate, 9, &[("user", "ann"), ("field.plan", "pro")])), 3);
    let root = ask(&gate, &[("user", "root-1")]);
    assert_eq!((root.outcome(), root.authority()), (Outcome::Unlimited, Authority::Policy));
    let mallory = ask(&gate, &[("user", "mallory"), ("field.plan", "pro")]);
    assert_eq!((mallory.outcome(), mallory.is_allowed()), (Outcome::Banned, false));
    assert_eq!(mallory.policy().unwrap().name, "p");
    assert_eq!(ask(&gate, &[]).outcome(), Outcome::Unlimited);
}

const SEVERAL: &str = r#"
version = 1
match = "MATCH"
[[policies]]
name = "narrow"
on_failure = "allow"
deadline = "20ms"
when = { path = "/api/*" }
limits = [{ subject = "ip", limit = "2/h" }]
[[policies]]
name = "trial"
on_failure = "allow"
shadow = true
when = { path = "/api/*" }
limits = [{ subject = "ip", limit = "1/h" }]
[[policies]]
name = "wide"
on_failure = "deny"
when = { ip = "*" }
limits = [{ subject = "ip", limit = "3/h" }]
"#;

#[test]
fn the_first_that_applies_counts_or_all_of_them() {
    let api = [("ip", "1.1.1.1"), ("path", "/api/x")];
    let (first, _) = gate(&SEVERAL.replace("MATCH", "first"));
    assert_eq!(admitted(&asked(&first, 5, &api)), 2);
    // `wide` was not charged.
    assert_eq!(admitted(&asked(&first, 5, &[("ip", "1.1.1.1"), ("path", "/")])), 3);
    assert_eq!(ask(&first, &[]).outcome(), Outcome::NoPolicy);
    let (all, _) = gate(&SEVERAL.replace("MATCH", "all"));
    assert_eq!(admitted(&asked(&all, 5, &api)), 2);
    let denied = ask(&all, &api);
    assert_eq!(denied.policy().unwrap().name, "narrow");
    assert_eq!(denied.reports().count(), 2);
    let names: Vec<&str> = denied.reports().map(|(policy, _)| policy.name.as_str()).collect();
    assert_eq!(names, ["narrow", "wide"]);
    // What was denied took nothing of `wide`, which has one left.
    assert_eq!(admitted(&asked(&all, 5, &[("ip", "1.1.1.1")])), 1);
    assert_eq!(ask(&all, &[("ip", "1.1.1.1")]).policy().unwrap().name, "wide");
    let counts: HashMap<String, _> = all.counters().into_iter().collect();
    assert_eq!(counts["narrow"].of(Outcome::Allowed, Authority::Store), 2);
    assert_eq!(counts["narrow"].of(Outcome::Denied, Authority::Store), 4);
    assert_eq!(counts["wide"].of(Outcome::Allowed, Authority::Store), 3);
    assert_eq!(counts["wide"].of(Outcome::Withheld, Authority::Store), 4);
    assert_eq!(counts["wide"].total(Outcome::Denied), 5);
}

#[test]
fn a_shadow_is_recorded_and_denies_nobody() {
    let text = SEVERAL.replace("MATCH", "all");
    let (gate, _) = gate(&text);
    let api = [("ip", "1.1.1.1"), ("path", "/api/x")];
    let answers: Vec<Answer> = (0..3).map(|_| ask(&gate, &api)).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_allowed()).count(), 2);
    let shadows = |answer: &Answer| -> Vec<(String, Outcome)> {
        let each = answer.shadows();
        each.map(|shadow| (shadow.policy().unwrap().name.clone(), shadow.outcome())).collect()
    };
    assert_eq!(shadows(&answers[0]), [("trial".to_owned(), Outcome::Allowed)]);
    assert_eq!(shadows(&answers[1]), [("trial".to_owned(), Outcome::Denied)]);
    // What is denied anyway never reaches what is tried out.
    assert!(shadows(&answers[2]).is_empty());
    let counts: HashMap<String, _> = gate.counters().into_iter().collect();
    assert_eq!(counts["trial"].of(Outcome::Denied, Authority::Shadow), 1);
    assert_eq!(counts["trial"].of(Outcome::Allowed, Authority::Shadow), 1);
    // In front of others it takes no request from them.
    let first = text.replace("\"all\"", "\"first\"").replace("ip = \"*\"", "path = \"/api/*\"");
    let (narrow, trial) = (first.find("name = \"narrow\"").unwrap(), first.find("trial").unwrap());
    assert!(narrow < trial);
    let swapped = first.replace("name = \"narrow\"", "name = \"other\"\nshadow = true");
    let (gate, _) = gate_of(parse(&swapped));
    let answer = ask(&gate, &api);
    assert_eq!(answer.policy().unwrap().name, "wide");
    assert_eq!(shadows(&answer), [("other".to_owned(), Outcome::Allowed)]);
}

#[test]
fn a_charge_is_given_back_once_and_charged_on() {
    let (gate, _) = gate(&one(
        "limits = [{ subject = \"ip\", limit = \"3/h\" }, { subject = \"host\", limit = \"9/h\" }]",
    ));
    let call = [("ip", "1.1.1.1"), ("host", "a.com")];
    let answer = ask(&gate, &call);
    assert_eq!(block_on(gate.refund(&answer)).unwrap().unwrap().given, [1, 1]);
    assert!(block_on(gate.refund(&answer)).unwrap().unwrap().already);
    let answer = ask(&gate, &call);
    // More than remains: what remains is taken.
    let more = block_on(gate.charge_extra(&answer, 7)).unwrap().unwrap();
    assert_eq!(more.granted(), 2);
    assert!(block_on(gate.charge_extra(&answer, 0)).unwrap().is_none());
    let denied = ask(&gate, &call);
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert!(block_on(gate.refund(&denied)).unwrap().is_none());
    assert!(block_on(gate.charge_extra(&denied, 1)).unwrap().is_none());
}

/// A store that fails when it is told to, and remembers the deadlines it was given.
#[derive(Clone)]
struct Failing {
    store: MemoryStore,
    answers_at_once: bool,
    fails: Arc<AtomicBool>,
    /// What fails is one state, and not the store.
    is_damage: bool,
    /// What was said where it was opened.
    said: Option<Duration>,
    deadlines: Arc<Mutex<Vec<Option<Duration>>>>,
}

impl Failing {
    fn new() -> Self {
        let (fails, deadlines) = (Arc::default(), Arc::default());
        let (is_damage, said) = (false, None);
        Self {
            store: MemoryStore::new(),
            answers_at_once: false,
            fails,
            is_damage,
            said,
            deadlines,
        }
    }
}

impl Store for Failing {
    fn identity(&self) -> u64 {
        self.store.identity()
    }

    fn deadline(&self) -> Option<Duration> {
        self.said
    }

    fn answers_at_once(&self) -> bool {
        self.answers_at_once
    }

    async fn check(&self, question: &Question<'_>) -> Result<Engine, StoreError> {
        self.deadlines.lock().unwrap().push(question.deadline);
        match (self.fails.load(Ordering::Relaxed), self.is_damage) {
            (true, true) => Err(StoreError::permanent("the state is damaged").alone()),
            (true, false) => Err(StoreError::transient("unplugged")),
            (false, _) => self.store.check(question).await,
        }
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.store.refund(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        self.store.adjust(counted, delta).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.store.reset(counted).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.store.inspect(counted).await
    }
}

/// Keeps what is logged: the level and the message.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(String);
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), message.0));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A layer, a service and a program ask a gate, and none of them has to look for it.
#[test]
fn the_stores_loss_and_its_return_are_a_line_of_the_log_each() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let store = Failing::new();
        let gate = Gate::new(parse(&SEVERAL.replace("MATCH", "first")), store.clone()).unwrap();
        let request = [("ip", "1.1.1.1"), ("path", "/api/x")];
        let _ = ask(&gate, &request);
        assert!(log.0.lock().unwrap().is_empty());
        store.fails.store(true, Ordering::Relaxed);
        asked(&gate, 5, &request);
        let lost = "WARN the store does not answer, and failure rules do in its place: ";
        let told = log.0.lock().unwrap().clone();
        assert!(matches!(&told[..], [one] if one.starts_with(lost) && one.contains("unplugged")));
        store.fails.store(false, Ordering::Relaxed);
        let begin = Instant::now();
        while log.0.lock().unwrap().len() == 1 {
            let _ = ask(&gate, &request);
            assert!(begin.elapsed() < Duration::from_secs(60), "it is never back");
        }
        let told = log.0.lock().unwrap().clone();
        assert!(told[1].starts_with("WARN the store answers again, after "), "{told:?}");
        assert!(told[1].ends_with(": failure rules let 5 pass and denied 0"), "{told:?}");
        assert_eq!(told.len(), 2);
    });
}

/// One damaged state, and a caller who gives the store less time than others, say nothing of it.
#[test]
fn what_is_no_loss_of_the_store_is_told_as_none() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let store = Failing { is_damage: true, ..Failing::new() };
        let gate = Gate::new(parse(&SEVERAL.replace("MATCH", "first")), store.clone()).unwrap();
        store.fails.store(true, Ordering::Relaxed);
        let answer = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
        assert_eq!(answer.authority(), Authority::FailureRule);

        let store = Failing::new();
        let gate = Gate::new(parse(&SEVERAL.replace("MATCH", "first")), store.clone()).unwrap();
        store.fails.store(true, Ordering::Relaxed);
        let limits: LimitSet = "9/h".parse().unwrap();
        let question = || Ask::new("a").under(&limits);
        let hasty = Terms::new(OnFailure::Allow).deadline(Duration::from_millis(1));
        let answer = block_on(gate.check_limits(question(), hasty)).unwrap();
        assert_eq!(answer.outcome(), Outcome::FailedOpen);
        assert_eq!(log.0.lock().unwrap().as_slice(), [""; 0]);
        let patient = Terms::new(OnFailure::Allow);
        let _ = block_on(gate.check_limits(question(), patient)).unwrap();
        assert_eq!(log.0.lock().unwrap().len(), 1);
    });
}

/// What the store's URL says holds for policies that say nothing, and for those alone.
#[test]
fn the_deadline_of_the_store_holds_for_policies_without_one() {
    let said = Duration::from_secs(2);
    let store = Failing { said: Some(said), ..Failing::new() };
    let gate = Gate::new(parse(&SEVERAL.replace("MATCH", "first")), store.clone()).unwrap();
    let asked = |request: &[(&str, &str)]| {
        let _ = ask(&gate, request);
        store.deadlines.lock().unwrap().pop().unwrap()
    };
    let wide = [("ip", "1.1.1.1"), ("path", "/")];
    assert_eq!(asked(&wide), Some(said));
    assert_eq!(asked(&[("ip", "1.1.1.1"), ("path", "/api/x")]), Some(Duration::from_millis(20)));
    gate.replace(parse(&SEVERAL.replace("MATCH", "all")));
    assert_eq!(asked(&wide), Some(said));
    assert_eq!(gate.usual_deadline(), said);
}

#[test]
fn the_failure_rule_answers_when_the_store_cannot() {
    let store = Failing::new();
    let gate = Gate::new(parse(&SEVERAL.replace("MATCH", "all")), store.clone()).unwrap();
    store.fails.store(true, Ordering::Relaxed);
    // One `deny` among those that apply is enough, and the shortest deadline counts.
    let both = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
    assert_eq!((both.outcome(), both.authority()), (Outcome::FailedClosed, Authority::FailureRule));
    assert!(both.error().unwrap().to_string().contains("unplugged"));
    assert_eq!(both.shadows().count(), 0);
    let deadlines = std::mem::take(&mut *store.deadlines.lock().unwrap());
    assert_eq!(deadlines, [Some(Duration::from_millis(20))]);
    let first = Gate::new(parse(&SEVERAL.replace("MATCH", "first")), store.clone()).unwrap();
    let open = ask(&first, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
    assert_eq!((open.outcome(), open.is_allowed()), (Outcome::FailedOpen, true));
    assert_eq!(open.shadows().count(), 0);
    assert!(block_on(first.refund(&open)).unwrap().is_none());
    let counts: HashMap<String, _> = first.counters().into_iter().collect();
    assert_eq!(counts["narrow"].of(Outcome::FailedOpen, Authority::FailureRule), 1);
    store.fails.store(false, Ordering::Relaxed);
    let back = ask(&first, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
    assert_eq!((back.outcome(), back.authority()), (Outcome::Allowed, Authority::Store));
    assert_eq!(back.decision().unwrap().remaining(), 1);
}

#[test]
fn an_observer_is_told_of_each_policy_and_of_no_subject() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| {
        let limit = event.limit.map_or(0, |limit| limit.quota().units);
        let policy = event.policy.unwrap_or("-");
        let (outcome, authority) = (event.outcome.name(), event.authority.name());
        let decides = if event.decides { " decides" } else { "" };
        into.lock().unwrap().push(format!("{policy} {outcome} {authority} {limit}{decides}"));
        assert!(event.duration < Duration::from_secs(60));
    };
    let policies = parse(&SEVERAL.replace("MATCH", "all"));
    let store = Failing::new();
    let gate = Gate::observed(policies, store.clone(), observer).unwrap();
    for _ in 0..3 {
        let _ = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
    }
    let _ = ask(&gate, &[]);
    store.fails.store(true, Ordering::Relaxed);
    let _ = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/api/x")]);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "narrow allowed store 2 decides",
            "wide allowed store 0",
            "trial allowed shadow 1",
            "narrow allowed store 2 decides",
            "wide allowed store 0",
            "trial denied shadow 1",
            "narrow denied store 2 decides",
            "wide withheld store 0",
            "- no_policy policy 0 decides",
            "narrow failed_closed failure_rule 0",
            "wide failed_closed failure_rule 0 decides",
        ]
    );
    assert_eq!(gate.unmatched(), 1);
    assert_eq!(gate.counters_of_unmatched().of(Outcome::NoPolicy, Authority::Policy), 1);
}

#[test]
fn more_subjects_than_a_check_has_are_answered_by_the_failure_rule() {
    let mut text = "version = 1\nmatch = \"all\"\n".to_owned();
    for i in 0..17 {
        text.push_str(&format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"deny\"\nwhen = {{ path = \"/{}*\" }}\n\
             limits = [{{ subject = \"ip\", limit = \"9/s\" }}]\n",
            "a".repeat(i)
        ));
    }
    let (gate, _) = gate(&text);
    let path = format!("/{}", "a".repeat(20));
    let answer = ask(&gate, &[("ip", "1.1.1.1"), ("path", path.as_str())]);
    assert_eq!(answer.outcome(), Outcome::FailedClosed);
    assert!(answer.error().unwrap().to_string().contains("more than 16 subjects"));
    let answer = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/a")]);
    assert_eq!((answer.outcome(), answer.reports().count()), (Outcome::Allowed, 2));
}

#[test]
fn a_live_limit_is_raised_and_lowered_and_keeps_its_count() {
    let of = |units: u64| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h\" }}]")))
    };
    let (gate, _) = gate_of(of(5));
    let call = [("ip", "1.1.1.1")];
    assert_eq!(admitted(&asked(&gate, 9, &call)), 5);
    let old = ask(&gate, &call);
    assert_eq!(gate.replace(of(8)).number, 2);
    assert_eq!(admitted(&asked(&gate, 9, &call)), 3);
    gate.replace(of(6));
    assert_eq!(admitted(&asked(&gate, 9, &call)), 0);
    let last = gate.replace(of(9));
    assert_eq!(admitted(&asked(&gate, 9, &call)), 1);
    let answer = ask(&gate, &call);
    assert_eq!(answer.revision(), &last);
    assert_eq!((old.revision().number, answer.revision().number), (1, 4));
    assert_ne!(old.revision().hash, answer.revision().hash);
    // The counters live on, too.
    let counts: HashMap<String, _> = gate.counters().into_iter().collect();
    assert_eq!(counts["p"].total(Outcome::Allowed), 9);
    // Another name is another count.
    gate.replace(parse(
        &one("limits = [{ subject = \"ip\", limit = \"5/h\" }]").replace("\"p\"", "\"q\""),
    ));
    assert!(ask(&gate, &call).is_allowed());
}

#[test]
fn policies_are_replaced_under_load_without_a_wrong_answer() {
    let of = |units: u64| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h via gcra\" }}]")))
    };
    let gate = Gate::new(of(1_000), MemoryStore::new()).unwrap();
    let (stop, allowed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let answer = ask(&gate, &[("ip", "1.1.1.1")]);
                    assert_eq!(answer.authority(), Authority::Store, "{answer}");
                    assert!(answer.revision().number >= last);
                    last = answer.revision().number;
                    let units = answer.limit().unwrap().quota().units;
                    assert_eq!(units, 1_000 + (last - 1) % 2);
                    allowed.fetch_add(u64::from(answer.is_allowed()), Ordering::Relaxed);
                }
            });
        }
        for round in 1..=20 {
            gate.replace(of(1_000 + round % 2));
            let wanted = gate.revision().number;
            until(|| ask(&gate, &[("ip", "2.2.2.2")]).revision().number >= wanted);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.revision().number, 21);
    // No count was lost: what was admitted is at most what the limit has, and what came back.
    let more = u64::try_from(admitted(&asked(&gate, 2_000, &[("ip", "1.1.1.1")]))).unwrap();
    let all = allowed.load(Ordering::Relaxed) + more;
    assert!((1_000..=1_010).contains(&all), "{all}");
}

/// Waits for something that another thread does.
fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "it did not happen within 30 s");
        std::thread::yield_now();
    }
}

struct Watched {
    gate: Gate<MemoryStore>,
    told: Arc<Mutex<Vec<String>>>,
    _watcher: tollgate_policy::Watcher,
}

fn watched(path: &Path, watch: Watch) -> Watched {
    let gate = Gate::new(Policies::load(path).unwrap(), MemoryStore::new()).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&told);
    let watcher = watch
        .debounce(Duration::from_millis(5))
        .start(&gate, move |reload| {
            into.lock().unwrap().push(match reload {
                Reload::Replaced { revision, .. } => format!("replaced {}", revision.number),
                Reload::Broken(problems) => format!("broken {problems}"),
                other => format!("{other:?}"),
            });
        })
        .unwrap();
    Watched { gate, told, _watcher: watcher }
}

fn hourly(units: u64) -> String {
    one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h\" }}]"))
}

/// The units of the limit that counts now.
fn units(gate: &Gate<MemoryStore>) -> u64 {
    gate.policies().policies()[0].entries[0].limits.limits()[0].quota().units
}

#[test]
fn a_file_is_followed_through_writes_renames_and_faults() {
    for polling in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, hourly(1)).unwrap();
        // Where the system tells, the poll must not be what finds it.
        let watch = if polling {
            Watch::new(&path).polling_only().poll(Duration::from_millis(2))
        } else {
            Watch::new(&path).poll(Duration::from_secs(3_600))
        };
        let Watched { gate, told, _watcher } = watched(&path, watch);
        std::fs::write(&path, hourly(2)).unwrap();
        until(|| units(&gate) == 2);
        let beside = folder.path().join("new");
        std::fs::write(&beside, hourly(3)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        until(|| units(&gate) == 3);
        std::fs::write(&beside, "version = 1\npolicies = 5").unwrap();
        std::fs::rename(&beside, &path).unwrap();
        let last = || told.lock().unwrap().last().cloned().unwrap_or_default();
        until(|| last().starts_with("broken"));
        assert!(last().contains("p.toml:2:12"), "{}", last());
        assert_eq!(units(&gate), 3);
        std::fs::remove_file(&path).unwrap();
        until(|| last().contains("cannot be read"));
        assert!(ask(&gate, &[("ip", "1.1.1.1")]).is_allowed());
        std::fs::write(&beside, hourly(4)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        until(|| units(&gate) == 4);
    }
}

#[cfg(unix)]
#[test]
fn a_swapped_link_is_followed_as_kubernetes_makes_it() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, units) in [("..1", 1), ("..2", 2)] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("p.toml"), hourly(units)).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/p.toml", at("p.toml")).unwrap();
    let path = at("p.toml");
    let Watched { gate, _watcher, .. } =
        watched(&path, Watch::new(&path).poll(Duration::from_secs(3_600)));
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    until(|| units(&gate) == 2);
}

#[test]
fn what_did_not_change_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, hourly(1)).unwrap();
    let watch = Watch::new(&path).polling_only().poll(Duration::from_millis(1));
    let Watched { gate, told, _watcher } = watched(&path, watch);
    std::fs::write(&path, hourly(1)).unwrap();
    std::fs::write(folder.path().join("other.toml"), hourly(9)).unwrap();
    std::fs::write(&path, hourly(2)).unwrap();
    until(|| units(&gate) == 2);
    // A file that is being written can be seen half: it was then broken, and is whole now.
    let replaced: Vec<String> =
        told.lock().unwrap().iter().filter(|told| told.starts_with("replaced")).cloned().collect();
    assert!(replaced.len() <= 2, "{replaced:?}");
    assert_eq!(gate.revision().hash, Policies::load(&path).unwrap().hash());
}

/// The future can be spawned, and holds nothing of the request.
#[test]
fn a_question_outlives_its_request() {
    fn spawned<F: Send>(future: F) -> F {
        future
    }
    struct Local(std::rc::Rc<str>);
    impl Fields for Local {
        fn field(&self, field: &Field) -> Option<std::borrow::Cow<'_, str>> {
            (*field == Field::Ip).then(|| std::borrow::Cow::Borrowed(&*self.0))
        }
    }
    let (gate, _) = gate(&hourly(1));
    let future = spawned(gate.check(&Local("1.1.1.1".into())));
    assert!(block_on(future).is_allowed());
    assert!(!ask(&gate, &[("ip", "1.1.1.1")]).is_allowed());
}

fn entries(name: &str, count: usize) -> String {
    let entry = |i| format!("{{ subject = \"{name}{i}=a\", limit = \"1/s\" }}");
    (0..count).map(entry).collect::<Vec<_>>().join(", ")
}

fn of_all(name: &str, on_failure: &str, lines: &str) -> String {
    format!(
        "[[policies]]\nname = \"{name}\"\non_failure = \"{on_failure}\"\nshard = \"never\"\n\
         when.method = \"GET\"\n{lines}\n"
    )
}

/// Over 16 subjects nobody is asked, and nobody is admitted, whatever the rules for a store that
/// fails: or who makes more policies apply would get around all of them.
#[test]
fn too_many_subjects_are_denied() {
    let outcome = |last: &str| {
        let limits = |name| format!("limits = [{}]", entries(name, 10));
        let (a, b) = (of_all("a", "allow", &limits("a")), of_all("b", "allow", &limits("b")));
        let text = format!("version = 1\nmatch = \"all\"\n{a}{b}{last}");
        let fields = [("ip", "10.0.0.1"), ("host", "a"), ("method", "GET")];
        ask(&gate(&text).0, &fields).outcome()
    };
    assert_eq!(outcome(""), Outcome::FailedClosed);
    let denies = of_all("c", "deny", &format!("limits = [{}]", entries("c", 1)));
    assert_eq!(outcome(&denies), Outcome::FailedClosed);
    let user = "limits = [{ subject = \"user\", limit = \"1/s\", absent = \"deny\" }]";
    assert_eq!(outcome(&of_all("c", "allow", user)), Outcome::Missing);
}

#[test]
fn policies_in_shadow_are_few_where_all_are_asked() {
    let text = |combine: &str, count: usize| {
        let mut text = format!("version = 1\nmatch = \"{combine}\"\n");
        for i in 0..count {
            let lines = format!("shadow = true\nlimits = [{}]", entries("s", 1));
            text.push_str(&of_all(&format!("s{i}"), "allow", &lines));
        }
        text
    };
    assert!(Policies::parse(&text("all", 16), Format::Toml).is_ok());
    assert!(Policies::parse(&text("first", 17), Format::Toml).is_ok());
    let problems = Policies::parse(&text("all", 17), Format::Toml).unwrap_err();
    assert!(problems.to_string().contains("more than 16 policies are in shadow"), "{problems}");
}

/// The shard of a policy reaches the store; where policies that are asked together disagree, none
/// does, so that the name of a count does not depend on which of them apply.
#[test]
fn the_shard_reaches_the_store() {
    struct Sharded(MemoryStore, Mutex<Vec<Option<String>>>);
    impl Store for Sharded {
        fn identity(&self) -> u64 {
            self.0.identity()
        }
        async fn check(&self, question: &Question<'_>) -> Result<Engine, StoreError> {
            self.1.lock().unwrap().push(question.shard().map(str::to_owned));
            self.0.check(question).await
        }
        async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
            self.0.refund(receipt, units).await
        }
        async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
            self.0.adjust(counted, delta).await
        }
        async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
            self.0.reset(counted).await
        }
        async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
            self.0.inspect(counted).await
        }
    }
    let policy = |name: &str, shard: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\nshard = \"{shard}\"\n\
             limits = [{{ subject = [\"user\", \"ip\"], limit = \"9/s\", absent = \"skip\" }}]\n"
        )
    };
    let shards = |combine: &str, one: &str, two: &str| {
        let (one, two) = (policy("one", one), policy("two", two));
        let text = format!("version = 1\nmatch = \"{combine}\"\n{one}{two}");
        let store = Sharded(MemoryStore::new(), Mutex::default());
        let gate = Gate::new(parse(&text), store).unwrap();
        let answer = ask(&gate, &[("ip", "10.0.0.1"), ("user", "ann")]);
        assert!(answer.is_allowed());
        assert!(block_on(gate.charge_extra(&answer, 2)).unwrap().is_some());
        let shards = gate.store().1.lock().unwrap().clone();
        assert_eq!(shards.len(), 2);
        assert_eq!(shards[0], shards[1], "charged where it was asked");
        shards[..1].to_vec()
    };
    assert_eq!(shards("first", "user", "ip"), [Some("ann".to_owned())]);
    assert_eq!(shards("first", "never", "ip"), [None]);
    assert_eq!(shards("all", "user", "user"), [Some("ann".to_owned())]);
    assert_eq!(shards("all", "user", "ip"), [None]);
    assert_eq!(shards("all", "user", "never"), [None]);
}

#[test]
fn a_prefix_of_a_path_is_the_path_without_its_slash_too() {
    let text =
        one("when = { path = \"/api/*\" }\nlimits = [{ subject = \"ip\", limit = \"9/s\" }]");
    let (gate, _) = gate(&text);
    for (path, outcome) in [
        ("/api", Outcome::Allowed),
        ("/api/", Outcome::Allowed),
        ("/api/a", Outcome::Allowed),
        ("/apis", Outcome::NoPolicy),
        ("/", Outcome::NoPolicy),
    ] {
        assert_eq!(ask(&gate, &[("ip", "10.0.0.1"), ("path", path)]).outcome(), outcome, "{path}");
    }
}

#[test]
fn an_answer_that_is_lent_says_what_one_that_is_kept_does() {
    let text = one("limits = [{ subject = \"ip\", limit = \"2/h\" }]");
    let ((lent, _), (kept, _)) = (gate(&text), gate(&text));
    let fields = [("ip", "10.0.0.1")];
    let looked = lent.look(&fields);
    for outcome in [Outcome::Allowed, Outcome::Allowed, Outcome::Denied] {
        let answer = kept.ask_now(kept.look(&fields)).unwrap();
        assert_eq!(answer.outcome(), outcome);
        // One that was looked at once may be asked for again, and is charged again.
        let told = lent.judge(&looked, |view| {
            assert_eq!(view.outcome(), answer.outcome());
            assert_eq!(view.parts(), answer.parts());
            assert_eq!(view.limit(), answer.limit());
            assert_eq!(view.policy().map(|policy| &policy.name), Some(&"p".to_owned()));
            view.decision().map(tollgate::Decision::remaining)
        });
        assert_eq!(told.unwrap(), answer.decision().map(tollgate::Decision::remaining));
    }
    assert_eq!(lent.counters()[0].1.total(Outcome::Denied), 1);
}

#[test]
fn a_refused_request_is_counted_and_asks_nothing() {
    let (gate, _) = gate(&one("limits = [{ subject = \"ip\", limit = \"1/h\" }]"));
    let fields = [("ip", "10.0.0.1")];
    let looked = gate.look(&fields);
    assert!(looked.enforces(&Field::Ip) && !looked.enforces(&Field::User));
    let answer = gate.refuse(looked, Field::Ip);
    assert_eq!((answer.outcome(), answer.missing()), (Outcome::Missing, Some(&Field::Ip)));
    assert_eq!(gate.counters()[0].1.of(Outcome::Missing, Authority::Policy), 1);
    assert!(ask(&gate, &fields).is_allowed());
}

/// What an answer says that is lent: which is as much as a front looks at.
fn told(view: AnswerView<'_>) -> String {
    let reports: Vec<_> =
        view.reports().map(|(policy, report)| format!("{} {report:?}", policy.name)).collect();
    let policy = view.policy().map(|policy| &policy.name);
    format!(
        "{:?} {:?} {policy:?} {:?} {:?} {:?} {} {reports:?} {} {:?}",
        view.outcome(),
        view.authority(),
        view.parts(),
        view.limit(),
        view.retry_after(),
        view.revision().number,
        view.shadows().count(),
        view.missing(),
    )
}

/// How subjects are made of the fields of a request.
fn in_fields(fields: &impl Fields) -> impl Fn(&Field, &SubjectPrefix) -> Option<Subject> {
    |field, prefix| subject_of(fields, field, prefix)
}

/// The policies of which every request is asked the same, and a request of each.
const ALIKE: [(&str, &[(&str, &str)]); 5] = [
    ("limits = [{ subject = \"ip\", limit = \"2/h\" }]", &[("ip", "10.0.0.1")]),
    (
        "limits = [{ subject = \"ip\", limit = \"2/s, 3/m, 4/h via sliding_log\" }]",
        &[("ip", "2001:db8:1:2::/64")],
    ),
    (
        "cost = 3\nlimits = [{ subject = \"user\", absent = \"skip\", limit = \"7/h\" }]",
        &[("user", "a name, and % that is written in another way, and longer than most")],
    ),
    (
        "limits = [{ subject = \"header.x-a\", absent = \"deny\", limit = \"1/h, 9/h via gcra\" }]",
        &[("header.x-a", "b")],
    ),
    ("cost = 3\nlimits = [{ subject = \"ip\", limit = \"2/h\" }]", &[("ip", "10.0.0.1")]),
];

#[test]
fn what_is_judged_at_once_is_what_is_judged_in_two_steps() {
    for (lines, fields) in ALIKE {
        let ((short, near), (long, far)) = (gate(&one(lines)), gate(&one(lines)));
        for _ in 0..6 {
            let (mark, said) = short.judge_at_once(in_fields(&fields), told).unwrap();
            let looked = long.look(&fields);
            assert_eq!(said, long.judge(&looked, told).unwrap(), "{lines}");
            assert_eq!(mark, short.look(&fields).mark());
            near.advance(Duration::from_millis(400));
            far.advance(Duration::from_millis(400));
        }
        let counted = |gate: &Gate<MemoryStore>| gate.counters()[0].1.iter().collect::<Vec<_>>();
        assert_eq!(counted(&short), counted(&long), "{lines}");
    }
}

#[test]
fn what_has_more_to_find_is_not_judged_at_once() {
    let all = [("ip", "10.0.0.1"), ("user", "ann"), ("path", "/a"), ("field.n", "2")];
    let ip = "limits = [{ subject = \"ip\", limit = \"9/h\" }]";
    let two = format!("{}[[policies]]\nname = \"q\"\non_failure = \"deny\"\n{ip}", one(ip));
    for text in [
        two.replacen("version = 1", "version = 1\nmatch = \"all\"", 1),
        two.replacen("version = 1", "version = 1\nmatch = \"first\"", 1),
        one(&format!("when = {{ path = \"/a\" }}\n{ip}")),
        one(&format!("shadow = true\n{ip}")),
        one(&format!("shard = \"ip\"\n{ip}")),
        one("limits = [{ subject = \"resource=api\", limit = \"9/h\" }]"),
        one(&format!("cost = {{ from = \"field.n\", max = 3, otherwise = 1 }}\n{ip}")),
        one("limits = [{ subject = \"ip\", limit = \"9/h\" }, { subject = \"user\", absent = \
             \"skip\", limit = \"9/h\" }]"),
        one("limits = [{ subject = [\"ip\", \"user\"], absent = \"skip\", limit = \"9/h\" }]"),
        one(
            "[[policies.limits]]\nsubject = \"ip\"\nlimit = \"9/h\"\noverrides = [{ when = { ip = \
             \"10.0.0.1\" }, limit = \"5/h\" }]",
        ),
    ] {
        let (gate, _) = gate(&text);
        assert!(gate.judge_at_once(in_fields(&all), told).is_none(), "{text}");
    }
    // What is absent, or too long for a subject, is not known by it.
    let (gate, _) = gate(&one(ip));
    assert!(gate.judge_at_once(in_fields(&[("user", "ann")]), told).is_none());
    let long = "1".repeat(70_000);
    assert!(gate.judge_at_once(in_fields(&[("ip", long.as_str())]), told).is_none());
}

#[test]
fn at_once_the_failure_rule_answers_too_and_who_has_to_wait_is_not_asked() {
    let policies = || parse(&one("limits = [{ subject = \"ip\", limit = \"9/h\" }]"));
    let (store, fields) = (Failing::new(), [("ip", "10.0.0.1")]);
    let slow = Gate::new(policies(), store.clone()).unwrap();
    assert!(slow.judge_at_once(in_fields(&fields), told).is_none());
    assert!(store.deadlines.lock().unwrap().is_empty());
    let store = Failing { answers_at_once: true, ..store };
    let gate = Gate::new(policies(), store.clone()).unwrap();
    let what = |view: AnswerView<'_>| (view.outcome(), view.authority());
    let (_, said) = gate.judge_at_once(in_fields(&fields), what).unwrap();
    assert_eq!(said, (Outcome::Allowed, Authority::Store));
    store.fails.store(true, Ordering::Relaxed);
    let (_, said) = gate.judge_at_once(in_fields(&fields), what).unwrap();
    assert_eq!(said, (Outcome::FailedOpen, Authority::FailureRule));
    assert_eq!(gate.counters()[0].1.of(Outcome::FailedOpen, Authority::FailureRule), 1);
    let deadline = Some(tollgate_policy::DEFAULT_DEADLINE);
    assert_eq!(*store.deadlines.lock().unwrap(), [deadline; 2]);
}

/// At once or in two steps: the observer is told the same.
#[test]
fn an_observer_is_told_of_every_answer() {
    let observed = |store: Failing| {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&told);
        let policies = parse(&one("limits = [{ subject = \"ip\", limit = \"2/h\" }]"));
        let gate = Gate::observed(policies, store, move |event: &Event<'_>| {
            let Event { policy, limit, subject, outcome, authority, error, decides, .. } = *event;
            let limit = limit.map(ToString::to_string);
            let said = (policy, limit, subject, outcome, authority, error.is_some(), decides);
            into.lock().unwrap().push(format!("{said:?}"));
        });
        (gate.unwrap(), told)
    };
    let stores = [(); 2].map(|()| Failing { answers_at_once: true, ..Failing::new() });
    let [fast, general] = stores.clone().map(observed);
    for fails in [false, false, false, true, false] {
        for store in &stores {
            store.fails.store(fails, Ordering::Relaxed);
        }
        let (fields, what) = ([("ip", "10.0.0.1")], |view: AnswerView<'_>| view.outcome());
        let (_, said) = fast.0.judge_at_once(in_fields(&fields), what).unwrap();
        let looked = general.0.look(&fields);
        assert_eq!(said, general.0.judge(&looked, what).unwrap());
    }
    let seen = fast.1.lock().unwrap();
    assert_eq!((seen.len(), &*seen), (5, &*general.1.lock().unwrap()));
    assert!(seen[0].contains("ip:10.0.0.1") && seen[3].contains("FailedOpen"), "{seen:?}");
}

/// Each thread caches the policies that it saw last: never beyond their end.
#[test]
fn policies_that_are_replaced_are_seen_at_once_by_every_thread() {
    let limits = |limit: &str| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]")))
    };
    let (gate, _) = gate_of(limits("900/h"));
    let fields = [("ip", "10.0.0.1")];
    let revision =
        || gate.judge_at_once(in_fields(&fields), |view| view.revision().number).unwrap().1;
    std::thread::scope(|scope| {
        let (question, questions) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel();
        scope.spawn(move || questions.iter().for_each(|()| answer.send(revision()).unwrap()));
        for number in 1..5 {
            question.send(()).unwrap();
            assert_eq!((answered.recv().unwrap(), revision()), (number, number));
            gate.replace(limits(&format!("{}/h", 900 + number)));
        }
        drop(question);
    });
    // One gate's policies are not another's.
    let (other, _) = gate_of(limits("1/h"));
    assert!(ask(&other, &fields).is_allowed());
    let denied = other.judge_at_once(in_fields(&fields), |view| !view.is_allowed()).unwrap().1;
    assert_eq!((denied, revision()), (true, 5));
}

#[test]
fn a_gate_is_asked_while_it_is_asked() {
    let (gate, _) = gate(&one("limits = [{ subject = \"ip\", limit = \"9/h\" }]"));
    let fields = [("ip", "10.0.0.1")];
    assert!(ask(&gate, &fields).is_allowed());
    let left = |view: AnswerView<'_>| view.decision().unwrap().remaining();
    let (_, (outer, inner)) = gate
        .judge_at_once(in_fields(&fields), |view| {
            (left(view), gate.judge_at_once(in_fields(&fields), left).unwrap().1)
        })
        .unwrap();
    assert_eq!((outer, inner), (7, 6));
}
