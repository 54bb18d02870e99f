//! Counts without holds: one limit, in the engine and in the oracle.

use tollgate::engine;

use super::op::{self, Op};
use super::pair::{Node, Numbers, Pair};
use super::place::START_US;
use super::search::World;

/// A limit, with the numbers that it is changed to and back.
#[derive(Debug)]
pub(super) struct Alone {
    pair: Pair,
    ops: Vec<Op>,
}

impl Alone {
    /// The limits of these texts; `None` where one is refused.
    pub(super) fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Self> {
        let sets: Option<Vec<Numbers>> = texts.into_iter().map(Numbers::read).collect();
        let pair = Pair::new(sets?);
        let ops = op::all(&pair);
        Some(Self { pair, ops })
    }
}

impl World for Alone {
    type Node = Node;
    type Op = Op;

    fn roots(&self) -> Vec<Node> {
        (0..self.pair.beat_us).map(|us| self.pair.fresh(START_US + us)).collect()
    }

    fn ops(&self, _: &Node) -> Vec<Op> {
        self.ops.clone()
    }

    fn apply(&self, node: &mut Node, op: Op) -> Result<(), String> {
        self.pair.apply(node, op)
    }

    fn settle(&self, node: &mut Node) {
        self.pair.settle(node);
    }

    fn key(&self, node: &Node) -> Vec<i64> {
        Pair::key(node)
    }

    fn now_us(node: &mut Node) -> &mut u64 {
        &mut node.now_us
    }

    fn until_us(&self, node: &mut Node) -> u64 {
        // A longer log counts what a shorter one no longer does.
        let [own, longest] = [&self.pair.sets[node.set], self.longest()].map(|it| it.longest_us);
        engine::fresh_at_us(&self.pair.sets[node.set].limits, &mut node.states) + longest - own
    }

    fn reach_us(&self) -> u64 {
        self.longest().longest_us
    }

    fn beat_us(&self) -> u64 {
        self.pair.beat_us
    }
}

impl Alone {
    #[expect(clippy::expect_used, reason = "`read` wants at least one limit of each text")]
    fn longest(&self) -> &Numbers {
        self.pair.sets.iter().max_by_key(|set| set.longest_us).expect("one")
    }
}
