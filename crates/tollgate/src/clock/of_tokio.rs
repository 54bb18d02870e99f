//! The clock of tokio, which a test may pause.

use tokio::time::Instant;

use super::{Clock, WallClock};
use crate::time::Time;

/// A clock that goes as the timers of tokio do, for tests that wait: under paused time
/// (`start_paused`) it is paused, and moves on when tokio does. Without a pause it goes as the
/// machine's monotonic clock.
///
/// A test that waits for an hour so ends at once, and always at the same time:
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, MemoryStore, TokioClock};
///
/// // In a test: #[tokio::test(start_paused = true)]
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
/// # .block_on(async {
/// let store = MemoryStore::builder().clock(TokioClock::new()).build();
/// let limiter = Limiter::new("1/h via gcra".parse()?, store);
/// let start = tokio::time::Instant::now();
/// for _ in 0..3 {
///     let decision = limiter.until_ready("ann", Duration::from_secs(86_400)).await?;
///     assert!(decision.is_allowed());
/// }
/// assert_eq!(start.elapsed(), Duration::from_secs(2 * 3_600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
    at: Time,
}

impl TokioClock {
    /// A clock that starts at the current wall-clock time.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), at: WallClock.now() }
    }

    /// A clock that starts `us` microseconds after the Unix epoch: then windows and calendars begin
    /// at the same time in each run.
    #[must_use]
    pub fn at_micros(us: u64) -> Self {
        Self { start: Instant::now(), at: Time::from_micros(us) }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        self.at.plus(self.start.elapsed())
    }
}
