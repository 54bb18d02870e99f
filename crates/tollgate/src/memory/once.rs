//! Checks under request ids.

use core::sync::atomic::Ordering;

use super::locked::LockedShards;
use super::requests::{Asked, Entry};
use super::shard::Shard;
use super::slot::Key;
use super::store::MemoryStore;
use crate::ask::RequestId;
use crate::engine::{Outcome, Recalled, Remembered};
use crate::error::StoreError;
use crate::limit::LimitSet;
use crate::question::Question;
use crate::time::Time;

impl MemoryStore {
    /// Decides a question under a request id: as before, if it was admitted before.
    ///
    /// # Errors
    /// The id was used for another question; a question for a hold; as
    /// [`MemoryStore::decide_locked`].
    pub(super) fn decide_once(
        &self,
        question: &Question<'_>,
        request: RequestId<'_>,
        keys: &[Key<'_>],
        shards: &mut LockedShards<'_>,
        now: Time,
    ) -> Result<Outcome, StoreError> {
        if question.hold.is_some() {
            return Err(StoreError::misuse(
                "a hold is not remembered under a request id: ask without one",
            ));
        }
        let Some(first) = keys.first() else {
            return self.decide_locked(question, keys, shards, now);
        };
        let asked = self.asked(question, first, request, now);
        let place = Self::place(shards, first);
        let home = &mut shards[place].1;
        let recalled = home.requests().recall(first.hash, &asked, now.as_micros())?;
        if let Recalled::Repeated(known) = recalled {
            return Ok(known);
        }
        let known = match question.parts {
            [part] => home.decide_known::<false>(first, part.limits, question, now),
            _ => None,
        };
        let outcome = match known {
            Some(outcome) => outcome,
            None => self.decide_locked(question, keys, shards, now)?,
        };
        let (outcome, is_kept) = recalled.judged(outcome, question.mode);
        if is_kept {
            let entry = Entry { asked, answer: Remembered::new(&outcome) };
            let forgotten = shards[place].1.remember(first.hash, entry, now);
            self.0.forgotten_requests.fetch_add(forgotten, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    fn asked(
        &self,
        question: &Question<'_>,
        first: &Key<'_>,
        request: RequestId<'_>,
        now: Time,
    ) -> Asked {
        let id = request.text().as_bytes();
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(id.iter().rev()) {
            *to = *from;
        }
        let remembered_us = u64::try_from(request.time().as_micros()).unwrap_or(u64::MAX);
        let until_us = now.as_micros().saturating_add(remembered_us);
        let hash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let ask = question.cost.first() << 2 | u64::from(question.mode.number());
        // The first count is the one that remembers.
        let each = question.parts.iter().enumerate();
        let cost = match (question.cost.plain(), question.parts.first()) {
            (None, Some(part)) => hash(question.cost.to_string().as_bytes(), part.limits),
            _ => 0,
        };
        let described = each.fold(mixed(cost, ask), |sum, (at, part)| {
            let subject = match at {
                0 => first.hash,
                _ => hash(part.subject.as_str().as_bytes(), part.limits),
            };
            mixed(mixed(sum, subject), hash(part.limits.full_text().as_bytes(), part.limits))
        });
        let limits = question.parts.first().map(|part| part.limits);
        let hashed = limits.map_or(0, |limits| hash(id, limits));
        let own = if request.is_of_each_question() { described } else { 0 };
        let id = u128::from(u64::from_le_bytes(last) ^ own) << 64 | u128::from(hashed);
        let [question @ .., _] = described.to_be_bytes();
        Asked { id, until_us, question, repeats: 0 }
    }
}

/// One number of two, which depends on their order.
fn mixed(a: u64, b: u64) -> u64 {
    (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Shard {
    fn remember(&mut self, count: u64, entry: Entry, now: Time) -> u64 {
        let (requests, budget) = self.requests_and_budget();
        let forgotten = requests.remember(count, entry, now.as_micros(), budget);
        self.settle();
        forgotten
    }
}
