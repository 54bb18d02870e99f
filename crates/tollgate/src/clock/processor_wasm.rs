//! The monotonic clock in place of a counter: WebAssembly has none, and the crate that reads
//! counters elsewhere would need glue in JavaScript.

use std::time::Instant;

use super::Counter;

#[derive(Debug)]
pub(super) struct Processor {
    start: Instant,
}

impl Processor {
    pub(super) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Counter for Processor {
    #[inline]
    fn ticks(&self) -> u64 {
        self.reference_ns()
    }

    fn reference_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn nominal_ns(&self, ticks: u64) -> u64 {
        ticks
    }
}
