//! Holds and jobs that nobody heard of: given back where the answer that has them is not delivered.

use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tollgate::engine::{HoldRefusal, MAX_REPEATS};
use tollgate::{Error, Hold, Store as _, at_once};
use tollgate_policy::Gate;
use tollgate_stores::AnyStore;

use crate::listen::Undelivered;

/// The most that is given back at a time. Units beyond the bound expire by themselves.
const MAX_AT_ONCE: usize = 4_096;

/// The outcome of a hold or a job whose answer was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The store has it back.
    GivenBack,
    /// It was not open any more; of a job: it is done, or in other hands.
    NotOpen,
    /// The store failed, or there were too many at a time: it ends by itself.
    Failed,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::GivenBack, Self::NotOpen, Self::Failed];

    /// The outcome of a hold that was open or not, or of a store that failed.
    pub(crate) fn of(released: Option<bool>) -> Self {
        match released {
            Some(true) => Self::GivenBack,
            Some(false) => Self::NotOpen,
            None => Self::Failed,
        }
    }

    /// The word for labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GivenBack => "given_back",
            Self::NotOpen => "not_open",
            Self::Failed => "failed",
        }
    }
}

/// The counters of holds, or of a queue's jobs, whose answers were not delivered.
#[derive(Debug)]
pub(crate) struct Deliveries {
    fates: [AtomicU64; Fate::ALL.len()],
    places: Arc<Semaphore>,
    /// When it was last warned of an id that is given to many holds, or to many checks.
    warned: [Mutex<Option<Instant>>; 2],
}

/// The reason for an id that was asked for too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    Hold,
    Check,
}

/// The time between two warnings of an id that is given to many holds, or to many checks.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

impl Default for Deliveries {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(MAX_AT_ONCE));
        Self { fates: Default::default(), places, warned: Default::default() }
    }
}

impl Deliveries {
    /// The number with this fate.
    pub(crate) fn get(&self, fate: Fate) -> u64 {
        self.fates.get(fate as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Warns of an id that was answered as often as one may be, once a minute at most.
    pub(super) fn heard(&self, error: &Error) {
        let Error::Conflict(why) = error else { return };
        if *why == HoldRefusal::Repeated.to_string() && self.may_warn(Named::Hold, Instant::now()) {
            tracing::warn!(
                target: "tollgate",
                "an id of a hold was asked for again and again, and is refused now: some caller, \
                 e.g. a proxy with a constant, gives one id to all its holds. Each hold needs a \
                 different id. tollgate_named_holds_total{{result=\"refused\"}} counts them"
            );
        }
    }

    /// Warns of an id of a check that was answered as often as one may be, once a minute at most.
    pub(super) fn heard_overused_id(&self, of: &str) {
        if self.may_warn(Named::Check, Instant::now()) {
            tracing::warn!(
                target: "tollgate",
                "one `{of}` was asked for more than {MAX_REPEATS} times, and each further check \
                 under it is charged: some caller, e.g. a proxy with a constant, gives one id to \
                 all \
                 its checks. Each needs a different one. tollgate_overused_request_ids_total \
                 counts \
                 them"
            );
        }
    }

    fn may_warn(&self, of: Named, now: Instant) -> bool {
        let [hold, check] = &self.warned;
        let warned = match of {
            Named::Hold => hold,
            Named::Check => check,
        };
        let mut warned = warned.lock();
        let is_due = warned.is_none_or(|at| now.duration_since(at) >= BETWEEN_WARNINGS);
        if is_due {
            *warned = Some(now);
        }
        is_due
    }

    /// Runs work that gives something back in the background, unless there is too much.
    pub(crate) fn later(
        &self,
        runtime: Option<Handle>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let (Some(runtime), Ok(place)) = (runtime, place) else {
            return self.count(Fate::Failed);
        };
        drop(runtime.spawn(async move {
            work.await;
            drop(place);
        }));
    }

    pub(crate) fn count(&self, fate: Fate) {
        if let Some(count) = self.fates.get(fate as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Gives a hold back if its answer is not delivered. A memory store takes it back immediately; a
/// task of this runtime asks any other store.
pub(super) fn undelivered(
    gate: &Gate<AnyStore>,
    deliveries: &Arc<Deliveries>,
    hold: Hold,
) -> Undelivered {
    let (gate, deliveries, runtime) =
        (gate.clone(), Arc::clone(deliveries), Handle::try_current().ok());
    Undelivered::new(move || {
        if gate.store().facts().answers_at_once {
            let released = at_once(gate.holds().release(&hold)).and_then(Result::ok);
            return deliveries.count(Fate::of(released));
        }
        deliveries.later(runtime, {
            let deliveries = Arc::clone(&deliveries);
            async move {
                let released = gate.holds().release_persistently(&hold, tokio::time::sleep).await;
                deliveries.count(Fate::of(released));
            }
        });
    })
}

/// Gives a hold back that the store may have placed, though it failed.
pub(super) fn give_back_in_doubt(gate: &Gate<AnyStore>, deliveries: &Arc<Deliveries>, hold: Hold) {
    let (gate, counts) = (gate.clone(), Arc::clone(deliveries));
    deliveries.later(Handle::try_current().ok(), async move {
        match gate.holds().release_in_doubt(&hold, tokio::time::sleep).await {
            // It was not placed.
            Some(false) => {}
            released => counts.count(Fate::of(released)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_for_all_is_warned_of_once_a_minute() {
        let (deliveries, now) = (Deliveries::default(), Instant::now());
        for of in [Named::Hold, Named::Check] {
            let may_warn = |at| deliveries.may_warn(of, at);
            assert!(may_warn(now));
            assert!(!may_warn(now + BETWEEN_WARNINGS - Duration::from_micros(1)));
            assert!(may_warn(now + BETWEEN_WARNINGS));
        }
        // A refusal for another reason gives no warning.
        let deliveries = Deliveries::default();
        deliveries.heard(&Error::Conflict(HoldRefusal::Differs.to_string()));
        assert!(deliveries.warned[0].lock().is_none());
        deliveries.heard(&Error::Conflict(HoldRefusal::Repeated.to_string()));
        assert!(deliveries.warned[0].lock().is_some());
    }
}
