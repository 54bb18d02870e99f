//! Holds that nobody heard of: given back where the answer that has them is not delivered.

use core::future::Future as _;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::engine::{HoldRefusal, MAX_REPEATS};
use tollgate::{Error, Hold, Store as _};
use tollgate_policy::Gate;
use tollgate_stores::AnyStore;

use crate::listen::Undelivered;

/// The most holds that are given back at a time. What is beyond ends by itself.
const MAX_AT_ONCE: usize = 4_096;

/// How often it is tried to give a hold back, and the pause after the first attempt. Each further
/// pause is twice as long, up to the longest; together they are 61 s. A store that is overloaded
/// may be late for many seconds.
const ATTEMPTS: u32 = 24;
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(3_200);

/// What became of holds whose answers were not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The store has it back.
    GivenBack,
    /// It was not open any more.
    NotOpen,
    /// The store failed, or there were too many at a time: it ends by itself.
    Failed,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::GivenBack, Self::NotOpen, Self::Failed];

    /// The word for labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GivenBack => "given_back",
            Self::NotOpen => "not_open",
            Self::Failed => "failed",
        }
    }
}

/// The counters of holds whose answers were not delivered.
#[derive(Debug)]
pub(crate) struct Deliveries {
    fates: [AtomicU64; Fate::ALL.len()],
    places: Arc<Semaphore>,
    /// When it was last warned of an id that is given to many holds, or to many checks.
    warned: [Mutex<Option<Instant>>; 2],
}

/// What has an id that was asked for too often.
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
    /// The number of holds with this fate.
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
                 as a proxy with a constant, gives one id to all its holds. Each hold needs an id \
                 of its own. tollgate_named_holds_total{{result=\"refused\"}} counts them"
            );
        }
    }

    /// Warns of an id of a check that was answered as often as one may be, once a minute at most.
    pub(super) fn heard_overused_id(&self, of: &str) {
        if self.may_warn(Named::Check, Instant::now()) {
            tracing::warn!(
                target: "tollgate",
                "one `{of}` was asked for more than {MAX_REPEATS} times, and each further check \
                 under it is charged: some caller, as a proxy with a constant, gives one id to all \
                 its checks. Each needs one of its own. tollgate_overused_request_ids_total counts \
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

    fn count(&self, fate: Fate) {
        if let Some(count) = self.fates.get(fate as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Gives a hold back if its answer is not delivered. A memory store has it back at once; another
/// one is told by a task of this runtime.
pub(super) fn undelivered(
    gate: &Gate<AnyStore>,
    deliveries: &Arc<Deliveries>,
    hold: Hold,
) -> Undelivered {
    let (gate, deliveries, runtime) =
        (gate.clone(), Arc::clone(deliveries), Handle::try_current().ok());
    Undelivered::new(move || {
        if gate.store().answers_at_once() {
            let mut releasing = pin!(once(&gate, &hold));
            // It is ready at the first poll.
            let fate = match releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(fate) => fate,
                Poll::Pending => None,
            };
            return deliveries.count(fate.unwrap_or(Fate::Failed));
        }
        let place = Arc::clone(&deliveries.places).try_acquire_owned();
        match runtime.zip(place.ok()) {
            Some((runtime, place)) => drop(runtime.spawn(later(gate, deliveries, hold, place))),
            None => deliveries.count(Fate::Failed),
        }
    })
}

/// Gives a hold back that the store may have placed, though it failed.
pub(super) fn give_back_in_doubt(gate: &Gate<AnyStore>, deliveries: &Arc<Deliveries>, hold: Hold) {
    let (gate, deliveries) = (gate.clone(), Arc::clone(deliveries));
    let place = Arc::clone(&deliveries.places).try_acquire_owned();
    let (Ok(runtime), Ok(place)) = (Handle::try_current(), place) else {
        return deliveries.count(Fate::Failed);
    };
    drop(runtime.spawn(async move {
        match gate.release_in_doubt(&hold, tokio::time::sleep).await {
            Some(true) => deliveries.count(Fate::GivenBack),
            // It was not placed.
            Some(false) => {}
            None => deliveries.count(Fate::Failed),
        }
        drop(place);
    }));
}

async fn later(
    gate: Gate<AnyStore>,
    deliveries: Arc<Deliveries>,
    hold: Hold,
    _place: OwnedSemaphorePermit,
) {
    let (mut fate, mut pause, mut is_unsure) = (None, PAUSE, false);
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        match gate.release(&hold).await {
            Ok(true) => fate = Some(Fate::GivenBack),
            // An attempt whose answer was lost has done it.
            Ok(false) if is_unsure => fate = Some(Fate::GivenBack),
            Ok(false) => fate = Some(Fate::NotOpen),
            Err(error) => {
                is_unsure |= matches!(error, Error::Store(it) if it.is_ambiguous());
                continue;
            }
        }
        break;
    }
    deliveries.count(fate.unwrap_or(Fate::Failed));
}

/// `None` if the store failed.
async fn once(gate: &Gate<AnyStore>, hold: &Hold) -> Option<Fate> {
    let was_open = gate.release(hold).await.ok()?;
    Some(if was_open { Fate::GivenBack } else { Fate::NotOpen })
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
        // What is refused for another reason is not warned of.
        let deliveries = Deliveries::default();
        deliveries.heard(&Error::Conflict(HoldRefusal::Differs.to_string()));
        assert!(deliveries.warned[0].lock().is_none());
        deliveries.heard(&Error::Conflict(HoldRefusal::Repeated.to_string()));
        assert!(deliveries.warned[0].lock().is_some());
    }
}
