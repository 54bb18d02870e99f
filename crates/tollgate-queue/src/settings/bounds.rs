//! The highest bound, and durations as a queue counts them.

use core::time::Duration;

/// The highest bound.
pub const MAX_BOUND: u64 = 10_000_000;

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
