//! Checks over any subjects, under any limits, whether the store is full or not.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::hash::{SHARDS, shard_of};
use super::locked::{LockedShards, guard};
use super::shard::{Room, Shard, Taken, Wanted};
use super::slot::Key;
use super::state::{self, ROOM_FOR_HOLD};
use super::store::{MemoryStore, RECLAIMED_SHARDS};
use crate::engine::{self, Outcome};
use crate::error::StoreError;
use crate::limit::LimitSet;
use crate::question::{Counted, Question};
use crate::time::Time;

/// The answer of [`OperationsNow::check`](crate::operation::OperationsNow::check). It is written
/// where the caller wants it, since a move of data that was written just now stalls the processor.
type Answer = Option<Result<Outcome, StoreError>>;

impl MemoryStore {
    /// Answers a question without waiting: in place where it is about one subject that has an entry
    /// under exactly these limits, else as any question.
    ///
    /// # Errors
    /// No room for a hold that the question asks for; a request id that was used for another
    /// question.
    #[inline]
    pub(crate) fn answer(&self, question: &Question<'_>) -> Answer {
        match (question.parts, question.hold, question.request, question.cost.plain()) {
            ([part], None, None, Some(cost)) if question.receipts == 1 => {
                self.answer_in_place(part, cost, question)
            }
            ([part], None, None, None) => {
                let subject = part.subject.as_str();
                let known = self.answer_units::<false>(subject, part.limits, question);
                Some(known.map_or_else(|| self.answer_general(question), Ok))
            }
            _ => Some(self.answer_general(question)),
        }
    }

    /// [`MemoryStore::answer`], which never has to wait.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn answer_now(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        self.answer(question).unwrap_or_else(|| unreachable!("memory never waits"))
    }

    /// The part is lent: the processor stalls on a copy of data that was written just now.
    #[inline(never)]
    fn answer_in_place(&self, part: &Counted<'_>, cost: u64, question: &Question<'_>) -> Answer {
        let known = self.answer_known::<false, Answer>(
            part.subject.as_str(),
            part.limits,
            (cost, question.mode),
            |single| Some(Ok(Outcome::from(single))),
            |outcome| Some(Ok(outcome.take())),
        );
        match known {
            Some(answer) => answer,
            None => Some(self.answer_general(question)),
        }
    }

    /// Removes expired entries in a part of the next few shards, skipping shards that are locked.
    fn reclaim(&self, now: Time) {
        for _ in 0..RECLAIMED_SHARDS {
            let next = self.0.sweep_next.fetch_add(1, Ordering::Relaxed) % SHARDS;
            // Never waits for the lock: this check already holds locks.
            if let Some(mut shard) = self.0.shards[next].0.try_lock() {
                shard.reclaim(now);
            }
        }
    }

    /// Answers a question, whether its subjects have entries or not.
    ///
    /// # Errors
    /// As [`MemoryStore::answer`].
    #[inline(never)]
    pub(crate) fn answer_general(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        if let Some(outcome) = self.hold_known(question) {
            return Ok(outcome);
        }
        let keys = self.keys(question);
        let mut shards = self.lock_all(&keys);
        let now = self.0.clock.now();
        match question.request {
            None => self.decide_locked(question, &keys, &mut shards, now),
            Some(request) => self.decide_once(question, request, &keys, &mut shards, now),
        }
    }

    /// Decides a question whose shards are locked.
    ///
    /// # Errors
    /// As [`MemoryStore::answer`].
    #[inline]
    pub(super) fn decide_locked(
        &self,
        question: &Question<'_>,
        keys: &[Key<'_>],
        shards: &mut LockedShards<'_>,
        now: Time,
    ) -> Result<Outcome, StoreError> {
        let shards = &mut shards[..];
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let looking = question.mode.is_peek();
        // Room is made first, while no state is taken out: it may move entries.
        let rooms = self.rooms(question, keys, now, shards, looking);
        let mut taken: SmallVec<[Taken; 2]> = SmallVec::new();
        for ((part, key), room) in question.parts.iter().zip(keys).zip(&rooms) {
            let shard = guard(shards, shard_of(key.hash));
            taken.push(shard.take(key, part.limits, now, *room));
        }
        let decided = self.decide_taken(question, &mut taken, now);
        // A refusal changes nothing: its count stays as it was written.
        let nothing = || Outcome::new(0, SmallVec::new(), 0, now);
        let mut outcome = decided.as_ref().map_or_else(|_| nothing(), Outcome::clone);
        let charged = outcome.granted > 0 && !looking;
        outcome.shared = taken.iter().any(|taken| taken.is_shared(charged));
        if outcome.shared && !looking {
            self.count(&rooms);
        }
        // New entries are written last: until then every state returns to where it was found.
        let mut newcomers: SmallVec<[_; 2]> = SmallVec::new();
        for ((part, key), taken) in question.parts.iter().zip(keys).zip(taken) {
            if taken.is_new() {
                newcomers.push((part, key, taken));
                continue;
            }
            let shard = guard(shards, shard_of(key.hash));
            shard.put(key, part.limits, taken, outcome.changed, charged, &rehash);
        }
        for (part, key, taken) in newcomers {
            let shard = guard(shards, shard_of(key.hash));
            shard.put(key, part.limits, taken, outcome.changed, charged, &rehash);
        }
        // A repeated answer has no receipt: the first one had it.
        let is_repeated = outcome.hold.as_ref().is_some_and(|placed| placed.answer > 1);
        if charged
            && question.charges()
            && !is_repeated
            && let Some((index, shard)) = shards.first_mut()
        {
            outcome.receipt = Self::number(shard.next_charges(question.receipts), *index);
        }
        decided.map(|_| outcome)
    }

    /// The room of each part of a question: its entry or room for one, a shared state, or nothing.
    fn rooms(
        &self,
        question: &Question<'_>,
        keys: &[Key<'_>],
        now: Time,
        shards: &mut [(usize, MutexGuard<'_, Shard>)],
        looking: bool,
    ) -> SmallVec<[Room; 2]> {
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let parts = || question.parts.iter().map(|part| part.limits).zip(keys);
        if looking {
            let look = |(limits, key): (&LimitSet, &Key<'_>)| {
                guard(shards, shard_of(key.hash)).look(key, limits)
            };
            return parts().map(look).collect();
        }
        if question.hold.is_some() && !self.0.budget.has(ROOM_FOR_HOLD) {
            self.make_room_for_hold(shards, now);
        }
        let mut found: SmallVec<[Option<Room>; 2]> = SmallVec::new();
        for (before, (limits, key)) in parts().enumerate() {
            let shard = guard(shards, shard_of(key.hash));
            let far = shard.looks_far(now);
            let wanted = Wanted { before, a_hold: question.hold.is_some() };
            let mut room = shard.prepare(key, limits, now, wanted, far, &rehash);
            if room.is_none() && far {
                // All shards share one budget, so expired entries of other shards are removed
                // first.
                self.reclaim(now);
                let shard = guard(shards, shard_of(key.hash));
                room = shard.prepare(key, limits, now, wanted, far, &rehash);
                if room.is_none() {
                    shard.found_nothing(now);
                }
            }
            found.push(room);
        }
        // Shared states are claimed last: otherwise a fresh shared state might be dropped as
        // expired.
        let mut rooms: SmallVec<[Room; 2]> = SmallVec::new();
        for (at, ((limits, key), found)) in parts().zip(found).enumerate() {
            let room = found.unwrap_or_else(|| {
                let index = shard_of(key.hash);
                let alike = parts().take(at).zip(&rooms).filter(|((other, key), room)| {
                    matches!(room, Room::Shared { .. })
                        && shard_of(key.hash) == index
                        && other.identity() == limits.identity()
                });
                let nth = alike.count();
                guard(shards, index).share(limits, nth, now)
            });
            rooms.push(room);
        }
        rooms
    }

    /// Removes expired entries for the sake of a hold, also of a subject that has an entry.
    fn make_room_for_hold(&self, shards: &mut [(usize, MutexGuard<'_, Shard>)], now: Time) {
        let Some((_, shard)) = shards.first_mut() else { return };
        if shard.looks_far(now) {
            shard.reclaim(now);
            self.reclaim(now);
            if !self.0.budget.has(ROOM_FOR_HOLD) {
                shard.found_nothing(now);
            }
        }
    }

    /// Counts the checks that found no room.
    fn count(&self, rooms: &[Room]) {
        if rooms.contains(&Room::None) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        } else if rooms.iter().any(|room| matches!(room, Room::Shared { .. })) {
            self.0.shared.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs `work` on a subject's state and stores the result. `work` gets the change of numbers,
    /// the time, and whether several subjects share the state. `None` when there is room neither
    /// for a state nor for a shared one.
    pub(super) fn with_state<T>(
        &self,
        counted: Counted<'_>,
        work: impl FnOnce(&mut state::State, &engine::Carries, Time, bool) -> T,
    ) -> Option<T> {
        let key = self.key(counted.subject, counted.limits);
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        self.with_state_of(&mut shard, &key, counted.limits, now, work)
    }

    /// The same in a shard that is locked.
    pub(super) fn with_state_of<T>(
        &self,
        shard: &mut Shard,
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        work: impl FnOnce(&mut state::State, &engine::Carries, Time, bool) -> T,
    ) -> Option<T> {
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let wanted = Wanted { before: 0, a_hold: false };
        let room = shard.prepare(key, limits, now, wanted, true, &rehash);
        let room = room.unwrap_or_else(|| shard.share(limits, 0, now));
        if room == Room::None {
            return None;
        }
        let mut taken = shard.take(key, limits, now, room);
        let shared = taken.is_shared(true);
        let answer = work(&mut taken.state, &taken.carried, now, shared);
        let fresh = taken.state.fresh_at_us(limits) <= now.as_micros();
        // The new state may no longer contain some charges, which can still be refunded.
        shard.marks().0.outlive(engine::refundable_until_us(limits, now));
        shard.put(key, limits, taken, true, !fresh, &rehash);
        Some(answer)
    }
}

#[cfg(test)]
mod tests;
