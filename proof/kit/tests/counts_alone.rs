//! A store that keeps counts alone shows that by its type: the kit runs the cases of counts, and
//! tries that the store refuses the rest.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::engine::Outcome;
use tollgate::operation::{self, Adjust, Check, Inspect, Operation, Operations, Reset};
use tollgate::{
    Adjustment, Amounts, Charged, Counted, Facts, Hold, Inspection, Keeps, ManualClock,
    MemoryStore, Notice, Notices, Question, Receipt, Refund, Settled, Store, StoreError, Time,
};
use tollgate_proof::conformance;

/// Counts in memory. `KEEPS_ALL` is what it says wrongly.
struct Counts<const KEEPS_ALL: bool>(MemoryStore);

fn not_kept<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::misuse(format!("this store keeps no {what}")))
}

impl<const KEEPS_ALL: bool> Store for Counts<KEEPS_ALL> {
    const KEEPS: Keeps = if KEEPS_ALL { Keeps::ALL } else { Keeps::COUNTS };

    fn identity(&self) -> u64 {
        self.0.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.0.issued(receipt)
    }

    fn facts(&self) -> Facts {
        Facts::new(None, 0)
    }

    fn will_wait(&self, _: core::time::Duration) {}

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit(self).await
    }

    fn perform_now<O: Operation>(&self, _: &O) -> Option<Result<O::Answer, StoreError>> {
        None
    }
}

impl<const KEEPS_ALL: bool> Operations for Counts<KEEPS_ALL> {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        question.without_request()?;
        match question.hold {
            Some(_) if !question.mode.is_peek() => not_kept("holds"),
            _ => self.0.perform(&Check::new(question)).await,
        }
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        self.0.perform(&operation::Refund::new(receipt, units)).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        self.0.perform(&Adjust::new(counted, by)).await
    }

    async fn charge(&self, _: Counted<'_>, _: Amounts<'_>) -> Result<Vec<Charged>, StoreError> {
        not_kept("charges without a check")
    }

    async fn settle(&self, _: &Hold, _: Amounts<'_>) -> Result<Option<Settled>, StoreError> {
        not_kept("holds")
    }

    async fn renew(&self, _: &Hold, _: u64) -> Result<Option<Time>, StoreError> {
        not_kept("holds")
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.0.perform(&Reset::new(counted)).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.perform(&Inspect::new(counted)).await
    }

    async fn notices(&self, _: Option<u64>) -> Result<Option<Notices>, StoreError> {
        not_kept("notices")
    }

    async fn post(&self, _: &Notice) -> Result<(), StoreError> {
        not_kept("notices")
    }

    async fn withdraw(&self, _: &str) -> Result<bool, StoreError> {
        not_kept("notices")
    }
}

fn make<const KEEPS_ALL: bool>(clock: ManualClock) -> Counts<KEEPS_ALL> {
    Counts(MemoryStore::builder().clock(clock).build())
}

/// The cases that a store fails.
fn failed<const KEEPS_ALL: bool>() -> Vec<&'static str> {
    let maker = conformance::fewer(make::<KEEPS_ALL>, 5);
    let mut cases = conformance::cases();
    cases.retain(|case| catch_unwind(AssertUnwindSafe(|| (case.run)(&maker))).is_err());
    cases.iter().map(|case| case.name).collect()
}

#[test]
fn it_passes_the_cases_of_what_it_keeps() {
    assert_eq!(failed::<false>(), [""; 0]);
}

#[test]
fn one_that_says_that_it_keeps_all_fails() {
    let failed = failed::<true>();
    for case in ["a_hold_is_settled_once", "a_repeated_request_is_charged_once"] {
        assert!(failed.contains(&case), "{case} is not among {failed:?}");
    }
}
