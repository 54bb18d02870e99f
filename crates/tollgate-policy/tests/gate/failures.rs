//! A store that fails, as an observer and the log see it.

use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::{Ask, LimitSet};
use tollgate_policy::{Authority, Event, OnFailure, Terms};

use super::*;

/// Keeps what is logged: the level and the message.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

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

/// One damaged state, and a caller that gives the store less time than others, do not count as a
/// loss.
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
        let answer = block_on(gate.inline().check(question(), hasty)).unwrap();
        assert_eq!(answer.outcome(), Outcome::FailedOpen);
        assert_eq!(log.0.lock().unwrap().as_slice(), [""; 0]);
        let patient = Terms::new(OnFailure::Allow);
        let _ = block_on(gate.inline().check(question(), patient)).unwrap();
        assert_eq!(log.0.lock().unwrap().len(), 1);
    });
}

/// The settings of the store's URL apply to policies without any, and to those alone.
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
    assert_eq!(gate.current().deadline(), said);
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
    let counts: HashMap<String, _> = first.counters().policies().into_iter().collect();
    assert_eq!(counts["narrow"].get(Outcome::FailedOpen, Authority::FailureRule), 1);
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
    assert_eq!(gate.counters().unmatched.total(Outcome::NoPolicy), 1);
    assert_eq!(gate.counters().unmatched.get(Outcome::NoPolicy, Authority::Policy), 1);
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
