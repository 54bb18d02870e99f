//! Writes the recorder's counts to Redis time series as well (`docs/timeseries.md`).
//!
//! The recorder puts counts into a queue (`outbox.rs`) and never waits; a task sends them from
//! there to the server (`writer.rs`). So a slow or missing server can lose counts, but affects
//! neither decisions nor the recorder's own series.

mod outbox;
mod tally;
mod transitions;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate_redis::timeseries::{Series, TimeSeriesError};

pub(crate) use outbox::{Counted, Outbox};
pub(crate) use tally::{Lost, Tally};
use writer::{OnRedis, Writer};

/// The most counts in the queue, each of one series and second. That is four minutes of the
/// recorder's maximum of series, or hours of a few. The queue takes 1.6 MB.
const MAX_WAITING: usize = 65_536;

/// The longest time for writing the remaining counts at shutdown.
const END: Duration = Duration::from_secs(2);

/// A Redis server that receives the counts of each second.
#[derive(Clone, Debug)]
pub struct TimeSeriesOptions {
    redis: tollgate_redis::Options,
    retention: Duration,
}

impl TimeSeriesOptions {
    /// Time series on this server that keep each count for `retention`; zero keeps all counts.
    ///
    /// This does not connect yet. A service starts and decides without this server, and retries
    /// until it can connect.
    ///
    /// # Errors
    /// The retention is out of range.
    pub fn new(
        redis: tollgate_redis::Options,
        retention: Duration,
    ) -> Result<Self, TimeSeriesError> {
        // This checks everything about a series that does not depend on its name.
        Series::new("serve", retention, [("data", "hits")])?;
        Ok(Self { redis, retention })
    }

    /// Returns the recorder's end of the queue, and starts the writer in a task of the current
    /// Tokio runtime.
    pub(crate) fn start(&self) -> (Outbox, Writing) {
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        let (alive, ended) = oneshot::channel();
        let tally = Arc::<Tally>::default();
        let outbox = Outbox::new(sender, alive, self.retention, Arc::clone(&tally));
        let server = OnRedis::new(self.redis.clone());
        let writer = Writer::new(server, queue, ended, Arc::clone(&tally));
        (outbox, Writing { tally, task: tokio::spawn(writer.run()) })
    }
}

/// The task that writes the counts.
#[derive(Debug)]
pub(crate) struct Writing {
    tally: Arc<Tally>,
    task: JoinHandle<()>,
}

impl Writing {
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Waits until all counts are written, for at most `most` and at most two seconds. The outbox
    /// must be dropped before.
    pub(crate) async fn end(mut self, most: Duration) {
        // With nothing to write, do not wait for a server that does not answer.
        if self.tally.waiting() > 0 {
            let _ = timeout(most.min(END), &mut self.task).await;
        }
        self.task.abort();
        let waiting = self.tally.waiting();
        if waiting > 0 {
            tracing::warn!(
                target: "tollgate",
                "the last {waiting} counts were not written into the time series on Redis"
            );
        }
    }
}
