//! The sets of limits that states are written under. The store keeps each once, for all shards
//! that use it; a shard finds those that it uses by their serials.

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

/// How many equal sets find their states by serial beside the one that is kept. Limits that are
/// read anew, as when a configuration is loaded again, are another set that counts the same;
/// without this, whoever was known before would take the long way from then on. Two: what was, and
/// what is.
const SERIALS: usize = 2;

/// The sets of a store: each is kept once, and paid for once.
#[derive(Debug)]
pub(super) struct Sets {
    kept: Mutex<HashTable<Kept>>,
    /// Callers write the texts: nobody is to know which of them collide.
    hash: RandomState,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Kept {
    limits: LimitSet,
    /// Of its texts, which are long.
    hash: u64,
    /// How many shards use it.
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

    /// The serial of the set that is kept and counts as this one does.
    fn serial_of(&self, limits: &LimitSet) -> Option<u64> {
        let hash = self.hash_of(limits);
        let kept = self.kept.lock();
        kept.find(hash, |kept| alike(&kept.limits, limits)).map(|kept| kept.limits.serial())
    }

    /// The bytes that one more set would take.
    fn room_for(&self, limits: &LimitSet) -> usize {
        let kept = self.kept.lock();
        let grows = kept.len() == kept.capacity();
        limits.bytes() + if grows { kept.allocation_size().max(256) } else { 0 }
    }

    /// One more shard uses a set: this one, or the one that is kept and counts as it does.
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

    /// One shard less uses a set that is kept.
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

    /// Gives back what a table that was larger once keeps.
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

/// Whether two sets count the same: what is asked of those that a hash finds.
fn alike(one: &LimitSet, other: &LimitSet) -> bool {
    #[cfg(test)]
    tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
    one.counts_as(other)
}

/// A set that states of this shard are written under.
#[derive(Debug)]
pub(super) struct SetUse {
    /// Those of sets that count the same, the newest first; 0 where there is none.
    serials: [u64; SERIALS],
    /// As the store keeps it.
    pub(super) limits: LimitSet,
    /// The states that are written under it, and who else holds it.
    users: u32,
    /// True while the room for a state that newcomers share is taken by that state, or by another
    /// of the same identity.
    redeemed: bool,
}

impl SetUse {
    #[inline]
    pub(super) fn is_known_as(&self, serial: u64) -> bool {
        self.limits.serial() == serial || self.serials.contains(&serial)
    }
}

/// The sets of a shard. Each is promised room for one state that newcomers share when the store is
/// full: by then there would be none.
#[derive(Debug)]
pub(super) struct ShardSets {
    used: Slab<SetUse>,
    /// Serials, and where the sets are.
    by_serial: HashTable<(u64, u32)>,
    /// The bytes that are promised and not taken.
    promised: usize,
    /// For how many sets.
    promises: usize,
    store: Arc<Sets>,
}

/// Serials are numbers in a row: their low bits differ, and a few of the high ones must.
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

    /// Where the set with this serial is.
    pub(super) fn by_serial(&self, serial: u64) -> Option<usize> {
        let found = self.by_serial.find(spread(serial), |(held, _)| *held == serial);
        found.map(|(_, index)| *index as usize)
    }

    /// A hash of the identity that nobody can foresee.
    pub(super) fn identity_hash(&self, limits: &LimitSet) -> u64 {
        self.store.hash.hash_one(limits.identity_hash())
    }

    /// Where the set is that counts as this one does; from now on it is found by this serial too.
    pub(super) fn find(&mut self, limits: &LimitSet) -> Option<usize> {
        if let Some(index) = self.by_serial(limits.serial()) {
            return Some(index);
        }
        let index = self.by_serial(self.store.serial_of(limits)?)?;
        self.know(index, limits.serial());
        Some(index)
    }

    /// Lets a set be found by this serial too, in place of the one that was learnt first.
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

    /// The bytes that it takes to use a set: none when it is used; none at all when there are as
    /// many as there can be.
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

    /// The index of a set, with one user more, and whether it is new here.
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
            // Most shards have few sets: not four at once.
            self.used.reserve_exact(1);
        }
        let serials = [0; SERIALS];
        let index = self.used.insert(SetUse { serials, limits: kept, users: 1, redeemed: false });
        self.learn(serial, index);
        self.know(index, limits.serial());
        (index, true)
    }

    /// One user less. True when there is none left, and the set is gone.
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

    /// Whether the room that a set is promised is taken.
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

    /// How many sets are promised room for a state that newcomers share, and have none yet.
    pub(super) fn promises(&self) -> usize {
        self.promises
    }

    /// What is allocated, and what is promised.
    pub(super) fn bytes(&self) -> usize {
        slabs::bytes(&self.used) + self.by_serial.allocation_size() + self.promised
    }

    /// The bytes that `shrink` would give back, about.
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

    /// Among 4,096 sets in one shard a set is found, read anew or not, and none is missed.
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

    /// What is promised is for a state of each set that has none.
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
