//! Reduces series over time to the columns of a chart.

use crate::experiment::results::Results;

/// The most columns of a chart. Finer ones would be narrower than a pixel of most screens.
pub(crate) const COLUMNS: usize = 600;

/// The time axis that all cases of an experiment share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timeline {
    /// The end of the axis.
    pub(crate) end_us: u64,
    /// Microseconds of a column.
    pub(crate) column_us: u64,
    /// Buckets per column.
    per_column: usize,
}

impl Timeline {
    /// A timeline of at most `columns` columns.
    pub(crate) fn new(results: &Results, columns: usize) -> Self {
        let longest = results.cases.iter().map(|case| case.buckets.len()).max().unwrap_or(0);
        let per_column = longest.div_ceil(columns.max(1)).max(1);
        let times = |buckets: usize| {
            u64::try_from(buckets).unwrap_or(u64::MAX).saturating_mul(results.bucket_us)
        };
        // The last bucket may extend past the end of the traffic; if there are more buckets, there
        // were outcomes after the end.
        let end_us = match results.duration_us {
            duration if times(longest.saturating_sub(1)) < duration => duration,
            _ => times(longest),
        };
        Self { end_us: end_us.max(1), column_us: times(per_column).max(1), per_column }
    }

    /// Whether a column has several buckets.
    pub(crate) fn is_coarse(self) -> bool {
        self.per_column > 1
    }

    /// The highest value of each column, so that a spike keeps its height.
    pub(crate) fn highest<B>(self, buckets: &[B], value: impl Fn(&B) -> u64) -> Vec<u64> {
        let highest = |column: &[B]| column.iter().map(&value).max().unwrap_or(0);
        buckets.chunks(self.per_column).map(highest).collect()
    }
}
