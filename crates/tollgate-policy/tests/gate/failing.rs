//! A store that fails when the test asks for it, and records the deadlines that it gets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tollgate::operation::Operation;
use tollgate::{Facts, Keeps, Receipt, StoreError};

use super::failures::Log;
use super::*;

/// A store that fails when the test asks for it, and remembers the deadlines that it got.
#[derive(Clone)]
pub(crate) struct Failing {
    pub(crate) store: MemoryStore,
    pub(crate) answers_at_once: bool,
    pub(crate) fails: Arc<AtomicBool>,
    /// One state fails, and not the store.
    pub(crate) is_damage: bool,
    /// The deadline where it was opened.
    pub(crate) said: Option<Duration>,
    pub(crate) deadlines: Arc<Mutex<Vec<Option<Duration>>>>,
}

impl Failing {
    pub(crate) fn new() -> Self {
        // The first event of a place in the code, logged while the first subscriber starts, would
        // switch that place off for good (tracing keeps who is interested in it). So somebody
        // listens before any store fails.
        static LISTENS: Once = Once::new();
        LISTENS.call_once(|| {
            // Another test may have set one: that listens as well.
            let _ = tracing::subscriber::set_global_default(Log::default());
        });
        let (fails, deadlines) = (Arc::default(), Arc::default());
        let (is_damage, said) = (false, None);
        Self {
            store: MemoryStore::new(),
            answers_at_once: false,
            fails,
            is_damage,
            said,
            deadlines,
        }
    }
}

impl Store for Failing {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.store.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.store.issued(receipt)
    }

    fn facts(&self) -> Facts {
        Facts::new(self.said, 0).answering_at_once(self.answers_at_once)
    }

    fn will_wait(&self, _: Duration) {}

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        if let Some(question) = operation.question() {
            self.deadlines.lock().unwrap().push(question.deadline);
            match (self.fails.load(Ordering::Relaxed), self.is_damage) {
                (true, true) => return Err(StoreError::permanent("the state is damaged").alone()),
                (true, false) => return Err(StoreError::transient("unplugged")),
                (false, _) => {}
            }
        }
        self.store.perform(operation).await
    }

    fn perform_now<O: Operation>(&self, _: &O) -> Option<Result<O::Answer, StoreError>> {
        None
    }
}
