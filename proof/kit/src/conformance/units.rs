//! Cases: costs of several units (definitions, section 13).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use tollgate::{Ask, Cost, Decision, LimitSet, RequestId, SKEW_US, Store};

use super::StoreMaker;
use super::world::{START_US, World, oracle_of, rule_of, set};
use crate::Random;
use crate::oracle::{Fields, Oracle, OracleAnswer};

const S: u64 = 1_000_000;
const HISTORIES: u64 = 40;
const OPERATIONS: usize = 80;

/// Limits of several units, with two sets of numbers that they have in turn. Smaller numbers leave
/// more used than the limit.
const FAMILIES: [[&str; 2]; 7] = [
    [
        "a: 9/4s via gcra, b: 60/4s of tokens via gcra",
        "a: 7/4s via gcra, b: 20/5s of tokens via gcra",
    ],
    [
        "b: 60/4s of tokens via fixed_window, a: 9/4s via fixed_window",
        "b: 25/4s of tokens via fixed_window, a: 4/4s via fixed_window",
    ],
    [
        "a: 9/4s via sliding_log, b: 40/4s of tokens via sliding_log",
        "a: 5/4s via sliding_log, b: 20/4s of tokens via sliding_log",
    ],
    [
        "a: 9/4s precision 1s via sliding_window, b: 60/4s of bytes precision 1s via sliding_window",
        "a: 9/4s precision 1s via sliding_window, b: 15/4s of bytes precision 1s via sliding_window",
    ],
    [
        "b: 50/4s of tokens burst 70 refill interval via token_bucket, c: 200/9s of bytes via gcra",
        "b: 50/4s of tokens burst 30 refill interval via token_bucket, c: 90/9s of bytes via gcra",
    ],
    [
        "a: 6/2s via gcra, b: 60/4s of tokens via sliding_log, c: 50/3s of bytes via fixed_window, d: 99/8s of tokens via gcra",
        "a: 6/2s via gcra, b: 30/4s of tokens via sliding_log, c: 20/3s of bytes via fixed_window, d: 44/8s of tokens via gcra",
    ],
    ["b: 60/4s of tokens via sliding_log", "b: 25/4s of tokens via sliding_log"],
];

/// Checks, peeks and partial checks with random amounts, while the numbers change and the clock
/// steps back: as an oracle of each limit says, in every field.
pub(super) fn units_equal_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for (family, texts) in FAMILIES.iter().enumerate() {
        for seed in super::some(maker, HISTORIES) {
            let mut random = Random::new(seed * 100 + family as u64);
            let mut history = History::new(maker, texts);
            for _ in 0..OPERATIONS {
                history.step(&mut random, &mut seen);
            }
        }
    }
    let Seen { admitted, denied, owing, idle, repaired } = seen;
    let all = maker.one_of().max(1);
    assert!(
        admitted * all > 2_000 && denied * all > 2_000 && owing * all > 100 && idle * all > 1_000,
        "{admitted} admitted, {denied} denied, {owing} denied by a limit with the amount 0, {idle} \
         admitted with an amount of 0"
    );
    assert!(repaired * all > 100, "{repaired} after the clock had stepped back");
}

#[derive(Default)]
struct Seen {
    admitted: u64,
    denied: u64,
    owing: u64,
    idle: u64,
    repaired: u64,
}

struct History<S> {
    world: World<S>,
    sets: [LimitSet; 2],
    /// Which numbers it is asked under.
    revision: usize,
    oracles: Vec<Oracle>,
    now_us: u64,
    /// The latest time since the clock stepped back beyond the skew.
    latest_us: u64,
}

impl<S: Store> History<S> {
    fn new<M: StoreMaker<Store = S>>(maker: &M, texts: &[&str; 2]) -> Self {
        let sets = texts.map(set);
        let oracles = sets[0].limits().iter().map(oracle_of).collect();
        let world = World::new(maker, texts[0], START_US);
        Self { world, sets, revision: 0, oracles, now_us: START_US, latest_us: START_US }
    }

    fn step(&mut self, random: &mut Random, seen: &mut Seen) {
        let most = if random.below(4) == 0 { 2 * S } else { S / 8 };
        self.now_us += random.below(most);
        if random.below(12) == 0 {
            // A store may forget what is fresh for a second. While all counts, it forgets nothing.
            let latest_us = self.latest_us;
            let counts = |oracle: &Oracle| oracle.peek(latest_us, 1).fields.reset_after_us > 0;
            let is_known = self.oracles.iter().all(counts);
            let most = if is_known { 3 * S } else { SKEW_US + 1 };
            self.now_us = latest_us - random.below(most);
            self.latest_us = if is_known { self.now_us } else { latest_us };
        }
        self.latest_us = self.latest_us.max(self.now_us);
        self.world.at(self.now_us);
        if random.below(8) == 0 {
            self.revision = 1 - self.revision;
        }
        let limits = self.sets[self.revision].clone();
        let amounts = amounts(&limits, random);
        let kind = random.below(10);
        let (peeks, is_partial) = (kind < 2, kind == 2 || kind == 3);
        let expected = self.expected(&limits, &amounts, (peeks, is_partial), seen);
        let cost = Cost::new(amounts.iter().map(|(unit, amount)| (&**unit, *amount))).unwrap();
        let mut ask = Ask::new("bob").under(&limits).cost(cost.clone());
        if is_partial {
            ask = ask.partial();
        }
        let decision = if peeks { self.world.peek(ask) } else { self.world.check(ask) };
        let what = format!("{limits}: `{cost}`, {kind}, at {}", self.now_us);
        expected.is_told_by(&decision, &what);
    }

    /// The answer of the definitions. The oracles keep what the check does.
    fn expected(
        &mut self,
        limits: &LimitSet,
        amounts: &[(String, u64)],
        (peeks, is_partial): (bool, bool),
        seen: &mut Seen,
    ) -> Expected {
        let now_us = self.now_us;
        let mut oracles = self.oracles.clone();
        for (oracle, limit) in oracles.iter_mut().zip(limits.limits()) {
            seen.repaired += u64::from(oracle.would_repair(now_us));
            let rule = rule_of(limit).expect("a rule");
            oracle.change_owing(now_us, rule, Some(limit.debt())).expect("numbers in range");
        }
        let first = first_of(amounts);
        let mut each: Vec<u64> =
            limits.limits().iter().map(|limit| of(amounts, limit.unit().name())).collect();
        let is_first = |place: usize| limits.limits()[place].unit().name() == first.0;
        let mut granted = first.1;
        if is_partial {
            let left = (0..each.len()).filter(|place| is_first(*place));
            let least = left.map(|place| oracles[place].peek(now_us, 1).fields.remaining).min();
            granted = granted.min(least.expect("a limit of the first unit")).max(1);
            for (place, amount) in each.iter_mut().enumerate() {
                *amount = if is_first(place) { granted } else { *amount };
            }
        }
        let peeked: Vec<OracleAnswer> = oracles
            .iter()
            .zip(&each)
            .map(|(oracle, amount)| oracle.peek(now_us, *amount))
            .collect();
        let admitted = peeked.iter().all(|answer| answer.admitted);
        let has_zero = |answer: &(&OracleAnswer, &u64)| *answer.1 == 0 && !answer.0.admitted;
        seen.owing += u64::from(peeked.iter().zip(&each).any(|answer| has_zero(&answer)));
        seen.idle += u64::from(admitted && each.contains(&0));
        *(if admitted { &mut seen.admitted } else { &mut seen.denied }) += 1;
        let mut fields: Vec<Fields> = peeked.iter().map(|answer| answer.fields).collect();
        if !peeks {
            for ((oracle, amount), fields) in oracles.iter_mut().zip(&each).zip(&mut fields) {
                match admitted && *amount > 0 {
                    true => *fields = oracle.check(now_us, *amount).fields,
                    false => oracle.keep_repair(now_us),
                }
            }
            self.oracles = oracles;
        }
        Expected { granted: if admitted { granted } else { 0 }, fields, each }
    }
}

struct Expected {
    granted: u64,
    fields: Vec<Fields>,
    /// The amount of each limit.
    each: Vec<u64>,
}

impl Expected {
    fn is_told_by(&self, decision: &Decision<'_>, what: &str) {
        let told: Vec<Fields> = decision
            .reports()
            .map(|report| Fields {
                remaining: report.remaining(),
                retry_after_us: report
                    .retry_after()
                    .map(|it| u64::try_from(it.as_micros()).unwrap()),
                reset_after_us: u64::try_from(report.reset_after().as_micros()).unwrap(),
            })
            .collect();
        assert_eq!((&told, decision.granted()), (&self.fields, self.granted), "{what}");
        let binding = self.binding();
        assert_eq!(decision.binding_place(), binding, "{what}: {told:?}");
        let units: Vec<&str> = decision.reports().map(|it| it.limit().unit().name()).collect();
        let of_unit = self.fields.iter().zip(&units).filter(|(_, unit)| **unit == units[binding]);
        let least = of_unit.map(|(fields, _)| fields.remaining).min().unwrap();
        assert_eq!(
            (decision.remaining(), decision.unit().name()),
            (least, units[binding]),
            "{what}"
        );
    }

    /// On Deny the longest wait, on Allow the room for the fewest more; ties go to the first.
    fn binding(&self) -> usize {
        let wait = |fields: &Fields| fields.retry_after_us.map_or(u128::MAX, u128::from);
        let room = |place: usize| match self.each[place] {
            0 => u64::MAX,
            amount => self.fields[place].remaining / amount,
        };
        let mut best = 0;
        for place in 1..self.fields.len() {
            let is_tighter = match self.granted {
                0 => wait(&self.fields[place]) > wait(&self.fields[best]),
                _ => room(place) < room(best),
            };
            best = if is_tighter { place } else { best };
        }
        best
    }
}

/// An amount for some of the units of a set, and for none of them 0.
fn amounts(limits: &LimitSet, random: &mut Random) -> Vec<(String, u64)> {
    let mut amounts: Vec<(String, u64)> = Vec::new();
    for limit in limits.limits() {
        let unit = limit.unit().name();
        if amounts.iter().all(|(known, _)| known != unit) {
            let most = limit.capacity() / (1 + random.below(6)) + 2;
            let amount = if random.below(3) == 0 { 0 } else { random.below(most) };
            amounts.push((unit.to_owned(), amount));
        }
    }
    if amounts.iter().all(|(_, amount)| *amount == 0) {
        let place = random.place(amounts.len());
        amounts[place].1 = 1 + random.below(3);
    }
    amounts
}

fn of(amounts: &[(String, u64)], unit: &str) -> u64 {
    amounts.iter().find(|(known, _)| known == unit).map_or(0, |(_, amount)| *amount)
}

/// Requests, or without requests the first unit by name.
fn first_of(amounts: &[(String, u64)]) -> (String, u64) {
    let mut named: Vec<_> = amounts.iter().filter(|(_, amount)| *amount > 0).cloned().collect();
    named.sort_by_key(|(unit, _)| (unit != "requests", unit.clone()));
    named.swap_remove(0)
}

fn cost(text: &str) -> Cost {
    text.parse().expect("a cost")
}

/// A refund gives every limit its own amount back, once.
pub(super) fn a_charge_of_several_units_is_refunded_whole<M: StoreMaker>(maker: &M) {
    for via in ["gcra", "fixed_window", "sliding_log"] {
        let limits =
            format!("9/1h via {via}, 900/1h of tokens via {via}, 70/1h of bytes via {via}");
        let world = World::new(maker, &limits, START_US);
        let left = || -> Vec<u64> {
            let ask = Ask::new("bob").cost(cost("requests=1,tokens=1"));
            world.peek(ask).reports().map(|report| report.remaining()).collect()
        };
        let first = world.check(Ask::new("bob").cost(cost("requests=2,tokens=300")));
        let receipt = first.receipt().expect("a receipt");
        assert_eq!(receipt.to_string().parse(), Ok(receipt.clone()), "{via}");
        assert_eq!(left(), [7, 600, 70], "{via}");
        let _ = world.check(Ask::new("bob").cost(cost("bytes=50")));
        assert_eq!(world.refund(&receipt).given, [2, 300, 0], "{via}");
        assert_eq!(left(), [9, 900, 20], "{via}");
        assert!(world.refund(&receipt).already, "{via}");
    }
}

/// A request id is of one cost, whose amounts are all part of it.
pub(super) fn a_request_id_is_of_one_cost<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "9/1h via gcra, 900/1h of tokens via gcra", START_US);
    let ask = |text: &str| Ask::new("bob").cost(cost(text)).request(RequestId::new("an id of bob"));
    let first = world.check(ask("requests=1,tokens=300"));
    assert!(first.is_allowed() && !first.is_repeated());
    let again = world.check(ask("tokens=300,requests=1"));
    assert!(again.is_repeated() && again.receipt() == first.receipt());
    for other in ["requests=1,tokens=301", "requests=1", "tokens=300"] {
        let error = super::block_on(world.limiter.check(ask(other))).expect_err(other).to_string();
        assert!(error.contains("another question"), "{other}: {error}");
    }
}
