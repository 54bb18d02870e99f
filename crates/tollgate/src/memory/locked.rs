//! The shards of the counts of a question, locked at one time.

use parking_lot::MutexGuard;
use smallvec::{SmallVec, smallvec};

use super::hash::shard_of;
use super::shard::Shard;
use super::slot::Key;
use super::store::MemoryStore;
use crate::question::Question;

/// The shards of a check, by their indices.
pub(super) type LockedShards<'s> = SmallVec<[(usize, MutexGuard<'s, Shard>); 2]>;

impl MemoryStore {
    /// The counts of a question.
    #[inline]
    pub(super) fn keys<'k>(&self, question: &Question<'k>) -> SmallVec<[Key<'k>; 2]> {
        match question.parts {
            // Collected, one key costs a call.
            [part] => smallvec![self.key(part.subject, part.limits)],
            parts => parts.iter().map(|part| self.key(part.subject, part.limits)).collect(),
        }
    }

    /// Locks the shards of some counts, always in the same order, so that two checks cannot
    /// deadlock.
    #[inline]
    pub(super) fn lock_all(&self, keys: &[Key<'_>]) -> LockedShards<'_> {
        if let [key] = keys {
            let index = shard_of(key.hash);
            return smallvec![(index, self.lock(index))];
        }
        let mut indices: SmallVec<[usize; 4]> = keys.iter().map(|key| shard_of(key.hash)).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.iter().map(|index| (*index, self.lock(*index))).collect()
    }

    /// The place of a count's shard among those that are locked.
    pub(super) fn place(shards: &LockedShards<'_>, key: &Key<'_>) -> usize {
        let index = shard_of(key.hash);
        shards.iter().position(|(locked, _)| *locked == index).unwrap_or(0)
    }
}

/// The locked shard of an index. Every index of a question has been locked.
pub(super) fn guard<'g>(
    shards: &'g mut [(usize, MutexGuard<'_, Shard>)],
    index: usize,
) -> &'g mut Shard {
    let found = shards.iter_mut().find(|(held, _)| *held == index);
    found.map_or_else(|| unreachable!("every shard of a question is locked"), |(_, shard)| shard)
}
