//! One shard: a table of small slots, the data that does not fit into them, and the behaviour of a
//! full store.

use std::sync::Arc;

use hashbrown::HashTable;
use slab::Slab;

use super::marks::{Marks, Reset};
use super::requests::Requests;
use super::sets::{Sets, ShardSets};
use super::slabs::{self, to_u32};
use super::slot::{HELD, KEY_BITS, Key, LARGE, LONG, MAX_SETS, PLAIN, SET_BITS, SET_SHIFT, Slot};
use super::state::{Budget, Large, State};
use crate::engine;
use crate::limit::LimitSet;
use crate::time::Time;

mod fast_path;
mod room;
mod saved;
mod shared;
mod taken;

pub(super) use saved::{Kept, Sizes};
pub(super) use shared::Lifted;

use taken::Home;
pub(super) use taken::{Room, Taken, Wanted};

/// The fields of the fast path come first and fit into one cache line together with the lock.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    /// The set used last, nearly always the one wanted next: its serial above its index. A serial
    /// too large to fit never takes the fast path.
    usual: u64,
    charges: u64,
    rest: Box<Rest>,
}

#[derive(Debug)]
struct Rest {
    long_keys: Slab<Box<[u8]>>,
    large: Slab<Option<Large>>,
    sets: ShardSets,
    shared: HashTable<Shared>,
    marks: Marks,
    requests: Requests,
    /// The position of the search for expired entries, as a bucket index.
    hand: usize,
    shared_hand: usize,
    fruitless: Fruitless,
    budget: Arc<Budget>,
    paid: usize,
}

/// The last long search that found nothing.
#[derive(Debug, Default)]
struct Fruitless {
    at_us: u64,
    /// How many more new subjects skip the search.
    newcomers: u32,
}

/// A state that the new subjects of one identity share. It is found by the identity, not by the
/// numbers: other numbers must not give a fresh count.
#[derive(Debug)]
struct Shared {
    /// The set that it is written under.
    set: usize,
    /// 0, or from 1 up for further new subjects of one check, which need one state each.
    nth: usize,
    state: State,
}

impl Shard {
    /// An empty shard that numbers its charges from `charges` + 1.
    pub(super) fn new(sets: &Arc<Sets>, budget: &Arc<Budget>, charges: u64) -> Self {
        let rest = Rest {
            long_keys: Slab::new(),
            large: Slab::new(),
            sets: ShardSets::new(sets),
            shared: HashTable::new(),
            marks: Marks::default(),
            requests: Requests::default(),
            hand: 0,
            shared_hand: 0,
            fruitless: Fruitless::default(),
            budget: Arc::clone(budget),
            paid: 0,
        };
        // No set has the serial 0.
        Self { table: HashTable::new(), usual: 0, charges, rest: rest.into() }
    }

    /// The next charge number, unique in this shard.
    #[inline]
    pub(super) fn next_charges(&mut self, receipts: u64) -> u64 {
        let first = self.charges + 1;
        self.charges += receipts;
        first
    }

    /// Whether a slot is the count of `key` under `limits`.
    #[inline]
    fn is(
        slot: &Slot,
        key: &Key<'_>,
        limits: &LimitSet,
        sets: &ShardSets,
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

    fn find(&self, key: &Key<'_>, limits: &LimitSet) -> Option<usize> {
        let Rest { sets, long_keys, .. } = &*self.rest;
        self.table.find_bucket_index(key.hash, |s| Self::is(s, key, limits, sets, long_keys))
    }

    /// Takes a subject's state out of its slot, or creates one, as `room` allows. `put` must
    /// follow.
    pub(super) fn take(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        room: Room,
    ) -> Taken {
        match room {
            Room::Own => match self.find(key, limits) {
                Some(bucket) => self.take_own(bucket, limits, now),
                None => self.take_new(limits, now),
            },
            Room::Shared { set, nth } => self.take_shared(limits, now, set, nth),
            Room::None => Taken {
                home: Home::Nowhere,
                state: State::spent(limits, now, &self.rest.budget),
                shared: true,
                before: None,
                carried: engine::Carries::new(),
            },
        }
    }

    /// The state of a new subject. Charges to a shared state before it had an entry still count.
    fn take_new(&mut self, limits: &LimitSet, now: Time) -> Taken {
        let found = self.find_shared(limits, 0).filter(|at| !self.is_shared_expired(*at, now));
        let shared = found.and_then(|bucket| self.rest.shared.get_bucket(bucket));
        let Some(Shared { set, state, .. }) = shared else {
            let state = State::fresh_anyway(limits, &self.rest.budget);
            return self.taken(Home::New, None, state, limits, now);
        };
        let written_under = self.rest.sets.get(*set).map(|held| held.limits.clone());
        let state = state.copy();
        Taken { shared: true, ..self.taken(Home::New, written_under, state, limits, now) }
    }

    fn take_shared(&mut self, limits: &LimitSet, now: Time, set: usize, nth: usize) -> Taken {
        let bucket = self.find_shared(limits, nth).unwrap_or(usize::MAX);
        let (mut state, mut written_under) = (State::Pair([0; 2]), None);
        if let Some(shared) = self.rest.shared.get_bucket_mut(bucket) {
            state = core::mem::replace(&mut shared.state, state);
            written_under = self.rest.sets.get(shared.set).map(|held| held.limits.clone());
        }
        let home = Home::Shared { bucket, set };
        Taken { shared: true, ..self.taken(home, written_under, state, limits, now) }
    }

    fn take_own(&mut self, bucket: usize, limits: &LimitSet, now: Time) -> Taken {
        let state = self.lift(bucket);
        let set = self.table.get_bucket(bucket).map(Slot::set);
        let written_under = set.and_then(|set| {
            let written_under = self.rest.sets.get(set)?.limits.clone();
            if written_under.counts_as(limits) {
                self.rest.sets.know(set, limits.serial());
            }
            Some(written_under)
        });
        self.taken(Home::Own { bucket }, written_under, state, limits, now)
    }

    /// Prepares a state for a check: carries it over if it was counted under other numbers.
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
            _ => {
                let carried = engine::Carries::new();
                return Taken { home, state, shared: false, before: None, carried };
            }
        };
        let mut over = State::fresh_anyway(limits, &self.rest.budget);
        let holds = state.take_holds();
        let carried = match &holds {
            None => engine::migrate(limits, &mut over, &was, &mut state, now),
            Some(holds) => {
                let table = &holds.table;
                engine::migrate_holding(limits, &mut over, &was, &mut state, table, now)
            }
        };
        if let Some(holds) = &holds {
            over = over.with_holds(holds.table.clone(), &self.rest.budget);
        }
        state.give_holds(holds);
        self.rest.marks.outlive(engine::refundable_until_us(&was, now));
        Taken { home, state: over, shared: false, before: Some(state), carried }
    }

    /// Takes the state of a subject out of its entry, with the limits that it is written under.
    /// [`Shard::lay_own`] must follow.
    pub(super) fn lift_own(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
    ) -> Option<(usize, LimitSet, State)> {
        let bucket = self.find(key, limits)?;
        let slot = self.table.get_bucket(bucket)?;
        let written_under = self.rest.sets.get(slot.set())?.limits.clone();
        Some((bucket, written_under, self.lift(bucket)))
    }

    /// Writes a state back into the entry that it was taken out of.
    pub(super) fn lay_own(&mut self, bucket: usize, state: State) {
        self.lay(bucket, state, None);
    }

    /// Takes the state out of a slot.
    fn lift(&mut self, bucket: usize) -> State {
        let Some(slot) = self.table.get_bucket(bucket) else { return State::Pair([0; 2]) };
        if slot.is_large() {
            let large = self.rest.large.get_mut(slot.index()).and_then(Option::take);
            return large.map_or(State::Pair([0; 2]), State::Large);
        }
        State::Pair(slot.pair())
    }

    /// Writes a state back. `keep`: it has changed. `charged`: it was charged.
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
            // The first thing that is known of a subject may be a denial that a ban counts, or a
            // place in line.
            Home::New if keep && (!state.is_fresh() || state.is_waited_for()) => {
                self.insert(key, limits, state, rehash);
            }
            Home::New => {}
            Home::Shared { bucket, set } => {
                match before {
                    Some(before) if !keep => {
                        self.give_shared(bucket, before);
                        self.leave_set(set);
                    }
                    _ => self.put_shared(bucket, set, state),
                }
                self.settle();
            }
            Home::Nowhere => {}
        }
    }

    /// Writes a state into a slot, under another set if one is given.
    fn lay(&mut self, bucket: usize, state: State, limits: Option<&LimitSet>) {
        let Some(slot) = self.table.get_bucket(bucket).copied() else { return };
        let under = limits.or_else(|| Some(&self.rest.sets.get(slot.set())?.limits));
        let state = match under {
            Some(under) => state.into_least(under),
            None => state,
        };
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
                new.meta &= !(LARGE | HELD);
                new.set_pair(words);
            }
            State::Large(large) if slot.is_large() => {
                new.set_held(large.holds.is_some());
                if let Some(place) = self.rest.large.get_mut(slot.index()) {
                    *place = Some(large);
                }
            }
            State::Large(large) => {
                new.meta |= LARGE;
                new.set_held(large.holds.is_some());
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
        match state.into_least(limits) {
            State::Pair(words) => slot.set_pair(words),
            State::Large(large) => {
                slot.meta |= LARGE;
                slot.set_held(large.holds.is_some());
                slot.state[0] = to_u32(self.rest.large.insert(Some(large)));
            }
        }
        let Self { table, rest, .. } = self;
        let Rest { sets, long_keys, .. } = &mut **rest;
        table.insert_unique(key.hash, slot, |slot| hash_of(slot, sets, long_keys, rehash));
        self.settle();
    }

    /// Adds a user to a set, and returns the set's index.
    fn use_set(&mut self, limits: &LimitSet) -> usize {
        let (index, new) = self.rest.sets.enter(limits);
        if new {
            self.keep_places(0);
        }
        index
    }

    fn leave_set(&mut self, index: usize) {
        if self.rest.sets.leave(index) {
            self.usual = 0;
        }
    }

    /// Resets a subject. Charges before the reset are not refunded, for as long as their limits, or
    /// those that the state was written under, would allow it. True when there was something to
    /// forget.
    pub(super) fn reset(&mut self, key: &Key<'_>, limits: &LimitSet, now: Time) -> bool {
        self.rest.requests.forget(key.hash);
        let reset = Reset { charges: self.charges, at_us: now.as_micros(), until_us: 0 };
        let Some(bucket) = self.find(key, limits) else {
            // Its charges may have outlived it.
            self.rest.marks.reset(key.hash, reset, now);
            self.settle();
            return false;
        };
        let slot = self.table.get_bucket(bucket);
        let was = slot.and_then(|slot| self.rest.sets.get(slot.set()));
        let was_until_us = was.map_or(0, |was| engine::refundable_until_us(&was.limits, now));
        let until_us = engine::refundable_until_us(limits, now).max(was_until_us);
        let mut state = self.lift(bucket);
        let counted = !state.is_fresh();
        let mut holds = state.take_holds();
        let was_held = holds.as_mut().is_none_or(|holds| holds.table.reset());
        match holds {
            // Records of settled holds outlive the reset.
            Some(holds) if !holds.table.is_empty() => {
                let fresh = State::fresh_anyway(limits, &self.rest.budget);
                let state = fresh.with_holds(holds.table.clone(), &self.rest.budget);
                self.lay(bucket, state, Some(limits));
            }
            _ => self.remove(bucket),
        }
        self.rest.marks.reset(key.hash, Reset { until_us, ..reset }, now);
        self.settle();
        counted || was_held
    }

    /// Runs `visit` on a subject's count, its own or the shared one: the limits that it is written
    /// under, its state, and whether it is shared. `None` when there is no count.
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
        let bucket = self.find_shared(limits, 0).filter(|at| !self.is_shared_expired(*at, now))?;
        let Rest { shared, sets, .. } = &mut *self.rest;
        let Shared { set, state, .. } = shared.get_bucket_mut(bucket)?;
        Some(visit(&sets.get(*set)?.limits, state, true))
    }

    /// The marks of refunds and resets. Call `settle` after a change.
    pub(super) fn marks(&mut self) -> (&mut Marks, &Budget) {
        let Rest { marks, budget, .. } = &mut *self.rest;
        (marks, budget)
    }

    /// The records of requests of its counts.
    pub(super) fn requests(&mut self) -> &mut Requests {
        &mut self.rest.requests
    }

    /// The same, and the budget. Call `settle` after it has grown.
    pub(super) fn requests_and_budget(&mut self) -> (&mut Requests, &Budget) {
        let Rest { requests, budget, .. } = &mut *self.rest;
        (requests, budget)
    }

    /// The number of subjects with a separate entry.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Updates the budget to the present allocations.
    pub(super) fn settle(&mut self) {
        let rest = &*self.rest;
        let owed = self.table.allocation_size()
            + slabs::bytes(&rest.long_keys)
            + slabs::bytes(&rest.large)
            + rest.sets.bytes()
            + rest.shared.allocation_size()
            + rest.marks.bytes()
            + rest.requests.bytes();
        if owed > self.rest.paid {
            self.rest.budget.take(owed - self.rest.paid);
        } else {
            self.rest.budget.give(self.rest.paid - owed);
        }
        self.rest.paid = owed;
    }
}

/// The number of entries that a table with this number of buckets holds before it grows.
fn capacity_of(buckets: usize) -> usize {
    if buckets < 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
}

fn hash_of(
    slot: &Slot,
    sets: &ShardSets,
    long_keys: &Slab<Box<[u8]>>,
    rehash: &impl Fn(&[u8], &LimitSet) -> u64,
) -> u64 {
    let Some(held) = sets.get(slot.set()) else { return 0 };
    if slot.meta & KEY_BITS == LONG {
        return long_keys.get(slot.long_key()).map_or(0, |bytes| rehash(bytes, &held.limits));
    }
    rehash(&slot.key[..(slot.meta & KEY_BITS) as usize], &held.limits)
}
