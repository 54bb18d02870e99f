//! The counter of this machine's processors, and the system's monotonic clock.

use std::time::Instant;

use super::Counter;

#[derive(Debug)]
pub(super) struct Processor {
    counter: quanta::Clock,
    start: Instant,
}

impl Processor {
    pub(super) fn new() -> Self {
        // Created before the start time is taken: the first counter calibrates itself, which takes
        // a while.
        let counter = quanta::Clock::new();
        Self { counter, start: Instant::now() }
    }
}

impl Counter for Processor {
    #[inline]
    fn ticks(&self) -> u64 {
        // The raw counter of this clock: no thread-local look-up as in `quanta::Instant::now`.
        self.counter.raw()
    }

    fn reference_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn nominal_ns(&self, ticks: u64) -> u64 {
        self.counter.delta_as_nanos(0, ticks)
    }
}
