//! A store that keeps counts alone shows that by its type: the kit runs the cases of counts, and
//! tries that the rest is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::engine::Outcome;
use tollgate::operation::{self, Adjust, Check, Inspect, Operation, Operations, Reset};
use tollgate::{
    Adjustment, Amounts, Ask, Counted, Error, Inspection, Keeps, Limiter, ManualClock, MemoryStore,
    Question, Receipt, Refund, Store, StoreError,
};
use tollgate_proof::conformance;

/// Counts in memory. `KEEPS_ALL` is what it says wrongly.
struct Counts<const KEEPS_ALL: bool>(MemoryStore);

impl<const KEEPS_ALL: bool> Store for Counts<KEEPS_ALL> {
    const KEEPS: Keeps = if KEEPS_ALL { Keeps::ALL } else { Keeps::COUNTS };

    fn identity(&self) -> u64 {
        self.0.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.0.issued(receipt)
    }

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit(self).await
    }
}

impl<const KEEPS_ALL: bool> Operations for Counts<KEEPS_ALL> {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        // It knows of no holds and of no request ids, and is never asked for one.
        let Question { parts, cost, mode, .. } = *question;
        let mut outcome = self.0.perform(&Check::new(&Question::new(parts, cost, mode))).await?;
        // One that is, since its type is wrong, admits whoever asks for a slot.
        if question.hold.is_some() {
            outcome.granted = 1;
        }
        Ok(outcome)
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        self.0.perform(&operation::Refund::new(receipt, units)).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        self.0.perform(&Adjust::new(counted, by)).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.0.perform(&Reset::new(counted)).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.perform(&Inspect::new(counted)).await
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

/// Slots that a store admits without a hold would be free for everybody: it is an error, of a kind
/// that no failure rule admits.
#[test]
fn what_is_admitted_without_a_hold_is_an_error() {
    let limiter = Limiter::new("2 at once".parse().unwrap(), make::<true>(ManualClock::default()));
    for _ in 0..4 {
        let error = conformance::block_on(limiter.hold(Ask::new("ann").acquire())).unwrap_err();
        assert!(matches!(&error, Error::Ask(text) if text.contains("placed no hold")), "{error}");
    }
    let limiter = Limiter::new("2 at once".parse().unwrap(), make::<false>(ManualClock::default()));
    let error = conformance::block_on(limiter.hold(Ask::new("ann").acquire())).unwrap_err();
    assert!(matches!(&error, Error::Ask(text) if text.contains("keeps no holds")), "{error}");
}
