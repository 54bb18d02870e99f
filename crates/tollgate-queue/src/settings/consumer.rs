//! The settings for the workers of a queue.

use core::fmt;
use core::time::Duration;

use tollgate::LimitSet;

use super::bounds::{MAX_BOUND, micros};
use crate::error::Error;

/// The most deliveries of a job.
const MAX_DELIVERIES: u32 = 1_000;

/// The longest visibility timeout.
const MAX_VISIBILITY: Duration = Duration::from_secs(86_400);

/// The settings for workers, equal for all workers of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerSettings {
    pub(super) visibility: Duration,
    pub(super) deliveries: u32,
    pub(super) rate: Option<LimitSet>,
    pub(super) keep_dead: u32,
    pub(super) keep_done: u32,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(30),
            deliveries: 5,
            rate: None,
            keep_dead: 1_000,
            keep_done: 0,
        }
    }
}

impl ConsumerSettings {
    /// A visibility timeout of 30 s, 5 deliveries, no rate, 1,000 dead jobs kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The visibility timeout, 1 ms to one day: how long a worker may hold a job before it is
    /// delivered again.
    #[must_use]
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility, ..self }
    }

    /// The most deliveries of a job, 1 to 1,000; after the last one the job is dead.
    #[must_use]
    pub fn deliveries(self, deliveries: u32) -> Self {
        Self { deliveries, ..self }
    }

    /// Rate limits that apply to all deliveries together.
    #[must_use]
    pub fn rate(self, rate: LimitSet) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The same without a rate.
    #[must_use]
    pub fn without_rate(self) -> Self {
        Self { rate: None, ..self }
    }

    /// How many dead jobs are kept, at most [`MAX_BOUND`]; the oldest are dropped.
    #[must_use]
    pub fn keep_dead(self, keep_dead: u32) -> Self {
        Self { keep_dead, ..self }
    }

    /// How many done jobs are kept for inspection, at most [`MAX_BOUND`]; the oldest are dropped.
    #[must_use]
    pub fn keep_done(self, keep_done: u32) -> Self {
        Self { keep_done, ..self }
    }

    /// Checks that the settings are in range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { visibility, deliveries, keep_dead, keep_done, .. } = self;
        if *visibility < Duration::from_millis(1) || *visibility > MAX_VISIBILITY {
            let what = format!("{visibility:?} for a job: 1 ms to a day");
            return Err(Error::invalid(what));
        }
        if *deliveries == 0 || *deliveries > MAX_DELIVERIES {
            let what = format!("{deliveries} deliveries of a job: 1 to {MAX_DELIVERIES}");
            return Err(Error::invalid(what));
        }
        if u64::from(*keep_dead) > MAX_BOUND {
            return Err(Error::invalid(format!("{keep_dead} dead jobs kept: at most {MAX_BOUND}")));
        }
        if u64::from(*keep_done) > MAX_BOUND {
            return Err(Error::invalid(format!("{keep_done} done jobs kept: at most {MAX_BOUND}")));
        }
        if let Some(lease) = self.rate.as_ref().and_then(LimitSet::lease) {
            let what = format!(
                "`lease {lease}` for the rate of a queue: it is checked where the jobs are, so leave \
                 the lease out"
            );
            return Err(Error::invalid(what));
        }
        let limits = self.rate.iter().flat_map(LimitSet::limits);
        if let Some(limit) = limits.into_iter().find(|limit| !limit.counts_requests()) {
            let what = format!(
                "`{limit}` for the rate of a queue: a job is one request, so leave `of {}` out",
                limit.unit()
            );
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    pub(crate) fn visibility_us(&self) -> u64 {
        micros(self.visibility)
    }

    pub(crate) fn max_deliveries(&self) -> u32 {
        self.deliveries
    }

    pub(crate) fn is_exhausted(&self, deliveries: u32) -> bool {
        deliveries >= self.deliveries
    }

    /// The rate of deliveries, if there is one.
    #[must_use]
    pub fn limits(&self) -> Option<&LimitSet> {
        self.rate.as_ref()
    }

    pub(crate) fn kept_dead(&self) -> usize {
        self.keep_dead as usize
    }

    pub(crate) fn kept_done(&self) -> usize {
        self.keep_done as usize
    }

    /// The visibility timeout: how long a worker may hold a job.
    #[must_use]
    pub fn visibility_timeout(&self) -> Duration {
        self.visibility
    }
}

impl fmt::Display for ConsumerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for a job, {} deliveries", self.visibility, self.deliveries)?;
        match &self.rate {
            None => f.write_str(", no rate")?,
            Some(limits) => {
                for (place, limit) in limits.limits().iter().enumerate() {
                    f.write_str(if place == 0 { ", a rate of " } else { " and " })?;
                    write!(f, "{limit}")?;
                }
                // With the policy, since the same limits in another policy have a separate count.
                write!(f, " ({})", limits.identity())?;
            }
        }
        write!(f, ", {} dead jobs kept", self.keep_dead)?;
        if self.keep_done > 0 {
            write!(f, ", {} that were done", self.keep_done)?;
        }
        Ok(())
    }
}
