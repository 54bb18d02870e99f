//! Keeps the holds of requests: places them, renews them in time, and settles them.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollgate::{Cost, Decision, Error, Hold, HoldKind, Store, at_once};
use tollgate_policy::{Admission, Answer, Gate, Prepared};

use super::guard::{Guard, Used};

/// How often a settlement is tried, and the pause after the first attempt. Each further pause is
/// twice as long; together they are 1.5 s. A slot is late from then on.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The most holds that are given back late at a time. Holds beyond the bound expire by themselves.
const MAX_LATE: u64 = 4_096;

/// The numbers of holds of a [`HoldingLayer`](super::HoldingLayer) that did not go as they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Holds {
    /// Holds that had ended before their requests, though they were renewed: the store was away too
    /// long, or the counts were reset. Others may have had the slots meanwhile.
    pub lost: u64,
    /// Holds that could not be settled, because the store failed. They end by themselves.
    pub not_settled: u64,
    /// Requests with a reservation and without a report of their used units. The estimate was
    /// charged, or nothing, as their policy says.
    pub unsaid: u64,
}

/// The counters of [`Holds`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    lost: AtomicU64,
    not_settled: AtomicU64,
    unsaid: AtomicU64,
    /// Those that are given back late at present.
    late: AtomicU64,
}

impl Counts {
    pub(super) fn holds(&self) -> Holds {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Holds { lost: of(&self.lost), not_settled: of(&self.not_settled), unsaid: of(&self.unsaid) }
    }
}

/// The answer to a request, and the part that settles its hold.
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
    let Some(runtime) = runtime.filter(|_| !gate.store().facts().answers_at_once) else {
        return Some(keeper.place_here(prepared).await);
    };
    let (tell, told) = oneshot::channel();
    runtime.spawn(async move {
        let Admission { answer, hold, commits, in_doubt, .. } = keeper.gate.admit(prepared).await;
        let (settle, settled) = oneshot::channel();
        let hold = hold.map(|hold| Kept::new(hold, &answer));
        let settle = |used| {
            // It is received as long as the runtime runs.
            let _ = settle.send(used);
        };
        let guard = hold.is_some().then(|| Guard::new(commits, settle));
        // If nobody waits, the guard is dropped here, and with it the hold is settled.
        drop(tell.send(Placed { answer, guard }));
        if let Some(kept) = hold {
            keeper.keep(kept, settled).await;
        }
        if let Some(hold) = in_doubt {
            keeper.give_back(&hold, true).await;
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

/// The part that renews and settles.
struct Keeper<S> {
    gate: Gate<S>,
    counts: Arc<Counts>,
}

impl<S: Store + 'static> Keeper<S> {
    /// Places a hold in a store that answers immediately. It is settled wherever its guard is
    /// dropped, before the drop returns.
    async fn place_here(self, prepared: Prepared) -> Placed {
        let Admission { answer, hold, commits, .. } = self.gate.admit(prepared).await;
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
        let guard = Guard::new(commits, move |used| {
            here.settle(used);
            if let Some(renewing) = renewing {
                renewing.abort();
            }
        });
        Placed { answer, guard: Some(guard) }
    }

    /// Renews a hold until its request has ended, and settles it then.
    async fn keep(&self, mut kept: Kept, mut settled: oneshot::Receiver<Used>) {
        let mut pause = kept.pause();
        let used = loop {
            if let Ok(used) = tokio::time::timeout(pause, &mut settled).await {
                break used.unwrap_or(Used::Unsaid);
            }
            pause = match self.renew(&mut kept).await {
                Some(true) => kept.pause(),
                Some(false) => return,
                None => kept.pause() / 4,
            };
        };
        self.settle(&kept.hold, used).await;
    }

    /// Gives back a slot, or a hold that the store may have placed though it failed, unless too
    /// many are given back late at the time.
    async fn give_back(&self, hold: &Hold, is_in_doubt: bool) {
        let before = self.counts.late.fetch_add(1, Ordering::Relaxed);
        let released = match is_in_doubt {
            _ if before >= MAX_LATE => None,
            true => self.gate.holds().release_in_doubt(hold, tokio::time::sleep).await,
            false => self.gate.holds().release_persistently(hold, tokio::time::sleep).await,
        };
        self.counts.late.fetch_sub(1, Ordering::Relaxed);
        if released.is_none() {
            self.counts.not_settled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// False when the hold has ended; `None` when the store failed.
    async fn renew(&self, kept: &mut Kept) -> Option<bool> {
        // Slots last as long as their limit says.
        let ttl = Some(kept.ttl).filter(|_| kept.hold.kind() != HoldKind::Acquire);
        let is_open = self.gate.holds().renew(&mut kept.hold, ttl).await.ok()?;
        if !is_open {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        Some(is_open)
    }

    /// Settles a hold, and tries again while the store fails.
    async fn settle(&self, hold: &Hold, used: Used) {
        for attempt in 0..ATTEMPTS {
            if self.settle_once(hold, &used).await {
                return;
            }
            if attempt + 1 < ATTEMPTS {
                tokio::time::sleep(PAUSE * 2_u32.saturating_pow(attempt)).await;
            }
        }
        if hold.kind() == HoldKind::Acquire {
            return self.give_back(hold, false).await;
        }
        self.counts.not_settled.fetch_add(1, Ordering::Relaxed);
    }

    /// False if the store failed.
    async fn settle_once(&self, hold: &Hold, used: &Used) -> bool {
        let units = match (hold.kind(), used) {
            (HoldKind::Acquire, _) => return self.gate.holds().release(hold).await.is_ok(),
            (_, Used::Units(units)) => units.clone(),
            // The hold's end, already now: no other report will come.
            (HoldKind::Charging, Used::Unsaid) => hold.cost.clone(),
            (_, Used::Unsaid) => Cost::from(0),
        };
        match self.gate.holds().commit(hold, units).await {
            Ok(_) => {
                if *used == Used::Unsaid {
                    self.counts.unsaid.fetch_add(1, Ordering::Relaxed);
                }
                true
            }
            Err(Error::NotOpen(_)) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }
}

/// A hold in a store that answers immediately.
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

    fn settle(&self, used: Used) {
        let Some(Kept { hold, .. }) = self.kept().take() else { return };
        if at_once(self.keeper.settle_once(&hold, &used)) != Some(true) {
            self.keeper.counts.not_settled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
