//! Jobs that are delivered, and the tag that says which delivery of a job it is.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};

use super::JobId;
use crate::body::Body;

/// What [`crate::Consumer::take`] gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TakeOutcome {
    /// The jobs, first those that come back, then in the order in which they were accepted.
    pub jobs: Vec<Delivery>,
    /// After how long there may be more, when nothing is offered meanwhile: the rate admits one
    /// again, or a job comes back. None: nobody knows.
    pub next: Option<Duration>,
    /// What lay among the jobs and is none, written there by something else: its id, under which it
    /// is a dead job now ([`crate::Queue::dead_letters`]), and what is wrong with it.
    pub foreign: Vec<(JobId, String)>,
    /// The queue is paused: there may be jobs, and none is given ([`crate::Queue::pause`]).
    pub paused: bool,
    /// There is no such queue: nobody has made it yet, or it was removed.
    pub absent: bool,
}

/// A job in hand.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// Its id, which stays the same when it is delivered again.
    pub id: JobId,
    /// The how-manieth delivery of it this is, from 1 on.
    pub attempt: u32,
    pub(crate) body: Body,
}

/// Who holds a job: which delivery of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct DeliveryTag {
    /// The job.
    pub id: JobId,
    /// The delivery.
    pub attempt: u32,
}

impl DeliveryTag {
    /// This delivery of this job, as who took it was told.
    #[must_use]
    pub fn new(id: JobId, attempt: u32) -> Self {
        Self { id, attempt }
    }

    /// How long a job is put off whose delivery this was and failed: `first` after the first, twice
    /// as long after each that follows, and never longer than `most`. By chance it is shorter by up
    /// to half, so that jobs that failed together do not come back together.
    #[must_use]
    pub fn backoff(self, first: Duration, max: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let longest = first.saturating_mul(doubled).min(max);
        // Any number that others do not draw will do.
        let chance = RandomState::new().hash_one(self) % 1_000;
        longest / 2 + longest.mul_f64(chance as f64 / 2_000.0)
    }
}

impl Delivery {
    /// Which delivery this is, to say what became of it.
    #[must_use]
    pub fn tag(&self) -> DeliveryTag {
        DeliveryTag { id: self.id, attempt: self.attempt }
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// The value of a field.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields().iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str())
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}
