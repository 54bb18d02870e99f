//! The time of this machine, for written records: the store's clock decides.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time since the Unix epoch, by this machine's clock.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
