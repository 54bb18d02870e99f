//! The limit sets that states are written under. The store keeps each set once for all shards that
//! use it. A shard finds its sets by their serials.

use core::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;
use slab::Slab;

use super::slabs::{self, growth_of, to_u32};
use super::slot::MAX_SETS;
use super::state::{Budget, State};
use crate::limit::LimitSet;

/// The number of equal sets that find their states by serial, beside the kept set. Limits parsed
/// again, for example by a configuration reload, are another set with the same counts. Without
/// this, known subjects would take the slow path after a reload. Two cover the old and the new
/// configuration.
const SERIALS: usize = 2;

/// The limit sets of a store. Each is kept once and charged to the byte budget once.
#[derive(Debug)]
pub(super) struct Sets {
    kept: Mutex<HashTable<Kept>>,
    /// Random keys: callers choose the texts, and must not know which of them collide.
    hash: RandomState,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Kept {
    limits: LimitSet,
    /// The hash of its texts, which are long.
    hash: u64,
    /// The number of shards that use it.
    shards: usize,
}

impl Sets {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let budget = Arc::clone(budget);
        Self { kept: Mutex::default(), hash: RandomState::new(), budget }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.lock().len()
    }

    fn hash_of(&self, limits: &LimitSet) -> u64 {
        self.hash.hash_one((limits.identity(), limits.full_text()))
    }

    /// The serial of the kept set that counts the same as this one.
    fn serial_of(&self, limits: &LimitSet) -> Option<u64> {
        let hash = self.hash_of(limits);
        let kept = self.kept.lock();
        kept.find(hash, |kept| alike(&kept.limits, limits)).map(|kept| kept.limits.serial())
    }

    /// The bytes that this set would add.
    fn room_for(&self, limits: &LimitSet) -> usize {
        let kept = self.kept.lock();
        let grows = kept.len() == kept.capacity();
        limits.bytes() + if grows { kept.allocation_size().max(256) } else { 0 }
    }

    /// Registers one more shard for a set; returns the kept set that counts the same.
    fn enter(&self, limits: &LimitSet) -> LimitSet {
        let hash = self.hash_of(limits);
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.find_mut(hash, |kept| alike(&kept.limits, limits)) {
            kept.shards += 1;
            return kept.limits.clone();
        }
        let before = kept.allocation_size();
        let limits = limits.clone();
        let one = Kept { limits: limits.clone(), hash, shards: 1 };
        kept.insert_unique(hash, one, |kept| kept.hash);
        self.budget.take(limits.bytes() + kept.allocation_size());
        self.budget.give(before);
        limits
    }

    /// Removes one shard from the users of a kept set.
    fn leave(&self, limits: &LimitSet) {
        let hash = self.hash_of(limits);
        let mut kept = self.kept.lock();
        let found = kept.find_entry(hash, |kept| kept.limits.serial() == limits.serial());
        let Ok(mut found) = found else { return };
        found.get_mut().shards -= 1;
        if found.get().shards == 0 {
            found.remove();
            self.budget.give(limits.bytes());
        }
    }

    /// Frees the unused capacity of a table that has been larger.
    pub(super) fn shrink(&self) {
        let mut kept = self.kept.lock();
        if kept.len() < kept.capacity() / 4 || kept.is_empty() {
            let before = kept.allocation_size();
            kept.shrink_to_fit(|kept| kept.hash);
            self.budget.take(kept.allocation_size());
            self.budget.give(before);
        }
    }
}

/// Whether two sets count the same: the equality behind the hash.
fn alike(one: &LimitSet, other: &LimitSet) -> bool {
    #[cfg(test)]
    tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
    one.counts_as(other)
}

/// A set that states of this shard are written under.
#[derive(Debug)]
pub(super) struct SetUse {
    /// The serials of equal sets, the newest first; 0 for none.
    serials: [u64; SERIALS],
    /// The set that the store keeps.
    pub(super) limits: LimitSet,
    /// The number of users: states written under it, and others that hold it.
    users: u32,
    /// True while the room reserved for the shared state of new subjects is taken, by that state or
    /// by another of the same identity.
    redeemed: bool,
}

impl SetUse {
    #[inline]
    pub(super) fn is_known_as(&self, serial: u64) -> bool {
        self.limits.serial() == serial || self.serials.contains(&serial)
    }
}

/// The sets of a shard. Each reserves room for one state that new subjects share when the store is
/// full: there would be no room left then.
#[derive(Debug)]
pub(super) struct ShardSets {
    used: Slab<SetUse>,
    /// Serials and the indices of their sets.
    by_serial: HashTable<(u64, u32)>,
    /// The bytes reserved but not taken.
    promised: usize,
    /// The number of sets with a reservation.
    promises: usize,
    store: Arc<Sets>,
}

/// Serials are consecutive: their low bits differ, and the table needs different high bits too.
fn spread(serial: u64) -> u64 {
    let product = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product.rotate_left(32)
}

impl ShardSets {
    pub(super) fn new(store: &Arc<Sets>) -> Self {
        Self {
            used: Slab::new(),
            by_serial: HashTable::new(),
            promised: 0,
            promises: 0,
            store: Arc::clone(store),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&SetUse> {
        self.used.get(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &SetUse)> {
        self.used.iter()
    }

    /// The index of the set with this serial.
    pub(super) fn by_serial(&self, serial: u64) -> Option<usize> {
        let found = self.by_serial.find(spread(serial), |(held, _)| *held == serial);
        found.map(|(_, index)| *index as usize)
    }

    /// A hash of the identity that callers cannot predict.
    pub(super) fn identity_hash(&self, limits: &LimitSet) -> u64 {
        self.store.hash.hash_one(limits.identity_hash())
    }

    /// The index of the set that counts the same; afterwards this serial finds it too.
    pub(super) fn find(&mut self, limits: &LimitSet) -> Option<usize> {
        if let Some(index) = self.by_serial(limits.serial()) {
            return Some(index);
        }
        let index = self.by_serial(self.store.serial_of(limits)?)?;
        self.know(index, limits.serial());
        Some(index)
    }

    /// Registers this serial for a set, in place of the one registered first.
    pub(super) fn know(&mut self, index: usize, serial: u64) {
        let Some(held) = self.used.get_mut(index) else { return };
        if held.is_known_as(serial) {
            return;
        }
        held.serials.rotate_right(1);
        let oldest = core::mem::replace(&mut held.serials[0], serial);
        self.forget(oldest);
        self.learn(serial, index);
    }

    fn learn(&mut self, serial: u64, index: usize) {
        let found = (serial, to_u32(index));
        self.by_serial.insert_unique(spread(serial), found, |(serial, _)| spread(*serial));
    }

    fn forget(&mut self, serial: u64) {
        if let Ok(found) = self.by_serial.find_entry(spread(serial), |(held, _)| *held == serial) {
            found.remove();
        }
    }

    /// The bytes needed to use a set: 0 if it is used already, `None` if the shard has as many sets
    /// as it can have.
    pub(super) fn room_for(&mut self, limits: &LimitSet) -> Option<usize> {
        if self.find(limits).is_some() {
            return Some(0);
        }
        if self.used.len() >= MAX_SETS {
            return None;
        }
        let kept = match self.store.serial_of(limits) {
            Some(_) => 0,
            None => self.store.room_for(limits),
        };
        let table = self.by_serial.allocation_size().max(128);
        let grows = self.by_serial.len() == self.by_serial.capacity();
        let here = growth_of(&self.used) + if grows { table } else { 0 };
        Some(kept + here + State::least_bytes(limits))
    }

    /// Adds a user to a set. Returns its index, and whether it is new in this shard.
    pub(super) fn enter(&mut self, limits: &LimitSet) -> (usize, bool) {
        if let Some(index) = self.find(limits) {
            self.used[index].users += 1;
            return (index, false);
        }
        let kept = self.store.enter(limits);
        let serial = kept.serial();
        self.promised += State::least_bytes(&kept);
        self.promises += 1;
        if self.used.capacity() == 0 {
            // Most shards have few sets, so capacity grows by one rather than four.
            self.used.reserve_exact(1);
        }
        let serials = [0; SERIALS];
        let index = self.used.insert(SetUse { serials, limits: kept, users: 1, redeemed: false });
        self.learn(serial, index);
        self.know(index, limits.serial());
        (index, true)
    }

    /// Removes a user. True when it was the last one and the set is removed.
    pub(super) fn leave(&mut self, index: usize) -> bool {
        let Some(held) = self.used.get_mut(index) else { return false };
        held.users -= 1;
        if held.users > 0 {
            return false;
        }
        self.set_redeemed(index, true);
        let held = self.used.remove(index);
        self.forget(held.limits.serial());
        for serial in held.serials {
            self.forget(serial);
        }
        self.store.leave(&held.limits);
        true
    }

    /// Sets whether the room reserved for a set is taken.
    pub(super) fn set_redeemed(&mut self, index: usize, redeemed: bool) {
        let Some(held) = self.used.get_mut(index) else { return };
        let bytes = State::least_bytes(&held.limits);
        match (held.redeemed, redeemed) {
            (false, true) => {
                self.promised -= bytes;
                self.promises -= 1;
            }
            (true, false) => {
                self.promised += bytes;
                self.promises += 1;
            }
            _ => {}
        }
        held.redeemed = redeemed;
    }

    /// The number of sets with reserved room for a shared state that has not been created.
    pub(super) fn promises(&self) -> usize {
        self.promises
    }

    /// The bytes allocated and the bytes reserved.
    pub(super) fn bytes(&self) -> usize {
        slabs::bytes(&self.used) + self.by_serial.allocation_size() + self.promised
    }

    /// Approximately the bytes that `shrink` would free.
    pub(super) fn spare(&self) -> usize {
        slabs::spare(&self.used)
            + self.by_serial.allocation_size() / 2 * usize::from(self.by_serial.capacity() > 3)
    }

    pub(super) fn shrink(&mut self) {
        self.used.shrink_to_fit();
        self.by_serial.shrink_to_fit(|(serial, _)| spread(*serial));
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    thread_local! {
        /// How often the texts of two sets were compared.
        pub(super) static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// Among 4,096 sets in one shard a set is found, parsed again or not, and none is missed.
    #[test]
    fn a_set_is_found_without_looking_at_the_others() {
        let budget = Arc::new(Budget::new(64 << 20));
        let store = Arc::new(Sets::new(&budget));
        let mut shard = ShardSets::new(&store);
        let set = |i: u32| format!("{i}/1h via gcra").parse::<LimitSet>().unwrap();
        let before = COMPARED.get();
        let indices: Vec<usize> = (1..=4_096).map(|i| shard.enter(&set(i)).0).collect();
        for (i, index) in (1..).zip(&indices) {
            assert_eq!(shard.find(&set(i)), Some(*index));
            assert_eq!(shard.enter(&set(i)), (*index, false));
            assert!(!shard.leave(*index));
        }
        assert_eq!((store.len(), shard.find(&set(5_000))), (4_096, None));
        // One for each of 8,192 that were found. Each of 12,288 looks meets 8 others in its group
        // of 16 places, and 7 bits of their hashes agree with 1 in 128: 768 more, with a deviation
        // of 28, of which ten are left.
        let compared = COMPARED.get() - before;
        assert!((8_192..8_192 + 768 + 280).contains(&compared), "{compared} comparisons");
        for index in indices {
            assert!(shard.leave(index));
        }
        shard.shrink();
        store.shrink();
        assert_eq!((store.len(), shard.bytes(), shard.promises(), budget.used()), (0, 0, 0, 0));
    }

    /// The promise is for a state of each set that has none.
    #[test]
    fn promises_are_kept_in_bytes() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut shard = ShardSets::new(&Arc::new(Sets::new(&budget)));
        let set: LimitSet = "5/1h via sliding_log, 6/1h via gcra".parse().unwrap();
        let (index, _) = shard.enter(&set);
        let promised = shard.bytes();
        shard.set_redeemed(index, true);
        assert_eq!(promised - shard.bytes(), State::least_bytes(&set));
        assert_eq!((shard.promises(), State::least_bytes(&set)), (0, 2 * 8 + 56 + 16));
        shard.set_redeemed(index, false);
        assert_eq!((shard.promises(), shard.bytes()), (1, promised));
    }
}
