//! Stores around a store: one keeps what the store answered, one answers what was kept.

use std::sync::Mutex;

use tollgate::engine::{Charged, Mode, Outcome};
use tollgate::{
    Counted, Decision, Error, Hold, Inspection, Limiter, Question, Receipt, Refund, Settled, Store,
    StoreError, Time,
};
use tollgate_binding::{Answer, Keep, Operation, lock};

use crate::numbers::Numbers;

/// A store whose last answer is kept: a decision does not tell all of it.
#[derive(Debug)]
pub(crate) struct Tap<'s, S> {
    store: &'s S,
    answer: Mutex<Option<Outcome>>,
}

impl<'s, S: Store> Tap<'s, S> {
    pub(crate) fn new(store: &'s S) -> Self {
        Self { store, answer: Mutex::new(None) }
    }

    /// The last answer.
    pub(crate) fn answer(&self) -> Option<Outcome> {
        lock(&self.answer).take()
    }

    fn keep(&self, outcome: &Outcome) {
        *lock(&self.answer) = Some(outcome.clone());
    }
}

impl<S: Store> Store for Tap<'_, S> {
    fn identity(&self) -> u64 {
        self.store.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.store.issued(receipt)
    }

    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        let outcome = self.store.check_at_once(counted, cost, mode)?;
        self.keep(&outcome);
        Some(outcome)
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let outcome = self.store.check(question).await?;
        self.keep(&outcome);
        Ok(outcome)
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.store.refund(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        self.store.adjust(counted, delta).await
    }

    async fn charge(&self, counted: Counted<'_>, cost: u64) -> Result<Vec<Charged>, StoreError> {
        self.store.charge(counted, cost).await
    }

    async fn settle(&self, hold: &Hold, actual: u64) -> Result<Option<Settled>, StoreError> {
        self.store.settle(hold, actual).await
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        self.store.renew(hold, ttl_us).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.store.reset(counted).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.store.inspect(counted).await
    }
}

impl Keep for Numbers {
    async fn ask<S: Store>(
        operation: &Operation,
        limiter: &Limiter<S>,
    ) -> Result<Answer<Self>, Error> {
        let tapped = Limiter::new(limiter.limits().clone(), Tap::new(limiter.store()));
        operation.perform(&tapped, numbers).await
    }
}

/// The numbers of a decision. Who has one has the store's answer too.
fn numbers<S: Store>(limiter: &Limiter<Tap<'_, S>>, decision: Decision<'_>) -> Numbers {
    let outcome = limiter.store().answer();
    outcome.map(|outcome| Numbers::of(&decision, &outcome)).unwrap_or_default()
}

/// A store that answers each check with an answer of another store, of which the limiter makes the
/// decision anew.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The answer.
    pub(crate) outcome: Outcome,
    /// Whose answer it was.
    pub(crate) identity: u64,
}

impl Replay {
    fn refuse<T>() -> Result<T, StoreError> {
        Err(StoreError::misuse("a decision that was made answers no other question"))
    }
}

impl Store for Replay {
    fn identity(&self) -> u64 {
        self.identity
    }

    fn check_at_once(&self, _: Counted<'_>, _: u64, _: Mode) -> Option<Outcome> {
        Some(self.outcome.clone())
    }

    async fn check(&self, _: &Question<'_>) -> Result<Outcome, StoreError> {
        Ok(self.outcome.clone())
    }

    async fn refund(&self, _: &Receipt, _: u64) -> Result<Refund, StoreError> {
        Self::refuse()
    }

    async fn adjust(&self, _: Counted<'_>, _: i64) -> Result<Vec<i64>, StoreError> {
        Self::refuse()
    }

    async fn reset(&self, _: Counted<'_>) -> Result<bool, StoreError> {
        Self::refuse()
    }

    async fn inspect(&self, _: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        Self::refuse()
    }
}
