//! Delivered jobs, and the tag that identifies a delivery.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};

use super::JobId;
use crate::body::Body;

/// The result of [`crate::Consumer::take`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TakeOutcome {
    /// The jobs: first the redelivered ones, then new ones in the order in which they were
    /// accepted.
    pub jobs: Vec<Delivery>,
    /// The time until more jobs may be available without new offers: the rate admits one again, or
    /// a job is due for redelivery. `None` if it is unknown.
    pub next: Option<Duration>,
    /// Entries of the queue that another program wrote and that are not valid jobs. Each has an id,
    /// under which it is now a dead job ([`crate::Queue::dead_letters`]), and a reason.
    pub foreign: Vec<(JobId, String)>,
    /// The queue is paused: it may contain jobs, but delivers none ([`crate::Queue::pause`]).
    pub paused: bool,
    /// The queue does not exist: it was not created yet, or was removed.
    pub absent: bool,
}

/// A delivered job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// Its id, which stays the same for all its deliveries.
    pub id: JobId,
    /// The number of this delivery, from 1.
    pub attempt: u32,
    pub(crate) body: Body,
}

/// Identifies one delivery of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct DeliveryTag {
    /// The job.
    pub id: JobId,
    /// The number of the delivery.
    pub attempt: u32,
}

impl DeliveryTag {
    /// The tag of a delivery, from a [`Delivery`].
    #[must_use]
    pub fn new(id: JobId, attempt: u32) -> Self {
        Self { id, attempt }
    }

    /// The delay of a job after this delivery failed. It is `first` after the first delivery,
    /// doubles with each further one, and never exceeds `max`. It is randomly shortened by up to
    /// half, so that jobs that failed together are not redelivered together.
    #[must_use]
    pub fn backoff(self, first: Duration, max: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let longest = first.saturating_mul(doubled).min(max);
        // Any number will do that other processes are unlikely to draw.
        let chance = RandomState::new().hash_one(self) % 1_000;
        longest / 2 + longest.mul_f64(chance as f64 / 2_000.0)
    }
}

impl Delivery {
    /// The tag of this delivery, to report its outcome.
    #[must_use]
    pub fn tag(&self) -> DeliveryTag {
        DeliveryTag { id: self.id, attempt: self.attempt }
    }

    /// Its fields; none if it consists of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// The value of a field.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields().iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str())
    }

    /// Its bytes, if it consists of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}
