//! When an answer must be there.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{ChargeState, Fault};

/// When an answer must be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    /// When the question was asked.
    pub(super) from: Instant,
    pub(super) at: Instant,
    pub(super) after: Duration,
}

impl Deadline {
    pub(super) fn within(after: Duration) -> Self {
        let now = Instant::now();
        // A deadline beyond the end of time is one of thirty years, as tokio counts it.
        let far = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        Self { from: now, at: now + after.min(far), after }
    }

    pub(super) fn passed(self, charge: ChargeState) -> Fault {
        Fault::Deadline { after: self.after, charge }
    }
}
