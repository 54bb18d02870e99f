//! The operations of the store around a store.

use core::time::Duration;

use tollgate::engine::{Mode, Outcome};
use tollgate::operation::{
    Adjust, Charge, Check, Inspect, Operation, Operations, Post, ReadNotices, Renew, Reset, Settle,
    Withdraw,
};
use tollgate::{
    Adjustment, Amounts, Charged, Counted, Facts, Hold, HoldKind, Inspection, Keeps, Notice,
    Notices, Question, Receipt, Refund, Settled, Store, StoreError, Time,
};

use crate::holding::Holding;
use crate::leased::{Leased, add, leased_of};

impl<S: Store> Leased<S> {
    /// The answer of a question about one leased count, if nothing needs to be asked.
    #[inline]
    fn leased_answer(
        &self,
        counted: &Counted<'_>,
        cost: Amounts<'_>,
        mode: Mode,
    ) -> Option<Outcome> {
        let (lease, cost) = leased_of(counted, cost)?;
        let hash = self.hash(counted.subject);
        // One line of memory, where the table would take several.
        if !self.0.recent.has(hash) {
            return None;
        }
        let mut shard = self.0.held.lock(hash);
        let held = shard.find(hash, |held| held.is(counted))?;
        let now_us = self.now_us();
        if mode.is_peek() {
            return held.holding.peek(cost, now_us);
        }
        self.0.recent.note(hash, now_us, lease.ttl().as_micros());
        let outcome = held.holding.at_once(lease, cost, now_us)?;
        drop(shard);
        Some(self.counted(outcome))
    }

    /// The answer of a question about one count, if it need not be waited for. Holds are the
    /// store's to keep, and `check` counts the questions that it was asked.
    #[inline]
    fn answer_now(&self, question: &Question<'_>) -> Option<Result<Outcome, StoreError>> {
        let Question { parts: [counted], cost, receipts: 1, request: None, hold: None, .. } =
            *question
        else {
            return None;
        };
        let mode @ (Mode::Whole | Mode::Peek) = question.mode else { return None };
        let known = match counted.limits.lease() {
            Some(_) => self.leased_answer(counted, cost, mode),
            None => self.denial(question.parts, cost, mode),
        };
        match known {
            Some(outcome) => Some(Ok(outcome)),
            None => self.0.store.perform_now(&Check::new(question)),
        }
    }
}

impl<S: Store> Store for Leased<S> {
    const KEEPS: Keeps = S::KEEPS;

    #[inline]
    fn identity(&self) -> u64 {
        self.0.store.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.0.store.issued(receipt)
    }

    #[inline]
    fn facts(&self) -> Facts {
        self.0.store.facts()
    }

    fn will_wait(&self, longest: Duration) {
        self.0.store.will_wait(longest);
    }

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        if self.0.passes {
            return self.0.store.perform(operation).await;
        }
        operation.visit(self).await
    }

    #[inline]
    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        if self.0.passes {
            return self.0.store.perform_now(operation);
        }
        operation.if_question(|question| self.answer_now(question))
    }
}

impl<S: Store> Operations for Leased<S> {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let Question { parts, cost, mode, request, .. } = *question;
        // A retry under a request id has to meet the store's memory of it, and holds are the
        // store's to keep.
        if request.is_some() || question.is_about_holds() {
            add(&self.0.counts.asked, 1);
            let answer = self.0.store.perform(&Check::new(question)).await;
            // A credit may admit what was denied.
            if question.hold.is_some_and(|terms| terms.id.kind() == HoldKind::Credit) {
                parts.iter().for_each(|part| self.forget_denials(part.subject, part.limits));
            }
            return answer;
        }
        if !parts.iter().any(|part| leased_of(part, cost).is_some()) {
            return self.ask(question).await;
        }
        // The rare case is boxed: the futures around a check hold its future and move it.
        match *parts {
            [part] if mode.is_peek() => match self.leased_answer(&part, cost, mode) {
                Some(outcome) => Ok(outcome),
                None => {
                    add(&self.0.counts.asked, 1);
                    self.0.store.perform(&Check::new(question)).await
                }
            },
            // Most subjects are seldom asked about.
            [part] if !self.knows(&part) => {
                add(&self.0.counts.asked, 1);
                self.0.store.perform(&Check::new(question)).await
            }
            [part] => Box::pin(self.check_one(question, part)).await,
            [..] if mode == Mode::Whole => Box::pin(self.check_several(question)).await,
            // Of several counts, a part of the cost is judged where all of them are.
            [..] => self.ask(question).await,
        }
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        self.refund_units(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        let changed = self.0.store.perform(&Adjust::new(counted, by)).await;
        self.forget_denials(counted.subject, counted.limits);
        changed
    }

    async fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        self.0.store.perform(&Charge::new(counted, cost)).await
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        let settled = self.0.store.perform(&Settle::new(hold, actual)).await;
        for (subject, limits) in &hold.counts {
            self.forget_denials(subject, limits);
        }
        settled
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        self.0.store.perform(&Renew::new(hold, ttl_us)).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let was = self.0.store.perform(&Reset::new(counted)).await;
        // Also after an error: the count may be gone.
        self.change(counted.subject, counted.limits, Holding::reset);
        was
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.store.perform(&Inspect::new(counted)).await
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        self.0.store.perform(&ReadNotices::new(seen)).await
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.0.store.perform(&Post::new(notice)).await
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        self.0.store.perform(&Withdraw::new(name)).await
    }
}
