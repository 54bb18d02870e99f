//! Jobs: offered, delivered, and as they lie in a queue.

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

/// How many jobs one question takes, or says to be done, at most.
pub(crate) const MAX_BATCH: usize = 1_000;

/// The longest time for which a job is put off, or is of use.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests;
