//! The clocks of stores in this process.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::Time;

mod discipline;
#[cfg(feature = "tokio")]
mod of_tokio;
#[cfg_attr(target_family = "wasm", path = "clock/processor_wasm.rs")]
mod processor;

#[cfg(feature = "tokio")]
pub use of_tokio::TokioClock;

use discipline::{Counter, Disciplined};
use processor::Processor;

/// A clock that a store takes its time from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> Time;
}

/// The clock of the memory store: the wall clock at its start, plus the time elapsed since by the
/// system's monotonic clock. A step of the machine's wall clock does not affect the limits.
///
/// It reads the processor's cycle counter, and the system clock once per millisecond. It is at most
/// 1 us off while the counter's rate stays within 0.1 % of the rate measured at the start. A
/// correction never sets it back. On a processor without a constant-rate counter, each reading is
/// one of the system clock. Clones share the clock. `docs/memory.md` describes the corrections.
///
/// In a browser (`wasm32-unknown-unknown`) the standard library has no clock, and creating this one
/// panics: a store there needs [`crate::MemoryStoreBuilder::clock`].
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    elapsed: Arc<Disciplined<Processor>>,
    start_us: u64,
}

impl MonotonicClock {
    /// A clock that starts at the current wall-clock time.
    #[must_use]
    pub fn new() -> Self {
        let elapsed = Disciplined::new(Processor::new());
        Self { start_us: WallClock.now().as_micros(), elapsed: Arc::new(elapsed) }
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
        Time::from_micros(self.start_us.saturating_add(self.elapsed.now_ns() / 1_000))
    }
}

/// The machine's wall clock, for stores that several processes share. It may step; the strategies
/// bound the effect (`docs/definitions.md`, section 3).
///
/// ```
/// use tollgate::{Clock, MemoryStore, WallClock};
/// let store = MemoryStore::builder().clock(WallClock).build();
/// assert!(store.now() <= WallClock.now());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // there is nothing to set
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Time::default().plus(since)
    }
}

/// A clock that only moves when the caller moves it, for tests and simulations. Clones share it.
///
/// Waiting takes the time of tokio, which this clock does not follow: `Limiter::until_ready` asks
/// again until its deadline, and is admitted if the clock was moved meanwhile. For tests that wait
/// there is `TokioClock` (feature `tokio`).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, MemoryStore};
///
/// let clock = ManualClock::at_micros(0);
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new("2/10s".parse()?, store);
/// assert!(limiter.check("ann").now()?.is_allowed());
/// assert!(limiter.check("ann").now()?.is_allowed());
/// assert!(!limiter.check("ann").now()?.is_allowed());
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check("ann").now()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock set to `us` microseconds after the Unix epoch.
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
