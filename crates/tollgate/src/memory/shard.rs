//! One shard: a table of small slots, what does not fit into them, and what happens when the
//! store is full.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;
use slab::Slab;

use super::state::{Budget, Large, State};
use crate::engine;
use crate::limit::LimitSet;
use crate::strategy::{Cell, Step};
use crate::time::{SKEW_US, Time};

/// The longest subject that a slot holds itself, in bytes.
const SHORT_KEY_BYTES: usize = 16;

/// The buckets that are looked at for expired entries when a subject finds no room.
const HAND_WHEN_FULL: usize = 64;

/// The buckets that are looked at for expired entries whenever a subject comes in.
const HAND_PER_INSERT: usize = 4;

/// A subject's entry: 36 bytes, so that a table at the worst point of its growth (16/7 buckets an
/// entry, one control byte each) takes 85 bytes for a subject, its key within.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The subject's bytes, or for a longer one 8 bytes of its hash and its place in `long_keys`.
    key: [u8; SHORT_KEY_BYTES],
    /// Two words, or the place of the state in `large`.
    state: [u32; 4],
    /// Bits 0-4: the length of the key, or `LONG`; bit 5: the state is in `large`; bit 6: the key
    /// has no `,` and no `%`; above: the set.
    meta: u32,
}

const KEY_BITS: u32 = 31;
const LONG: u32 = 31;
const LARGE: u32 = 1 << 5;
/// The key means the same as literal text and as a written form: text that equals it needs no
/// look of its own.
const PLAIN: u32 = 1 << 6;
const SET_SHIFT: u32 = 7;

/// The most sets in one shard: what the bits above `SET_SHIFT` hold.
const SET_BITS: u32 = 25;
const MAX_SETS: usize = 1 << SET_BITS;

impl Slot {
    fn set(&self) -> usize {
        (self.meta >> SET_SHIFT) as usize
    }

    fn is_large(&self) -> bool {
        self.meta & LARGE != 0
    }

    fn index(&self) -> usize {
        self.state[0] as usize
    }

    fn long_key(&self) -> usize {
        let [.., a, b, c, d] = self.key;
        // A shard never holds 2^32 keys: they would not fit into memory.
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    #[inline]
    fn pair(&self) -> [u64; 2] {
        let [a, b, c, d] = self.state;
        [u64::from(a) | u64::from(b) << 32, u64::from(c) | u64::from(d) << 32]
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the two halves of each word
    fn set_pair(&mut self, words: [u64; 2]) {
        let [x, y] = words;
        self.state = [x as u32, (x >> 32) as u32, y as u32, (y >> 32) as u32];
    }
}

/// The bytes of a subject, as a slot compares them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    bytes: &'a [u8],
    short: [u8; SHORT_KEY_BYTES],
    length: u32,
    pub(super) hash: u64,
}

impl<'a> Key<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], hash: u64) -> Self {
        let mut short = [0; SHORT_KEY_BYTES];
        let length = if let Some(part) = short.get_mut(..bytes.len()) {
            part.copy_from_slice(bytes);
            u32::try_from(bytes.len()).unwrap_or(LONG)
        } else {
            short[..8].copy_from_slice(&hash.to_le_bytes());
            LONG
        };
        Self { bytes, short, length, hash }
    }
}

/// A set that states of this shard are written under.
#[derive(Debug)]
struct SetUse {
    serial: u64,
    limits: LimitSet,
    slots: usize,
}

/// The state that new subjects share while the store is full.
#[derive(Debug)]
struct Shared {
    limits: LimitSet,
    state: State,
}

/// Where a state was found, and where it goes back to.
#[derive(Clone, Copy, Debug)]
enum Home {
    /// The subject's own entry, in this bucket, written under this set.
    Own { bucket: usize },
    /// Nowhere yet: there is room for an entry.
    New,
    /// The state it shares with others: there is no room.
    Shared { index: Option<usize> },
}

/// A state taken out of a shard while a check works on it.
#[derive(Debug)]
pub(super) struct Taken {
    home: Home,
    pub(super) state: State,
    /// The state as it was found, when it was counted under other numbers.
    before: Option<State>,
    pub(super) carried: engine::Carries,
}

/// What the shortest path needs lies first and fits, with the lock, into one cache line.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    /// The set that was used last, nearly always the one asked for: its serial above its index.
    /// A serial too large to fit just never takes the shortest path.
    usual: u64,
    charges: u64,
    rest: Box<Rest>,
}

#[derive(Debug)]
struct Rest {
    long_keys: Slab<Box<[u8]>>,
    large: Slab<Option<Large>>,
    sets: Slab<SetUse>,
    by_serial: HashMap<u64, usize>,
    shared: Vec<Shared>,
    /// Receipts that were refunded, until when each must be remembered.
    spent: HashMap<u64, u64>,
    spent_sweep_at: usize,
    hand: usize,
    budget: Arc<Budget>,
    paid: usize,
}

impl Shard {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let rest = Rest {
            long_keys: Slab::new(),
            large: Slab::new(),
            sets: Slab::new(),
            by_serial: HashMap::new(),
            shared: Vec::new(),
            spent: HashMap::new(),
            spent_sweep_at: 64,
            hand: 0,
            budget: Arc::clone(budget),
            paid: 0,
        };
        // No set has the serial 0.
        Self { table: HashTable::new(), usual: 0, charges: 0, rest: rest.into() }
    }

    /// A number no other charge of this shard has.
    #[inline]
    pub(super) fn next_charge(&mut self) -> u64 {
        self.charges += 1;
        self.charges
    }

    /// Whether a slot is `key`'s count under `limits`.
    #[inline]
    fn is(
        slot: &Slot,
        key: &Key<'_>,
        limits: &LimitSet,
        sets: &Slab<SetUse>,
        long: &Slab<Box<[u8]>>,
    ) -> bool {
        Self::is_key(slot, key, long)
            && sets.get(slot.set()).is_some_and(|held| {
                held.serial == limits.serial() || held.limits.identity() == limits.identity()
            })
    }

    #[inline]
    fn is_key(slot: &Slot, key: &Key<'_>, long: &Slab<Box<[u8]>>) -> bool {
        slot.meta & KEY_BITS == key.length
            && if key.length == LONG {
                slot.key[..8] == key.short[..8]
                    && long.get(slot.long_key()).is_some_and(|bytes| **bytes == *key.bytes)
            } else {
                slot.key == key.short
            }
    }

    /// Runs `work` on the two words of a subject that has an entry under exactly this set: the
    /// shortest path. `work` answers whether the words are to be kept. With `literal`, `key` is
    /// text that nobody has looked at yet: it finds only entries that it certainly means.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // an index of at most SET_BITS bits
    pub(super) fn with_pair<T>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        literal: bool,
        work: impl FnOnce(&mut [u64; 2]) -> (T, bool),
    ) -> Option<T> {
        if self.usual >> SET_BITS != limits.serial() {
            let set = *self.rest.by_serial.get(&limits.serial())?;
            self.usual = limits.serial() << SET_BITS | set as u64;
        }
        let Self { table, rest, usual, .. } = self;
        let set = (*usual & (MAX_SETS as u64 - 1)) as u32;
        let set_and_flags = set << SET_SHIFT | if literal { PLAIN } else { 0 };
        let slot = table.find_mut(key.hash, |slot| {
            let ignored = KEY_BITS | if literal { 0 } else { PLAIN };
            slot.meta & !ignored == set_and_flags && Self::is_key(slot, key, &rest.long_keys)
        })?;
        let mut words = slot.pair();
        let (answer, keep) = work(&mut words);
        if keep {
            slot.set_pair(words);
        }
        Some(answer)
    }

    /// Takes the state of a subject out, or makes a fresh one. `put` must follow.
    pub(super) fn take(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
        looking: bool,
    ) -> Taken {
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        let found =
            table.find_bucket_index(key.hash, |s| Self::is(s, key, limits, sets, long_keys));
        if let Some(bucket) = found {
            return self.take_own(bucket, limits, now);
        }
        let shared = self.shared_index(limits, now);
        let room = looking || self.has_room(now, rehash);
        if room && let Some(state) = self.newcomer(shared, limits) {
            return self.taken(
                Home::New,
                shared.map(|i| self.rest.shared[i].limits.clone()),
                state,
                limits,
                now,
            );
        }
        let Some(index) = shared else {
            let state = State::fresh_anyway(limits, &self.rest.budget);
            return self.taken(Home::Shared { index: None }, None, state, limits, now);
        };
        let written_under = self.rest.shared[index].limits.clone();
        let state = core::mem::replace(&mut self.rest.shared[index].state, State::Pair([0; 2]));
        self.taken(Home::Shared { index: Some(index) }, Some(written_under), state, limits, now)
    }

    fn take_own(&mut self, bucket: usize, limits: &LimitSet, now: Time) -> Taken {
        let state = self.lift(bucket);
        let held = self.table.get_bucket(bucket).and_then(|slot| self.rest.sets.get(slot.set()));
        let written_under = held.map(|held| held.limits.clone());
        self.taken(Home::Own { bucket }, written_under, state, limits, now)
    }

    /// A state on its way to a check: carried over when it was counted under other numbers.
    fn taken(
        &self,
        home: Home,
        written_under: Option<LimitSet>,
        mut state: State,
        limits: &LimitSet,
        now: Time,
    ) -> Taken {
        let was = match written_under {
            Some(was) if !was.counts_as(limits) => was,
            _ => return Taken { home, state, before: None, carried: engine::Carries::new() },
        };
        let mut over = State::fresh_anyway(limits, &self.rest.budget);
        let carried = engine::inherit(limits, &mut over, &was, &mut state, now);
        Taken { home, state: over, before: Some(state), carried }
    }

    /// The state out of a slot.
    fn lift(&mut self, bucket: usize) -> State {
        let Some(slot) = self.table.get_bucket(bucket) else { return State::Pair([0; 2]) };
        if slot.is_large() {
            let large = self.rest.large.get_mut(slot.index()).and_then(Option::take);
            return large.map_or(State::Pair([0; 2]), State::Large);
        }
        State::Pair(slot.pair())
    }

    /// The state a subject starts with: what it may have charged while it had no entry, or a
    /// fresh one. None when there is no room for it.
    fn newcomer(&self, shared: Option<usize>, limits: &LimitSet) -> Option<State> {
        match shared {
            Some(index) => self.rest.shared[index].state.copy(),
            None if limits.single_pair().is_some() => Some(State::Pair([0; 2])),
            None => Large::fresh(limits, &self.rest.budget).map(State::Large),
        }
    }

    /// Puts a state back: `keep` says that it has changed, `charged` that it was charged.
    pub(super) fn put(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        taken: Taken,
        keep: bool,
        charged: bool,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) {
        let Taken { home, state, before, .. } = taken;
        match home {
            Home::Own { bucket } => match before {
                Some(before) if !keep => self.lay(bucket, before, None),
                Some(_) => self.lay(bucket, state, Some(limits)),
                None => self.lay(bucket, state, None),
            },
            Home::New if charged => self.insert(key, limits, state, rehash),
            Home::New => {}
            Home::Shared { index: Some(index) } => {
                self.rest.shared[index] = match before {
                    Some(before) if !keep => {
                        Shared { limits: self.rest.shared[index].limits.clone(), state: before }
                    }
                    _ => Shared { limits: limits.clone(), state },
                };
            }
            Home::Shared { index: None } if charged => {
                self.rest.shared.push(Shared { limits: limits.clone(), state });
            }
            Home::Shared { index: None } => {}
        }
    }

    /// Lays a state into a slot, written under another set when one is given.
    fn lay(&mut self, bucket: usize, state: State, limits: Option<&LimitSet>) {
        let Some(slot) = self.table.get_bucket(bucket).copied() else { return };
        let mut new = slot;
        if let Some(limits) = limits {
            let set = self.use_set(limits);
            self.leave_set(slot.set());
            // `use_set` keeps indices below MAX_SETS.
            new.meta = (slot.meta & ((1 << SET_SHIFT) - 1)) | (to_u32(set) << SET_SHIFT);
        }
        match state {
            State::Pair(words) => {
                if slot.is_large() {
                    self.rest.large.try_remove(slot.index());
                }
                new.meta &= !LARGE;
                new.set_pair(words);
            }
            State::Large(large) if slot.is_large() => {
                if let Some(place) = self.rest.large.get_mut(slot.index()) {
                    *place = Some(large);
                }
            }
            State::Large(large) => {
                new.meta |= LARGE;
                new.state = [to_u32(self.rest.large.insert(Some(large))), 0, 0, 0];
            }
        }
        if let Some(slot) = self.table.get_bucket_mut(bucket) {
            *slot = new;
        }
        self.settle();
    }

    fn insert(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        state: State,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) {
        let set = self.use_set(limits);
        let mut slot =
            Slot { key: key.short, state: [0; 4], meta: key.length | to_u32(set) << SET_SHIFT };
        if !key.bytes.iter().any(|byte| matches!(byte, b',' | b'%')) {
            slot.meta |= PLAIN;
        }
        if key.length == LONG {
            let place = to_u32(self.rest.long_keys.insert(key.bytes.into()));
            slot.key[12..].copy_from_slice(&place.to_le_bytes());
            self.rest.budget.take(key.bytes.len());
        }
        match state {
            State::Pair(words) => slot.set_pair(words),
            State::Large(large) => {
                slot.meta |= LARGE;
                slot.state[0] = to_u32(self.rest.large.insert(Some(large)));
            }
        }
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        table.insert_unique(key.hash, slot, |slot| hash_of(slot, sets, long_keys, rehash));
        self.settle();
    }

    /// The index of a set, counted as used once more.
    fn use_set(&mut self, limits: &LimitSet) -> usize {
        let serial = limits.serial();
        if let Some(&index) = self.rest.by_serial.get(&serial) {
            self.rest.sets[index].slots += 1;
            return index;
        }
        // The same numbers parsed anew are the same set: it is not kept twice.
        let same = self.rest.sets.iter().find(|(_, held)| held.limits.counts_as(limits));
        if let Some((index, _)) = same {
            self.rest.sets[index].slots += 1;
            return index;
        }
        let index = self.rest.sets.insert(SetUse { serial, limits: limits.clone(), slots: 1 });
        self.rest.by_serial.insert(serial, index);
        index
    }

    fn leave_set(&mut self, index: usize) {
        let Some(held) = self.rest.sets.get_mut(index) else { return };
        held.slots -= 1;
        if held.slots == 0 {
            let held = self.rest.sets.remove(index);
            self.rest.by_serial.remove(&held.serial);
            self.usual = 0;
        }
    }

    /// The shared state of this count, when one still counts; those that do not are dropped.
    fn shared_index(&mut self, limits: &LimitSet, now: Time) -> Option<usize> {
        self.rest.shared.retain_mut(|shared| {
            engine::fresh_at_us(&shared.limits, &mut shared.state) + SKEW_US > now.as_micros()
        });
        self.rest.shared.iter().position(|shared| shared.limits.identity() == limits.identity())
    }

    /// Makes room for one more entry: expired entries go first, then the table grows while the
    /// budget lasts. False when the store is full.
    fn has_room(&mut self, now: Time, rehash: &impl Fn(&[u8], &LimitSet) -> u64) -> bool {
        if self.rest.sets.len() >= MAX_SETS {
            return false;
        }
        self.turn_hand(HAND_PER_INSERT, now);
        if self.table.len() < self.table.capacity() {
            return true;
        }
        self.turn_hand(HAND_WHEN_FULL, now);
        if self.table.len() < self.table.capacity() {
            return true;
        }
        let whole = self.table.num_buckets() / 8 * 7;
        if whole > 64 && whole - self.table.len() >= whole / 16 {
            // Removed entries left marks that count as taken: write the table anew.
            self.rebuild(whole, rehash);
            return true;
        }
        let more = self.table.allocation_size().max(256);
        if !self.rest.budget.try_take(more) {
            return false;
        }
        // Looking through the whole shard is paid for by the growth that it may spare.
        self.rest.budget.give(more);
        self.sweep(now);
        if self.table.len() < whole / 4 * 3 {
            self.rebuild(whole, rehash);
        } else {
            let Self { table, rest, .. } = self;
            let Rest { sets, long_keys, .. } = &mut **rest;
            table.reserve(1, |slot| hash_of(slot, sets, long_keys, rehash));
        }
        self.settle();
        true
    }

    fn rebuild(&mut self, capacity: usize, rehash: &impl Fn(&[u8], &LimitSet) -> u64) {
        let old = core::mem::replace(&mut self.table, HashTable::with_capacity(capacity));
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        for slot in old {
            let hash = hash_of(&slot, sets, long_keys, rehash);
            table.insert_unique(hash, slot, |slot| hash_of(slot, sets, long_keys, rehash));
        }
        self.settle();
    }

    /// Looks at the next `count` buckets and removes what has expired there.
    fn turn_hand(&mut self, count: usize, now: Time) {
        for _ in 0..count.min(self.table.num_buckets()) {
            self.rest.hand = (self.rest.hand + 1) % self.table.num_buckets().max(1);
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
                Some(Some(large)) => engine::fresh_at_us(&held.limits, large),
                // Taken out by a check that is at work: it is not expired.
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

    fn remove(&mut self, bucket: usize) {
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

    /// Removes everything that has expired, and gives memory back.
    pub(super) fn sweep(&mut self, now: Time) -> usize {
        let before = self.table.len();
        for bucket in 0..self.table.num_buckets() {
            if let Some(slot) = self.table.get_bucket(bucket).copied()
                && self.is_expired(&slot, now)
            {
                self.remove(bucket);
            }
        }
        self.rest.shared.retain_mut(|shared| {
            engine::fresh_at_us(&shared.limits, &mut shared.state) + SKEW_US > now.as_micros()
        });
        self.rest.spent.retain(|_, until| *until + SKEW_US > now.as_micros());
        self.settle();
        before - self.table.len()
    }

    /// Gives back the room that swept entries left.
    pub(super) fn shrink(&mut self, rehash: &impl Fn(&[u8], &LimitSet) -> u64) {
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, large, spent, .. } = &mut **rest;
        table.shrink_to_fit(|slot| hash_of(slot, sets, long_keys, rehash));
        if long_keys.is_empty() {
            *long_keys = Slab::new();
        }
        if large.is_empty() {
            *large = Slab::new();
        }
        spent.shrink_to_fit();
        self.settle();
    }

    /// Forgets a subject. True when it had an entry.
    pub(super) fn reset(&mut self, key: &Key<'_>, limits: &LimitSet) -> bool {
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        let found =
            table.find_bucket_index(key.hash, |s| Self::is(s, key, limits, sets, long_keys));
        if let Some(bucket) = found {
            self.remove(bucket);
        }
        found.is_some()
    }

    /// The set that a subject's state is written under, whether it is shared, and the state
    /// through `show`.
    pub(super) fn inspect<T>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        show: impl FnOnce(&LimitSet, &mut State, bool) -> T,
    ) -> Option<T> {
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        let found =
            table.find_bucket_index(key.hash, |s| Self::is(s, key, limits, sets, long_keys));
        if let Some(bucket) = found {
            let slot = self.table.get_bucket(bucket).copied()?;
            let written_under = self.rest.sets.get(slot.set())?.limits.clone();
            let mut state = self.lift(bucket);
            let answer = show(&written_under, &mut state, false);
            self.lay(bucket, state, None);
            return Some(answer);
        }
        let index = self.shared_index(limits, now)?;
        let Shared { limits, state } = &mut self.rest.shared[index];
        Some(show(limits, state, true))
    }

    /// Marks a charge as given back. False when it was already.
    pub(super) fn spend(&mut self, charge: u64, until_us: u64, now: Time) -> bool {
        if self.rest.spent.len() >= self.rest.spent_sweep_at {
            self.rest.spent.retain(|_, until| *until + SKEW_US > now.as_micros());
            self.rest.spent_sweep_at = (self.rest.spent.len() * 2).max(64);
        }
        let new = self.rest.spent.insert(charge, until_us).is_none();
        self.settle();
        new
    }

    /// How many subjects have an entry of their own.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Pays for what is allocated now.
    fn settle(&mut self) {
        let owed = self.table.allocation_size()
            + self.rest.long_keys.capacity() * size_of::<Box<[u8]>>()
            + self.rest.large.capacity() * size_of::<Option<Large>>()
            + self.rest.sets.capacity() * size_of::<SetUse>()
            + self.rest.spent.capacity() * (size_of::<(u64, u64)>() + 1);
        if owed > self.rest.paid {
            self.rest.budget.take(owed - self.rest.paid);
        } else {
            self.rest.budget.give(self.rest.paid - owed);
        }
        self.rest.paid = owed;
    }
}

/// Indices of a shard's slabs: they stay far below 2^32, which would not fit into memory.
fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn hash_of(
    slot: &Slot,
    sets: &Slab<SetUse>,
    long_keys: &Slab<Box<[u8]>>,
    rehash: &impl Fn(&[u8], &LimitSet) -> u64,
) -> u64 {
    let Some(held) = sets.get(slot.set()) else { return 0 };
    if slot.meta & KEY_BITS == LONG {
        return long_keys.get(slot.long_key()).map_or(0, |bytes| rehash(bytes, &held.limits));
    }
    rehash(&slot.key[..(slot.meta & KEY_BITS) as usize], &held.limits)
}
