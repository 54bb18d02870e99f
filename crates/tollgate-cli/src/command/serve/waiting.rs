//! The store that a service waits for: it starts without it, and connects when it comes.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::sleep;
use tollgate::StoreError;
use tollgate_queue::AnyQueues;
use tollgate_redis::may_connect_later;
use tollgate_stores::AnyStore;

use crate::show::duration;
use crate::store::{connect_queues, eviction_warning};

/// The pause between the first attempts to connect; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The store of a service before its first connection.
pub(super) struct Waiting {
    pub(super) store: AnyStore,
    /// How long a refusal that does not pass by itself may last: `--store-wait`.
    pub(super) longest: Duration,
}

/// How long a refusal has lasted that does not pass by itself.
struct LastingRefusal {
    since: Option<Instant>,
    longest: Duration,
    pauses: Pauses,
}

impl Waiting {
    /// Connects, or finds that the service has to start without the store: returns whether it is
    /// there.
    ///
    /// # Errors
    /// Errors that waiting cannot fix: a wrong password, a server that is not Redis.
    pub(super) async fn first(&self) -> Result<bool> {
        let mut refusal = LastingRefusal::new(self.longest);
        loop {
            let Err(error) = self.store.try_connect().await else { return Ok(true) };
            if may_connect_later(&error) {
                tracing::warn!(
                    target: "tollgate",
                    "started without the store, so the failure rules decide until it comes, and \
                     bans are unknown: {error}"
                );
                return Ok(false);
            }
            refusal.goes_on(error).await?;
        }
    }

    /// Connects when the store comes, with its queues, and logs it. Then it never returns.
    ///
    /// # Errors
    /// As [`Waiting::first`].
    pub(super) async fn follow(&self, queues: Option<&AnyQueues>) -> Result<(), StoreError> {
        let began = Instant::now();
        let mut refusal = LastingRefusal::new(self.longest);
        loop {
            let connected = async {
                self.store.try_connect().await?;
                connect_queues(queues).await
            };
            let Err(error) = connected.await else { break };
            if may_connect_later(&error) {
                refusal.passes().await;
            } else {
                refusal.goes_on(error).await?;
            }
        }
        let waited = Duration::from_millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(0));
        tracing::info!(
            target: "tollgate",
            "the store has come after {}, and decides from now on",
            duration(waited)
        );
        if let Some(queues) = queues
            && let Some(warning) = eviction_warning(queues).await
        {
            tracing::warn!(target: "tollgate", "{warning}");
        }
        core::future::pending().await
    }
}

impl LastingRefusal {
    fn new(longest: Duration) -> Self {
        Self { since: None, longest, pauses: Pauses(FIRST_PAUSE) }
    }

    /// Waits for the next attempt after a fault that may pass.
    async fn passes(&mut self) {
        self.since = None;
        self.pauses.next().await;
    }

    /// Waits for the next attempt, unless the refusal has lasted for too long: then it is the
    /// error.
    async fn goes_on(&mut self, error: StoreError) -> Result<(), StoreError> {
        if self.since.is_none() && !self.longest.is_zero() {
            tracing::warn!(
                target: "tollgate",
                "the store refuses, which ends this service in {} (--store-wait): {error}",
                duration(self.longest)
            );
            self.pauses = Pauses(FIRST_PAUSE);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.longest.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(error);
        }
        self.pauses.next_within(left).await;
        Ok(())
    }
}

/// Pauses that double.
struct Pauses(Duration);

impl Pauses {
    async fn next(&mut self) {
        self.next_within(LONGEST_PAUSE).await;
    }

    async fn next_within(&mut self, longest: Duration) {
        sleep(self.0.min(longest)).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}
