//! A store that answers once more as another did.

use core::time::Duration;

use tollgate::engine::Outcome;
use tollgate::{Facts, Keeps, Receipt, Store, StoreError, operation};

/// A store that replays another store's answer to each check, so that the limiter makes the
/// decision again.
#[derive(Debug)]
pub struct Replay {
    /// The answer.
    pub outcome: Outcome,
    /// The limiter that gave the answer.
    pub identity: u64,
}

impl Store for Replay {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.identity
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.identity
    }

    fn facts(&self) -> Facts {
        Facts::new(None, 0).answering_at_once(true)
    }

    fn will_wait(&self, _: Duration) {}

    async fn perform<O: operation::Operation>(
        &self,
        operation: &O,
    ) -> Result<O::Answer, StoreError> {
        let answer = operation.if_question(|_| Some(Ok(self.outcome.clone())));
        answer.unwrap_or_else(|| {
            Err(StoreError::misuse("a decision that was made answers no other question"))
        })
    }

    fn perform_now<O: operation::Operation>(
        &self,
        operation: &O,
    ) -> Option<Result<O::Answer, StoreError>> {
        operation.if_question(|_| Some(Ok(self.outcome.clone())))
    }
}
