//! The share of a request's time that is spent on limiting.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// One of this many admitted requests is timed: four clock readings cost as much as a decision.
const EVERY: u64 = 64;

/// The time of requests, and the part of it spent on limiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Share {
    /// The number of admitted requests that were timed.
    pub timed: u64,
    /// The time of limiting: finding the client, calling the store, writing the headers.
    pub limiting: Duration,
    /// The time until the head of the response was ready, including limiting.
    pub whole: Duration,
}

impl Share {
    /// The share of the time spent on limiting, from 0 to 1; `None` before a request was timed.
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

/// A timed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    started: Instant,
    limiting: Duration,
}

impl Times {
    /// Counts a request, and times every [`EVERY`]th.
    #[inline]
    pub(super) fn start(&self) -> Option<Timer> {
        // Not atomic, which would take longer: the count may be off by a few.
        let number = self.requests.load(Ordering::Relaxed);
        self.requests.store(number.wrapping_add(1), Ordering::Relaxed);
        number.is_multiple_of(EVERY).then(Timer::start)
    }

    /// The approximate number of requests started: two at the same time may count as one.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Adds a request whose response is ready.
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

    /// Counts all of the time so far as limiting.
    #[inline]
    pub(super) fn decided(&mut self) {
        self.limiting = self.started.elapsed();
    }

    /// Counts the time since `began`, after the response was ready, as limiting.
    #[inline]
    pub(super) fn goes_on(&mut self, began: Instant) {
        self.limiting += began.elapsed();
    }
}
