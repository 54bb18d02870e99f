//! The store as a node sees it: a while away, and sometimes cut off.

use core::future::Future;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::operation::Operation;
use tollgate::{Around, Clock, MemoryStore, Store as _, StoreError, Time};

use super::simulated_time::SimulatedTime;
use tollgate_logs::split_mix::SplitMix64;

/// The way of one node to the store.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) time: SimulatedTime,
    pub(super) store: MemoryStore,
    pub(super) round_trip_us: u64,
    /// How long a question without a deadline waits.
    pub(super) deadline_us: u64,
    /// When the node is cut off, by the time of the simulation.
    pub(super) away: Vec<(u64, u64)>,
    pub(super) chance: Mutex<SplitMix64>,
    /// The checks that reached the store, from all nodes.
    pub(super) questions: Arc<AtomicU64>,
}

/// The clock of a node, which may be fast or slow.
#[derive(Debug)]
pub(super) struct NodeClock {
    pub(super) time: SimulatedTime,
    pub(super) start_us: u64,
    pub(super) error_ppm: i64,
}

impl Clock for NodeClock {
    fn now(&self) -> Time {
        let passed = i128::from(self.time.now_us().saturating_sub(self.start_us));
        let shown = passed + passed * i128::from(self.error_ppm) / 1_000_000;
        let shown = u64::try_from(shown).unwrap_or(0);
        Time::from_micros(self.start_us.saturating_add(shown))
    }
}

impl Remote {
    fn is_away(&self, at_us: u64) -> bool {
        self.away.iter().any(|(from_us, until_us)| (*from_us..*until_us).contains(&at_us))
    }

    /// One way takes a quarter to three quarters of a round trip.
    fn way_us(&self) -> u64 {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        self.round_trip_us / 4 + chance.below(self.round_trip_us / 2 + 1)
    }

    /// Asks the store. A question or an answer that is on its way while the node is cut off is
    /// lost.
    async fn ask<T>(
        &self,
        deadline: Option<Duration>,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.time.note_question();
        let deadline_us = deadline.and_then(|it| u64::try_from(it.as_micros()).ok());
        let sent_us = self.time.now_us();
        let end_us = sent_us.saturating_add(deadline_us.unwrap_or(self.deadline_us));
        let asked_us = sent_us.saturating_add(self.way_us());
        if asked_us >= end_us || self.is_away(sent_us) || self.is_away(asked_us) {
            self.time.until(end_us).await;
            return Err(StoreError::transient("the store was not reached within the deadline"));
        }
        self.time.until(asked_us).await;
        let answer = answer.await;
        let answered_us = asked_us.saturating_add(self.way_us());
        if answered_us >= end_us || self.is_away(answered_us) {
            self.time.until(end_us).await;
            return Err(StoreError::ambiguous("the store's answer was late or lost"));
        }
        self.time.until(answered_us).await;
        answer
    }
}

impl Around for Remote {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let deadline = operation.question().and_then(|question| question.deadline);
        let perform = async {
            if operation.question().is_some() {
                self.questions.fetch_add(1, Ordering::Relaxed);
            }
            self.store.perform(operation).await
        };
        self.ask(deadline, perform).await
    }
}
