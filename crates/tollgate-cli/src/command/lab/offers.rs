//! Offers to a queue: their jobs, verdicts and errors; and the end of a queue on Redis.

use tollgate::{LimitSet, StoreError, Subject};
use tollgate_logs::Verdict;
use tollgate_queue::{Backend, Delivery, Job, OfferOutcome, Queue};
use tollgate_redis::{Options, unlink_count};

/// The field of a job with the time of its offer, in microseconds since the start of the case.
const OFFERED: &str = "offered_us";

/// A job that is offered at this time.
pub(super) fn job(now_us: u64) -> Job {
    Job::new().field(OFFERED, now_us.to_string())
}

/// When a job was offered.
pub(super) fn offered_us(job: &Delivery) -> Option<u64> {
    job.text(OFFERED)?.parse().ok()
}

/// The verdict on an offer, as in simulated time.
pub(super) fn verdict_of(outcome: &OfferOutcome) -> Verdict {
    match outcome {
        OfferOutcome::Accepted { .. } => Verdict::new(true, None),
        OfferOutcome::Full { retry_after, .. } => {
            Verdict::new(false, retry_after.and_then(|it| u64::try_from(it.as_micros()).ok()))
        }
        // No job here has a deduplication id, or a client.
        _ => Verdict::new(false, None),
    }
}

/// The error of a queue as that of a store.
pub(super) fn store_error(error: tollgate_queue::Error) -> tollgate::Error {
    match error {
        tollgate_queue::Error::Store(error) => error.into(),
        tollgate_queue::Error::Rate(error) => error,
        other => StoreError::permanent(other.to_string()).into(),
    }
}

/// Removes a queue on Redis that nobody else uses, and the count of its rate.
pub(super) async fn remove<B: Backend>(
    queue: &Queue<B>,
    rate: Option<&LimitSet>,
    options: &Options,
) -> Result<(), tollgate::Error> {
    queue.remove().await.map_err(store_error)?;
    if let Some(rate) = rate {
        let subject = Subject::new("queue", queue.name())?;
        unlink_count(options, &subject, rate).await?;
    }
    Ok(())
}
