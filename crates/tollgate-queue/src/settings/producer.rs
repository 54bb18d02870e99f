//! The settings for the producers of a queue.

use core::fmt;
use core::time::Duration;

use super::bounds::{MAX_BOUND, micros};
use crate::error::Error;

/// The longest time for which ids are remembered.
const MAX_DEDUP_WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// The jobs that a bound counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Counts {
    /// Jobs that were never delivered.
    #[default]
    Waiting,
    /// These, and jobs that were delivered and are not done.
    All,
}

/// The settings for producers, equal for all producers of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerSettings {
    pub(super) bound: u64,
    pub(super) counts: Counts,
    pub(super) per_client: Option<u64>,
    pub(super) dedup_window: Duration,
}

impl ProducerSettings {
    /// At most `bound` jobs wait: 1 to [`MAX_BOUND`].
    #[must_use]
    pub fn new(bound: u64) -> Self {
        let dedup_window = Duration::from_secs(600);
        Self { bound, counts: Counts::Waiting, per_client: None, dedup_window }
    }

    /// Checks that the settings are in range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { bound, dedup_window, per_client, .. } = self;
        if *bound == 0 || *bound > MAX_BOUND {
            let what = format!("a queue of at most {bound} jobs: the bound is 1 to {MAX_BOUND}");
            return Err(Error::invalid(what));
        }
        if let Some(max) = per_client.filter(|max| *max == 0 || *max > MAX_BOUND) {
            let what = format!("at most {max} jobs of one client: the bound is 1 to {MAX_BOUND}");
            return Err(Error::invalid(what));
        }
        if *dedup_window > MAX_DEDUP_WINDOW {
            return Err(Error::invalid(format!("ids remembered {dedup_window:?}: at most 7 days")));
        }
        Ok(())
    }

    /// The jobs that the bound counts ([`Counts::Waiting`] by default).
    #[must_use]
    pub fn counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    /// A bound on the counted jobs of one client ([`crate::Job::client`]): 1 to [`MAX_BOUND`].
    /// There is none by default; jobs without a client are limited only by the bound of the queue.
    #[must_use]
    pub fn per_client(self, max: u64) -> Self {
        Self { per_client: Some(max), ..self }
    }

    /// The same without a bound for each client.
    #[must_use]
    pub fn without_per_client(self) -> Self {
        Self { per_client: None, ..self }
    }

    /// How long the deduplication id of a job ([`crate::Job::dedup_id`]) is remembered: 10 minutes
    /// by default, at most 7 days.
    #[must_use]
    pub fn dedup_window(self, dedup_window: Duration) -> Self {
        Self { dedup_window, ..self }
    }

    /// The same with another bound.
    #[must_use]
    pub fn with_bound(self, bound: u64) -> Self {
        Self { bound, ..self }
    }

    /// The bound.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The most counted jobs of one client.
    #[must_use]
    pub fn max_per_client(&self) -> Option<u64> {
        self.per_client
    }

    pub(crate) fn counts_all(&self) -> bool {
        self.counts == Counts::All
    }

    pub(crate) fn dedup_window_us(&self) -> u64 {
        micros(self.dedup_window)
    }
}

impl fmt::Display for ProducerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = if self.counts_all() { "all" } else { "waiting" };
        write!(f, "a bound of {} ({counts})", self.bound)?;
        if let Some(max) = self.per_client {
            write!(f, ", {max} of one client")?;
        }
        write!(f, ", ids remembered for {:?}", self.dedup_window)
    }
}
