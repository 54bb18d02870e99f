//! Cases: numbers that change while the clock steps back, beside the oracle (definitions, sections
//! 3, 4 and 6 together).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use tollgate::{Ask, LimitSet, Receipt, SKEW_US, Store, engine};

use super::StoreMaker;
use super::world::{World, answer, rule_of, set};
use crate::Random;
use crate::oracle::{Oracle, Rule};

const S: u64 = 1_000_000;

/// Numbers that one limit has in turn.
const NUMBERS: [[&str; 4]; 8] = [
    [
        "a: 6/4s via gcra",
        "a: 9/7s burst 4 via gcra",
        "a: 4/9s via gcra",
        "a: 12/8s burst 3 via gcra",
    ],
    [
        "a: 6/4s via token_bucket",
        "a: 5/4s refill interval via token_bucket",
        "a: 7/4s burst 3 refill interval via token_bucket",
        "a: 5/7s burst 9 refill interval via token_bucket",
    ],
    ["a: 1/4s via uniform", "a: 1/3s via uniform", "a: 3/7s via uniform", "a: 2/8s via uniform"],
    [
        "a: 6/4s via fixed_window",
        "a: 3/4s via fixed_window",
        "a: 5/7s via fixed_window",
        "a: 9/5s via fixed_window",
    ],
    [
        "a: 6/4s anchor first-hit via fixed_window",
        "a: 3/4s anchor first-hit via fixed_window",
        "a: 5/4s via fixed_window",
        "a: 9/7s anchor first-hit via fixed_window",
    ],
    [
        "a: 6/4s via sliding_log",
        "a: 3/4s via sliding_log",
        "a: 5/7s via sliding_log",
        "a: 9/2s via sliding_log",
    ],
    [
        "a: 6/4s precision 1s via sliding_window",
        "a: 3/4s precision 1s via sliding_window",
        "a: 9/6s precision 2s via sliding_window",
        "a: 5/4s precision 2s via sliding_window",
    ],
    [
        "a: 6/4s precision 1s rounding interpolate via sliding_window",
        "a: 9/4s precision 1s rounding truncate via sliding_window",
        "a: 9/6s precision 1500ms rounding interpolate via sliding_window",
        "a: 5/6s precision 2s rounding truncate via sliding_window",
    ],
];

const HISTORIES: u64 = 60;
const OPERATIONS: usize = 80;

/// Checks, peeks, partial checks, refunds, adjustments and resets while the numbers change and the
/// clock steps back, within the skew and beyond: as the oracle says, in every field.
pub(super) fn changes_and_steps_back_equal_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for numbers in NUMBERS {
        for seed in super::some(maker, HISTORIES) {
            history(maker, numbers, seed, &mut seen);
        }
    }
    let Seen { changed, behind, repaired, given } = seen;
    let all = maker.one_of().max(1);
    assert!(
        changed * all > 5_000 && behind * all > 100 && repaired * all > 100 && given * all > 200,
        "{changed} changes, {behind} behind a state, {repaired} after a step back, {given} refunds"
    );
}

/// How often the numbers changed, and how many of them under a clock that was behind the state; how
/// many refunds gave something.
#[derive(Default)]
struct Seen {
    changed: u64,
    behind: u64,
    repaired: u64,
    given: u64,
}

struct Charged {
    receipt: Receipt,
    rule: Rule,
    left: u64,
}

impl Charged {
    fn new(receipt: Receipt, rule: Rule) -> Self {
        let left = receipt.units();
        Self { receipt, rule, left }
    }

    /// Refunds a part, on both, under the numbers that the state was written under. Units that are
    /// left and may be refunded later are returned.
    fn refund<S: Store>(
        self,
        world: &World<S>,
        oracle: &mut Oracle,
        (cost, latest_us): (u64, u64),
        seen: &mut Seen,
        what: &str,
    ) -> Option<Self> {
        let (now_us, Self { receipt, rule, left }) = (world.now_us(), self);
        let at_us = receipt.charges[0].at_us[0];
        let until_us = rule.counts_until(at_us, receipt.units());
        assert_eq!(until_us, engine::receipt_until_us(&receipt), "{what}");
        let cost = cost.min(receipt.units());
        let units = cost.min(left);
        let portion = if now_us < until_us { units } else { 0 };
        let expected = oracle.refund_part(now_us, at_us, left, portion);
        let refund = world.refund_part(&receipt, cost);
        assert_eq!((refund.already, &refund.given[..]), (false, &[expected][..]), "{what}");
        seen.given += u64::from(expected > 0);
        let later = left > units && now_us.max(latest_us) < until_us;
        later.then_some(Self { receipt, rule, left: left - units })
    }
}

/// Whether something counts at a time.
fn counts(oracle: &Oracle, us: u64) -> bool {
    oracle.peek(us, 1).fields.reset_after_us > 0
}

/// The time of the next operation, and the latest time so far.
fn next_us(
    random: &mut Random,
    (now_us, mut latest_us): (u64, u64),
    oracle: &Oracle,
    charged: &mut Vec<Charged>,
) -> (u64, u64) {
    let mut now_us = now_us
        + [0, 0, random.below(S / 2), random.below(3 * S)]
            [usize::try_from(random.below(4)).unwrap()];
    match random.below(12) {
        // A store may forget what is fresh for a second: so far back it still agrees, and at
        // any distance from a time at which something still counted.
        0 | 1 => now_us = latest_us.max(now_us).saturating_sub(random.below(SKEW_US + 1)),
        2 if counts(oracle, latest_us) => {
            now_us = latest_us.saturating_sub(SKEW_US + random.below(12 * S));
            latest_us = now_us;
            // No rule states whose marks may have ended: a separate case.
            charged.retain(|charged| charged.left == charged.receipt.units());
        }
        _ => {}
    }
    (now_us, latest_us.max(now_us))
}

fn history<M: StoreMaker>(maker: &M, numbers: [&'static str; 4], seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed ^ 0xc4a9);
    let world = World::new(maker, numbers[0], 50 * S + random.below(9 * S));
    let sets: Vec<LimitSet> = numbers.map(set).to_vec();
    let rules: Vec<Rule> = sets.iter().map(|set| rule_of(&set.limits()[0]).unwrap()).collect();
    let mut oracle = Oracle::new(rules[0]).unwrap();
    let mut charged: Vec<Charged> = Vec::new();
    let (mut under, mut latest_us) = (0, world.now_us());
    for _ in 0..OPERATIONS {
        let (now_us, latest) =
            next_us(&mut random, (world.now_us(), latest_us), &oracle, &mut charged);
        latest_us = latest;
        world.at(now_us);
        if random.below(6) == 0 {
            maker.forget(world.limiter.store());
        }
        if random.below(3) == 0 {
            under = usize::try_from(random.below(4)).unwrap();
        }
        let (rule, ask) = (rules[under], Ask::new("ann").under(&sets[under]));
        let kind = random.below(16);
        let cost = 1 + random.below(4);
        let what = format!("seed {seed}: {} at {now_us}, cost {cost}, {kind}", numbers[under]);
        if let 9..12 = kind {
            if !charged.is_empty() {
                let pick = usize::try_from(random.below(charged.len() as u64)).unwrap();
                let one = charged.swap_remove(pick);
                let refunded = one.refund(&world, &mut oracle, (cost, latest_us), seen, &what);
                charged.extend(refunded);
            }
            continue;
        }
        if rule != oracle.rule() && !counts(&oracle, now_us) {
            // A count of zero may be forgotten by one and not by the other, and longer numbers
            // would reveal that: both forget it.
            world.reset(ask.clone());
            oracle = Oracle::new(rule).unwrap();
            charged.clear();
        }
        let mut changed_oracle = oracle.clone();
        if rule != oracle.rule() {
            seen.changed += 1;
            seen.behind += u64::from(oracle.is_behind(now_us));
            seen.repaired += u64::from(oracle.would_repair(now_us));
            changed_oracle.change(now_us, rule).unwrap();
        }
        match kind {
            0..7 => {
                let decision = world.check(ask.cost(cost));
                oracle = changed_oracle;
                assert_eq!(answer(&decision, false), oracle.check(now_us, cost), "{what}");
                charged.extend(decision.receipt().map(|receipt| Charged::new(receipt, rule)));
            }
            7 => {
                let peeked = answer(&world.peek(ask.cost(cost)), true);
                assert_eq!(peeked, changed_oracle.peek(now_us, cost), "{what}");
            }
            8 => {
                let decision = world.check(ask.cost(cost + 3).partial());
                oracle = changed_oracle;
                assert_eq!(answer(&decision, false), oracle.partial(now_us, cost + 3), "{what}");
                charged.extend(decision.receipt().map(|receipt| Charged::new(receipt, rule)));
            }
            12..14 => {
                let units = i64::try_from(cost).unwrap();
                let delta = if kind == 12 { units } else { -units };
                world.adjust(ask, delta);
                oracle = changed_oracle;
                oracle.adjust(now_us, delta);
            }
            14 => {
                if random.below(4) == 0 {
                    world.reset(ask);
                    oracle = Oracle::new(rule).unwrap();
                    charged.clear();
                }
            }
            _ => {
                let other = format!("other:{}", random.below(50));
                let _ = world.check(Ask::new(other).under(&sets[under]));
            }
        }
    }
}
