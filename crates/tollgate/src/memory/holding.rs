//! Checks that place holds or meet open ones, commits and renewals.

use smallvec::SmallVec;

use super::hash::shard_of;
use super::locked::guard;
use super::shard::{Lifted, Taken};
use super::slot::Key;
use super::state::{BoundedHolds, ROOM_FOR_HOLD, State};
use super::store::MemoryStore;
use crate::cost::Amounts;
use crate::engine::{self, Carries, HoldTable, Mode, OpenHold, Outcome, Part, decide};
use crate::error::StoreError;
use crate::hold::{Hold, HoldId, HoldKind, HoldName, HoldTerms, Settled};
use crate::limit::{LimitSet, MAX_UNITS};
use crate::question::Question;
use crate::time::Time;

impl MemoryStore {
    /// Decides a question over states that were taken out of their entries.
    ///
    /// # Errors
    /// The hold that it asks for cannot be placed.
    pub(super) fn decide_taken(
        &self,
        question: &Question<'_>,
        taken: &mut [Taken],
        now: Time,
    ) -> Result<Outcome, StoreError> {
        let is_hold = question.hold.is_some() && question.mode == Mode::Whole;
        if is_hold {
            // A state that new subjects share has its room in the part of the budget for that.
            let is_named = question.hold.is_some_and(|terms| terms.id.name().is_some());
            let shared = taken.iter().filter(|taken| taken.is_shared(true));
            let grows: usize = shared.map(|taken| taken.state.growth_by_hold(is_named)).sum();
            let is_own = taken.iter().any(|taken| !taken.is_shared(true));
            let has_room =
                self.0.budget.has_in_all(grows) && (!is_own || self.0.budget.has(ROOM_FOR_HOLD));
            // One that is answered again needs none.
            let is_known = |terms: &HoldTerms| {
                (terms.id.name().is_some() || terms.id.kind() == HoldKind::Credit)
                    && taken.iter().any(|it| it.state.holds().is_some_and(|it| it.knows(terms.id)))
            };
            let has_room = has_room || question.hold.is_some_and(is_known);
            if !has_room || taken.iter().any(Taken::is_nowhere) {
                return self.deny_for_room(question, now);
            }
            for taken in taken.iter_mut() {
                let state = core::mem::replace(&mut taken.state, State::Pair([0; 2]));
                taken.state = state.into_held(&self.0.budget);
            }
        }
        let mut holds: SmallVec<[Option<Box<BoundedHolds>>; 2]> =
            taken.iter_mut().map(|taken| taken.state.take_holds()).collect();
        let decided = {
            let each = question.parts.iter().zip(taken.iter_mut()).zip(&mut holds);
            let mut parts: SmallVec<[Part<'_>; 2]> = each
                .map(|((part, taken), holds)| {
                    let (carried, is_shared) = (taken.carried.clone(), taken.is_shared(true));
                    let part = Part::new(part.limits, &mut taken.state).carrying(carried);
                    with_holds(part.shared(is_shared), holds)
                })
                .collect();
            decide(&mut parts, now, question.cost, question.mode, question.hold.copied())
        };
        for (taken, holds) in taken.iter_mut().zip(holds) {
            taken.state.give_holds(holds);
        }
        decided.map_err(StoreError::from)
    }

    /// The answer to a hold that finds no room: that of limits that were just used up. An error
    /// would be answered by the failure rule, which may admit.
    fn deny_for_room(&self, question: &Question<'_>, now: Time) -> Result<Outcome, StoreError> {
        let mut spent: Vec<(State, HoldTable)> = Vec::new();
        for part in question.parts {
            let mut table = HoldTable::default();
            if let Some(hold) = part.limits.hold() {
                let ttl_us = hold.as_micros();
                let id = HoldId::random(HoldKind::Acquire, ttl_us);
                let end_us = now.as_micros() + ttl_us;
                table.place(OpenHold { end_us, id, cost: MAX_UNITS.into() });
            }
            spent.push((State::spent(part.limits, now, &self.0.budget), table));
        }
        let mut parts: SmallVec<[Part<'_>; 2]> = question
            .parts
            .iter()
            .zip(&mut spent)
            .map(|(part, (state, table))| Part::new(part.limits, state).shared(true).holding(table))
            .collect();
        let terms = question.hold.copied();
        let decided = decide(&mut parts, now, question.cost, question.mode, terms);
        let mut outcome = decided.map_err(StoreError::from)?;
        // None of it is kept.
        (outcome.granted, outcome.hold, outcome.changed) = (0, None, false);
        Ok(outcome)
    }

    pub(crate) fn settle_now(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        let settle = |parts: &mut [Part<'_>], asked: &[&LimitSet], now| {
            engine::settle(parts, asked, now, hold, actual)
        };
        let settle = || {
            let settled = self.with_count_in_place(hold, settle);
            settled.unwrap_or_else(|| self.with_counts(hold, settle))
        };
        let settled = settle()?;
        // A mark of a name that no hold has may need a new entry.
        match engine::early_name(hold, actual).filter(|_| settled.is_none()) {
            Some(name) if self.mark_early(hold, name)? => Ok(Some(Settled::early())),
            // It came between the two.
            Some(_) => settle(),
            None => Ok(settled),
        }
    }

    /// Leaves a mark on the first count of a hold that its name is over, unless it is open there or
    /// marked. The count stays under the limits that it is written under. True when it is new.
    fn mark_early(&self, hold: &Hold, name: HoldName) -> Result<bool, StoreError> {
        let full = || {
            StoreError::transient(
                "the store is full: there is no room to remember that this hold was released",
            )
        };
        let Some((subject, limits)) = hold.counts.first() else { return Ok(false) };
        if !self.0.budget.has_in_all(ROOM_FOR_HOLD) {
            return Err(full());
        }
        let mark = |written_under: &LimitSet, state: &mut State, now| {
            let before = core::mem::replace(state, State::Pair([0; 2]));
            *state = before.into_held(&self.0.budget);
            let mut holds = state.take_holds();
            let mut part = with_holds(Part::new(written_under, state), &mut holds);
            let is_new = engine::mark_early(&mut part, limits, now, name);
            state.give_holds(holds);
            is_new
        };
        let key = self.key(subject, limits);
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        if let Some((bucket, written_under, mut state)) = shard.lift_own(&key, limits) {
            let is_new = mark(&written_under, &mut state, now);
            shard.lay_own(bucket, state);
            return Ok(is_new);
        }
        let marked = self.with_state_of(&mut shard, &key, limits, now, |state, _, now, _| {
            mark(limits, state, now)
        });
        marked.ok_or_else(full)
    }

    pub(crate) fn renew_now(&self, hold: &Hold, ttl_us: u64) -> Option<Time> {
        let renew = |parts: &mut [Part<'_>], _: &[&LimitSet], now| {
            engine::renew(parts, now, hold.id, ttl_us)
        };
        self.with_count_in_place(hold, renew).unwrap_or_else(|| self.with_counts(hold, renew))
    }

    /// Runs `work` on the counts of a hold, all at one time, under the limits that each is written
    /// under. A count without an entry is left out.
    fn with_counts<T>(
        &self,
        hold: &Hold,
        work: impl FnOnce(&mut [Part<'_>], &[&LimitSet], Time) -> T,
    ) -> T {
        let counts = || hold.counts.iter().map(|(subject, limits)| (subject, limits));
        let keys: SmallVec<[Key<'_>; 2]> =
            counts().map(|(subject, limits)| self.key(subject, limits)).collect();
        let mut shards = self.lock_all(&keys);
        let now = self.0.clock.now();
        let (mut found, mut asked) = (Vec::new(), Vec::new());
        for (key, (_, limits)) in keys.iter().zip(counts()) {
            let index = shard_of(key.hash);
            let lifted = guard(&mut shards, index).lift_held(key, limits, hold.id);
            if let Some(mut lifted) = lifted {
                let holds = lifted.state.take_holds();
                found.push((index, lifted, holds));
                asked.push(limits);
            }
        }
        let answer = {
            let mut parts: Vec<Part<'_>> = found
                .iter_mut()
                .map(|(_, Lifted { written_under, state, is_shared, .. }, holds)| {
                    with_holds(Part::new(written_under, state).shared(*is_shared), holds)
                })
                .collect();
            work(&mut parts, &asked, now)
        };
        for (index, mut lifted, holds) in found {
            lifted.state.give_holds(holds);
            guard(&mut shards, index).lay_held(lifted);
        }
        answer
    }
}

/// The part with its holds, if it has any.
fn with_holds<'p>(part: Part<'p>, holds: &'p mut Option<Box<BoundedHolds>>) -> Part<'p> {
    match holds {
        Some(holds) => part.holding(&mut holds.table),
        None => part,
    }
}

/// Runs `work` on a count with its holds, for a change that is not a check.
pub(super) fn with_part<T>(
    limits: &LimitSet,
    state: &mut State,
    carried: &Carries,
    work: impl FnOnce(&mut Part<'_>) -> T,
) -> T {
    let mut holds = state.take_holds();
    let part = Part::new(limits, state).carrying(carried.clone());
    let answer = work(&mut with_holds(part, &mut holds));
    state.give_holds(holds);
    answer
}
