//! What becomes of an offer, and of a job that failed.

use core::time::Duration;

use crate::job::JobId;

/// What became of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OfferOutcome {
    /// It waits.
    Accepted {
        /// Its id.
        id: JobId,
        /// How many the bound counts now.
        depth: u64,
    },
    /// A job with its id of [`crate::Job::dedup_id`] was accepted before.
    Duplicate {
        /// That job's id.
        id: JobId,
    },
    /// As many wait as may; nothing was added.
    Full {
        /// How many.
        depth: u64,
        /// After how long one will have left, at the rate of the last seconds; none when none did.
        retry_after: Option<Duration>,
    },
    /// As many of this job's client are counted as may be
    /// ([`crate::ProducerSettings::per_client`]); nothing was added. The queue itself has room for
    /// others. Nobody knows when one of this client's leaves.
    ClientFull {
        /// How many of the client's.
        of_client: u64,
    },
}

impl OfferOutcome {
    /// Whether nothing was added because of a bound, the queue's or the client's.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::ClientFull { .. })
    }
}

/// What becomes of a job that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NackOutcome {
    /// It comes back.
    Requeued,
    /// It has had enough deliveries, and is dead.
    DeadLettered,
    /// Somebody else has it, or it is gone: what was said of this delivery changes nothing.
    Lost,
}
