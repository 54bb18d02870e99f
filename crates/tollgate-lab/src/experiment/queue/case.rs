//! A queue in place of limits: its settings.

use tollgate::LimitSet;
use tollgate_queue::{Counts, MAX_BOUND};

/// The most workers of a queue: each takes a few bytes.
pub(in crate::experiment) const MAX_WORKERS: u32 = 100_000;

/// How long who takes a job has for it: the longest that a queue knows. Real workers begin it anew
/// while they work; here none dies, so that nothing comes back when all work is shorter.
pub(super) const VISIBILITY_US: u64 = 86_400_000_000;

/// A queue in place of limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueCase {
    /// How many jobs it holds.
    pub bound: u64,
    /// Which of them the bound counts.
    pub counts: Counts,
    /// How many work on it, each on one job at a time.
    pub workers: u32,
    /// Microseconds that a job takes.
    pub work_us: u64,
    /// Limits that all deliveries together have to pass.
    pub rate: Option<LimitSet>,
}

impl QueueCase {
    /// Whether it is as it may be; else the key that is wrong, and what would be right.
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
