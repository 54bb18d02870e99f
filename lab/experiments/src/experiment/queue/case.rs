//! The settings of a queue in place of limits.

use tollgate::LimitSet;
use tollgate_queue::{Counts, MAX_BOUND};

/// The most workers of a queue: each takes a few bytes.
pub(in crate::experiment) const MAX_WORKERS: u32 = 100_000;

/// The visibility timeout: the longest that a queue supports. Real workers extend it while they
/// work. Simulated workers never die, so nothing is redelivered as long as all work is shorter.
pub(super) const VISIBILITY_US: u64 = 86_400_000_000;

/// A queue in place of limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueCase {
    /// The bound of the queue, in jobs.
    pub bound: u64,
    /// The jobs that the bound counts.
    pub counts: Counts,
    /// The number of workers, each with one job at a time.
    pub workers: u32,
    /// The microseconds that a job takes.
    pub work_us: u64,
    /// Rate limits that apply to all deliveries together.
    pub rate: Option<LimitSet>,
}

impl QueueCase {
    /// Checks the settings; an error contains the key and the valid values.
    pub(in crate::experiment) fn check(&self) -> Result<(), (&'static str, String)> {
        let Self { bound, workers, work_us, .. } = *self;
        if bound == 0 || bound > MAX_BOUND {
            return Err(("bound", format!("`bound` is 1 to {MAX_BOUND} jobs, not {bound}")));
        }
        if workers == 0 || workers > MAX_WORKERS {
            return Err(("workers", format!("`workers` is 1 to {MAX_WORKERS}, not {workers}")));
        }
        if work_us == 0 {
            return Err(("work", "`work` is more than 0: a job takes some time".to_owned()));
        }
        if work_us >= VISIBILITY_US {
            return Err(("work", "`work` is less than a day".to_owned()));
        }
        Ok(())
    }
}
