//! Waiting until a check is admitted.

use core::time::Duration;

#[cfg(feature = "tokio")]
use super::Limiter;
#[cfg(feature = "tokio")]
use crate::{Ask, Decision, Error, Store};

/// How `Limiter::until_ready` (feature `tokio`) waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// The longest time to wait in all.
    pub deadline: Duration,
    /// At most this much is added to each wait, at random, so that waiters do not come back all
    /// at once. Jitter only ever adds.
    pub jitter: Duration,
}

impl From<Duration> for Waiting {
    fn from(deadline: Duration) -> Self {
        Self { deadline, jitter: Duration::ZERO }
    }
}

impl Waiting {
    /// Adds up to `jitter` to each wait.
    #[must_use]
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }
}

#[cfg(feature = "tokio")]
impl<S: Store> Limiter<S> {
    /// Waits until every limit admits, and charges; or answers the denial when it would take
    /// longer than the deadline, at once. Give a [`Duration`] as the deadline, or a [`Waiting`].
    ///
    /// It is not fair: nothing is reserved while waiting and there is no order among waiters, so
    /// a newcomer may go first. Cancel-safe: dropped while waiting, it has charged nothing.
    /// Needs a tokio runtime with its timer on.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn until_ready<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        waiting: impl Into<Waiting>,
    ) -> Result<Decision<'l>, Error> {
        let (ask, waiting) = (ask.into(), waiting.into());
        let start = tokio::time::Instant::now();
        loop {
            let decision = self.answer(ask.clone(), false).await?;
            let Some(wait) = decision.retry_after() else { return Ok(decision) };
            let left = waiting.deadline.saturating_sub(start.elapsed());
            if wait > left {
                return Ok(decision);
            }
            // Timers have a granularity of a millisecond; the store decides again anyway.
            tokio::time::sleep((wait + spread(waiting.jitter)).min(left)).await;
        }
    }
}

/// A random part of `jitter`.
#[cfg(feature = "tokio")]
fn spread(jitter: Duration) -> Duration {
    match u64::try_from(jitter.as_micros()) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(us) => Duration::from_micros(rand::random_range(0..=us)),
    }
}
