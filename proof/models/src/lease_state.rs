//! The state of a world of nodes with leases: what is at the store, on the nodes, and on the way.

use tollgate::engine::Outcome;
use tollgate_lease::rules::{Holding, Renewal};

use crate::exhaust::Printed;

/// The time between two ticks of the world, in microseconds.
pub(crate) const TICK_US: u64 = 1_000;

/// The store's time at the first tick: a multiple of every window here.
pub(crate) const STORE_US: u64 = 1_000_000_000;

/// A question on its way, or its answer.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct Message {
    pub(crate) node: usize,
    /// The charge ahead that it makes; none of a check alone.
    pub(crate) renewal: Option<Printed<Renewal>>,
    pub(crate) sent_us: u64,
    /// The answer, once the store has decided, with what the caller takes of it.
    pub(crate) answer: Option<Printed<Outcome>>,
    /// Whether the caller still waits.
    pub(crate) is_awaited: bool,
}

#[derive(Clone, Debug, Default, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) holding: NodeHolding,
    /// How many checks wait for its renewal.
    pub(crate) waiting: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    pub(crate) tick: u8,
    pub(crate) checks: u8,
    pub(crate) faults: u8,
    pub(crate) store: Vec<u64>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wire: Vec<Message>,
    /// Since which tick what is admitted is counted, and how much.
    pub(crate) watched: Option<(u8, u64)>,
    /// For how many ticks a unit lay on a node before it was spent, at most.
    pub(crate) oldest: u8,
}

/// The holding of a node, told apart by all that it decides by. The rest is only shown to callers:
/// the last answer of the store, and the numbers of a denial.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeHolding(pub(crate) Holding);

impl NodeHolding {
    fn print(&self) -> String {
        let mut text = format!("{:?}", self.0);
        for (from, to) in [("known: Some(", "denial: "), ("fields: ", "until_us: ")] {
            let Some(from) = text.find(from) else { continue };
            if let Some(length) = text[from..].find(to) {
                text.replace_range(from..from + length, "");
            }
        }
        text
    }
}

impl core::hash::Hash for NodeHolding {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.print().hash(hasher);
    }
}

impl PartialEq for NodeHolding {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Message {
    /// The units that the check itself needs of the answer.
    pub(crate) fn need(&self) -> u64 {
        self.renewal.as_ref().map_or(1, |renewal| renewal.0.need)
    }
}

impl State {
    /// A node has spent units that were charged at the time of this answer.
    pub(crate) fn spend(&mut self, outcome: &Outcome) {
        self.admit(outcome.granted);
        if outcome.granted > 0 {
            let charged = (outcome.now.as_micros() - STORE_US) / TICK_US;
            let ago = u64::from(self.tick).saturating_sub(charged);
            self.oldest = self.oldest.max(u8::try_from(ago).unwrap_or(u8::MAX));
        }
    }

    pub(crate) fn admit(&mut self, units: u64) {
        if let Some((_, admitted)) = &mut self.watched {
            *admitted += units;
        }
    }
}
