//! The deadline of a call.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{ChargeState, Fault};

/// The time by which an answer must arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// When the call was made.
    pub(crate) from: Instant,
    pub(crate) at: Instant,
    pub(crate) after: Duration,
}

impl Deadline {
    pub(crate) fn within(after: Duration) -> Self {
        let now = Instant::now();
        // A deadline that would overflow becomes one in thirty years, as in tokio.
        let far = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        Self { from: now, at: now + after.min(far), after }
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.at
    }

    /// The fault of a call that it ended. It names the whole time, however late the call began.
    pub(crate) fn passed(self, charge: ChargeState) -> Fault {
        Fault::Deadline { after: self.after, charge }
    }
}
