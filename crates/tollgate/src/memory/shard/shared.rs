//! The states that new subjects share while the store is full.

use super::{Key, Rest, Room, Shard, Shared, State};
use crate::hold::HoldId;
use crate::limit::LimitSet;
use crate::memory::slabs::table_bytes;
use crate::time::{SKEW_US, Time};

/// The number of shared states examined for expiry on each new subject.
const HAND_PER_NEWCOMER: usize = 2;

/// A state that was taken out for a hold that is known there.
#[derive(Debug)]
pub(in crate::memory) struct Lifted {
    bucket: usize,
    pub(in crate::memory) written_under: LimitSet,
    pub(in crate::memory) state: State,
    pub(in crate::memory) is_shared: bool,
}

impl Lifted {
    fn own((bucket, written_under, state): (usize, LimitSet, State)) -> Self {
        Self { bucket, written_under, state, is_shared: false }
    }
}

impl Shard {
    /// The index of the state that new subjects of these limits share.
    pub(super) fn find_shared(&self, limits: &LimitSet, nth: usize) -> Option<usize> {
        let rest = &*self.rest;
        if rest.shared.is_empty() {
            return None;
        }
        let hash = rest.sets.identity_hash(limits);
        rest.shared.find_bucket_index(hash, |shared| {
            let held = rest.sets.get(shared.set);
            shared.nth == nth
                && held.is_some_and(|held| held.limits.identity() == limits.identity())
        })
    }

    /// A share in the state of new subjects, with its set held until `put`. `nth` new subjects of
    /// the same check already share states of this shard and identity: each needs another.
    /// `Room::None` when there is no room for the set, or for another state.
    pub(in crate::memory) fn share(&mut self, limits: &LimitSet, nth: usize, now: Time) -> Room {
        self.drop_shared_if_expired(limits, nth, now);
        let found = self.find_shared(limits, nth).is_some();
        let Some(mut needed) = self.adoption_bytes(limits) else { return Room::None };
        if !found && nth > 0 {
            // This state has no reserved room.
            needed += State::least_bytes(limits) + self.places_growth(1);
        }
        if !self.rest.budget.has_in_all(needed) {
            return Room::None;
        }
        let set = self.use_set(limits);
        if !found {
            let state = State::fresh_anyway(limits, &self.rest.budget);
            self.insert_shared(Shared { set, nth, state });
        }
        self.settle();
        Room::Shared { set, nth }
    }

    /// Adds a state, which uses its set. The first of each set has a reserved place.
    pub(super) fn insert_shared(&mut self, new: Shared) {
        let (set, first) = (new.set, new.nth == 0);
        let Some(limits) = self.rest.sets.get(set).map(|held| held.limits.clone()) else { return };
        self.use_set(&limits);
        if !first {
            self.keep_places(1);
        }
        self.make_place();
        let rest = &mut *self.rest;
        let hash = rest.sets.identity_hash(&limits);
        let sets = &rest.sets;
        rest.shared.insert_unique(hash, new, |shared| {
            sets.get(shared.set).map_or(0, |held| sets.identity_hash(&held.limits))
        });
        if first {
            self.rest.sets.set_redeemed(set, true);
        }
    }

    /// Writes a shared state back under `set`, which was held for it.
    pub(super) fn put_shared(&mut self, bucket: usize, set: usize, state: State) {
        let Some(limits) = self.rest.sets.get(set).map(|held| &held.limits) else { return };
        let state = state.into_least(limits);
        let Some(shared) = self.rest.shared.get_bucket_mut(bucket) else { return };
        shared.state = state;
        let was = core::mem::replace(&mut shared.set, set);
        if shared.nth == 0 && was != set {
            self.rest.sets.set_redeemed(was, false);
            self.rest.sets.set_redeemed(set, true);
        }
        self.leave_set(was);
    }

    /// Writes a shared state back unchanged.
    pub(super) fn give_shared(&mut self, bucket: usize, state: State) {
        if let Some(shared) = self.rest.shared.get_bucket_mut(bucket) {
            shared.state = state;
        }
    }

    /// Takes out the state of a count that knows a hold: the subject's own, or one that it shares.
    /// [`Shard::lay_held`] must follow.
    pub(in crate::memory) fn lift_held(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        id: HoldId,
    ) -> Option<Lifted> {
        let own = self.lift_own(key, limits);
        if own.as_ref().is_some_and(|(.., state)| state.holds().is_some_and(|it| it.knows(id))) {
            return own.map(Lifted::own);
        }
        let shared = (0..).map_while(|nth| self.find_shared(limits, nth)).find(|bucket| {
            let shared = self.rest.shared.get_bucket(*bucket);
            shared.is_some_and(|it| it.state.holds().is_some_and(|holds| holds.knows(id)))
        });
        let Some(bucket) = shared else { return own.map(Lifted::own) };
        if let Some((bucket, _, state)) = own {
            self.lay_own(bucket, state);
        }
        let Rest { shared, sets, .. } = &mut *self.rest;
        let Shared { set, state, .. } = shared.get_bucket_mut(bucket)?;
        let written_under = sets.get(*set)?.limits.clone();
        let state = core::mem::replace(state, State::Pair([0; 2]));
        Some(Lifted { bucket, written_under, state, is_shared: true })
    }

    pub(in crate::memory) fn lay_held(&mut self, lifted: Lifted) {
        let Lifted { bucket, written_under, state, is_shared } = lifted;
        if is_shared {
            self.give_shared(bucket, state.into_least(&written_under));
            self.settle();
        } else {
            self.lay_own(bucket, state);
        }
    }

    /// Whether new subjects share states.
    pub(super) fn shares(&self) -> bool {
        !self.rest.shared.is_empty()
    }

    fn remove_shared(&mut self, bucket: usize) {
        let Ok(entry) = self.rest.shared.get_bucket_entry(bucket) else { return };
        let (Shared { set, nth, state }, _) = entry.remove();
        drop(state);
        if nth == 0 {
            self.rest.sets.set_redeemed(set, false);
        }
        self.leave_set(set);
        // The set reserves room for another state, so the freed bytes are not available.
        self.settle();
    }

    pub(super) fn is_shared_expired(&mut self, bucket: usize, now: Time) -> bool {
        let rest = &mut *self.rest;
        let Some(Shared { set, state, .. }) = rest.shared.get_bucket_mut(bucket) else {
            return false;
        };
        let Some(held) = rest.sets.get(*set) else { return true };
        state.fresh_at_us(&held.limits) + SKEW_US <= now.as_micros()
    }

    pub(super) fn drop_shared_if_expired(&mut self, limits: &LimitSet, nth: usize, now: Time) {
        if let Some(bucket) = self.find_shared(limits, nth)
            && self.is_shared_expired(bucket, now)
        {
            self.remove_shared(bucket);
        }
    }

    /// Examines the next few shared states, and drops the expired ones.
    pub(super) fn turn_shared_hand(&mut self, now: Time) {
        if self.rest.shared.is_empty() {
            return;
        }
        let buckets = self.rest.shared.num_buckets();
        for _ in 0..HAND_PER_NEWCOMER {
            self.rest.shared_hand = (self.rest.shared_hand + 1) % buckets;
            if self.is_shared_expired(self.rest.shared_hand, now) {
                self.remove_shared(self.rest.shared_hand);
            }
        }
    }

    pub(super) fn sweep_shared(&mut self, now: Time) {
        for bucket in 0..self.rest.shared.num_buckets() {
            if self.is_shared_expired(bucket, now) {
                self.remove_shared(bucket);
            }
        }
    }

    /// The bytes needed to write under a set; `None` when the shard has as many sets as it can
    /// have.
    pub(super) fn adoption_bytes(&mut self, limits: &LimitSet) -> Option<usize> {
        let bytes = self.rest.sets.room_for(limits)?;
        Some(if bytes == 0 { 0 } else { bytes + self.places_growth(1) })
    }

    /// The bytes by which the table of shared states grows to hold all reserved places, and some
    /// more.
    fn places_growth(&self, more: usize) -> usize {
        let table = &self.rest.shared;
        let wanted = self.rest.sets.promises() + more;
        if table.capacity() - table.len() >= wanted {
            return 0;
        }
        let bytes = table_bytes::<Shared>(with_slack(table.len() + wanted));
        bytes.saturating_sub(table.allocation_size())
    }

    /// Makes the reserved places, and some more.
    pub(super) fn keep_places(&mut self, more: usize) {
        let table = &self.rest.shared;
        let wanted = self.rest.sets.promises() + more;
        if table.capacity() - table.len() < wanted {
            self.rebuild_shared(with_slack(table.len() + wanted));
        }
    }

    /// Rebuilds the table at the same size: removed states leave tombstones that count as taken.
    fn make_place(&mut self) {
        let table = &self.rest.shared;
        if table.capacity() == table.len() {
            self.rebuild_shared(super::capacity_of(table.num_buckets()).max(table.len() + 1));
        }
    }

    /// Frees the places that are not reserved.
    pub(super) fn shrink_shared(&mut self) {
        let table = &self.rest.shared;
        let wanted = table.len() + self.rest.sets.promises();
        if table_bytes::<Shared>(wanted) < table.allocation_size() {
            self.rebuild_shared(wanted);
        }
    }

    fn rebuild_shared(&mut self, capacity: usize) {
        let rest = &mut *self.rest;
        let sets = &rest.sets;
        let hash = |shared: &Shared| {
            sets.get(shared.set).map_or(0, |held| sets.identity_hash(&held.limits))
        };
        let new = hashbrown::HashTable::with_capacity(capacity);
        for shared in core::mem::replace(&mut rest.shared, new) {
            rest.shared.insert_unique(hash(&shared), shared, hash);
        }
    }

    /// How many new subjects of one check share states of this shard and identity, for a snapshot.
    pub(super) fn shared_of(&self, limits: &LimitSet, most: usize) -> Option<usize> {
        (0..most).find(|nth| self.find_shared(limits, *nth).is_none())
    }

    /// Approximately the bytes that `shrink_shared` would free.
    pub(super) fn spare_shared(&self) -> usize {
        let wanted = self.rest.shared.len() + self.rest.sets.promises();
        self.rest.shared.allocation_size().saturating_sub(table_bytes::<Shared>(wanted))
    }
}

/// Some spare places, so that tombstones do not force a rebuild each time. A small table is
/// searched quickly.
fn with_slack(places: usize) -> usize {
    places + places / 8
}
