//! The fast path, for one subject with an entry under exactly the given limits, as in nearly every
//! check. It looks the entry up once and works on the state in place: 50 ns a check. The general
//! path takes 170 ns: it makes room first and takes states out (`check.rs`).

use slab::Slab;

use super::{KEY_BITS, Key, LARGE, Large, MAX_SETS, PLAIN, SET_BITS, SET_SHIFT, Shard, Slot};
use crate::engine::{DecideOne, Mode, Outcome, Single, States as _, decide_set};
use crate::limit::LimitSet;
use crate::memory::MemoryStore;
use crate::time::Time;

impl MemoryStore {
    /// Answers for a subject that has an entry under exactly these limits; `None` for any other.
    /// `one` converts the answer of a single limit, `set` that of several. `LITERAL` means that the
    /// subject is unparsed text rather than a written form; it then finds only entries that it
    /// certainly means.
    ///
    /// An answer is never moved: the processor stalls on a move of what was written just now.
    #[inline(always)]
    pub(crate) fn answer_known<const LITERAL: bool, T>(
        &self,
        subject: &str,
        limits: &LimitSet,
        (cost, mode): (u64, Mode),
        one: impl FnOnce(Single) -> T,
        set: impl FnOnce(&mut Outcome) -> T,
    ) -> Option<T> {
        let key = Key::new(subject.as_bytes(), self.hash(subject.as_bytes(), limits));
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let FoundEntry { slot, large, charges } = shard.known::<LITERAL>(&key, limits)?;
        let mut number = |granted: u64| {
            if granted == 0 || mode.is_peek() {
                return 0;
            }
            *charges += 1;
            Self::number(*charges, index)
        };
        let Some(step) = limits.only_step() else {
            let large = large.get_mut(slot.index())?.as_mut()?;
            let mut outcome = decide_set(limits, large, now, cost, mode);
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
}

impl Shard {
    /// The answer for a subject that has an entry under exactly this set, and the number of the
    /// first of so many charges if it was charged; `None` for any other subject.
    pub(in crate::memory) fn decide_known(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
        (cost, mode): (u64, Mode),
        (now, receipts): (Time, u64),
    ) -> Option<(Outcome, Option<u64>)> {
        let FoundEntry { slot, large, charges } = self.known::<false>(key, limits)?;
        let outcome = if slot.is_large() {
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
        let charge = (outcome.granted > 0 && !mode.is_peek()).then(|| {
            *charges += receipts;
            *charges + 1 - receipts
        });
        Some((outcome, charge))
    }
}

/// An entry that was found, and the other parts of the shard that its answer needs.
struct FoundEntry<'s> {
    slot: &'s mut Slot,
    large: &'s mut Slab<Option<Large>>,
    charges: &'s mut u64,
}

impl Shard {
    /// The entry of a subject under exactly this set.
    #[inline(always)]
    fn known<const LITERAL: bool>(
        &mut self,
        key: &Key<'_>,
        limits: &LimitSet,
    ) -> Option<FoundEntry<'_>> {
        let set = self.usual_set(limits)? << SET_SHIFT;
        let (mask, wanted) = match LITERAL {
            true => (!(KEY_BITS | LARGE), set | PLAIN),
            false => (!(KEY_BITS | LARGE | PLAIN), set),
        };
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
    pub(super) fn usual_set(&mut self, limits: &LimitSet) -> Option<u32> {
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
