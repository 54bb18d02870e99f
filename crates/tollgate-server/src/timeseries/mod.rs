//! What the recorder counts, into time series on Redis as well (`docs/timeseries.md`).
//!
//! The recorder puts counts into a queue (`outbox.rs`) and waits for nothing; a task takes them
//! from there to the server (`writer.rs`). So a server that is slow or gone costs counts, and never
//! a decision or the recorder's own series.

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

pub(crate) use outbox::Outbox;
pub(crate) use tally::{Lost, Tally};
use writer::{OnRedis, Writer};

/// The most counts that wait, each of one series and second: four minutes of as many series as a
/// recorder has, hours of a few. They take 1.6 MB.
const MAX_WAITING: usize = 65_536;

/// How long what waits at the end may take.
const END: Duration = Duration::from_secs(2);

/// A server that the counts of each second are written to.
#[derive(Clone, Debug)]
pub struct TimeSeriesOptions {
    redis: tollgate_redis::Options,
    retention: Duration,
}

impl TimeSeriesOptions {
    /// Time series on this server, which keeps each count for so long; zero keeps all.
    ///
    /// Nothing is connected to yet: a service starts and decides without this server, and looks for
    /// it until it is there.
    ///
    /// # Errors
    /// The retention is outside of its bounds.
    pub fn new(
        redis: tollgate_redis::Options,
        retention: Duration,
    ) -> Result<Self, TimeSeriesError> {
        // All that can be wrong with a series that does not come from its name.
        Series::new("serve", retention, [("data", "hits")])?;
        Ok(Self { redis, retention })
    }

    /// Where the recorder puts its counts, and what writes them from now on, in a task of the
    /// runtime that this is called in.
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

/// The task that writes.
#[derive(Debug)]
pub(crate) struct Writing {
    tally: Arc<Tally>,
    task: JoinHandle<()>,
}

impl Writing {
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Waits until everything is written, for two seconds and not longer than this. The outbox must
    /// be gone.
    pub(crate) async fn end(mut self, most: Duration) {
        // A server that is silent is not waited for, where there is nothing to write.
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
