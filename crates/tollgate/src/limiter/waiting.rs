//! Waiting until a check is admitted.

use core::time::Duration;

#[cfg(feature = "tokio")]
use super::Limiter;
#[cfg(feature = "tokio")]
use crate::{Ask, Decision, Error, Store};

/// How `Limiter::until_ready` and `Limiter::until_acquired` (feature `tokio`) wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// The longest total time to wait.
    pub deadline: Duration,
    /// The most that is added to each wait, chosen at random, so that waiters do not all return at
    /// once. Jitter never shortens a wait.
    pub jitter: Duration,
    /// Whether to wait in line ([`Waiting::in_line`]).
    pub in_line: bool,
}

impl From<Duration> for Waiting {
    fn from(deadline: Duration) -> Self {
        Self { deadline, ..Self::default() }
    }
}

impl Waiting {
    /// Adds up to `jitter` to each wait. On average a waiter is later by half of it, and where few
    /// wait, as much of the limit is left unused. It spreads the questions of many: 50 that wait
    /// under 20/s ask 6 times a turn with 1 s, and 54 times without.
    #[must_use]
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Stands in line in the store, so that slots go to waiters in the order of their arrival, of
    /// all programs that share the store ([`Ask::in_line`](crate::Ask::in_line)). For
    /// `Limiter::until_acquired` alone.
    #[must_use]
    pub fn in_line(self) -> Self {
        Self { in_line: true, ..self }
    }
}

#[cfg(feature = "tokio")]
impl<S: Store> Limiter<S> {
    /// Waits until every limit admits, then charges. If the wait would exceed the deadline, it
    /// returns the denial immediately. Pass a [`Duration`] as the deadline, or a [`Waiting`].
    ///
    /// It is not fair: nothing is reserved during the wait and waiters have no order, so a later
    /// caller may be admitted first. `Line::until_ready` has the order of arrival. No ban counts
    /// its denials. It is cancel-safe: dropped during the wait, it has charged nothing. It needs a
    /// tokio runtime with its timer enabled. Tests under paused time need a store by
    /// [`crate::TokioClock`].
    ///
    /// # Errors
    /// As [`Limiter::check`].
    #[doc(alias("wait", "pace", "backpressure", "blocking"))]
    pub async fn until_ready<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        waiting: impl Into<Waiting>,
    ) -> Result<Decision<'l>, Error> {
        let (ask, waiting) = (ask.into().waiting(), waiting.into());
        let start = tokio::time::Instant::now();
        loop {
            let decision = self.check(ask.clone()).await?;
            let Some(wait) = decision.retry_after() else { return Ok(decision) };
            let left = waiting.deadline.saturating_sub(start.elapsed());
            if wait > left {
                return Ok(decision);
            }
            // Timers are only exact to a millisecond; the store decides again in any case.
            tokio::time::sleep((wait + spread(waiting.jitter)).min(left)).await;
        }
    }
}

/// A random duration up to `jitter`.
#[cfg(feature = "tokio")]
pub(super) fn spread(jitter: Duration) -> Duration {
    match u64::try_from(jitter.as_micros()) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(us) => Duration::from_micros(rand::random_range(0..=us)),
    }
}

#[cfg(all(test, feature = "tokio"))]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Limiter, ManualClock, MemoryStore, TokioClock};

    #[tokio::test]
    async fn waiters_that_lose_a_race_are_not_banned() {
        let limits = "1/20ms via uniform, ban 1h after 2 denials in 1h";
        let limiter = Arc::new(Limiter::memory(limits.parse().unwrap()));
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move {
                    let mut all = true;
                    for _ in 0..2 {
                        let waited = limiter.until_ready("gate", Duration::from_secs(30)).await;
                        all &= waited.unwrap().is_allowed();
                    }
                    all
                })
            })
            .collect();
        for waiter in waiters {
            assert!(waiter.await.unwrap());
        }
        // A caller that does not wait is banned as always.
        assert!(limiter.until_ready("gate", Duration::from_secs(30)).await.unwrap().is_allowed());
        for _ in 0..2 {
            assert!(!limiter.check("gate").await.unwrap().is_allowed());
        }
        let banned = limiter.check("gate").await.unwrap().retry_after();
        assert!(banned.is_some_and(|wait| wait > Duration::from_secs(3_000)), "{banned:?}");
    }

    /// Paused time moves on by itself: waits of hours end at once, and exactly.
    #[tokio::test(start_paused = true)]
    async fn waits_under_paused_time_end_at_once() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        for limits in ["1/h via gcra", "1/h via fixed_window", "1/h via sliding_log"] {
            let clock = TokioClock::at_micros(1_800_000_000_000_000);
            let store = MemoryStore::builder().clock(clock).build();
            let limiter = Limiter::new(limits.parse().unwrap(), store);
            let start = tokio::time::Instant::now();
            for turn in 0..3 {
                let decision = limiter.until_ready("ann", hours(9)).await.unwrap();
                assert!(decision.is_allowed());
                assert_eq!(start.elapsed(), hours(turn), "{limits}");
            }
            // A wait beyond the deadline is not begun.
            let late = limiter.until_ready("ann", Duration::from_secs(3_599)).await.unwrap();
            assert_eq!((late.retry_after(), start.elapsed()), (Some(hours(1)), hours(2)));
        }
    }

    /// A clock that is set by hand is looked at after each wait.
    #[tokio::test(start_paused = true)]
    async fn waiters_find_a_clock_that_was_moved() {
        let clock = ManualClock::at_micros(1_800_000_000_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new("1/10s via gcra".parse().unwrap(), store);
        assert!(limiter.check("ann").now().unwrap().is_allowed());
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        let waiter = async { limiter.until_ready("ann", minute).await.unwrap().is_allowed() };
        let mover = async {
            tokio::time::sleep(15 * second).await; // tidy: sleep-ok the time is paused
            clock.advance(10 * second);
        };
        assert!(tokio::join!(waiter, mover).0);
        assert!(!limiter.until_ready("ann", minute).await.unwrap().is_allowed());
    }

    #[tokio::test]
    async fn what_cannot_be_waited_for_is_refused() {
        let limiter = Limiter::memory("1/h".parse().unwrap());
        let error = limiter.check(Ask::new("ann").in_line()).await.unwrap_err().to_string();
        assert!(error.contains("a check takes no slot to wait in line for"), "{error}");
        let error = limiter.charge(Ask::new("ann").waiting()).await.unwrap_err().to_string();
        assert!(error.contains("a charge is never denied"), "{error}");
        assert!(limiter.check(Ask::new("ann").waiting()).await.unwrap().is_allowed());
    }
}
