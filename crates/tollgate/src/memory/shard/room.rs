//! How a shard makes room: expired entries are removed and tables grow, or a subject finds no room.

use super::{
    Fruitless, KEY_BITS, Key, LONG, Large, Room, Shard, Slot, Wanted, capacity_of, hash_of,
};
use crate::engine;
use crate::limit::LimitSet;
use crate::memory::slabs::{compact, growth_of, to_u32};
use crate::memory::state::{ROOM_FOR_HOLD, held_until_us};
use crate::strategy::{Cell, Step};
use crate::time::{SKEW_US, Time};

/// The buckets searched for expired entries when a new subject finds no room.
const HAND_WHEN_FULL: usize = 64;

/// The buckets searched for expired entries on each new subject.
const HAND_PER_INSERT: usize = 4;

/// The same while the store is full and a recent long search found nothing.
const HAND_WHEN_FRUITLESS: usize = 2;

/// How many new subjects of a shard skip the long search after one that found nothing, ...
const FRUITLESS_NEWCOMERS: u32 = 256;

/// ... and for how long.
const FRUITLESS_US: u64 = 100_000;

impl Shard {
    /// Makes room for a subject without an entry, before any state is taken: afterwards, nothing
    /// may move. With `far`, many buckets are searched for expired entries. Returns `Room::Own`, or
    /// the substitute for the subject; `None` when it may share.
    pub(in crate::memory) fn prepare(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        wanted: Wanted,
        far: bool,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) -> Option<Room> {
        self.turn_shared_hand(now);
        if let Some(bucket) = self.find(key, limits) {
            return Some(if self.may_change(bucket, limits) { Room::Own } else { Room::None });
        }
        self.drop_shared_if_expired(limits, 0, now);
        self.has_room(key, limits, now, wanted, far, rehash).then_some(Room::Own)
    }

    /// The room that a subject finds without a change to the shard.
    pub(in crate::memory) fn look(&mut self, key: &Key<'_>, limits: &LimitSet) -> Room {
        if let Some(bucket) = self.find(key, limits) {
            return if self.may_change(bucket, limits) { Room::Own } else { Room::None };
        }
        let needed = self.adoption_bytes(limits);
        match needed.is_some_and(|bytes| self.rest.budget.has_in_all(bytes)) {
            true => Room::Own,
            false => Room::None,
        }
    }

    /// Whether an entry may be written under these limits: other numbers are another set, and their
    /// state may be larger.
    fn may_change(&mut self, bucket: usize, limits: &LimitSet) -> bool {
        let set = self.table.get_bucket(bucket).map(Slot::set);
        let was = set.and_then(|set| self.rest.sets.get(set));
        if was.is_none_or(|was| was.is_known_as(limits.serial()) || was.limits.counts_as(limits)) {
            return true;
        }
        let Some(set) = self.adoption_bytes(limits) else { return false };
        let state = match limits.single_pair() {
            Some(_) => 0,
            None => Large::first_bytes(limits) + growth_of(&self.rest.large),
        };
        self.rest.budget.has_in_all(set + state)
    }

    /// Whether a new subject without room does the long search for expired entries. A recent search
    /// that found nothing also holds for the subjects after it.
    pub(in crate::memory) fn looks_far(&mut self, now: Time) -> bool {
        let Fruitless { at_us, newcomers } = &mut self.rest.fruitless;
        if *newcomers == 0 || now.as_micros().abs_diff(*at_us) >= FRUITLESS_US {
            return true;
        }
        *newcomers -= 1;
        false
    }

    /// Records that a long search by a new subject made no room.
    pub(in crate::memory) fn found_nothing(&mut self, now: Time) {
        let (at_us, newcomers) = (now.as_micros(), FRUITLESS_NEWCOMERS);
        self.rest.fruitless = Fruitless { at_us, newcomers };
    }

    /// Makes room for one more entry. Expired entries are removed first, then the table grows
    /// within the budget. False when the store is full.
    fn has_room(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        Wanted { before, a_hold }: Wanted,
        far: bool,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) -> bool {
        self.turn_hand(if far { HAND_PER_INSERT } else { HAND_WHEN_FRUITLESS }, now);
        let mut beside = self.room_beside(key, limits, a_hold);
        if beside.is_none() && far {
            self.turn_hand(HAND_WHEN_FULL, now);
            beside = self.room_beside(key, limits, a_hold);
        }
        let Some(beside) = beside else { return false };
        let wanted = before + 1;
        if self.table.len() + wanted <= self.table.capacity() {
            return true;
        }
        let grows = self.rest.budget.has(beside + self.table.allocation_size().max(256));
        if far || grows {
            self.turn_hand(HAND_WHEN_FULL, now);
            if self.table.len() + wanted <= self.table.capacity() {
                return true;
            }
        }
        let whole = capacity_of(self.table.num_buckets());
        if whole >= self.table.len() + wanted + whole / 16 {
            // Removed entries left tombstones that count as taken: the table is rebuilt.
            self.rebuild(whole, rehash);
            return true;
        }
        if !grows {
            return false;
        }
        // A sweep of the whole shard is worth its cost, as it may avoid the growth.
        self.sweep(now);
        if self.table.len() + wanted <= whole / 4 * 3 {
            self.rebuild(whole, rehash);
        } else {
            let Self { table, rest, .. } = self;
            table.reserve(wanted, |slot| hash_of(slot, &rest.sets, &rest.long_keys, rehash));
        }
        self.settle();
        true
    }

    /// The bytes outside of the slot: a set new to this shard, a long key, or a large state, which
    /// may be a copy of the shared one and have a hold. `None` if there is no room.
    fn room_beside(&mut self, key: &Key<'_>, limits: &LimitSet, a_hold: bool) -> Option<usize> {
        let mut needed = self.adoption_bytes(limits)? + if a_hold { ROOM_FOR_HOLD } else { 0 };
        let Self { rest, .. } = self;
        if key.length == LONG {
            needed += key.bytes.len() + growth_of(&rest.long_keys);
        }
        if limits.single_pair().is_none() {
            needed += Large::first_bytes(limits) + growth_of(&rest.large);
            let shared = self.find_shared(limits, 0).and_then(|at| self.rest.shared.get_bucket(at));
            needed += shared.map_or(0, |shared| shared.state.bytes());
        }
        self.rest.budget.has(needed).then_some(needed)
    }

    /// Removes expired entries in the next few buckets, on behalf of other shards of a full store.
    pub(in crate::memory) fn reclaim(&mut self, now: Time) {
        self.turn_shared_hand(now);
        self.turn_hand(HAND_WHEN_FULL, now);
    }

    pub(super) fn rebuild(&mut self, capacity: usize, rehash: &impl Fn(&[u8], &LimitSet) -> u64) {
        let old =
            core::mem::replace(&mut self.table, hashbrown::HashTable::with_capacity(capacity));
        let Self { table, rest, .. } = self;
        let hash = |slot: &Slot| hash_of(slot, &rest.sets, &rest.long_keys, rehash);
        for slot in old {
            table.insert_unique(hash(&slot), slot, hash);
        }
        self.settle();
    }

    /// Examines the next `count` buckets and removes their expired entries.
    fn turn_hand(&mut self, count: usize, now: Time) {
        let buckets = self.table.num_buckets();
        for _ in 0..count.min(buckets) {
            self.rest.hand += 1;
            if self.rest.hand >= buckets {
                self.rest.hand = 0;
            }
            if let Some(slot) = self.table.get_bucket(self.rest.hand).copied()
                && self.is_expired(&slot, now)
            {
                self.remove(self.rest.hand);
            }
        }
    }

    fn is_expired(&mut self, slot: &Slot, now: Time) -> bool {
        let Some(held) = self.rest.sets.get(slot.set()) else { return true };
        let fresh_at_us = if slot.is_large() {
            match self.rest.large.get_mut(slot.index()) {
                Some(Some(large)) => {
                    let table = large.holds.as_ref().map(|holds| &holds.table);
                    let held_until_us = table.map_or(0, |table| held_until_us(&held.limits, table));
                    engine::fresh_at_us(&held.limits, large).max(held_until_us)
                }
                // A check in progress has taken the state out, so it has not expired.
                _ => return false,
            }
        } else {
            let mut words = slot.pair();
            held.limits
                .single_pair()
                .map_or(0, |limit| limit.step().fresh_at_us(&mut Cell::Words(&mut words)))
        };
        fresh_at_us + SKEW_US <= now.as_micros()
    }

    pub(super) fn remove(&mut self, bucket: usize) {
        let Some(slot) = self.table.get_bucket(bucket).copied() else { return };
        if let Ok(entry) = self.table.get_bucket_entry(bucket) {
            entry.remove();
        }
        if slot.is_large() {
            self.rest.large.try_remove(slot.index());
        }
        if slot.meta & KEY_BITS == LONG
            && let Some(bytes) = self.rest.long_keys.try_remove(slot.long_key())
        {
            self.rest.budget.give(bytes.len());
        }
        self.leave_set(slot.set());
    }

    /// Removes all expired entries and frees memory.
    pub(in crate::memory) fn sweep(&mut self, now: Time) -> usize {
        let before = self.table.len();
        for bucket in 0..self.table.num_buckets() {
            if let Some(slot) = self.table.get_bucket(bucket).copied()
                && self.is_expired(&slot, now)
            {
                self.remove(bucket);
            }
        }
        self.sweep_shared(now);
        self.rest.marks.sweep(now);
        self.rest.requests.sweep(now.as_micros());
        self.settle();
        before - self.table.len()
    }

    /// Frees the room that swept entries left.
    pub(in crate::memory) fn shrink(&mut self, rehash: &impl Fn(&[u8], &LimitSet) -> u64) {
        let Self { table, rest, .. } = self;
        let super::Rest { sets, long_keys, large, marks, requests, .. } = &mut **rest;
        if large.len() < large.capacity() / 2 {
            let moved = compact(large);
            for slot in table.iter_mut().filter(|slot| slot.is_large()) {
                if let Some(to) = moved.get(&slot.index()) {
                    slot.state[0] = to_u32(*to);
                }
            }
        }
        if long_keys.len() < long_keys.capacity() / 2 {
            let moved = compact(long_keys);
            for slot in table.iter_mut().filter(|slot| slot.meta & KEY_BITS == LONG) {
                if let Some(to) = moved.get(&slot.long_key()) {
                    slot.set_long_key(to_u32(*to));
                }
            }
        }
        table.shrink_to_fit(|slot| hash_of(slot, sets, long_keys, rehash));
        marks.shrink();
        requests.shrink();
        sets.shrink();
        self.shrink_shared();
        self.settle();
    }
}
