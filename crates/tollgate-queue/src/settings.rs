//! How a queue is offered to, and how it is worked on.

use core::fmt;
use core::time::Duration;

use tollgate::LimitSet;

use crate::error::Error;

/// The highest bound.
pub const MAX_BOUND: u64 = 10_000_000;

/// How often a job can be delivered.
const MAX_DELIVERIES: u32 = 1_000;

/// The longest times that may be said.
const MAX_VISIBILITY: Duration = Duration::from_secs(86_400);
const MAX_REMEMBER: Duration = Duration::from_secs(7 * 86_400);

/// What a bound counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Counts {
    /// Jobs that were never delivered.
    #[default]
    Waiting,
    /// These, and those that were delivered and are not done.
    All,
}

/// How a queue is offered to: the same for all who do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offering {
    bound: u64,
    counts: Counts,
    remember: Duration,
}

impl Offering {
    /// At most `bound` jobs wait: 1 to [`MAX_BOUND`].
    #[must_use]
    pub fn new(bound: u64) -> Self {
        Self { bound, counts: Counts::Waiting, remember: Duration::from_secs(600) }
    }

    /// Whether it is as it may be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { bound, remember, .. } = self;
        if *bound == 0 || *bound > MAX_BOUND {
            let what = format!("a queue of at most {bound} jobs: the bound is 1 to {MAX_BOUND}");
            return Err(Error::invalid(what));
        }
        if *remember > MAX_REMEMBER {
            return Err(Error::invalid(format!("ids remembered {remember:?}: at most 7 days")));
        }
        Ok(())
    }

    /// What the bound counts ([`Counts::Waiting`] unless said).
    #[must_use]
    pub fn counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    /// How long the id of a job that says one ([`crate::Job::once`]) is remembered: 10 minutes
    /// unless said, at most 7 days.
    #[must_use]
    pub fn remember(self, remember: Duration) -> Self {
        Self { remember, ..self }
    }

    /// How many.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    pub(crate) fn counts_all(&self) -> bool {
        self.counts == Counts::All
    }

    pub(crate) fn remember_us(&self) -> u64 {
        micros(self.remember)
    }
}

impl fmt::Display for Offering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = if self.counts_all() { "all" } else { "waiting" };
        let remembered = micros(self.remember);
        write!(f, "a bound of {} ({counts}), ids remembered {remembered} us", self.bound)
    }
}

/// How a queue is worked on: the same for all who do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Working {
    visibility: Duration,
    deliveries: u32,
    rate: Option<LimitSet>,
    keep_dead: u32,
}

impl Default for Working {
    fn default() -> Self {
        Self { visibility: Duration::from_secs(30), deliveries: 5, rate: None, keep_dead: 1_000 }
    }
}

impl Working {
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

    /// How many dead jobs are kept, at most [`MAX_BOUND`]; the oldest go.
    #[must_use]
    pub fn keep_dead(self, keep_dead: u32) -> Self {
        Self { keep_dead, ..self }
    }

    /// Whether it is as it may be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { visibility, deliveries, keep_dead, .. } = self;
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
        Ok(())
    }

    pub(crate) fn visibility_us(&self) -> u64 {
        micros(self.visibility)
    }

    pub(crate) fn most_deliveries(&self) -> u32 {
        self.deliveries
    }

    pub(crate) fn has_had_enough(&self, deliveries: u32) -> bool {
        deliveries >= self.deliveries
    }

    pub(crate) fn limits(&self) -> Option<&LimitSet> {
        self.rate.as_ref()
    }

    pub(crate) fn kept_dead(&self) -> usize {
        self.keep_dead as usize
    }

    /// How long who takes a job has for it.
    #[must_use]
    pub fn has(&self) -> Duration {
        self.visibility
    }
}

impl fmt::Display for Working {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let visibility = micros(self.visibility);
        write!(f, "{visibility} us for a job, {} deliveries", self.deliveries)?;
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
        write!(f, ", {} dead jobs kept", self.keep_dead)
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
