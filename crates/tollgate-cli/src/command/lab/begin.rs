//! The start of a case that runs in real time.

use std::time::{Duration, Instant};

/// The start of a case, by this machine's monotonic clock and by the store's clock.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    pub(super) at: Instant,
    pub(super) store_us: u64,
}

impl Begin {
    /// Microseconds since the start; 0 before.
    pub(super) fn now_us(self) -> u64 {
        micros(self.at.elapsed())
    }
}

/// A duration in whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
