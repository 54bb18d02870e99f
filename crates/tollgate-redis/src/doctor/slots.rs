//! The owners of the slots of a cluster, by the reply of a node to `CLUSTER SLOTS`.

use std::collections::BTreeSet;
use std::iter::once;

use crate::command_reply::CommandReply;
use crate::slots::{Announced, SLOTS, SlotRange};

/// The owners of the slots, by the reply to `CLUSTER SLOTS`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Slots(Vec<SlotRange>);

impl Slots {
    /// Reads a reply; `None` for one of another form.
    pub(super) fn read(reply: &CommandReply) -> Option<Self> {
        SlotRange::read_all(reply).map(Self)
    }

    pub(super) fn ranges(&self) -> &[SlotRange] {
        &self.0
    }

    /// The primaries that own slots.
    pub(super) fn primaries(&self) -> Vec<&Announced> {
        let mut primaries: Vec<&Announced> = Vec::new();
        for range in &self.0 {
            if primaries.iter().all(|known| known.id != range.primary.id) {
                primaries.push(&range.primary);
            }
        }
        primaries
    }

    /// The identity of each slot's owner.
    fn owners(&self) -> Vec<Option<&str>> {
        let mut owners = vec![None; usize::from(SLOTS)];
        for range in &self.0 {
            if let Some(slots) = owners.get_mut(range.slots()) {
                slots.fill(Some(range.primary.id.as_str()));
            }
        }
        owners
    }

    /// The number of slots that have an owner.
    pub(super) fn covered(&self) -> usize {
        self.owners().iter().flatten().count()
    }

    /// Whether every slot has an owner.
    pub(super) fn covers_all(&self) -> bool {
        self.covered() == usize::from(SLOTS)
    }

    /// The slots that have no owner, as ranges.
    pub(super) fn uncovered(&self) -> Vec<String> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (slot, owner) in self.owners().iter().enumerate() {
            match (owner, ranges.last_mut()) {
                (Some(_), _) => {}
                (None, Some((_, last))) if last.saturating_add(1) == slot => *last = slot,
                (None, _) => ranges.push((slot, slot)),
            }
        }
        let text = |(first, last): (usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        ranges.into_iter().map(text).collect()
    }

    /// The number of slots with another owner than here.
    pub(super) fn differing(&self, other: &Self) -> usize {
        self.owners().iter().zip(other.owners()).filter(|(ours, theirs)| **ours != *theirs).count()
    }

    /// The identities of all nodes.
    pub(super) fn ids(&self) -> BTreeSet<&str> {
        let nodes = self.0.iter().flat_map(|range| once(&range.primary).chain(&range.replicas));
        nodes.map(|node| node.id.as_str()).collect()
    }
}
