//! Keeps the holds of requests: places them, renews them in time, and settles them.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollgate::{Decision, Hold, Store};
use tollgate_policy::{Answer, Gate, Held, Prepared};

use super::super::future::at_once;
use super::guard::Guard;

/// How often a settlement is tried, and the pause after the first attempt. Each further pause is
/// twice as long; together they are 1.5 s.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The numbers of holds of a [`HoldingLayer`](super::HoldingLayer) that did not go as they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Holds {
    /// Holds that had ended before their requests, though they were renewed: the store was away too
    /// long, or the counts were reset. Others may have had the slots meanwhile.
    pub lost: u64,
    /// Holds that could not be settled, because the store failed. They end by themselves.
    pub not_settled: u64,
}

/// The counters of [`Holds`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    lost: AtomicU64,
    not_settled: AtomicU64,
}

impl Counts {
    pub(super) fn holds(&self) -> Holds {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Holds { lost: of(&self.lost), not_settled: of(&self.not_settled) }
    }
}

/// The answer to a request, and what settles its hold.
pub(super) struct Placed {
    pub(super) answer: Answer<'static>,
    pub(super) guard: Option<Guard>,
}

/// Asks the gate, and holds what the policies keep for the request. `None` if the runtime ends.
///
/// A store that has to be waited for is asked by a task: if the future of this is dropped
/// meanwhile, as when a client hangs up, the task finds that nobody waits, and settles the hold.
pub(super) async fn place<S: Store + 'static>(
    gate: &Gate<S>,
    prepared: Prepared,
    counts: &Arc<Counts>,
) -> Option<Placed> {
    let keeper = Keeper { gate: gate.clone(), counts: Arc::clone(counts) };
    let runtime = Handle::try_current().ok();
    let Some(runtime) = runtime.filter(|_| !gate.store().answers_at_once()) else {
        return Some(keeper.place_here(prepared).await);
    };
    let (tell, told) = oneshot::channel();
    runtime.spawn(async move {
        let Held { answer, hold, .. } = keeper.gate.admit(prepared).await;
        let (settle, settled) = oneshot::channel();
        let hold = hold.map(|hold| Kept::new(hold, &answer));
        let settle = || {
            // It is received as long as the runtime runs.
            let _ = settle.send(());
        };
        let guard = hold.is_some().then(|| Guard::new(settle));
        // If nobody waits, the guard is dropped here, and with it the hold is settled.
        drop(tell.send(Placed { answer, guard }));
        if let Some(kept) = hold {
            keeper.keep(kept, settled).await;
        }
    });
    told.await.ok()
}

/// A hold, and how long it lasts without being renewed.
struct Kept {
    hold: Hold,
    ttl: Duration,
}

impl Kept {
    fn new(hold: Hold, answer: &Answer<'_>) -> Self {
        let placed = answer.decision().map_or(hold.end, Decision::at);
        let us = hold.end.as_micros().saturating_sub(placed.as_micros());
        Self { hold, ttl: Duration::from_micros(us) }
    }

    /// The time between two renewals: two may fail before the hold ends.
    fn pause(&self) -> Duration {
        self.ttl / 3
    }
}

/// What renews and settles.
struct Keeper<S> {
    gate: Gate<S>,
    counts: Arc<Counts>,
}

impl<S: Store + 'static> Keeper<S> {
    /// Places a hold in a store that answers at once. It is settled wherever its guard is dropped,
    /// before the drop returns.
    async fn place_here(self, prepared: Prepared) -> Placed {
        let Held { answer, hold, .. } = self.gate.admit(prepared).await;
        let Some(hold) = hold else { return Placed { answer, guard: None } };
        let kept = Kept::new(hold, &answer);
        let pause = kept.pause();
        let here = Arc::new(Here { keeper: self, kept: Mutex::new(Some(kept)) });
        let renewing = Handle::try_current().ok().map(|runtime| {
            let here = Arc::clone(&here);
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    if !here.renew() {
                        break;
                    }
                }
            })
        });
        let guard = Guard::new(move || {
            here.settle();
            if let Some(renewing) = renewing {
                renewing.abort();
            }
        });
        Placed { answer, guard: Some(guard) }
    }

    /// Renews a hold until its request has ended, and settles it then.
    async fn keep(&self, mut kept: Kept, mut settled: oneshot::Receiver<()>) {
        let mut pause = kept.pause();
        while tokio::time::timeout(pause, &mut settled).await.is_err() {
            pause = match self.renew(&mut kept).await {
                Some(true) => kept.pause(),
                Some(false) => return,
                None => kept.pause() / 4,
            };
        }
        self.settle(&kept).await;
    }

    /// False when the hold has ended; `None` when the store failed.
    async fn renew(&self, kept: &mut Kept) -> Option<bool> {
        let is_open = self.gate.renew(&mut kept.hold, None).await.ok()?;
        if !is_open {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        Some(is_open)
    }

    async fn settle(&self, kept: &Kept) {
        for attempt in 0..ATTEMPTS {
            if self.gate.release(&kept.hold).await.is_ok() {
                return;
            }
            if attempt + 1 < ATTEMPTS {
                tokio::time::sleep(PAUSE * 2_u32.saturating_pow(attempt)).await;
            }
        }
        self.counts.not_settled.fetch_add(1, Ordering::Relaxed);
    }
}

/// A hold in a store that answers at once.
struct Here<S> {
    keeper: Keeper<S>,
    /// `None` once it was settled.
    kept: Mutex<Option<Kept>>,
}

impl<S: Store + 'static> Here<S> {
    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the hold. False when there is nothing to renew any more.
    fn renew(&self) -> bool {
        let mut kept = self.kept();
        let Some(open) = kept.as_mut() else { return false };
        let is_open = at_once(self.keeper.renew(open)).flatten().unwrap_or(true);
        if !is_open {
            *kept = None;
        }
        is_open
    }

    fn settle(&self) {
        let Some(kept) = self.kept().take() else { return };
        if !matches!(at_once(self.keeper.gate.release(&kept.hold)), Some(Ok(_))) {
            self.keeper.counts.not_settled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
