//! The share of a request's time that is spent on limiting.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// One of so many admitted requests is timed: reading a clock four times costs as much as a
/// decision.
const EVERY: u64 = 64;

/// How long requests took, and how much of that was limiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Share {
    /// How many admitted requests were timed.
    pub timed: u64,
    /// How long their limits took: finding the client, asking the store, writing the headers.
    pub limiting: Duration,
    /// How long they took until the head of their response was there, limits included.
    pub whole: Duration,
}

impl Share {
    /// The part of the time that limiting took, from 0 to 1; none before anything was timed.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (!self.whole.is_zero()).then(|| self.limiting.as_secs_f64() / self.whole.as_secs_f64())
    }
}

/// The sums behind a [`Share`].
#[derive(Debug, Default)]
pub(super) struct Times {
    requests: AtomicU64,
    timed: AtomicU64,
    limiting_ns: AtomicU64,
    whole_ns: AtomicU64,
}

/// A request that is timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    started: Instant,
    limiting: Duration,
}

impl Times {
    /// Counts a request, and times it when it is its turn.
    #[inline]
    pub(super) fn start(&self) -> Option<Timer> {
        // Not in one step, which the processor takes longer for: it may be off by a few.
        let number = self.requests.load(Ordering::Relaxed);
        self.requests.store(number.wrapping_add(1), Ordering::Relaxed);
        number.is_multiple_of(EVERY).then(Timer::start)
    }

    /// How many requests were begun, about: two at the same time may count as one.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// A request has its response.
    pub(super) fn add(&self, timer: &Timer) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.limiting_ns.fetch_add(ns(timer.limiting), Ordering::Relaxed);
        self.whole_ns.fetch_add(ns(timer.started.elapsed()), Ordering::Relaxed);
        self.timed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn share(&self) -> Share {
        Share {
            timed: self.timed.load(Ordering::Relaxed),
            limiting: Duration::from_nanos(self.limiting_ns.load(Ordering::Relaxed)),
            whole: Duration::from_nanos(self.whole_ns.load(Ordering::Relaxed)),
        }
    }
}

impl Timer {
    #[cold]
    fn start() -> Self {
        Self { started: Instant::now(), limiting: Duration::ZERO }
    }

    /// All of the time so far was limiting.
    #[inline]
    pub(super) fn decided(&mut self) {
        self.limiting = self.started.elapsed();
    }

    /// Limiting goes on after the response was there, since `began`.
    #[inline]
    pub(super) fn goes_on(&mut self, began: Instant) {
        self.limiting += began.elapsed();
    }
}
