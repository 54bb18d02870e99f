//! Stores around a store: one keeps what the store answered, one answers what was kept.

use std::sync::Mutex;
use std::time::Duration;

use tollgate::engine::Outcome;
use tollgate::{Decision, Error, Facts, Keeps, Limiter, Receipt, Store, StoreError, operation};
use tollgate_binding::{BindingAnswer, Keep, Operation, lock};

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

    fn keep<O: operation::Operation>(&self, answer: &O::Answer) {
        if let Some(outcome) = O::outcome(answer) {
            *lock(&self.answer) = Some(outcome.clone());
        }
    }
}

impl<S: Store> Store for Tap<'_, S> {
    const KEEPS: Keeps = S::KEEPS;

    fn identity(&self) -> u64 {
        self.store.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.store.issued(receipt)
    }

    fn facts(&self) -> Facts {
        self.store.facts()
    }

    fn will_wait(&self, longest: Duration) {
        self.store.will_wait(longest);
    }

    async fn perform<O: operation::Operation>(
        &self,
        operation: &O,
    ) -> Result<O::Answer, StoreError> {
        let answer = self.store.perform(operation).await?;
        self.keep::<O>(&answer);
        Ok(answer)
    }

    fn perform_now<O: operation::Operation>(
        &self,
        operation: &O,
    ) -> Option<Result<O::Answer, StoreError>> {
        let answer = self.store.perform_now(operation)?;
        if let Ok(answer) = &answer {
            self.keep::<O>(answer);
        }
        Some(answer)
    }
}

impl Keep for Numbers {
    async fn ask<S: Store>(
        operation: &Operation,
        limiter: &Limiter<S>,
    ) -> Result<BindingAnswer<Self>, Error> {
        let tapped = Limiter::new(limiter.limits().clone(), Tap::new(limiter.store()));
        operation.perform(&tapped, numbers).await
    }
}

/// The numbers of a decision. A holder of one has the store's answer too.
fn numbers<S: Store>(limiter: &Limiter<Tap<'_, S>>, decision: Decision<'_>) -> Numbers {
    let outcome = limiter.store().answer();
    outcome.map(|outcome| Numbers::of(&decision, &outcome)).unwrap_or_default()
}
