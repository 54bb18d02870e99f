//! A bounded table in shards: a node's knowledge of some counts.

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};

/// The number of shards, so that threads seldom wait for each other.
const SHARDS: usize = 64;

/// How many slots of a full shard are looked at for one to give up.
const SAMPLED: usize = 8;

/// Slots that are found by a hash, at most a given number of them.
#[derive(Debug)]
pub(crate) struct Table<T> {
    shards: Box<[Mutex<Shard<T>>]>,
}

/// The slots of one shard.
#[derive(Debug)]
pub(crate) struct Shard<T> {
    slots: Vec<(u64, T)>,
    /// Positions in `slots`, by hash.
    index: HashTable<u32>,
    most: usize,
    /// Where the next search for a slot to give up begins.
    next: usize,
}

impl<T> Table<T> {
    /// A table of at most about `most` slots.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.div_ceil(SHARDS).clamp(1, u32::MAX as usize);
        let shard = || Shard { slots: Vec::new(), index: HashTable::new(), most, next: 0 };
        Self { shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect() }
    }

    /// The shard of a hash.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, Shard<T>> {
        // The high bits pick a slot within a shard's index, the lowest a bucket.
        self.shards[(hash >> 32) as usize % SHARDS].lock()
    }

    /// Every shard in turn.
    pub(crate) fn each(&self, mut visit: impl FnMut(&mut Shard<T>)) {
        for shard in &self.shards {
            visit(&mut shard.lock());
        }
    }
}

impl<T> Shard<T> {
    /// The slot of this hash for which `is` holds.
    #[inline]
    pub(crate) fn find(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let slots = &self.slots;
        let place = *self.index.find(hash, |place| is(&slots[*place as usize].1))?;
        Some(&mut self.slots[place as usize].1)
    }

    /// Adds a slot that is not in the table. In a full shard it takes the place of one of a few
    /// others: the one of the lowest `worth`, of those that have one. Without one it is not added.
    pub(crate) fn add(
        &mut self,
        hash: u64,
        value: T,
        worth: impl Fn(&T) -> Option<u64>,
    ) -> Option<&mut T> {
        let place = if self.slots.len() < self.most {
            self.slots.push((hash, value));
            self.slots.len() - 1
        } else {
            let len = self.slots.len();
            let looked_at = (self.next..self.next + SAMPLED.min(len)).map(|place| place % len);
            let worths = looked_at.filter_map(|place| Some((worth(&self.slots[place].1)?, place)));
            let (_, place) = worths.min()?;
            self.next = (self.next + SAMPLED) % len;
            let before = self.slots[place].0;
            if let Ok(entry) = self.index.find_entry(before, |other| *other as usize == place) {
                entry.remove();
            }
            self.slots[place] = (hash, value);
            place
        };
        let slots = &self.slots;
        // Cannot overflow: a shard has at most 2^32 slots.
        let numbered = u32::try_from(place).ok()?;
        self.index.insert_unique(hash, numbered, |place| slots[*place as usize].0);
        Some(&mut self.slots[place].1)
    }

    /// All slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|(_, value)| value)
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_least_makes_room() {
        let table: Table<(u64, u64)> = Table::new(SHARDS * 4);
        let hash = |key: u64| (key << 48) | key;
        for key in 0..4 {
            let mut shard = table.lock(hash(key));
            assert!(shard.add(hash(key), (key, key + 10), |slot| Some(slot.1)).is_some());
        }
        let mut shard = table.lock(hash(4));
        assert!(shard.add(hash(4), (4, 1), |_| None).is_none(), "none may go");
        assert!(shard.add(hash(4), (4, 99), |slot| Some(slot.1)).is_some());
        assert!(shard.find(hash(0), |slot| slot.0 == 0).is_none(), "it was worth least");
        for key in 1..5 {
            assert!(shard.find(hash(key), |slot| slot.0 == key).is_some(), "{key}");
        }
        assert_eq!(shard.len(), 4);
        assert_eq!(shard.iter_mut().map(|slot| slot.0).max(), Some(4));
    }

    #[test]
    fn slots_of_one_hash_are_told_apart() {
        let table: Table<u64> = Table::new(SHARDS * 100);
        let mut shard = table.lock(7);
        for key in 0..100 {
            assert!(shard.add(7, key, |_| None).is_some());
        }
        assert!((0..100).all(|key| shard.find(7, |slot| *slot == key).copied() == Some(key)));
        assert!(shard.find(7, |slot| *slot == 100).is_none());
    }
}
