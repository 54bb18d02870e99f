//! The outcomes of an offer, and of a job that failed.

use core::time::Duration;

use crate::job::JobId;

/// The outcome of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OfferOutcome {
    /// The job was added.
    Accepted {
        /// Its id.
        id: JobId,
        /// How many jobs the bound counts now.
        depth: u64,
    },
    /// A job with the same [`crate::Job::dedup_id`] was accepted before.
    Duplicate {
        /// The id of that job.
        id: JobId,
    },
    /// The queue is full; nothing was added.
    Full {
        /// How many jobs the bound counts.
        depth: u64,
        /// When one of them will probably have left, at the rate of the last seconds; `None` when
        /// none left.
        retry_after: Option<Duration>,
    },
    /// The job's client already has the most jobs allowed
    /// ([`crate::ProducerSettings::per_client`]); nothing was added. The queue has room for other
    /// clients. The time until one of this client's jobs leaves is unknown.
    ClientFull {
        /// The client's counted jobs.
        of_client: u64,
    },
}

impl OfferOutcome {
    /// Whether nothing was added because of a bound, of the queue or of the client.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::ClientFull { .. })
    }
}

/// The outcome of a failed delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NackOutcome {
    /// The job is delivered again.
    Requeued,
    /// It was the job's last delivery, and the job is dead.
    DeadLettered,
    /// Another worker has the job, or it no longer exists: the report changed nothing.
    Lost,
}
