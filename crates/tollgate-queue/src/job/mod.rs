//! Jobs: offered, delivered, and stored in a queue.

mod delivery;
mod id;
mod inspected;
mod offered;

use core::time::Duration;

pub use self::delivery::{Delivery, DeliveryTag, TakeOutcome};
pub use self::id::JobId;
pub use self::inspected::{DeadLetter, DoneJob, InFlightJob, WaitingJob};
pub(crate) use self::offered::DedupRecord;
pub use self::offered::Job;

/// The most jobs in one call, to take or to acknowledge them.
pub(crate) const MAX_BATCH: usize = 1_000;

/// The longest delay and the longest deadline of a job.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests;
