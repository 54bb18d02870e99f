//! Cases: time lines as data, and random histories beside the oracle, every field compared.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::collections::BTreeMap;

use tollgate::{Ask, Keeps, LimitSet, Receipt, SKEW_US, Store, engine};

use super::StoreMaker;
use super::world::{SMALL, World, answer, fields, oracle_of, rule_of, set};
use crate::Random;
use crate::oracle::{MultiOracle, Oracle, Rule};
use crate::vectors::{self, VECTORS};

/// Every line of `vectors/` is answered as it says.
pub(super) fn time_lines_are_answered_as_written<M: StoreMaker>(maker: &M) {
    for (name, text) in VECTORS {
        let time_lines = vectors::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        for time_line in time_lines {
            let first_us = time_line.lines.first().map_or(0, |line| line.at_us);
            let world = World::new(maker, &time_line.limit, first_us);
            let charges = |line: &vectors::Line| line.ask == vectors::Ask::Charge;
            if !M::Store::KEEPS.charges && time_line.lines.iter().any(charges) {
                continue;
            }
            for line in &time_line.lines {
                world.at(line.at_us);
                let ask = Ask::new("zoo").cost(line.cost);
                if line.ask == vectors::Ask::Charge {
                    let seen = world.charge(ask).answer(line.cost);
                    assert_eq!(seen, line.expect, "{name}:{}: {}", line.number, line.case);
                    continue;
                }
                let (decision, peek) = match line.ask {
                    vectors::Ask::Peek => (world.peek(ask), true),
                    vectors::Ask::Partial => (world.check(ask.partial()), false),
                    _ => (world.check(ask), false),
                };
                let seen = answer(&decision, peek);
                assert_eq!(seen, line.expect, "{name}:{}: {}", line.number, line.case);
            }
        }
    }
}

/// How often each outcome was seen: a case that never meets one proves nothing about it.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn count(&mut self, outcome: &'static str) {
        *self.0.entry(outcome).or_insert(0) += 1;
    }

    /// The kit's histories are the same everywhere: each outcome is at least a hundredth.
    fn verify(&self, keeps: Keeps) {
        let all: u64 = self.0.values().sum();
        for outcome in [
            "allow",
            "not yet",
            "never",
            "peek",
            "partial: all",
            "partial: less",
            "partial: none",
            "refund: something",
            "refund: nothing",
            "adjust",
            "charge: fits",
            "charge: owes",
            "charge: cut",
        ] {
            if outcome.starts_with("charge") && !keeps.charges {
                continue;
            }
            let count = self.0.get(outcome).copied().unwrap_or(0);
            assert!(count * 100 >= all, "{outcome}: {count} of {all}, {:?}", self.0);
        }
    }
}

/// A charge, with the units that are left to give back.
struct Charged {
    receipt: Receipt,
    left: u64,
    /// When something was given back of it last.
    refunded_us: Option<u64>,
}

impl Charged {
    fn new(receipt: Receipt) -> Self {
        let left = receipt.units();
        Self { receipt, left, refunded_us: None }
    }

    /// Whether a store may have forgotten what was given back of it, when it has seen this time.
    fn may_be_forgotten(&self, latest_us: u64) -> bool {
        self.refunded_us.is_some_and(|refunded_us| {
            engine::receipt_until_us(&self.receipt).max(refunded_us) + SKEW_US <= latest_us
        })
    }
}

/// One limit and one subject in a store and in the oracle.
struct Twins<S> {
    world: World<S>,
    oracle: Oracle,
    fresh: Oracle,
    limit: &'static str,
    receipts: Vec<Charged>,
    /// The latest time that there was: a store forgets what no longer counted then.
    latest_us: u64,
}

const SUBJECT: &str = "user:42";

impl<S: Store> Twins<S> {
    fn new<M: StoreMaker<Store = S>>(maker: &M, limit: &'static str, now_us: u64) -> Self {
        let world = World::new(maker, limit, now_us);
        let fresh = oracle_of(&world.limiter.limits().limits()[0]);
        let oracle = fresh.clone();
        Self { world, oracle, fresh, limit, receipts: Vec::new(), latest_us: now_us }
    }

    /// One operation of any kind, on both.
    fn operate(&mut self, random: &mut Random, cost: u64, seen: &mut Seen) {
        let Self { world, oracle, fresh, limit, receipts, latest_us } = self;
        let now_us = world.now_us();
        *latest_us = now_us.max(*latest_us);
        let ask = Ask::new(SUBJECT).cost(cost);
        match random.below(22) {
            0..11 => {
                let decision = world.check(ask);
                let expected = oracle.check(now_us, cost);
                seen.count(match (expected.admitted, expected.fields.retry_after_us) {
                    (true, _) => "allow",
                    (false, Some(_)) => "not yet",
                    (false, None) => "never",
                });
                assert_eq!(answer(&decision, false), expected, "{limit} check {cost} at {now_us}");
                receipts.extend(decision.receipt().map(Charged::new));
            }
            11..14 => {
                seen.count("peek");
                let peeked = answer(&world.peek(ask), true);
                assert_eq!(peeked, oracle.peek(now_us, cost), "{limit} peek {cost} at {now_us}");
            }
            14..16 => {
                // More than a check asks for, so that often only a part of it is left.
                let cost = cost + random.below(6);
                let decision = world.check(ask.cost(cost).partial());
                let expected = oracle.partial(now_us, cost);
                seen.count(match expected.granted {
                    0 => "partial: none",
                    granted if granted < cost => "partial: less",
                    _ => "partial: all",
                });
                assert_eq!(answer(&decision, false), expected, "{limit} partial {cost} {now_us}");
                receipts.extend(decision.receipt().map(Charged::new));
            }
            16..18 if !receipts.is_empty() => self.refund(random, seen),
            18 => {
                seen.count("adjust");
                let units = i64::try_from(1 + random.below(cost + 1)).unwrap();
                let delta = if random.below(2) == 0 { units } else { -units };
                world.adjust(SUBJECT, delta);
                oracle.adjust(now_us, delta);
            }
            19 | 20 if S::KEEPS.charges => {
                // Often more than a check asks for, so that only a part can be debt.
                let cost = if random.below(2) == 0 { 1 } else { cost + random.below(6) };
                let charged = world.charge(ask.cost(cost));
                seen.count(match (charged.fits, charged.cut) {
                    (true, _) => "charge: fits",
                    (false, 0) => "charge: owes",
                    (false, _) => "charge: cut",
                });
                let expected = oracle.charge(now_us, cost);
                assert_eq!(charged, expected, "{limit} charge {cost} at {now_us}");
            }
            21 if random.below(4) == 0 => {
                world.reset(SUBJECT);
                *oracle = fresh.clone();
                // Forgotten units cannot be given back.
                receipts.clear();
            }
            _ => {
                let checked = answer(&world.check(SUBJECT), false);
                assert_eq!(checked, oracle.check(now_us, 1), "{limit} check 1 at {now_us}");
            }
        }
    }

    /// Refunds a part of some charge, on both.
    fn refund(&mut self, random: &mut Random, seen: &mut Seen) {
        let Self { world, oracle, limit, receipts, latest_us, .. } = self;
        let now_us = world.now_us();
        let pick = usize::try_from(random.below(receipts.len() as u64)).unwrap();
        let charged = receipts.swap_remove(pick);
        let cost = charged.receipt.units();
        // More than is left gives back what is left.
        let asked = 1 + random.below(cost);
        let refund = world.refund_part(&charged.receipt, asked);
        let peeked = answer(&world.peek(SUBJECT), true);
        let left_now = refund.left.amounts().first();
        let seen_now = (refund.already, refund.given[0], left_now, peeked);
        // A forgotten refund is like one that never happened (section 4).
        let forgotten = charged.may_be_forgotten(*latest_us).then_some(cost);
        let Charged { receipt, left, refunded_us } = charged;
        let expected = [left].into_iter().chain(forgotten).map(|left| {
            let (mut oracle, units) = (oracle.clone(), asked.min(left));
            let at_us = receipt.charges[0].at_us[0];
            let given = match left {
                0 => 0,
                _ => oracle.refund_part(now_us, at_us, left, units),
            };
            let peeked = oracle.peek(now_us, 1);
            ((left == 0, given, left - units, peeked), oracle)
        });
        let expected: Vec<_> = expected.collect();
        let (answers, _): (Vec<_>, Vec<_>) = expected.iter().cloned().unzip();
        let found = expected.into_iter().find(|(answer, _)| *answer == seen_now);
        let what = format!("{limit} refund of {asked}/{left} at {now_us}: {receipt:?}");
        let Some((_, next)) = found else { panic!("{what}: {seen_now:?}, not {answers:?}") };
        *oracle = next;
        let something = refund.given[0] > 0;
        seen.count(if something { "refund: something" } else { "refund: nothing" });
        if left_now > 0 || random.below(3) == 0 {
            // Also one with nothing left: it must report that.
            let refunded_us = if refund.already { refunded_us } else { Some(now_us) };
            receipts.push(Charged { receipt, left: left_now, refunded_us });
        }
    }
}

/// How a random cost is drawn: mostly small, at times more than can be.
fn some_cost(random: &mut Random, capacity: u64) -> u64 {
    match random.below(10) {
        0..6 => 1,
        6..9 => 1 + random.below(capacity),
        _ => capacity + 1 + random.below(2),
    }
}

/// A step forward in time: none, a few microseconds, parts of the period, its edges.
fn some_step(random: &mut Random, now_us: u64, period_us: u64) -> u64 {
    match random.below(18) {
        0..6 => now_us,
        6..9 => now_us + random.below(4),
        9..14 => now_us + random.below(period_us / 3 + 2),
        14 => now_us + period_us,
        15 => (now_us / period_us + 1) * period_us - random.below(2),
        16 => now_us + random.below(period_us * 3),
        _ => now_us + 1,
    }
}

const HISTORIES: u64 = 40;
const OPERATIONS: usize = 60;

fn history<M: StoreMaker>(maker: &M, limit: &'static str, seed: u64, back: bool, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let period_us = set(limit).limits()[0].quota().period.as_micros();
    let capacity = set(limit).limits()[0].capacity();
    let start_us = 10_000_000 + random.below(4) * period_us + random.below(3_000_000);
    let mut twins = Twins::new(maker, limit, start_us);
    let mut latest_us = start_us;
    for _ in 0..OPERATIONS {
        let mut now_us = some_step(&mut random, twins.world.now_us(), period_us);
        if back && random.below(8) == 0 {
            // A store may forget what is fresh for a second: so far back it still agrees.
            now_us = latest_us.max(now_us).saturating_sub(random.below(SKEW_US + 1));
        } else if back && random.below(12) == 0 {
            // And so it does at any distance from a time at which something still counted.
            let counts = twins.oracle.peek(latest_us, 1).fields.reset_after_us > 0;
            if counts {
                now_us = latest_us.saturating_sub(random.below(period_us * 2 + 3_000_000));
                latest_us = now_us;
            }
        }
        latest_us = latest_us.max(now_us);
        twins.world.at(now_us);
        if random.below(6) == 0 {
            maker.forget(twins.world.limiter.store());
        }
        let cost = some_cost(&mut random, capacity);
        twins.operate(&mut random, cost, seen);
    }
}

/// Checks, peeks, partial checks, refunds, adjustments and resets of one subject.
pub(super) fn one_limit_equals_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for limit in SMALL {
        for seed in super::some(maker, HISTORIES) {
            history(maker, limit, seed, false, &mut seen);
        }
    }
    seen.verify(M::Store::KEEPS);
}

/// The same while the clock steps back, within the skew and beyond.
pub(super) fn a_clock_that_steps_back_equals_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for limit in SMALL {
        for seed in super::some(maker, HISTORIES) {
            history(maker, limit, seed, true, &mut seen);
        }
    }
    seen.verify(M::Store::KEEPS);
}

/// Sets of limits, and the positions of their rules among all.
const SETS: [&str; 4] = [
    "3/1s, 8/10s, 20/1m",
    "5/3s burst 4 via gcra, 6/10s via fixed_window, 9/10s precision 1s via sliding_window",
    "slow: 2/5s burst 6 refill interval via token_bucket, log: 4/2s",
    "1/300ms via uniform, 7/9s rounding interpolate precision 3s via sliding_window",
];

/// Several sets over several subjects in one check: as the oracle says, in every field, and the
/// same binding limit.
pub(super) fn several_limits_and_subjects_equal_the_oracle_in_every_field<M: StoreMaker>(
    maker: &M,
) {
    let sets: Vec<LimitSet> = SETS.iter().map(|text| set(text)).collect();
    let mut starts = Vec::new();
    let mut rules: Vec<Rule> = Vec::new();
    for one in &sets {
        starts.push(rules.len());
        rules.extend(one.limits().iter().map(|limit| rule_of(limit).expect("a rule")));
    }
    for seed in super::some(maker, HISTORIES) {
        let mut random = Random::new(seed ^ 0x5eed);
        let world = World::new(maker, SETS[0], 20_000_000);
        let mut oracle = MultiOracle::new(&rules).unwrap();
        let mut receipts: Vec<Receipt> = Vec::new();
        for _ in 0..OPERATIONS * 2 {
            world.at(some_step(&mut random, world.now_us(), 1_000_000));
            if random.below(6) == 0 {
                maker.forget(world.limiter.store());
            }
            let asked = some_parts(&mut random);
            several(&world, &mut oracle, &mut random, &sets, &starts, &asked, &mut receipts);
        }
    }
}

/// One to three different (subject, set) pairs.
fn some_parts(random: &mut Random) -> Vec<(&'static str, usize)> {
    let subjects = ["resource:12", "consumer:1", "a", "consumer:2,route:a-long-name-of-a-route"];
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for _ in 0..=random.below(3) {
        let subject = subjects[usize::try_from(random.below(4)).unwrap()];
        let part = (subject, usize::try_from(random.below(4)).unwrap());
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

fn several<S: Store>(
    world: &World<S>,
    oracle: &mut MultiOracle,
    random: &mut Random,
    sets: &[LimitSet],
    starts: &[usize],
    parts: &[(&'static str, usize)],
    receipts: &mut Vec<Receipt>,
) {
    let now_us = world.now_us();
    let rules: Vec<(&str, usize)> = parts
        .iter()
        .flat_map(|&(subject, s)| {
            (0..sets[s].limits().len()).map(move |i| (subject, starts[s] + i))
        })
        .collect();
    let ask = |cost| {
        // A comma in a literal subject would be escaped: they are read as written forms.
        let built = |subject: &str| subject.parse::<tollgate::Subject>().unwrap();
        let (subject, s) = parts[0];
        let first = Ask::new(built(subject)).under(&sets[s]);
        parts[1..]
            .iter()
            .fold(first, |ask, &(subject, s)| ask.and_under(built(subject), &sets[s]))
            .cost(cost)
    };
    let cost = if random.below(4) == 0 { 1 + random.below(5) } else { 1 };
    let kind = random.below(10);
    let (decision, expected) = match kind {
        0..6 => (world.check(ask(cost)), oracle.check(now_us, &rules, cost)),
        6 => (world.peek(ask(cost)), oracle.peek(now_us, &rules, cost)),
        7 => (world.check(ask(cost).partial()), oracle.partial(now_us, &rules, cost)),
        _ => {
            let Some(receipt) = receipts.pop() else { return };
            let refund = world.refund(&receipt);
            let mut expected = Vec::new();
            for charge in &receipt.charges {
                let s = sets.iter().position(|set| *set == charge.limits).unwrap();
                for (i, at_us) in charge.at_us.iter().enumerate() {
                    let held = oracle.subject(charge.subject.as_str(), starts[s] + i).unwrap();
                    expected.push(held.refund(now_us, *at_us, receipt.units()));
                }
            }
            assert_eq!(refund.given, expected, "refund at {now_us}: {receipt:?}");
            return;
        }
    };
    let expected = expected.unwrap();
    let context = format!("{parts:?} cost {cost} at {now_us}, kind {kind}");
    assert_eq!(decision.is_allowed(), expected.admitted, "{context}");
    if kind != 6 {
        assert_eq!(decision.granted(), expected.granted, "{context}");
    }
    let each: Vec<_> = (0..rules.len()).map(|i| fields(&decision, i)).collect();
    assert_eq!(each, expected.each, "{context}");
    assert_eq!(decision.remaining(), expected.summary.remaining, "{context}");
    assert_eq!(decision.limit(), expected.limit, "{context}");
    let binding = decision.binding();
    let (subject, rule) = rules[expected.binding];
    assert_eq!(binding.subject(), subject, "{context}");
    let position = starts.iter().rposition(|start| *start <= rule).unwrap();
    assert_eq!(*binding.limit(), sets[position].limits()[rule - starts[position]], "{context}");
    receipts.extend(decision.receipt());
}
