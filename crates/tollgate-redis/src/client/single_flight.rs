//! One refresh for many waiters, and a pause between two.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::node::Deadline;

/// The shortest time from the start of one refresh to the start of the next.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// How old a topology may be before a call causes a refresh.
const OLD: Duration = Duration::from_secs(30);

/// Refreshes a topology in the background, one refresh at a time.
pub(super) struct SingleFlight {
    is_running: AtomicBool,
    started: Mutex<Instant>,
    /// The number of refreshes that have ended.
    ended: watch::Sender<u64>,
}

impl SingleFlight {
    /// After a topology was read for the first time.
    pub(super) fn new() -> Self {
        Self {
            is_running: AtomicBool::new(false),
            started: Mutex::new(Instant::now()),
            ended: watch::Sender::new(0),
        }
    }

    /// Starts a refresh unless one is under way.
    pub(super) fn start<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        refresh: impl FnOnce() -> F,
    ) {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (running, refresh) = (Running(Arc::clone(self)), refresh());
        tokio::spawn(async move {
            let next = *running.0.started() + SHORTEST_PAUSE;
            sleep_until(next).await;
            *running.0.started() = Instant::now();
            refresh.await;
            drop(running);
        });
    }

    /// Whether the last refresh began long before `now`.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(*self.started()) > OLD
    }

    /// Waits until a refresh ends, at most until the deadline. Returns whether one did.
    pub(super) async fn wait(&self, by: Deadline, start: impl FnOnce()) -> bool {
        let mut ended = self.ended.subscribe();
        ended.mark_unchanged();
        start();
        matches!(timeout_at(by.at, ended.changed()).await, Ok(Ok(())))
    }

    fn started(&self) -> std::sync::MutexGuard<'_, Instant> {
        // A panic cannot leave an instant half-changed.
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a refresh, even when its runtime drops it.
struct Running(Arc<SingleFlight>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
        self.0.ended.send_modify(|ended| *ended += 1);
    }
}
