//! One edge of a window from close by: its bursts are hairlines over the whole time.

use super::Experiment;
use super::results::{Bucket, Zoom};

/// The columns of the zoom.
const COLUMNS: u64 = 40;

impl Zoom {
    /// Empty buckets.
    pub(super) fn buckets(self) -> Vec<Bucket> {
        let buckets = self.reach_us.saturating_mul(2).div_ceil(self.bucket_us.max(1));
        vec![Bucket::default(); usize::try_from(buckets).unwrap_or(0)]
    }

    /// The bucket of a time, in microseconds from the start.
    pub(super) fn place(self, at_us: u64) -> Option<usize> {
        let since = at_us.checked_sub(self.edge_us.saturating_sub(self.reach_us))?;
        usize::try_from(since / self.bucket_us.max(1)).ok()
    }
}

impl Experiment {
    /// The first edge of its first workload that asks at edges; `None` without one.
    pub(super) fn zoom(&self) -> Option<Zoom> {
        self.workloads.iter().find_map(|workload| {
            let (edge_us, before_us) = workload.first_edge(self.start_us)?;
            let reach_us = before_us.saturating_mul(2).min(edge_us);
            let bucket_us = reach_us.saturating_mul(2).div_ceil(COLUMNS).max(1);
            let is_shown = reach_us > 0 && edge_us < workload.until_us.min(self.duration_us);
            is_shown.then_some(Zoom { edge_us, reach_us, bucket_us })
        })
    }
}
