//! Thresholds of limits: who hears of a charge that reaches one, and how often.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Cost;
use tollgate_policy::{Crossing, Event, Observer};

use super::*;

/// Each crossing as `POLICY LIMIT USED`.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Crossing>>>);

impl Observer for Heard {
    fn observe(&self, _: &Event<'_>) {}

    fn crossed(&self, crossing: Crossing) {
        self.0.lock().unwrap().push(crossing);
    }
}

impl Heard {
    fn gate(&self, limits: &str) -> (Gate<MemoryStore>, ManualClock) {
        let clock = ManualClock::at_micros(1_700_000_040_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        (Gate::observed(parse(&one(limits)), store, self.clone()).unwrap(), clock)
    }

    /// The crossings heard since, and whether it is the first in its window.
    fn since(&self, gate: &Gate<MemoryStore>) -> Vec<(String, u64, bool)> {
        let heard: Vec<Crossing> = self.0.lock().unwrap().drain(..).collect();
        let is_first = |it: &Crossing| block_on(gate.is_first(it)).unwrap();
        heard.iter().map(|it| (it.threshold.to_string(), it.used, is_first(it))).collect()
    }
}

fn answer(gate: &Gate<MemoryStore>, cost: u64) -> Answer<'static> {
    let mut prepared = gate.prepare(&[("ip", "192.0.2.7")]);
    prepared.cost(cost).unwrap();
    block_on(gate.ask(prepared))
}

fn charged(gate: &Gate<MemoryStore>, cost: u64) -> Outcome {
    answer(gate, cost).outcome()
}

fn said(all: &[(&str, u64, bool)]) -> Vec<(String, u64, bool)> {
    all.iter().map(|(at, used, first)| ((*at).to_owned(), *used, *first)).collect()
}

#[test]
fn a_charge_that_reaches_a_threshold_is_heard_once_in_each_window() {
    let heard = Heard::default();
    let lines = r#"limits = [{ subject = "ip", limit = "100/m via fixed_window", notify = ["80 %", "100 %"] }]"#;
    let (gate, clock) = heard.gate(lines);
    let first = answer(&gate, 79);
    assert_eq!(first.outcome(), Outcome::Allowed);
    assert_eq!(heard.since(&gate), []);
    assert_eq!(charged(&gate, 1), Outcome::Allowed);
    assert_eq!(heard.since(&gate), said(&[("4/5", 80, true)]));
    // Beyond it, and a denial, is nothing new.
    assert_eq!((charged(&gate, 19), charged(&gate, 2)), (Outcome::Allowed, Outcome::Denied));
    assert_eq!(heard.since(&gate), []);
    assert_eq!(charged(&gate, 1), Outcome::Allowed);
    assert_eq!(heard.since(&gate), said(&[("1/1", 100, true)]));
    // Units that come back let it be crossed again, and the store knows that it was reported.
    block_on(gate.refund(&first)).unwrap();
    assert_eq!(charged(&gate, 64), Outcome::Allowed);
    assert_eq!(heard.since(&gate), said(&[("4/5", 85, false)]));
    // The next window.
    clock.advance(Duration::from_secs(60));
    assert_eq!(charged(&gate, 100), Outcome::Allowed);
    assert_eq!(heard.since(&gate), said(&[("4/5", 100, true), ("1/1", 100, true)]));
    // A peek charges nothing.
    clock.advance(Duration::from_secs(60));
    let mut peek = gate.prepare(&[("ip", "192.0.2.7")]);
    peek.cost(100).unwrap();
    assert_eq!(block_on(gate.ask(peek.peek())).outcome(), Outcome::Allowed);
    assert_eq!(heard.since(&gate), []);
}

#[test]
fn only_the_limits_of_its_entry_have_a_threshold() {
    let heard = Heard::default();
    let lines = r#"
limits = [
  { subject = "ip", limit = "4/h" },
  { subject = "ip", limit = "10/d", notify = "40 %", overrides = [{ when = { field.plan = "large" }, limit = "20/d" }] },
]
"#;
    let (gate, _) = heard.gate(lines);
    assert_eq!(charged(&gate, 4), Outcome::Allowed);
    assert_eq!(heard.since(&gate), said(&[("2/5", 4, true)]));
    let request = [("ip", "192.0.2.8"), ("field.plan", "large")];
    for (cost, heard_of) in [(7, vec![]), (1, said(&[("2/5", 8, true)]))] {
        let mut prepared = gate.prepare(&request);
        prepared.cost(cost).unwrap();
        assert_eq!(block_on(gate.ask(prepared)).outcome(), Outcome::Allowed);
        assert_eq!(heard.since(&gate), heard_of);
    }
}

#[test]
fn holds_count_as_they_are_placed_and_a_commit_beyond_its_estimate_too() {
    let heard = Heard::default();
    let lines = r#"
cost = { reserve = 30, max = 200, hold = "2m" }
limits = [{ subject = "ip", limit = "100/h debt 500 via gcra", notify = ["50 %", "90 %"] }]
"#;
    let (gate, _) = heard.gate(lines);
    let held = || {
        let prepared = gate.prepare(&[("ip", "192.0.2.7")]);
        block_on(gate.admit(prepared)).hold.unwrap()
    };
    let (first, second) = (held(), held());
    assert_eq!(heard.since(&gate), said(&[("1/2", 60, true)]));
    block_on(gate.holds().commit(&first, 25)).unwrap();
    assert_eq!(heard.since(&gate), []);
    block_on(gate.holds().commit(&second, 70)).unwrap();
    assert_eq!(heard.since(&gate), said(&[("9/10", 95, true)]));
    // Beyond the limit nobody knows how much was used before: the store knows what was reported.
    let prepared = gate.prepare(&[("ip", "192.0.2.7")]);
    let ask = prepared.question().unwrap().cost(Cost::from(50));
    block_on(gate.admin().charge(ask)).unwrap();
    assert_eq!(heard.since(&gate), said(&[("1/2", 100, false), ("9/10", 100, false)]));
}
