//! Waiting for the lock: in short waits, so that many processes share it fairly.

use core::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The first retries only yield the processor: a transaction takes some 20 us.
const YIELDS: i32 = 4;

/// The shortest sleep. SQLite's own handler sleeps 1 ms to 100 ms. With four processes that never
/// pause on two cores, the slowest check took up to 130 ms with that handler and 20-55 ms with this
/// one, at the same throughput.
const MIN_SLEEP: Duration = Duration::from_micros(50);

/// The longest sleep.
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// The sleep doubles after this many retries.
const DOUBLE_EVERY: i32 = 16;

thread_local! {
    /// SQLite's handler is a plain function, so the deadline of the running operation is passed to
    /// it here. Only the thread that holds the connection's lock uses it.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets statements of `conn` wait for locks until the deadline of [`set_deadline`].
pub(crate) fn install(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_handler(Some(on_busy))
}

/// Sets the deadline of the operation that starts on this thread.
pub(crate) fn set_deadline(deadline: Duration) {
    DEADLINE.set(Instant::now().checked_add(deadline));
}

/// Waits briefly. Returns false when the deadline has passed.
pub(crate) fn on_busy(tries: i32) -> bool {
    // A deadline that the clock cannot represent is unlimited.
    if DEADLINE.get().is_some_and(|until| Instant::now() >= until) {
        return false;
    }
    if tries < YIELDS {
        thread::yield_now();
        return true;
    }
    let doublings = u32::try_from((tries - YIELDS) / DOUBLE_EVERY).unwrap_or(0).min(8);
    thread::sleep((MIN_SLEEP * (1 << doublings)).min(MAX_SLEEP));
    true
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_has_passed_ends_the_waiting() {
        set_deadline(Duration::ZERO);
        assert!(!on_busy(0));
        set_deadline(Duration::from_secs(3600));
        assert!(on_busy(0));
        set_deadline(Duration::MAX);
        assert!(on_busy(1));
    }
}
