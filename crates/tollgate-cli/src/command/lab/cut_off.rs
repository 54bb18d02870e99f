//! A store that a node does not reach for a while, as an experiment says.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tollgate::operation::Operation;
use tollgate::{Around, Store, StoreError};
use tollgate_experiments::experiment::NodesCase;

/// The store as one node sees it.
#[derive(Debug)]
pub(super) struct CutOff<S> {
    store: S,
    /// When the case began.
    begun: Arc<OnceLock<Instant>>,
    /// When the node is cut off, from the beginning of the case.
    away: Vec<(Duration, Duration)>,
    deadline: Duration,
}

impl<S: Store> CutOff<S> {
    /// The store as the node with this number sees it.
    pub(super) fn new(
        store: S,
        case: &NodesCase,
        node: u32,
        begun: &Arc<OnceLock<Instant>>,
    ) -> Self {
        let length = |us: u64| Duration::from_micros(us);
        let away = case.away_of(node).map(|(from, until)| (length(from), length(until)));
        Self {
            store,
            begun: Arc::clone(begun),
            away: away.collect(),
            deadline: length(case.deadline_us),
        }
    }

    /// Asks the store. While the node is cut off, no question gets there and no answer back.
    async fn ask<T>(
        &self,
        deadline: Option<Duration>,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let asked = Instant::now();
        let answer = if self.is_away() { None } else { Some(answer.await) };
        if let Some(answer) = answer.filter(|_| !self.is_away()) {
            return answer;
        }
        let end = asked + deadline.unwrap_or(self.deadline);
        tokio::time::sleep_until(end.into()).await;
        Err(StoreError::ambiguous("this node was cut off from the store"))
    }

    fn is_away(&self) -> bool {
        let since = self.begun.get().map(Instant::elapsed);
        let within =
            |at: Duration| self.away.iter().any(|(from, until)| (*from..*until).contains(&at));
        since.is_some_and(within)
    }
}

impl<S: Store> Around for CutOff<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.store
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let deadline = operation.question().and_then(|question| question.deadline);
        self.ask(deadline, self.store.perform(operation)).await
    }
}
