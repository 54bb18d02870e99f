//! The fast path, for one subject with an entry under exactly the given limits, as in nearly every
//! check. It looks the entry up once and works on the state in place: 50 ns a check. The general
//! path takes 170 ns: it makes room first and takes states out (`memory/check.rs`).

use slab::Slab;

use super::{HELD, KEY_BITS, Key, LARGE, Large, MAX_SETS, PLAIN, SET_BITS, SET_SHIFT, Shard, Slot};
use crate::engine::{
    DecideOne, Mode, Outcome, Part, Single, States as _, decide, decide_set, hold_one,
};
use crate::hold::Hold;
use crate::limit::LimitSet;
use crate::memory::hash::shard_of;
use crate::memory::state::ROOM_FOR_HOLD;
use crate::memory::store::MemoryStore;
use crate::question::{Counted, Question};
use crate::time::Time;

impl MemoryStore {
    /// Answers for a subject that has an entry under exactly these limits, which count requests
    /// alone; `None` for any other.
    /// `one` converts the answer of a single limit, `set` that of several. `LITERAL` means that the
    /// subject is unparsed text rather than a written form; it then finds only entries that it
    /// certainly means.
    ///
    /// An answer is never moved: the processor stalls on a move of data that was written just now.
    #[inline(always)]
    pub(crate) fn answer_known<const LITERAL: bool, T>(
        &self,
        subject: &str,
        limits: &LimitSet,
        (cost, mode): (u64, Mode),
        one: impl FnOnce(Single) -> T,
        set: impl FnOnce(&mut Outcome) -> T,
    ) -> Option<T> {
        if !limits.is_plain() {
            return None;
        }
        let key = Key::new(subject.as_bytes(), self.hash(subject.as_bytes(), limits));
        let index = shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let FoundEntry { slot, large, charges } = shard.known::<LITERAL, false>(&key, limits)?;
        let mut number = |granted: u64| {
            if granted == 0 || mode.is_peek() {
                return 0;
            }
            *charges += 1;
            Self::number(*charges, index)
        };
        let Some(step) = limits.only_plain_step() else {
            let large = large.get_mut(slot.index())?.as_mut()?;
            let mut outcome = decide_set(limits, large, now, cost.into(), mode);
            outcome.receipt = number(outcome.granted);
            drop(shard);
            return Some(set(&mut outcome));
        };
        let ask = DecideOne { now, cost, mode };
        let mut single = if slot.is_large() {
            let large = large.get_mut(slot.index())?.as_mut()?;
            ask.over_cell(step, &mut large.cell(limits.places()[0]))
        } else {
            let (single, words) = ask.over_pair(step, slot.pair());
            if single.changed {
                slot.set_pair(words);
            }
            single
        };
        single.receipt = number(single.granted);
        drop(shard);
        Some(one(single))
    }

    /// The same for a cost of any units, which these limits count.
    #[inline(never)]
    pub(crate) fn answer_units<const LITERAL: bool>(
        &self,
        subject: &str,
        limits: &LimitSet,
        question: &Question<'_>,
    ) -> Option<Outcome> {
        let key = Key::new(subject.as_bytes(), self.hash(subject.as_bytes(), limits));
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        shard.decide_known::<LITERAL>(&key, limits, question, now)
    }

    /// Places a hold on a count that has holds already. `None` for any that the general path has to
    /// see, and where too many are open: nothing was placed or charged then.
    pub(in crate::memory) fn hold_known(&self, question: &Question<'_>) -> Option<Outcome> {
        let ([part], Some(terms), None, Some(cost)) =
            (question.parts, question.hold, question.request, question.cost.plain())
        else {
            return None;
        };
        if question.mode != Mode::Whole {
            return None;
        }
        let Counted { subject, limits, .. } = *part;
        let key = self.key(subject, limits);
        let index = shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let FoundEntry { slot, large, charges } = shard.known::<false, true>(&key, limits)?;
        if !self.0.budget.has(ROOM_FOR_HOLD) {
            return None;
        }
        let large = large.get_mut(slot.index())?.as_mut()?;
        let mut holds = large.holds.take()?;
        let table = &mut holds.table;
        let mut outcome = hold_one(limits, large, table, now, cost, terms);
        if outcome.is_none() {
            let part = Part::new(limits, large).holding(table);
            outcome = decide(&mut [part], now, cost.into(), Mode::Whole, Some(*terms)).ok();
        }
        holds.settle();
        large.holds = Some(holds);
        if let Some(outcome) = &mut outcome
            && outcome.granted > 0
            && terms.charges()
            && outcome.hold.as_ref().is_some_and(|placed| placed.answer <= 1)
        {
            outcome.receipt = Self::number(*charges + 1, index);
            *charges += question.receipts;
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
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        if shard.shares() {
            // It may be open on the state that was shared before there was an entry.
            return None;
        }
        let FoundEntry { slot, large, .. } = shard.known::<false, true>(&key, limits)?;
        let large = large.get_mut(slot.index())?.as_mut()?;
        let mut holds = large.holds.take()?;
        let part = Part::new(limits, large).holding(&mut holds.table);
        let answer = work(&mut [part], &[limits], now);
        holds.settle();
        large.holds = Some(holds);
        Some(answer)
    }
}

/// An entry that was found, and the other parts of the shard that its answer needs.
struct FoundEntry<'s> {
    slot: &'s mut Slot,
    large: &'s mut Slab<Option<Large>>,
    charges: &'s mut u64,
}

impl Shard {
    /// The answer to a question about a subject that has an entry under exactly this set; `None`
    /// for any other subject.
    #[inline]
    pub(in crate::memory) fn decide_known<const LITERAL: bool>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        question: &Question<'_>,
        now: Time,
    ) -> Option<Outcome> {
        let Question { cost, mode, .. } = *question;
        let FoundEntry { slot, large, charges } = self.known::<LITERAL, false>(key, limits)?;
        let mut outcome = if slot.is_large() {
            let large = large.get_mut(slot.index())?.as_mut()?;
            decide_set(limits, large, now, cost, mode)
        } else {
            let mut words = slot.pair();
            let outcome = decide_set(limits, &mut words, now, cost, mode);
            if outcome.changed {
                slot.set_pair(words);
            }
            outcome
        };
        if outcome.granted > 0 && !mode.is_peek() {
            outcome.receipt = MemoryStore::number(*charges + 1, shard_of(key.hash));
            *charges += question.receipts;
        }
        Some(outcome)
    }

    /// The entry of a subject under exactly this set, if it has no holds, or if it has (`HOLDS`).
    #[inline(always)]
    fn known<const LITERAL: bool, const HOLDS: bool>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
    ) -> Option<FoundEntry<'_>> {
        let set = self.usual_set(limits)? << SET_SHIFT;
        let mut mask = !(KEY_BITS | LARGE | PLAIN);
        let mut wanted = set;
        if LITERAL {
            (mask, wanted) = (mask | PLAIN, wanted | PLAIN);
        }
        if HOLDS {
            (mask, wanted) = (mask | LARGE, wanted | LARGE | HELD);
        }
        let Self { table, rest, charges, .. } = self;
        let super::Rest { large, long_keys, .. } = &mut **rest;
        let slot = table.find_mut(key.hash, |slot| {
            slot.meta & mask == wanted && Self::is_key(slot, key, long_keys)
        })?;
        Some(FoundEntry { slot, large, charges })
    }

    /// The index of a set that states are written under, remembered from the last check.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // an index of at most SET_BITS bits
    fn usual_set(&mut self, limits: &LimitSet) -> Option<u32> {
        if self.usual >> SET_BITS != limits.serial() {
            self.find_usual(limits.serial())?;
        }
        Some((self.usual & (MAX_SETS as u64 - 1)) as u32)
    }

    /// A separate function: nearly every check is under the set used last.
    #[cold]
    #[inline(never)]
    fn find_usual(&mut self, serial: u64) -> Option<()> {
        let set = self.rest.sets.by_serial(serial)?;
        self.usual = serial << SET_BITS | set as u64;
        Some(())
    }
}
