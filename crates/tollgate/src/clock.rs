//! Where a store in this process takes its time from.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::Time;

/// A source of a store's time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now.
    fn now(&self) -> Time;
}

/// The clock of the memory store: the wall clock at its start plus the monotonic time since, so
/// that stepping the machine's clock does not touch the limits.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    start_raw: u64,
    start_us: u64,
}

impl MonotonicClock {
    /// A clock that starts at the wall clock's present time.
    #[must_use]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let start_us = WallClock.now().as_micros();
        Self { start_us, start_raw: counter.raw(), counter }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Time {
        // The counter of this clock's own: no thread-local look-up as in `quanta::Instant::now`.
        let elapsed_ns = self.counter.delta_as_nanos(self.start_raw, self.counter.raw());
        Time::from_micros(self.start_us.saturating_add(elapsed_ns / 1_000))
    }
}

/// The machine's wall clock, for stores that several processes share. It may step; the
/// strategies bound what that can do (`docs/definitions.md`, section 3).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Time::default().plus(since)
    }
}

/// A clock that stands still until it is moved: for tests and simulations. Clones share it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, MemoryStore};
///
/// let clock = ManualClock::at_micros(0);
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new("2/10s".parse()?, store);
/// assert!(limiter.check_now("ann")?.is_allowed());
/// assert!(limiter.check_now("ann")?.is_allowed());
/// assert!(!limiter.check_now("ann")?.is_allowed());
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check_now("ann")?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that says `us` microseconds after the Unix epoch.
    #[must_use]
    pub fn at_micros(us: u64) -> Self {
        let clock = Self::default();
        clock.set(Time::from_micros(us));
        clock
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, time: Time) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }

    /// Moves the time forward by `step`.
    pub fn advance(&self, step: Duration) {
        self.set(self.now().plus(step));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::SeqCst))
    }
}
