//! A slot for one connection, which reconnects with pauses.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout_at};

use super::breaker::Breaker;
use super::connector::Connector;
use super::deadline::Deadline;
use super::wire::Wire;
use crate::fault::Fault;

/// The pause before the second attempt to connect; it doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection that lives this long counts as good, and is replaced immediately when it is lost.
/// One that is lost sooner counts as a failed attempt, so that a server that closes every
/// connection does not cause a busy loop.
pub(super) const STABLE: Duration = Duration::from_secs(1);

/// The state of a slot.
#[derive(Clone)]
enum LinkState {
    /// Empty, and no attempt is running.
    Idle,
    /// The first attempt after a loss is running, so callers wait for it.
    First,
    /// Attempts have failed, the last with this fault.
    Retrying(Fault),
    /// A connection.
    Up(Arc<Wire>),
}

/// A slot for one connection, which refills itself.
pub(super) struct ConnectionSlot {
    connector: Arc<Connector>,
    /// Of the server.
    breaker: Arc<Breaker>,
    link: watch::Sender<LinkState>,
    /// The attempts since the last good connection.
    attempts: AtomicU32,
    /// The number of all connections and attempts, which provides the connections' ids.
    opened: AtomicU64,
}

impl ConnectionSlot {
    pub(super) fn new(connector: Arc<Connector>, breaker: Arc<Breaker>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            breaker,
            link: watch::Sender::new(LinkState::Idle),
            attempts: AtomicU32::new(0),
            opened: AtomicU64::new(0),
        })
    }

    /// The number of attempts to connect so far.
    #[cfg(test)]
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Connects now, and reports why it could not.
    pub(super) async fn fill(self: &Arc<Self>) -> Result<(), Fault> {
        let wire = self.open().await?;
        self.put(wire);
        Ok(())
    }

    /// Returns the connection. Waits for the first attempt after a loss, until the deadline. Once
    /// that has failed, it returns the attempt's fault immediately.
    pub(super) async fn wire(self: &Arc<Self>, by: Deadline) -> Result<Arc<Wire>, Fault> {
        let link = self.link.borrow().clone();
        match link {
            LinkState::Up(wire) if !wire.is_worn() => return Ok(wire),
            LinkState::Up(wire) => self.retire(&wire),
            LinkState::Retrying(fault) => return Err(fault),
            LinkState::Idle => self.start(),
            LinkState::First => {}
        }
        Box::pin(self.first_attempt(by)).await
    }

    /// The outcome of the attempt in progress.
    async fn first_attempt(&self, by: Deadline) -> Result<Arc<Wire>, Fault> {
        let mut changes = self.link.subscribe();
        let settled =
            changes.wait_for(|link| matches!(link, LinkState::Up(_) | LinkState::Retrying(_)));
        match timeout_at(by.at, settled).await {
            Ok(Ok(link)) => match &*link {
                LinkState::Up(wire) => Ok(Arc::clone(wire)),
                LinkState::Retrying(fault) => Err(fault.clone()),
                LinkState::Idle | LinkState::First => {
                    Err(self.connector.unreachable("not connected"))
                }
            },
            _ => Err(self.connector.unreachable("it is being connected to")),
        }
    }

    /// Removes a connection from the slot and starts to reconnect. Calls that wait on it continue
    /// to wait.
    pub(super) fn retire(self: &Arc<Self>, wire: &Wire) {
        if wire.since.elapsed() >= STABLE {
            self.attempts.store(0, Ordering::Relaxed);
        }
        let next = if self.attempts.load(Ordering::Relaxed) == 0 {
            LinkState::First
        } else {
            LinkState::Retrying(self.connector.unreachable("the connection was lost again"))
        };
        if self.take(wire.id, next) {
            self.spawn();
        }
    }

    /// Starts an attempt to connect unless one is running.
    pub(super) fn start(self: &Arc<Self>) {
        let begun = self.link.send_if_modified(|link| {
            let idle = matches!(link, LinkState::Idle);
            if idle {
                *link = LinkState::First;
            }
            idle
        });
        if begun {
            self.spawn();
        }
    }

    /// Replaces the connection in the slot, if it is `id`.
    fn take(&self, id: u64, next: LinkState) -> bool {
        // Dropped after the lock is released: dropping a connection may call this slot again.
        let mut old = LinkState::Idle;
        self.link.send_if_modified(|link| {
            let found = matches!(link, LinkState::Up(wire) if wire.id == id);
            if found {
                old = mem::replace(link, next);
            }
            found
        })
    }

    /// The caller has just changed the link, so no other task connects.
    fn spawn(self: &Arc<Self>) {
        tokio::spawn(keep_connecting(Arc::downgrade(self)));
    }

    async fn open(self: &Arc<Self>) -> Result<Wire, Fault> {
        let connector = Arc::clone(&self.connector);
        let (id, slot) = (self.opened.fetch_add(1, Ordering::Relaxed), Arc::downgrade(self));
        connector.open(id, move |by_itself| ended(&slot, id, by_itself)).await
    }

    fn put(self: &Arc<Self>, wire: Wire) {
        let wire = Arc::new(wire);
        let old = self.link.send_replace(LinkState::Up(Arc::clone(&wire)));
        drop(old);
        self.breaker.connected(std::time::Instant::now());
        // It may have ended before it was in the slot, when its end was not noticed.
        if wire.has_ended() {
            self.retire(&wire);
        }
    }
}

/// Called when a connection has ended.
fn ended(slot: &Weak<ConnectionSlot>, id: u64, by_itself: bool) {
    let Some(slot) = slot.upgrade() else { return };
    let link = slot.link.borrow().clone();
    match link {
        LinkState::Up(wire) if wire.id == id && by_itself => slot.retire(&wire),
        // Its runtime shuts down, so no task can start here. The next call starts one.
        LinkState::Up(wire) if wire.id == id => drop(slot.take(id, LinkState::Idle)),
        _ => {}
    }
}

/// Attempts to connect until it succeeds. It holds no handle during pauses, so that it does not
/// keep a dropped client alive.
async fn keep_connecting(slot: Weak<ConnectionSlot>) {
    let mut task = Task { slot, done: false };
    loop {
        let Some(slot) = task.slot.upgrade() else { return };
        let attempt = slot.attempts.fetch_add(1, Ordering::Relaxed);
        drop(slot);
        if attempt > 0 {
            sleep(pause(attempt)).await;
        }
        let Some(slot) = task.slot.upgrade() else { return };
        match slot.open().await {
            Ok(wire) => {
                // Set before the connection is stored, since its end may start the next task.
                task.done = true;
                slot.put(wire);
                return;
            }
            Err(fault) => drop(slot.link.send_replace(LinkState::Retrying(fault))),
        }
    }
}

/// The task of [`keep_connecting`]. If its runtime drops it, it leaves the slot to the next task.
struct Task {
    slot: Weak<ConnectionSlot>,
    done: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.done
            && let Some(slot) = self.slot.upgrade()
        {
            drop(slot.link.send_replace(LinkState::Idle));
        }
    }
}

/// The pause before attempt `attempt`, counted from 0. It doubles with each attempt, and is random
/// between half and all of that, so that the clients of one server do not reconnect at the same
/// time.
fn pause(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    let longest = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    // The random seed of a hash map suffices, and needs no further crate.
    let random = RandomState::new().build_hasher().finish() % 1024;
    let half = longest / 2;
    half + half * u32::try_from(random).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_with_jitter() {
        for (attempt, longest_ms) in [(1, 10), (2, 20), (3, 40), (7, 640), (8, 1000), (4000, 1000)]
        {
            let longest = Duration::from_millis(longest_ms);
            let pauses: Vec<Duration> = (0..100).map(|_| pause(attempt)).collect();
            assert!(pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)));
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "no jitter at {attempt}");
        }
    }
}
