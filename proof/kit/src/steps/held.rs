//! Counts with open holds: a set of limits, in the engine and in the oracle.

use core::fmt;

use tollgate::engine::{
    self, Carries, HoldSums, HoldTable, Holds as _, Mode, OpenHold, Part, SETTLED_FOR_US, VecStates,
};
use tollgate::{Hold, HoldId, HoldKind, HoldTerms, LimitSet, Time};

use super::pair::{charged, fields, same};
use super::place::{self, START_US, later, signed};
use super::search::World;
use crate::conformance::{kind_of, rule_of};
use crate::oracle::{Charged, Fields, HeldLimit, HoldOracle, Kind, Oracle};

/// The most holds that are open at a time.
const MOST_OPEN: usize = 2;

/// One operation. A hold is known by its place among the open ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Check { set: usize, cost: u64 },
    Part { cost: u64 },
    Peek { kind: Option<Kind>, cost: u64 },
    Hold { set: usize, kind: Kind, cost: u64, ttl_us: u64 },
    Commit { place: usize, actual: u64 },
    CommitAgain,
    Renew { place: usize, ttl_us: u64 },
    Charge { cost: u64 },
    Adjust { by: i64 },
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A count at one time.
#[derive(Clone, Debug)]
pub(super) struct Node {
    set: usize,
    now_us: u64,
    states: VecStates,
    holds: HoldTable,
    oracle: HoldOracle,
}

/// One set of limits, with the numbers that it is changed to and back.
#[derive(Debug)]
pub(super) struct BesideHolds {
    sets: Vec<Numbers>,
    longest_us: u64,
    ttls_us: [u64; 2],
    beat_us: u64,
}

#[derive(Debug)]
struct Numbers {
    limits: LimitSet,
    held: Vec<HeldLimit>,
    /// The largest cost that is ever admitted.
    capacity: u64,
}

impl BesideHolds {
    /// The limits of these texts, of which the longest counts for less than a second.
    pub(super) fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Self> {
        let read = |text: &str| {
            let limits: LimitSet = text.parse().ok()?;
            let capacity = limits.limits().iter().map(tollgate::Limit::capacity).min()?;
            Some(Numbers { held: held_limits(&limits)?, capacity, limits })
        };
        let sets: Vec<Numbers> = texts.into_iter().map(read).collect::<Option<_>>()?;
        let longest_us = sets.iter().map(|set| engine::longest_count_us(&set.limits)).max()?;
        let rules = sets.iter().flat_map(|set| set.limits.limits()).filter_map(rule_of);
        // Numbers of one beat, or of none.
        let beat_us = rules.map(|rule| rule.beat_us()).max().unwrap_or(1);
        Some(Self { sets, longest_us, ttls_us: [1, longest_us.div_ceil(2) + 1], beat_us })
    }

    /// Brings a node under other numbers.
    fn bring(&self, node: &mut Node, set: usize) -> Result<Carries, String> {
        if set == node.set {
            return Ok(Carries::new());
        }
        let (was, is) = (&self.sets[node.set].limits, &self.sets[set]);
        let mut states = VecStates::fresh(&is.limits);
        let now = Time::from_micros(node.now_us);
        let holds = &node.holds;
        let carries =
            engine::migrate_holding(&is.limits, &mut states, was, &mut node.states, holds, now);
        node.oracle.change(node.now_us, &is.held).map_err(|error| error.to_string())?;
        (node.states, node.set) = (states, set);
        Ok(carries)
    }

    fn part<'n>(&'n self, node: &'n mut Node, carries: Carries) -> (Part<'n>, &'n mut HoldOracle) {
        let limits = &self.sets[node.set].limits;
        let part = Part::new(limits, &mut node.states).carrying(carries);
        (part.holding(&mut node.holds), &mut node.oracle)
    }

    fn ask(&self, node: &mut Node, set: usize, cost: u64, mode: Mode) -> Result<(), String> {
        let carries = self.bring(node, set)?;
        let now_us = node.now_us;
        let exact = |oracle: &HoldOracle| oracle.resets_exactly();
        let (part, oracle) = self.part(node, carries);
        let outcome =
            engine::decide(&mut [part], Time::from_micros(now_us), cost.into(), mode, None);
        let outcome = outcome.map_err(|refusal| format!("{refusal:?}"))?;
        let got = fields_of(&outcome);
        let (granted, expected) = match mode {
            Mode::Partial => oracle.partial(now_us, cost),
            _ => {
                let (admitted, fields) = oracle.ask(now_us, cost, None, &got);
                (if admitted { cost } else { 0 }, fields)
            }
        };
        same(&outcome.granted, &granted)?;
        alike(&got, &expected, exact(oracle))
    }

    fn peek(&self, node: &mut Node, kind: Option<Kind>, cost: u64) -> Result<(), String> {
        let (before, now) = (node.clone(), Time::from_micros(node.now_us));
        let now_us = node.now_us;
        let terms = kind.map(|kind| HoldTerms::new(kind_of(kind), 1));
        let (part, oracle) = self.part(node, Carries::new());
        let outcome = engine::decide(&mut [part], now, cost.into(), Mode::Peek, terms);
        let outcome = outcome.map_err(|refusal| format!("{refusal:?}"))?;
        let got = fields_of(&outcome);
        let expected = oracle.peek(now_us, cost, kind, &got);
        alike(&got, &expected, oracle.resets_exactly())?;
        same(&self.key(node), &self.key(&before))
    }

    fn hold(
        &self,
        node: &mut Node,
        set: usize,
        (kind, cost, ttl_us): (Kind, u64, u64),
    ) -> Result<(), String> {
        let carries = self.bring(node, set)?;
        let (number, now_us) = (node.oracle.open() as u64 + 1, node.now_us);
        let mut terms = HoldTerms::new(kind_of(kind), ttl_us);
        terms.id = id_of(kind, number);
        let (part, oracle) = self.part(node, carries);
        let now = Time::from_micros(now_us);
        let outcome = engine::decide(&mut [part], now, cost.into(), Mode::Whole, Some(terms));
        let outcome = outcome.map_err(|refusal| format!("{refusal:?}"))?;
        let got = fields_of(&outcome);
        let (admitted, expected) = oracle.ask(now_us, cost, Some((number, kind, ttl_us)), &got);
        same(&(outcome.granted > 0), &admitted)?;
        alike(&got, &expected, oracle.resets_exactly())
    }

    /// Settles the open hold at a place, or the last that was settled again.
    fn commit(&self, node: &mut Node, place: Option<usize>, actual: u64) -> Result<(), String> {
        let open: Vec<OpenHold> = node.holds.open().collect();
        let id = match place {
            Some(place) => open[place].id,
            None => id_of(Kind::Reserve, 0),
        };
        let hold = Hold::new(id, 0, 1, Time::default(), []);
        let limits = &self.sets[node.set].limits;
        let now_us = node.now_us;
        let (part, oracle) = self.part(node, Carries::new());
        let now = Time::from_micros(now_us);
        let settled = engine::settle(&mut [part], &[limits], now, &hold, actual.into());
        let settled = settled.map_err(|error| error.to_string())?;
        let name = place.map_or(0, |place| place as u64 + 1);
        let expected = place.and_then(|_| oracle.settle(now_us, name, actual));
        match (settled, expected) {
            (Some(settled), Some(expected)) if !settled.already => {
                let got: Vec<Charged> = settled.charged.iter().map(charged).collect();
                let facts = |each: &[Charged]| -> Vec<(bool, u64)> {
                    each.iter().map(|it| (it.fits, it.cut)).collect()
                };
                same(&facts(&got), &facts(&expected))?;
                let fields =
                    |each: &[Charged]| each.iter().map(|it| it.fields).collect::<Vec<Fields>>();
                alike(&fields(&got), &fields(&expected), oracle.resets_exactly())
            }
            (Some(settled), None) if settled.already => {
                oracle.end_due(now_us);
                same(&settled.actual.amounts().plain(), &oracle.was_settled(name))
            }
            (None, None) => {
                oracle.end_due(now_us);
                same(&oracle.was_settled(name), &None)
            }
            (got, expected) => Err(format!("{got:?} instead of {expected:?}")),
        }
    }

    fn renew(&self, node: &mut Node, place: usize, ttl_us: u64) -> Result<(), String> {
        let id = node.holds.open().nth(place).map(|hold| hold.id);
        let (now_us, name) = (node.now_us, place as u64 + 1);
        let Some(id) = id else { return Err("no hold is there".to_owned()) };
        let (part, oracle) = self.part(node, Carries::new());
        let got = engine::renew(&mut [part], Time::from_micros(now_us), id, ttl_us);
        same(&got.map(Time::as_micros), &oracle.renew(now_us, name, ttl_us))
    }

    fn charge(&self, node: &mut Node, cost: u64) -> Result<(), String> {
        let now_us = node.now_us;
        let (mut part, oracle) = self.part(node, Carries::new());
        let got = engine::charge_holding(&mut part, Time::from_micros(now_us), cost.into());
        let expected = oracle.charge(now_us, cost);
        let got: Vec<Charged> = got.iter().map(charged).collect();
        let facts = |each: &[Charged]| each.iter().map(|it| (it.fits, it.cut)).collect::<Vec<_>>();
        same(&facts(&got), &facts(&expected))?;
        let fields = |each: &[Charged]| each.iter().map(|it| it.fields).collect::<Vec<Fields>>();
        alike(&fields(&got), &fields(&expected), oracle.resets_exactly())
    }

    fn adjust(&self, node: &mut Node, by: i64) -> Result<(), String> {
        let now_us = node.now_us;
        let (mut part, oracle) = self.part(node, Carries::new());
        let got = engine::adjust(&mut part, &by.into(), Time::from_micros(now_us));
        same(&got.to_vec(), &oracle.adjust(now_us, by))
    }
}

impl World for BesideHolds {
    type Node = Node;
    type Op = Op;

    fn roots(&self) -> Vec<Node> {
        let Numbers { limits, held, .. } = &self.sets[0];
        let root = |us| Node {
            set: 0,
            now_us: START_US + us,
            states: VecStates::fresh(limits),
            holds: HoldTable::default(),
            oracle: HoldOracle::new(held.clone()),
        };
        (0..self.beat_us).map(root).collect()
    }

    fn ops(&self, node: &Node) -> Vec<Op> {
        let has_slots = self.sets[node.set].limits.needs_hold();
        let capacity = self.sets[node.set].capacity;
        let mut ops = Vec::new();
        let kinds = [Some(Kind::Reserve), has_slots.then_some(Kind::Acquire)];
        let charging = self.sets[node.set].limits.limits().iter().any(|it| !it.needs_hold());
        let kinds: Vec<Kind> =
            kinds.into_iter().chain([charging.then_some(Kind::Charging)]).flatten().collect();
        for cost in 1..=capacity + 1 {
            if !has_slots {
                ops.extend((0..self.sets.len()).map(|set| Op::Check { set, cost }));
                ops.push(Op::Part { cost });
            }
            ops.push(Op::Peek { kind: None, cost });
            ops.push(Op::Peek { kind: Some(Kind::Reserve), cost });
            ops.push(Op::Charge { cost });
            ops.extend([1, -1].map(|sign| Op::Adjust { by: sign * signed(cost) }));
            if node.oracle.open() < MOST_OPEN {
                for (set, kind, ttl_us) in all_of(self.sets.len(), &kinds, self.ttls_us) {
                    ops.push(Op::Hold { set, kind, cost, ttl_us });
                }
            }
        }
        for (place, keeps_units) in node.oracle.keeps_units().enumerate() {
            let most = if keeps_units { capacity + 1 } else { 0 };
            ops.extend((0..=most).map(|actual| Op::Commit { place, actual }));
            ops.extend(self.ttls_us.map(|ttl_us| Op::Renew { place, ttl_us }));
        }
        ops.push(Op::CommitAgain);
        ops
    }

    fn apply(&self, node: &mut Node, op: Op) -> Result<(), String> {
        let before = node.clone();
        let done = match op {
            Op::Check { set, cost } => self.ask(node, set, cost, Mode::Whole),
            Op::Part { cost } => self.ask(node, node.set, cost, Mode::Partial),
            Op::Peek { kind, cost } => self.peek(node, kind, cost),
            Op::Hold { set, kind, cost, ttl_us } => self.hold(node, set, (kind, cost, ttl_us)),
            Op::Commit { place, actual } => self.commit(node, Some(place), actual),
            Op::CommitAgain => self.commit(node, None, 1),
            Op::Renew { place, ttl_us } => self.renew(node, place, ttl_us),
            Op::Charge { cost } => self.charge(node, cost),
            Op::Adjust { by } => self.adjust(node, by),
        };
        done.map_err(|differs| format!("{op} at {}: {differs}\n  of {before:?}", before.now_us))
    }

    fn settle(&self, node: &mut Node) {
        let by_us = place::to_start(node.now_us, self.beat_us);
        let limits = &self.sets[node.set].limits;
        place::shift(limits, &mut node.states, by_us);
        node.holds = moved(&node.holds, node.now_us, by_us);
        node.oracle.shift(node.now_us, by_us);
        node.now_us = later(node.now_us, by_us);
    }

    fn key(&self, node: &Node) -> Vec<i64> {
        let mut all = vec![node.set as i128, i128::from(node.now_us)];
        place::write_down(&node.states, &mut all);
        for hold in node.holds.open() {
            let [cost, letter] = [hold.cost.amounts().first(), hold.id.as_bytes()[0].into()];
            all.extend([hold.end_us, cost, letter].map(i128::from));
        }
        all.extend([i128::MIN, i128::from(node.holds.sums().seen_us)]);
        let settled = node.holds.remembered().map(|(_, _, actual)| actual.amounts().first());
        all.extend(settled.map(i128::from));
        all.push(i128::MIN);
        node.oracle.write_down(&mut all);
        place::small(all)
    }

    fn now_us(node: &mut Node) -> &mut u64 {
        &mut node.now_us
    }

    fn until_us(&self, node: &mut Node) -> u64 {
        let limits = &self.sets[node.set].limits;
        let own = engine::fresh_at_us(limits, &mut node.states);
        let open_us = node.holds.last().map_or(0, |hold| hold.end_us);
        own.max(open_us).max(engine::ends_count_until_us(limits, &node.holds))
    }

    fn reach_us(&self) -> u64 {
        self.longest_us
    }

    fn beat_us(&self) -> u64 {
        self.beat_us
    }
}

/// The limits of a set for the oracle.
fn held_limits(limits: &LimitSet) -> Option<Vec<HeldLimit>> {
    let each = limits.limits().iter().map(|limit| {
        if limit.needs_hold() {
            return Some(HeldLimit::Slots(limit.capacity()));
        }
        let oracle = Oracle::grouped(rule_of(limit)?).ok()?.with_debt(limit.debt()).ok()?;
        Some(HeldLimit::Rate(Box::new(oracle)))
    });
    each.collect()
}

/// The id of the open hold with this number, from 1; 0 is that of the last that was settled.
#[expect(clippy::expect_used, reason = "the first byte is the letter of a kind")]
fn id_of(kind: Kind, number: u64) -> HoldId {
    let letter = match kind {
        Kind::Acquire => b'a',
        Kind::Reserve => b'r',
        Kind::Charging => b'c',
    };
    let mut bytes = [0; 16];
    (bytes[0], bytes[15]) = (letter, number.to_le_bytes()[0]);
    HoldId::from_bytes(bytes).expect("a kind")
}

/// The holds moved in time, as [`HoldOracle::shift`] moves those of the oracle. No fencing number
/// stays: it changes no other answer.
fn moved(holds: &HoldTable, now_us: u64, by_us: i64) -> HoldTable {
    let mut moved = HoldTable::default();
    for (number, hold) in (1..).zip(holds.open()) {
        let kind = match hold.id.kind() {
            HoldKind::Acquire => Kind::Acquire,
            HoldKind::Charging => Kind::Charging,
            _ => Kind::Reserve,
        };
        let id = id_of(kind, number);
        moved.insert(OpenHold { end_us: later(hold.end_us, by_us), id, ..hold });
    }
    let sums = holds.sums();
    let seen_us = if sums.count == 0 { 0 } else { later(sums.seen_us, by_us) };
    moved.set_sums(HoldSums { fence: 0, seen_us, ..sums });
    if let Some((_, _, actual)) = holds.remembered().last() {
        let until_us = later(now_us, by_us) + SETTLED_FOR_US;
        moved.remember(id_of(Kind::Reserve, 0), actual, until_us);
    }
    moved
}

/// All holds of one cost.
fn all_of(sets: usize, kinds: &[Kind], ttls_us: [u64; 2]) -> Vec<(usize, Kind, u64)> {
    let mut all = Vec::new();
    for set in 0..sets {
        for kind in kinds {
            all.extend(ttls_us.map(|ttl_us| (set, *kind, ttl_us)));
        }
    }
    all
}

fn fields_of(outcome: &engine::Outcome) -> Vec<Fields> {
    outcome.fields.iter().map(fields).collect()
}

/// Whether every field is equal. Where ends charge, `reset_after` is an upper bound.
fn alike(got: &[Fields], expected: &[Fields], exact: bool) -> Result<(), String> {
    let known = |all: &[Fields]| -> Vec<Fields> {
        all.iter()
            .map(|it| Fields { reset_after_us: if exact { it.reset_after_us } else { 0 }, ..*it })
            .collect()
    };
    same(&known(got), &known(expected))?;
    let is_short =
        |(got, expected): (&Fields, &Fields)| got.reset_after_us < expected.reset_after_us;
    if got.iter().zip(expected).any(is_short) {
        return Err(format!("{got:?} resets before {expected:?}"));
    }
    Ok(())
}
