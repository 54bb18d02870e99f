//! The operations of a store, apart from checks and holds (`check.rs`, `holding.rs`).

use core::time::Duration;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::adjustment::Adjustment;
use crate::cost::Amounts;
use crate::decision::{Charges, Receipt, Refund};
use crate::engine::{self, Charged, Outcome, Portion};
use crate::error::StoreError;
use crate::hold::{Hold, Settled};
use crate::inspection::{Inspection, MAX_SHOWN_HOLDS};
use crate::limit::LimitSet;
use crate::notice::{Notice, Notices};
use crate::operation::{Operation, OperationsNow};
use crate::question::{Counted, Question};
use crate::store::{Facts, Keeps, Store};
use crate::subject::Subject;
use crate::time::Time;

use super::hash::{SHARDS, shard_of};
use super::store::{Ancestor, MemoryStore};
use super::{holding, state};

impl MemoryStore {
    /// Refunds one subject's part of a charge, under the limits that its state is written under
    /// now.
    fn refund_part_of(
        &self,
        charges: &Charges,
        receipt: &Receipt,
        portion: &Portion,
    ) -> SmallVec<[u64; 2]> {
        let key = self.key(&charges.subject, &charges.limits);
        let index = shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let (limits, at_us) = (&charges.limits, &charges.at_us);
        let (charge, numbered_by) = Self::charge_of(receipt.number);
        let before_reset = shard.marks().0.last_reset(key.hash).is_some_and(|reset| {
            if numbered_by == index {
                charge <= reset.charges
            } else {
                // Another shard counted this charge, so only times can be compared.
                at_us.iter().any(|at_us| receipt.counted_us(*at_us) <= reset.at_us)
            }
        });
        let nothing = || SmallVec::from_elem(0, at_us.len());
        if before_reset {
            return nothing();
        }
        let given = shard.visit(&key, limits, now, |written_under, state, _| {
            holding::with_part(written_under, state, &engine::Carries::new(), |part| {
                engine::refund(part, limits, (at_us, receipt.at), portion, now)
            })
        });
        given.unwrap_or_else(nothing)
    }

    pub(crate) fn refund_now(&self, receipt: &Receipt, units: Amounts<'_>) -> Refund {
        let (charge, index) = Self::charge_of(receipt.number);
        let portion = {
            let mut shard = self.lock(index);
            let now = self.0.clock.now();
            let (marks, budget) = shard.marks();
            // Marked even if it no longer counts: it might count again after the clock steps back.
            let until_us = engine::receipt_until_us(receipt).max(now.as_micros());
            let portion =
                marks.spend(charge, (receipt.cost.amounts(), units), until_us, now, budget);
            shard.settle();
            portion
        };
        let limits = receipt.charges.iter().map(|c| c.limits.limits().len()).sum();
        if portion.is_nothing() {
            return Refund::already(limits, portion.left_after());
        }
        let mut given = Vec::with_capacity(limits);
        for charges in &receipt.charges {
            given.extend(self.refund_part_of(charges, receipt, &portion));
        }
        Refund::new(given, portion.left_after())
    }

    pub(crate) fn adjust_now(&self, counted: Counted<'_>, by: &Adjustment) -> Vec<i64> {
        let adjust = |state: &mut state::State, carried: &engine::Carries, now, _| {
            holding::with_part(counted.limits, state, carried, |part| {
                engine::adjust(part, by, now).into_vec()
            })
        };
        self.with_state(counted, adjust).unwrap_or_else(|| vec![0; counted.limits.limits().len()])
    }

    pub(crate) fn charge_now(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        let charge = |state: &mut state::State, carried: &engine::Carries, now, shared: bool| {
            if state.holds().is_none() {
                return engine::charge(counted.limits, state, cost, !shared, now).into_vec();
            }
            holding::with_part(counted.limits, state, carried, |part| {
                engine::charge_holding(part, now, cost).into_vec()
            })
        };
        self.with_state(counted, charge).ok_or_else(|| {
            StoreError::transient("the store is full and has no room for this count: not charged")
        })
    }

    pub(crate) fn reset_now(&self, counted: Counted<'_>) -> bool {
        let key = self.key(counted.subject, counted.limits);
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        shard.reset(&key, counted.limits, now)
    }

    pub(crate) fn inspect_now(&self, subject: &Subject, limits: &LimitSet) -> Option<Inspection> {
        let key = self.key(subject, limits);
        let mut shard = self.lock(shard_of(key.hash));
        let now = self.0.clock.now();
        shard.visit(&key, limits, now, |written_under, state, shared| {
            let fresh_at = Time::from_micros(state.fresh_at_us(written_under));
            let (words, logs) = (state.words().to_vec(), state.logs());
            let open = state.holds().map(|holds| engine::open_holds(holds, now, MAX_SHOWN_HOLDS));
            let text = written_under.full_text().to_owned();
            let held = Inspection::new(text, words, logs, fresh_at, shared);
            held.holding(open.unwrap_or_default())
        })
    }
}

impl Store for MemoryStore {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.0.identity
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        let (charge, _) = Self::charge_of(receipt.number);
        let inherited =
            |ancestor: &Ancestor| ancestor.identity == receipt.store && charge <= ancestor.charges;
        receipt.store == self.0.identity || self.0.ancestors.iter().any(inherited)
    }

    #[inline]
    fn facts(&self) -> Facts {
        let forgotten = self.0.forgotten_requests.load(Ordering::Relaxed);
        Facts::new(None, forgotten).with_receipt_step(SHARDS as u64).answering_at_once(true)
    }

    fn will_wait(&self, _: Duration) {}

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit_now(self).unwrap_or_else(|| unreachable!("memory never waits"))
    }

    #[inline]
    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        operation.visit_now(self)
    }
}

impl OperationsNow for MemoryStore {
    #[inline]
    fn check(&self, question: &Question<'_>) -> Option<Result<Outcome, StoreError>> {
        self.answer(question)
    }

    fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Option<Result<Refund, StoreError>> {
        Some(Ok(self.refund_now(receipt, units)))
    }

    fn adjust(
        &self,
        counted: Counted<'_>,
        by: &Adjustment,
    ) -> Option<Result<Vec<i64>, StoreError>> {
        Some(Ok(self.adjust_now(counted, by)))
    }

    fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Option<Result<Vec<Charged>, StoreError>> {
        Some(self.charge_now(counted, cost))
    }

    fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Option<Result<Option<Settled>, StoreError>> {
        Some(self.settle_now(hold, actual))
    }

    fn renew(&self, hold: &Hold, ttl_us: u64) -> Option<Result<Option<Time>, StoreError>> {
        Some(Ok(self.renew_now(hold, ttl_us)))
    }

    fn reset(&self, counted: Counted<'_>) -> Option<Result<bool, StoreError>> {
        Some(Ok(self.reset_now(counted)))
    }

    fn inspect(&self, counted: Counted<'_>) -> Option<Result<Option<Inspection>, StoreError>> {
        Some(Ok(self.inspect_now(counted.subject, counted.limits)))
    }

    fn notices(&self, seen: Option<u64>) -> Option<Result<Option<Notices>, StoreError>> {
        Some(Ok(self.0.board.lock().all(seen, self.now())))
    }

    fn post(&self, notice: &Notice) -> Option<Result<(), StoreError>> {
        Some(self.0.board.lock().post(notice, self.now()))
    }

    fn withdraw(&self, name: &str) -> Option<Result<bool, StoreError>> {
        Some(Ok(self.0.board.lock().withdraw(name, self.now())))
    }
}
