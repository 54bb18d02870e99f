//! A store that fails when it is told to, and notes the deadlines that it is given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tollgate::engine::Outcome as Engine;
use tollgate::{Counted, Inspection, Question, Receipt, Refund, StoreError};

use super::failures::Log;
use super::*;

/// A store that fails when it is told to, and remembers the deadlines it was given.
#[derive(Clone)]
pub(crate) struct Failing {
    pub(crate) store: MemoryStore,
    pub(crate) answers_at_once: bool,
    pub(crate) fails: Arc<AtomicBool>,
    /// What fails is one state, and not the store.
    pub(crate) is_damage: bool,
    /// What was said where it was opened.
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
    fn identity(&self) -> u64 {
        self.store.identity()
    }

    fn deadline(&self) -> Option<Duration> {
        self.said
    }

    fn answers_at_once(&self) -> bool {
        self.answers_at_once
    }

    async fn check(&self, question: &Question<'_>) -> Result<Engine, StoreError> {
        self.deadlines.lock().unwrap().push(question.deadline);
        match (self.fails.load(Ordering::Relaxed), self.is_damage) {
            (true, true) => Err(StoreError::permanent("the state is damaged").alone()),
            (true, false) => Err(StoreError::transient("unplugged")),
            (false, _) => self.store.check(question).await,
        }
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.store.refund(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        self.store.adjust(counted, delta).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.store.reset(counted).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.store.inspect(counted).await
    }
}
