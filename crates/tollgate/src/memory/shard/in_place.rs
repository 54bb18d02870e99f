//! The fast path of holds, for one subject whose entry has holds, under exactly the given limits.
//! It looks the entry up once and works on the state in place. The general path makes room first
//! and takes states out (`memory/holding.rs`).

use super::{HELD, KEY_BITS, Key, LARGE, Large, PLAIN, SET_SHIFT, Shard};
use crate::engine::{HoldTable, Mode, Outcome, Part, decide_holding, hold_one};
use crate::error::StoreError;
use crate::hold::{Hold, HoldTerms};
use crate::limit::LimitSet;
use crate::memory::MemoryStore;
use crate::memory::holding::{ROOM_FOR_HOLD, too_many};
use crate::store::Counted;
use crate::time::Time;

impl MemoryStore {
    /// Decides a question of one subject that asks for a hold; `None` for any that the general path
    /// has to see.
    pub(in crate::memory) fn hold_in_place(
        &self,
        asked: Counted<'_>,
        cost: u64,
        terms: &HoldTerms,
        receipts: u64,
    ) -> Option<Result<Outcome, StoreError>> {
        let Counted { subject, limits, .. } = asked;
        let key = self.key(subject, limits);
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let Held { large, charges } = shard.held(&key, limits)?;
        if !self.0.budget.has(ROOM_FOR_HOLD) {
            return None;
        }
        let mut number = || {
            *charges += receipts;
            Self::number(*charges + 1 - receipts, index)
        };
        large.in_place(|large, table| {
            if let Some(mut outcome) = hold_one(limits, large, table, now, cost, terms) {
                if terms.charges() {
                    outcome.receipt = number();
                }
                return Ok(outcome);
            }
            let part = Part::new(limits, large).holding(table);
            let decided = decide_holding(&mut [part], now, cost, Mode::Whole, Some(*terms));
            let mut outcome = decided.map_err(too_many)?;
            if outcome.granted > 0 && terms.charges() {
                outcome.receipt = number();
            }
            Ok(outcome)
        })
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
        let Held { large, .. } = shard.held(&key, limits)?;
        large.in_place(|large, table| {
            work(&mut [Part::new(limits, large).holding(table)], &[limits], now)
        })
    }
}

/// An entry that was found, and what else of the shard its answer needs.
struct Held<'s> {
    large: &'s mut Large,
    charges: &'s mut u64,
}

impl Shard {
    /// The entry of a subject under exactly this set, if it has holds.
    fn held(&mut self, key: &Key<'_>, limits: &LimitSet) -> Option<Held<'_>> {
        let wanted = self.usual_set(limits)? << SET_SHIFT | LARGE | HELD;
        let Self { table, rest, charges, .. } = self;
        let super::Rest { large, long_keys, .. } = &mut **rest;
        let slot = table.find(key.hash, |slot| {
            slot.meta & !(KEY_BITS | PLAIN) == wanted && Self::is_key(slot, key, long_keys)
        })?;
        Some(Held { large: large.get_mut(slot.index())?.as_mut()?, charges })
    }
}

impl Large {
    /// Runs `work` on the state and its holds; `None` if it has none.
    fn in_place<T>(&mut self, work: impl FnOnce(&mut Self, &mut HoldTable) -> T) -> Option<T> {
        let mut holds = self.holds.take()?;
        let answer = work(self, &mut holds.table);
        holds.settle();
        self.holds = Some(holds);
        Some(answer)
    }
}
