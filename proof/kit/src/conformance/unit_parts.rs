//! Cases: refunds of some units of a charge, and adjustments by unit (definitions, section 13).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use tollgate::{
    Adjustment, Amounts, Ask, Cost, Limit, LimitSet, Receipt, SKEW_US, Store, Unit, engine,
};

use super::StoreMaker;
use super::world::{START_US, World, oracle_of, set};
use crate::Random;
use crate::oracle::Oracle;

const HISTORIES: u64 = 30;
const OPERATIONS: usize = 80;

const FAMILIES: [&str; 6] = [
    "a: 9/4s via gcra, b: 60/4s of tokens via gcra",
    "b: 60/4s of tokens via fixed_window, a: 9/4s via fixed_window",
    "a: 9/4s via sliding_log, b: 40/4s of tokens via sliding_log, c: 70/9s of tokens via gcra",
    "a: 9/4s precision 1s via sliding_window, b: 60/4s of bytes precision 1s via sliding_window",
    "b: 50/4s of tokens burst 70 refill interval via token_bucket, c: 200/9s of bytes via gcra",
    "b: 60/4s of tokens via sliding_log",
];

/// Random checks, refunds of parts and adjustments: each limit as an oracle of it says, which gets
/// the amounts of its unit alone.
pub(super) fn parts_by_unit_equal_the_oracle_of_each_limit<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for (family, text) in FAMILIES.iter().enumerate() {
        for seed in super::some(maker, HISTORIES) {
            let mut random = Random::new(seed * 100 + family as u64);
            let mut history = History::new(maker, text);
            for _ in 0..OPERATIONS {
                history.step(&mut random, &mut seen);
            }
        }
    }
    let Seen { given, over, adjusted } = seen;
    let all = maker.one_of().max(1);
    assert!(
        given * all > 500 && over * all > 50 && adjusted * all > 500,
        "{given} refunds gave something, {over} were of units that were refunded before, \
         {adjusted} adjustments"
    );
}

#[derive(Default)]
struct Seen {
    given: u64,
    over: u64,
    adjusted: u64,
}

struct History<S> {
    world: World<S>,
    limits: LimitSet,
    oracles: Vec<Oracle>,
    /// With what is left of each unit.
    receipts: Vec<(Receipt, Vec<(Unit, u64)>)>,
    now_us: u64,
}

impl<S: Store> History<S> {
    fn new<M: StoreMaker<Store = S>>(maker: &M, text: &str) -> Self {
        let limits = set(text);
        let oracles = limits.limits().iter().map(oracle_of).collect();
        let world = World::new(maker, text, START_US);
        Self { world, limits, oracles, receipts: Vec::new(), now_us: START_US }
    }

    fn step(&mut self, random: &mut Random, seen: &mut Seen) {
        self.now_us += random.below(500_000);
        self.world.at(self.now_us);
        let now_us = self.now_us;
        // Later, a store may have forgotten the refund.
        self.receipts.retain(|(it, _)| engine::receipt_until_us(it) + SKEW_US > now_us);
        match random.below(4) {
            0 if !self.receipts.is_empty() => self.refund(random, seen),
            1 => self.adjust(random, seen),
            _ => self.check(random),
        }
        let one = Cost::new(self.units().iter().map(|unit| (unit.name(), 1))).unwrap();
        let peek = self.world.peek(Ask::new("bob").cost(one));
        for (report, oracle) in peek.reports().zip(&self.oracles) {
            let expected = oracle.peek(self.now_us, 1).fields;
            let reset_us = u64::try_from(report.reset_after().as_micros()).unwrap();
            let told = (report.remaining(), reset_us);
            assert_eq!(told, (expected.remaining, expected.reset_after_us), "{}", report.limit());
        }
    }

    fn units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = self.limits.limits().iter().map(|limit| *limit.unit()).collect();
        units.sort();
        units.dedup();
        units
    }

    fn check(&mut self, random: &mut Random) {
        let least = |unit: &Unit| {
            let limits = self.limits.limits().iter().filter(|limit| limit.unit() == unit);
            limits.map(Limit::capacity).min().unwrap()
        };
        let units = self.units();
        let all = units.iter().map(|unit| (unit.name(), 1 + random.below(least(unit) / 3)));
        let cost = Cost::new(all).unwrap();
        let decision = self.world.check(Ask::new("bob").cost(cost.clone()));
        let each = |oracle: &Oracle, unit: &Unit| oracle.peek(self.now_us, cost.amounts().of(unit));
        let limits = || self.limits.limits().iter();
        let expected =
            self.oracles.iter().zip(limits()).all(|(it, of)| each(it, of.unit()).admitted);
        assert_eq!(decision.is_allowed(), expected, "{} {cost}", self.limits);
        let Some(receipt) = decision.receipt() else { return };
        for (oracle, limit) in self.oracles.iter_mut().zip(self.limits.limits()) {
            let _ = oracle.check(self.now_us, cost.amounts().of(limit.unit()));
        }
        let left = cost.amounts().iter().map(|(unit, amount)| (*unit, amount)).collect();
        self.receipts.push((receipt, left));
    }

    fn refund(&mut self, random: &mut Random, seen: &mut Seen) {
        let place = random.place(self.receipts.len());
        let (receipt, left) = &mut self.receipts[place];
        let asked = loop {
            let some = |(unit, amount): (&Unit, u64)| {
                (*unit, if random.below(2) == 0 { 0 } else { random.below(amount + 1) })
            };
            let all: Vec<(Unit, u64)> = receipt.cost.amounts().iter().map(some).collect();
            if let Ok(cost) = Cost::new(all.iter().map(|(unit, amount)| (unit.name(), *amount))) {
                break cost;
            }
        };
        let refund = self.world.refund_part(receipt, asked.clone());
        let before = left.clone();
        let before = |unit: &Unit| before.iter().find(|(it, _)| it == unit).map_or(0, |it| it.1);
        let mut given = Vec::new();
        for ((oracle, limit), at_us) in
            self.oracles.iter_mut().zip(self.limits.limits()).zip(&receipt.charges[0].at_us)
        {
            let left = before(limit.unit());
            let units = asked.amounts().of(limit.unit()).min(left);
            given.push(match units {
                0 => 0,
                _ => oracle.refund_part(self.now_us, *at_us, left, units),
            });
        }
        let is_left = |asked: Amounts<'_>| asked.iter().any(|(unit, _)| before(unit) > 0);
        let already = !is_left(asked.amounts());
        for (unit, left) in left.iter_mut() {
            *left -= asked.amounts().of(unit).min(*left);
        }
        let rest = Cost::new(left.iter().map(|(unit, left)| (unit.name(), *left)));
        let expected = (already, given, rest.unwrap_or_else(|_| 0.into()));
        seen.over += u64::from(already);
        seen.given += u64::from(expected.1.iter().any(|given| *given > 0));
        let what = format!("{asked} of {receipt:?} at {}", self.now_us);
        assert_eq!((refund.already, refund.given, refund.left), expected, "{what}");
    }

    fn adjust(&mut self, random: &mut Random, seen: &mut Seen) {
        let units = self.units();
        let some = |unit: &'_ Unit| {
            let by = i64::try_from(random.below(40)).unwrap() - 20;
            (*unit, if random.below(3) == 0 { 0 } else { by })
        };
        let amounts: Vec<(Unit, i64)> = units.iter().map(some).collect();
        if amounts.iter().all(|(_, by)| *by == 0) {
            return;
        }
        let by = Adjustment::new(amounts.iter().map(|(unit, by)| (unit.name(), *by))).unwrap();
        assert_eq!(by.to_string().parse(), Ok(by.clone()));
        let changed = self.world.adjust("bob", by.clone());
        let each = self.oracles.iter_mut().zip(self.limits.limits()).map(|(oracle, limit)| {
            let left = |oracle: &Oracle| oracle.peek(self.now_us, 1).fields.remaining.cast_signed();
            let before = left(oracle);
            if by.of(limit.unit()) != 0 {
                oracle.adjust(self.now_us, by.of(limit.unit()));
            }
            left(oracle) - before
        });
        assert_eq!(changed, each.collect::<Vec<_>>(), "{by} at {}", self.now_us);
        seen.adjusted += 1;
    }
}
