//! The operations of the store around a store.

use core::time::Duration;

use tollgate::engine::{Mode, Outcome};
use tollgate::{
    Charged, Counted, Hold, HoldTerms, Inspection, Notice, Notices, Question, Receipt, Refund,
    Settled, Store, StoreError, Time,
};

use crate::holding::Holding;
use crate::leased::{Leased, add};

impl<S: Store> Leased<S> {
    /// The answer of a question about one leased count, if nothing needs to be asked.
    #[inline]
    fn leased_answer(&self, counted: &Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        let lease = counted.limits.lease()?;
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
}

/// Whether a question places a hold, or is about slots.
fn is_held(question: &Question<'_>) -> bool {
    question.hold.is_some() || question.parts.iter().any(|part| part.limits.counts_slots())
}

impl<S: Store> Store for Leased<S> {
    #[inline]
    fn identity(&self) -> u64 {
        self.0.store.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.0.store.issued(receipt)
    }

    fn receipt_step(&self) -> u64 {
        self.0.store.receipt_step()
    }

    fn deadline(&self) -> Option<Duration> {
        self.0.store.deadline()
    }

    fn will_wait(&self, longest: Duration) {
        self.0.store.will_wait(longest);
    }

    #[inline]
    fn answers_at_once(&self) -> bool {
        self.0.passes
    }

    fn forgotten_requests(&self) -> u64 {
        self.0.store.forgotten_requests()
    }

    #[inline]
    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        if self.0.passes {
            return self.0.store.check_at_once(counted, cost, mode);
        }
        match counted.limits.lease() {
            Some(_) => self.leased_answer(&counted, cost, mode),
            None => self.denial(&[counted], cost, mode),
        }
        .or_else(|| self.0.store.check_at_once(counted, cost, mode))
    }

    #[inline]
    fn hold_at_once(&self, counted: Counted<'_>, cost: u64, terms: &HoldTerms) -> Option<Outcome> {
        // Holds are the store's to keep. `check` counts the questions that it was asked.
        if self.0.passes { self.0.store.hold_at_once(counted, cost, terms) } else { None }
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let Question { ref parts, cost, mode, request, .. } = *question;
        if self.0.passes {
            return self.0.store.check(question).await;
        }
        // A retry under a request id has to meet the store's memory of it, and holds are the
        // store's to keep.
        if request.is_some() || is_held(question) {
            add(&self.0.counts.asked, 1);
            return self.0.store.check(question).await;
        }
        let is_leased = parts.iter().any(|part| part.limits.lease().is_some());
        if !is_leased {
            return self.ask(question).await;
        }
        // What is rare is in a box: the futures around a check hold its future and move it.
        match parts[..] {
            [part] if mode.is_peek() => match self.leased_answer(&part, cost, mode) {
                Some(outcome) => Ok(outcome),
                None => {
                    add(&self.0.counts.asked, 1);
                    self.0.store.check(question).await
                }
            },
            // Most subjects are seldom asked about.
            [part] if !self.knows(&part) => {
                add(&self.0.counts.asked, 1);
                self.store().check(question).await
            }
            [part] => Box::pin(self.check_one(question, part)).await,
            [..] if mode == Mode::Whole => Box::pin(self.check_several(question)).await,
            // Of several counts, a part of the cost is judged where all of them are.
            [..] => self.ask(question).await,
        }
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.refund_units(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        let changed = self.0.store.adjust(counted, delta).await;
        self.forget_denials(counted.subject, counted.limits);
        changed
    }

    async fn charge(&self, counted: Counted<'_>, cost: u64) -> Result<Vec<Charged>, StoreError> {
        self.0.store.charge(counted, cost).await
    }

    async fn settle(&self, hold: &Hold, actual: u64) -> Result<Option<Settled>, StoreError> {
        let settled = self.0.store.settle(hold, actual).await;
        for (subject, limits) in &hold.counts {
            self.forget_denials(subject, limits);
        }
        settled
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        self.0.store.renew(hold, ttl_us).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let was = self.0.store.reset(counted).await;
        // Also after an error: the count may be gone.
        self.change(counted.subject, counted.limits, Holding::reset);
        was
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.store.inspect(counted).await
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        self.0.store.notices(seen).await
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.0.store.post(notice).await
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        self.0.store.withdraw(name).await
    }
}
