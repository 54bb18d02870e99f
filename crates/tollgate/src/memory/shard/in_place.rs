//! The fast path of holds, for one subject whose entry has holds, under exactly the given limits.
//! It looks the entry up once and works on the state in place. The general path makes room first
//! and takes states out (`memory/holding.rs`).

use super::{HELD, KEY_BITS, Key, LARGE, Large, PLAIN, SET_SHIFT, Shard};
use crate::engine::{Mode, Outcome, Part, decide_holding, hold_one};
use crate::hold::{Hold, HoldTerms};
use crate::limit::LimitSet;
use crate::memory::MemoryStore;
use crate::memory::holding::ROOM_FOR_HOLD;
use crate::store::Counted;
use crate::time::Time;

impl MemoryStore {
    /// Decides a question of one subject that asks for a hold. `None` for any that the general path
    /// has to see, and where too many are open: nothing was placed or charged then.
    pub(in crate::memory) fn hold_in_place(
        &self,
        asked: Counted<'_>,
        cost: u64,
        terms: &HoldTerms,
        receipts: u64,
    ) -> Option<Outcome> {
        let Counted { subject, limits, .. } = asked;
        let key = self.key(subject, limits);
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let FoundCount { large, charges } = shard.held(&key, limits)?;
        if !self.0.budget.has(ROOM_FOR_HOLD) {
            return None;
        }
        let mut holds = large.holds.take()?;
        let table = &mut holds.table;
        let mut outcome = hold_one(limits, large, table, now, cost, terms);
        if outcome.is_none() {
            let part = Part::new(limits, large).holding(table);
            outcome = decide_holding(&mut [part], now, cost, Mode::Whole, Some(*terms)).ok();
        }
        holds.settle();
        large.holds = Some(holds);
        if let Some(outcome) = &mut outcome
            && outcome.granted > 0
            && terms.charges()
            && outcome.hold.as_ref().is_some_and(|placed| placed.answer <= 1)
        {
            outcome.receipt = Self::number(*charges + 1, index);
            *charges += receipts;
        }
        outcome
    }

    /// Runs `work` on the count of a hold that is open on one; `None` for any other.
    pub(in crate::memory) fn with_count_in_place<T>(
        &self,
        hold: &Hold,
        work: impl FnOnce(&mut [Part<'_>], &[&LimitSet], Time) -> T,
    ) -> Option<T> {
        let [(subject, limits)] = &hold.counts[..] else { return None };
        let key = self.key(subject, limits);
        let mut shard = self.lock(Self::shard_of(key.hash));
        let now = self.0.clock.now();
        if shard.shares() {
            // It may be open on the state that was shared before there was an entry.
            return None;
        }
        let FoundCount { large, .. } = shard.held(&key, limits)?;
        let mut holds = large.holds.take()?;
        let part = Part::new(limits, large).holding(&mut holds.table);
        let answer = work(&mut [part], &[limits], now);
        holds.settle();
        large.holds = Some(holds);
        Some(answer)
    }
}

/// An entry that was found, and what else of the shard its answer needs.
struct FoundCount<'s> {
    large: &'s mut Large,
    charges: &'s mut u64,
}

impl Shard {
    /// The entry of a subject under exactly this set, if it has holds.
    fn held(&mut self, key: &Key<'_>, limits: &LimitSet) -> Option<FoundCount<'_>> {
        let wanted = self.usual_set(limits)? << SET_SHIFT | LARGE | HELD;
        let Self { table, rest, charges, .. } = self;
        let super::Rest { large, long_keys, .. } = &mut **rest;
        let slot = table.find(key.hash, |slot| {
            slot.meta & !(KEY_BITS | PLAIN) == wanted && Self::is_key(slot, key, long_keys)
        })?;
        Some(FoundCount { large: large.get_mut(slot.index())?.as_mut()?, charges })
    }
}
