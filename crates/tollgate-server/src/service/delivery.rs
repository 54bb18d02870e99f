//! Holds that nobody heard of: given back where the answer that has them is not delivered.

use core::future::Future as _;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::{Hold, Store as _};
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
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { fates: Default::default(), places: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }
}

impl Deliveries {
    /// The number of holds with this fate.
    pub(crate) fn get(&self, fate: Fate) -> u64 {
        self.fates.get(fate as usize).map_or(0, |count| count.load(Ordering::Relaxed))
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
                is_unsure |= matches!(error, tollgate::Error::Store(it) if it.is_ambiguous());
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
