//! How a queue is worked on.

use core::fmt;
use core::time::Duration;

use tollgate::LimitSet;

use super::{MAX_BOUND, micros};
use crate::error::Error;

/// How often a job can be delivered.
const MAX_DELIVERIES: u32 = 1_000;

/// The longest time for a job.
const MAX_VISIBILITY: Duration = Duration::from_secs(86_400);

/// How a queue is worked on: the same for all who do.
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
    /// 30 s for a job, 5 deliveries, no rate, 1,000 dead jobs kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long who takes a job has for it, before it is delivered again: 1 ms to a day.
    #[must_use]
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility, ..self }
    }

    /// How often a job is delivered at most, 1 to 1,000; then it is dead.
    #[must_use]
    pub fn deliveries(self, deliveries: u32) -> Self {
        Self { deliveries, ..self }
    }

    /// Limits that all deliveries together have to pass.
    #[must_use]
    pub fn rate(self, rate: LimitSet) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The same without a rate.
    #[must_use]
    pub fn without_rate(self) -> Self {
        Self { rate: None, ..self }
    }

    /// How many dead jobs are kept, at most [`MAX_BOUND`]; the oldest go.
    #[must_use]
    pub fn keep_dead(self, keep_dead: u32) -> Self {
        Self { keep_dead, ..self }
    }

    /// How many jobs that were done are kept to be looked at, at most [`MAX_BOUND`]; the oldest go.
    #[must_use]
    pub fn keep_done(self, keep_done: u32) -> Self {
        Self { keep_done, ..self }
    }

    /// Whether it is as it may be.
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

    pub(crate) fn limits(&self) -> Option<&LimitSet> {
        self.rate.as_ref()
    }

    pub(crate) fn kept_dead(&self) -> usize {
        self.keep_dead as usize
    }

    pub(crate) fn kept_done(&self) -> usize {
        self.keep_done as usize
    }

    /// How long who takes a job has for it.
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
                // With the policy, in which the same limits count apart.
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
