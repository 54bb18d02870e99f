//! The clock of a record: microseconds since 1970 that never go back.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The system's time at the start, and what passed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start_us: u64,
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start_us: micros(now), start: Instant::now() }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.start_us.saturating_add(micros(self.start.elapsed()))
    }

    pub(super) fn sleep_until(&self, until_us: u64) {
        let wait_us = until_us.saturating_sub(self.now_us());
        thread::sleep(Duration::from_micros(wait_us));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
