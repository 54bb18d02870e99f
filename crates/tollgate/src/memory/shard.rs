//! One shard: a table of small slots, what does not fit into them, and what happens when the
//! store is full.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;
use slab::Slab;

use super::marks::{Marks, Reset};
use super::sets::{SetUse, know};
use super::slabs::{compact, growth_of, to_u32};
use super::slot::{KEY_BITS, Key, LARGE, LONG, MAX_SETS, PLAIN, SET_BITS, SET_SHIFT, Slot};
use super::state::{Budget, Large, State};
use crate::engine::{self, Mode, Outcome};
use crate::limit::LimitSet;
use crate::strategy::{Cell, Step};
use crate::time::{SKEW_US, Time};

mod saved;

pub(super) use saved::{Kept, Sizes};

/// The buckets that are looked at for expired entries when a subject finds no room.
const HAND_WHEN_FULL: usize = 64;

/// The buckets that are looked at for expired entries whenever a subject comes in.
const HAND_PER_INSERT: usize = 4;

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

impl Taken {
    /// True when the state goes to a new entry.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.home, Home::New)
    }

    /// True when the state is one that several subjects share.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.home, Home::Shared { .. })
    }
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
    marks: Marks,
    hand: usize,
    budget: Arc<Budget>,
    paid: usize,
}

impl Shard {
    /// An empty shard, whose charges are numbered after `charges`.
    pub(super) fn new(budget: &Arc<Budget>, charges: u64) -> Self {
        let rest = Rest {
            long_keys: Slab::new(),
            large: Slab::new(),
            sets: Slab::new(),
            by_serial: HashMap::new(),
            shared: Vec::new(),
            marks: Marks::default(),
            hand: 0,
            budget: Arc::clone(budget),
            paid: 0,
        };
        // No set has the serial 0.
        Self { table: HashTable::new(), usual: 0, charges, rest: rest.into() }
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
                held.is_known_as(limits.serial()) || held.limits.identity() == limits.identity()
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
    /// shortest path. `work` answers whether the words are to be kept. `key` is text that nobody
    /// has looked at yet: it finds only entries that it certainly means.
    #[inline]
    pub(super) fn with_pair<T>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        work: impl FnOnce(&mut [u64; 2]) -> (T, bool),
    ) -> Option<T> {
        let set_and_flags = self.usual_set(limits)? << SET_SHIFT | PLAIN;
        let Self { table, rest, .. } = self;
        let slot = table.find_mut(key.hash, |slot| {
            slot.meta & !KEY_BITS == set_and_flags && Self::is_key(slot, key, &rest.long_keys)
        })?;
        let mut words = slot.pair();
        let (answer, keep) = work(&mut words);
        if keep {
            slot.set_pair(words);
        }
        Some(answer)
    }

    /// The index of a set that states are written under, looked up once for many checks.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // an index of at most SET_BITS bits
    fn usual_set(&mut self, limits: &LimitSet) -> Option<u32> {
        if self.usual >> SET_BITS != limits.serial() {
            let set = *self.rest.by_serial.get(&limits.serial())?;
            self.usual = limits.serial() << SET_BITS | set as u64;
        }
        Some((self.usual & (MAX_SETS as u64 - 1)) as u32)
    }

    /// Answers for a subject that has an entry under exactly this set, where its state lies;
    /// nothing for any other. `key` is a subject's written form.
    #[inline]
    pub(super) fn decide(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        cost: u64,
        mode: Mode,
    ) -> Option<Outcome> {
        let set = self.usual_set(limits)?;
        let Self { table, rest, .. } = self;
        let Rest { large, long_keys, .. } = &mut **rest;
        let slot = table.find_mut(key.hash, |slot| {
            slot.meta >> SET_SHIFT == set && Self::is_key(slot, key, long_keys)
        })?;
        if slot.is_large() {
            let large = large.get_mut(slot.index())?.as_mut()?;
            return Some(engine::decide_set(limits, large, now, cost, mode));
        }
        let mut words = slot.pair();
        let outcome = match (limits.greedy(), mode) {
            // The usual limit: nothing is collected, and the step is called by its name.
            (Some(step), Mode::Whole | Mode::Peek) => {
                engine::decide_pair(step, &mut words, now, cost, mode.is_peek()).into()
            }
            _ => engine::decide_set(limits, &mut words, now, cost, mode),
        };
        if outcome.changed {
            slot.set_pair(words);
        }
        Some(outcome)
    }

    /// Makes room for a subject that has no entry, before any state is taken: later, nothing may
    /// move. `before` newcomers of the same check were promised room already. False when the
    /// store is full.
    pub(super) fn prepare(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        before: usize,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) -> bool {
        self.drop_expired_shared(now);
        self.find(key, limits).is_some() || self.has_room(key, limits, now, before, rehash)
    }

    fn find(&self, key: &Key<'_>, limits: &LimitSet) -> Option<usize> {
        let Rest { sets, long_keys, .. } = &*self.rest;
        self.table.find_bucket_index(key.hash, |s| Self::is(s, key, limits, sets, long_keys))
    }

    /// Takes the state of a subject out, or makes one: with `room` its own, else what it shares.
    /// `nth` subjects of the same check have taken a shared state of this shard and set: each
    /// needs another. `put` must follow.
    pub(super) fn take(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        room: bool,
        nth: usize,
    ) -> Taken {
        if let Some(bucket) = self.find(key, limits) {
            return self.take_own(bucket, limits, now);
        }
        let alike = |shared: &&Shared| shared.limits.identity() == limits.identity();
        if room {
            // What it may have charged while it had no entry counts on.
            let (written_under, state) = match self.rest.shared.iter().find(alike) {
                Some(shared) => (Some(shared.limits.clone()), shared.state.copy()),
                None => (None, self.fresh(limits)),
            };
            if let Some(state) = state {
                return self.taken(Home::New, written_under, state, limits, now);
            }
        }
        let mut indices = (0..).zip(&self.rest.shared).filter(|(_, shared)| alike(shared));
        let Some((index, _)) = indices.nth(nth) else {
            let state = State::fresh_anyway(limits, &self.rest.budget);
            return self.taken(Home::Shared { index: None }, None, state, limits, now);
        };
        let written_under = self.rest.shared[index].limits.clone();
        let state = core::mem::replace(&mut self.rest.shared[index].state, State::Pair([0; 2]));
        self.taken(Home::Shared { index: Some(index) }, Some(written_under), state, limits, now)
    }

    /// A fresh state, or nothing when there is no room for it.
    fn fresh(&self, limits: &LimitSet) -> Option<State> {
        if limits.single_pair().is_some() {
            return Some(State::Pair([0; 2]));
        }
        Large::fresh(limits, &self.rest.budget).map(State::Large)
    }

    fn take_own(&mut self, bucket: usize, limits: &LimitSet, now: Time) -> Taken {
        let state = self.lift(bucket);
        let set = self.table.get_bucket(bucket).map(Slot::set);
        let written_under = set.and_then(|set| {
            let written_under = self.rest.sets.get(set)?.limits.clone();
            if written_under.counts_as(limits) {
                know(&mut self.rest.sets, &mut self.rest.by_serial, set, limits.serial());
            }
            Some(written_under)
        });
        self.taken(Home::Own { bucket }, written_under, state, limits, now)
    }

    /// A state on its way to a check: carried over when it was counted under other numbers.
    fn taken(
        &mut self,
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
        self.rest.marks.outlive(engine::refundable_until_us(&was, now));
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
            slot.set_long_key(place);
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
            know(&mut self.rest.sets, &mut self.rest.by_serial, index, serial);
            return index;
        }
        let index = self.rest.sets.insert(SetUse::new(limits.clone()));
        self.rest.by_serial.insert(serial, index);
        index
    }

    fn leave_set(&mut self, index: usize) {
        let Some(held) = self.rest.sets.get_mut(index) else { return };
        held.slots -= 1;
        if held.slots == 0 {
            let held = self.rest.sets.remove(index);
            held.forget(&mut self.rest.by_serial);
            self.usual = 0;
        }
    }

    fn drop_expired_shared(&mut self, now: Time) {
        self.rest.shared.retain_mut(|shared| {
            engine::fresh_at_us(&shared.limits, &mut shared.state) + SKEW_US > now.as_micros()
        });
    }

    /// Makes room for one more entry: expired entries go first, then the table grows while the
    /// budget lasts. False when the store is full.
    fn has_room(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        before: usize,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) -> bool {
        self.turn_hand(HAND_PER_INSERT, now);
        if !self.has_room_beside(key, limits) {
            self.turn_hand(HAND_WHEN_FULL, now);
            if !self.has_room_beside(key, limits) {
                return false;
            }
        }
        let wanted = before + 1;
        if self.table.len() + wanted <= self.table.capacity() {
            return true;
        }
        self.turn_hand(HAND_WHEN_FULL, now);
        if self.table.len() + wanted <= self.table.capacity() {
            return true;
        }
        let whole = capacity_of(self.table.num_buckets());
        if whole >= self.table.len() + wanted + whole / 16 {
            // Removed entries left marks that count as taken: write the table anew.
            self.rebuild(whole, rehash);
            return true;
        }
        if !self.rest.budget.has(self.table.allocation_size().max(256)) {
            return false;
        }
        // Looking through the whole shard is paid for by the growth that it may spare.
        self.sweep(now);
        if self.table.len() + wanted <= whole / 4 * 3 {
            self.rebuild(whole, rehash);
        } else {
            let Self { table, rest, .. } = self;
            let Rest { sets, long_keys, .. } = &**rest;
            table.reserve(wanted, |slot| hash_of(slot, sets, long_keys, rehash));
        }
        self.settle();
        true
    }

    /// Whether there is room for what a slot cannot hold itself: a long key, a large state.
    fn has_room_beside(&self, key: &Key<'_>, limits: &LimitSet) -> bool {
        let Rest { sets, long_keys, large, budget, .. } = &*self.rest;
        let mut needed = 0;
        if key.length == LONG {
            needed += key.bytes.len() + growth_of(long_keys);
        }
        if limits.single_pair().is_none() {
            needed += Large::first_bytes(limits) + growth_of(large);
        }
        sets.len() < MAX_SETS && budget.has(needed)
    }

    /// Removes what has expired in the next few buckets: what others do for a store that is full.
    pub(super) fn reclaim(&mut self, now: Time) {
        self.drop_expired_shared(now);
        self.turn_hand(HAND_WHEN_FULL, now);
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
        self.drop_expired_shared(now);
        self.rest.marks.sweep(now);
        self.settle();
        before - self.table.len()
    }

    /// Gives back the room that swept entries left.
    pub(super) fn shrink(&mut self, rehash: &impl Fn(&[u8], &LimitSet) -> u64) {
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, large, marks, .. } = &mut **rest;
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
        self.settle();
    }

    /// Forgets a subject. As long as anything charged before could be given back under its limits,
    /// these or those that it was written under, nothing is. True when it had an entry.
    pub(super) fn reset(&mut self, key: &Key<'_>, limits: &LimitSet, now: Time) -> bool {
        let found = self.find(key, limits);
        if let Some(bucket) = found {
            let slot = self.table.get_bucket(bucket);
            let was = slot.and_then(|slot| self.rest.sets.get(slot.set()));
            let was_until_us = was.map_or(0, |was| engine::refundable_until_us(&was.limits, now));
            let until_us = engine::refundable_until_us(limits, now).max(was_until_us);
            self.remove(bucket);
            let reset = Reset { charges: self.charges, at_us: now.as_micros(), until_us };
            self.rest.marks.reset(key.hash, reset, now);
            self.settle();
        }
        found.is_some()
    }

    /// Runs `visit` on what a subject's count is, its own or the one it shares: the limits that it
    /// is written under, its state, and whether it is shared. Nothing when it has none.
    pub(super) fn visit<T>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        visit: impl FnOnce(&LimitSet, &mut State, bool) -> T,
    ) -> Option<T> {
        if let Some(bucket) = self.find(key, limits) {
            let slot = self.table.get_bucket(bucket).copied()?;
            let written_under = self.rest.sets.get(slot.set())?.limits.clone();
            let mut state = self.lift(bucket);
            let answer = visit(&written_under, &mut state, false);
            self.lay(bucket, state, None);
            return Some(answer);
        }
        self.drop_expired_shared(now);
        let alike = |shared: &&mut Shared| shared.limits.identity() == limits.identity();
        let Shared { limits, state } = self.rest.shared.iter_mut().find(alike)?;
        Some(visit(limits, state, true))
    }

    /// What must be remembered of refunds, for as long as it matters; `settle` follows a change.
    pub(super) fn marks(&mut self) -> (&mut Marks, &Budget) {
        let Rest { marks, budget, .. } = &mut *self.rest;
        (marks, budget)
    }

    /// How many subjects have an entry of their own.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Pays for what is allocated now.
    pub(super) fn settle(&mut self) {
        let owed = self.table.allocation_size()
            + self.rest.long_keys.capacity() * size_of::<Box<[u8]>>()
            + self.rest.large.capacity() * size_of::<Option<Large>>()
            + self.rest.sets.capacity() * size_of::<SetUse>()
            + self.rest.marks.bytes();
        if owed > self.rest.paid {
            self.rest.budget.take(owed - self.rest.paid);
        } else {
            self.rest.budget.give(self.rest.paid - owed);
        }
        self.rest.paid = owed;
    }
}

/// How many entries a table of so many buckets holds before it grows.
fn capacity_of(buckets: usize) -> usize {
    if buckets < 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
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
