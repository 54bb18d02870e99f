//! One count in the engine and in the oracle: an operation on both, and every field compared.

use tollgate::engine::{self, Carries, Mode, Part, Portion, VecStates};
use tollgate::{LimitSet, Time};

use super::op::{Op, Refund};
use super::place::{self, later, signed};
use crate::conformance::rule_of;
use crate::oracle::{Charged, Fields, Oracle, OracleAnswer, Rule};

/// A limit under the numbers that a count may have, by turns.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) limits: LimitSet,
    pub(super) rule: Rule,
    pub(super) capacity: u64,
    pub(super) most: u64,
    /// How long all that can be used counts, in microseconds.
    pub(super) longest_us: u64,
    fresh: Oracle,
}

impl Numbers {
    /// The only limit of a text; `None` where it is refused.
    pub(super) fn read(text: &str) -> Option<Self> {
        let limits: LimitSet = text.parse().ok()?;
        let [limit] = limits.limits() else { return None };
        let rule = rule_of(limit)?;
        let fresh = Oracle::grouped(rule).ok()?.with_debt(limit.debt()).ok()?;
        let (capacity, most) = (limit.capacity(), limit.capacity() + limit.debt());
        let longest_us = engine::longest_count_us(&limits);
        Some(Self { rule, capacity, most, longest_us, fresh, limits })
    }
}

/// One count at one time.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The numbers that it is written under.
    pub(super) set: usize,
    pub(super) now_us: u64,
    pub(super) states: VecStates,
    pub(super) oracle: Oracle,
}

/// Its engine and its oracle differ.
pub(super) type Differs = String;

/// The numbers that a count has by turns: the first when it begins.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) sets: Vec<Numbers>,
    /// A node can be moved by multiples of it.
    pub(super) beat_us: u64,
}

impl Pair {
    pub(super) fn new(sets: Vec<Numbers>) -> Self {
        let beat_us = sets.iter().fold(1, |all, set| lcm(all, set.rule.beat_us()));
        Self { sets, beat_us }
    }

    pub(super) fn fresh(&self, now_us: u64) -> Node {
        let Numbers { limits, fresh, .. } = &self.sets[0];
        Node { set: 0, now_us, states: VecStates::fresh(limits), oracle: fresh.clone() }
    }

    /// Moves a node to the beginning of time, as far as the strategy cannot tell.
    pub(super) fn settle(&self, node: &mut Node) {
        let by_us = place::to_start(node.now_us, self.beat_us);
        place::shift(&self.sets[node.set].limits, &mut node.states, by_us);
        node.oracle.shift(node.now_us, by_us);
        node.now_us = later(node.now_us, by_us);
    }

    /// All of a settled node, in numbers.
    pub(super) fn key(node: &Node) -> Vec<i64> {
        let mut all = vec![node.set as i128, i128::from(node.now_us)];
        place::write_down(&node.states, &mut all);
        node.oracle.write_down(&mut all);
        place::small(all)
    }

    /// Brings a node under other numbers.
    fn bring(&self, node: &mut Node, set: usize) -> Result<Carries, Differs> {
        if set == node.set {
            return Ok(Carries::new());
        }
        let (was, is) = (&self.sets[node.set].limits, &self.sets[set]);
        let mut states = VecStates::fresh(&is.limits);
        let now = Time::from_micros(node.now_us);
        let carries = engine::migrate(&is.limits, &mut states, was, &mut node.states, now);
        (node.states, node.set) = (states, set);
        self.change_oracle(node, set)?;
        Ok(carries)
    }

    fn change_oracle(&self, node: &mut Node, set: usize) -> Result<(), Differs> {
        let Numbers { rule, most, capacity, .. } = self.sets[set];
        let changed = node.oracle.change_owing(node.now_us, rule, Some(most - capacity));
        changed.map_err(|error| error.to_string())
    }

    /// Does an operation on a node.
    pub(super) fn apply(&self, node: &mut Node, op: Op) -> Result<(), Differs> {
        let before = node.clone();
        let done = match op {
            Op::Check { set, cost } => self.check(node, set, cost, Mode::Whole),
            Op::Part { set, cost } => self.check(node, set, cost, Mode::Partial),
            Op::Peek { set, cost } => self.peek(node, set, cost),
            Op::Charge { set, cost } => self.charge(node, set, cost),
            Op::Adjust { by } => self.adjust(node, by),
            Op::Refund(refund) => self.refund(node, refund),
        };
        done.map_err(|differs| format!("{op} at {}: {differs}\n  of {before:?}", before.now_us))
    }

    fn check(&self, node: &mut Node, set: usize, cost: u64, mode: Mode) -> Result<(), Differs> {
        let (states, was) = (node.states.clone(), node.set);
        let carries = self.bring(node, set)?;
        let limits = &self.sets[set].limits;
        let mut parts = [Part::new(limits, &mut node.states).carrying(carries)];
        let now = Time::from_micros(node.now_us);
        let outcome = engine::decide(&mut parts, now, cost.into(), mode, None)
            .map_err(|refusal| format!("{refusal:?}"))?;
        let field = outcome.fields[0];
        let got = OracleAnswer {
            admitted: outcome.granted > 0,
            granted: outcome.granted,
            fields: fields(&field),
        };
        let expected = match mode {
            Mode::Partial => node.oracle.partial(node.now_us, cost),
            _ => node.oracle.check_guessed(node.now_us, cost, got.fields),
        };
        same(&got, &expected)?;
        if got.admitted {
            same(&field.charged_at_us, &node.oracle.charged_at())?;
        }
        if !outcome.changed {
            // The store leaves the count as it was: no number by which it counts is another.
            (node.states, node.set) = (states, was);
            self.change_oracle(node, was)?;
        }
        Ok(())
    }

    fn peek(&self, node: &mut Node, set: usize, cost: u64) -> Result<(), Differs> {
        let mut then = node.clone();
        let carries = self.bring(&mut then, set)?;
        let before = then.states.clone();
        let mut parts = [Part::new(&self.sets[set].limits, &mut then.states).carrying(carries)];
        let now = Time::from_micros(then.now_us);
        let outcome = engine::decide(&mut parts, now, cost.into(), Mode::Peek, None)
            .map_err(|refusal| format!("{refusal:?}"))?;
        let expected = then.oracle.peek(then.now_us, cost);
        same(&(outcome.granted > 0), &expected.admitted)?;
        same(&fields(&outcome.fields[0]), &expected.fields)?;
        same(&outcome.changed, &false)?;
        same(&then.states, &before)
    }

    fn charge(&self, node: &mut Node, set: usize, cost: u64) -> Result<(), Differs> {
        self.bring(node, set)?;
        let (limits, now) = (&self.sets[set].limits, Time::from_micros(node.now_us));
        let done = engine::charge(limits, &mut node.states, cost.into(), true, now);
        same(&charged(&done[0]), &node.oracle.charge(node.now_us, cost))
    }

    fn adjust(&self, node: &mut Node, by: i64) -> Result<(), Differs> {
        let now = Time::from_micros(node.now_us);
        let part = &mut Part::new(&self.sets[node.set].limits, &mut node.states);
        let changed = engine::adjust(part, &by.into(), now)[0];
        let left = |oracle: &Oracle| signed(oracle.peek(node.now_us, 1).fields.remaining);
        let before = left(&node.oracle);
        node.oracle.adjust(node.now_us, by);
        same(&changed, &(left(&node.oracle) - before))
    }

    fn refund(&self, node: &mut Node, refund: Refund) -> Result<(), Differs> {
        let Refund { charged, after_us, cost, left, units } = refund;
        let at_us = later(node.now_us, after_us);
        let (charged, now) = (&self.sets[charged], Time::from_micros(node.now_us));
        let portion = Portion::part(cost.into(), (cost - left).into(), units.into());
        let part = &mut Part::new(&self.sets[node.set].limits, &mut node.states);
        let at = Time::from_micros(at_us);
        let given = engine::refund(part, &charged.limits, (&[at_us], at), &portion, now)[0];
        // Only while the mark of the refund is kept (section 4).
        let counts = node.now_us < charged.rule.counts_until(at_us, cost);
        let units = if counts { units } else { 0 };
        same(&given, &node.oracle.refund_part(node.now_us, at_us, left, units))
    }
}

pub(super) fn fields(fields: &engine::Fields) -> Fields {
    Fields {
        remaining: fields.remaining,
        retry_after_us: fields.retry_after_us,
        reset_after_us: fields.reset_after_us,
    }
}

pub(super) fn charged(charged: &engine::Charged) -> Charged {
    let engine::Charged { fits, cut, remaining, retry_after_us, reset_after_us, .. } = *charged;
    Charged { fits, cut, fields: Fields { remaining, retry_after_us, reset_after_us } }
}

pub(super) fn same<T: PartialEq + core::fmt::Debug>(got: &T, expected: &T) -> Result<(), Differs> {
    if got == expected { Ok(()) } else { Err(format!("{got:?} instead of {expected:?}")) }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}
