//! One limit in a decision.

use core::time::Duration;

use crate::engine::{Carried, Fields};
use crate::limit::{Limit, LimitSet};

/// The fields of one limit in a decision.
#[derive(Clone, Copy, Debug)]
pub struct Report<'d> {
    pub(super) subject: &'d str,
    pub(super) limits: &'d LimitSet,
    pub(super) limit: &'d Limit,
    pub(super) part: usize,
    pub(super) fields: Fields,
}

impl<'d> Report<'d> {
    /// The subject of the count, in the written form of [`Subject`](crate::Subject).
    #[must_use]
    pub fn subject(&self) -> &'d str {
        self.subject
    }

    /// The policy of the limit; `None` for limits without one.
    #[must_use]
    pub fn policy(&self) -> Option<&'d str> {
        self.limits.policy()
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &'d Limit {
        self.limit
    }

    /// The index of the subject in the ask, 0 for the first. One ask may contain the same subject
    /// several times, each time under other limits.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part
    }

    /// True when this limit would admit the cost.
    #[must_use]
    #[inline]
    pub fn admits(&self) -> bool {
        self.fields.retry_after_us == Some(0)
    }

    /// The largest cost this limit would admit now.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.fields.remaining
    }

    /// The shortest wait until this limit admits the cost: zero for now, `None` for never.
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.fields.retry_after_us.map(Duration::from_micros)
    }

    /// The shortest wait until this limit is fresh.
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.fields.reset_after_us)
    }

    /// The effect on the count if the limit's numbers had changed.
    #[must_use]
    #[inline]
    pub fn carried(&self) -> Carried {
        self.fields.carried
    }
}
