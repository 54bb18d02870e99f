//! The rate at which jobs leave a queue, from which `retry_after` is estimated.

use core::time::Duration;

/// The rate covers the last one to two windows of this length.
const DRAIN_US: u64 = 10_000_000;

/// How many jobs left in the current window, and in the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drain {
    pub(crate) window: u64,
    pub(crate) now: u64,
    pub(crate) before: u64,
}

impl Drain {
    fn roll(&mut self, now_us: u64) {
        let window = now_us / DRAIN_US;
        if window > self.window {
            self.before = if window == self.window + 1 { self.now } else { 0 };
            (self.window, self.now) = (window, 0);
        }
    }

    pub(crate) fn count(&mut self, now_us: u64) {
        self.roll(now_us);
        self.now += 1;
    }

    /// The time until one more job will probably have left, at the rate since the start of the
    /// previous window.
    pub(crate) fn time_to_next(mut self, now_us: u64) -> Option<Duration> {
        self.roll(now_us);
        let left = self.before + self.now;
        let since_us = DRAIN_US + now_us % DRAIN_US;
        (left > 0).then(|| Duration::from_micros(since_us.div_ceil(left)))
    }
}
