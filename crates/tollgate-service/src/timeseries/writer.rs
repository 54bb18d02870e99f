//! The task that writes counts to a server, and backs off while that is slow or unavailable.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tollgate_redis::Options;
use tollgate_redis::timeseries::{Recorded, Sample, TimeSeries, TimeSeriesError};

use super::outbox::Count;
use super::tally::{Lost, Tally};
use super::transitions::{Health, Transitions};

/// The maximum number of counts in one batch: as many as one write takes, and as can be in doubt
/// together.
const MAX_BATCH: usize = 1_000;

/// The back-off after a failure: the first pause, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// A server that takes counts.
pub(super) trait Server: Send + 'static {
    /// As [`TimeSeries::record`]; connects if necessary, even without samples.
    fn record(
        &mut self,
        samples: &[Sample<'_>],
    ) -> impl Future<Output = Result<Recorded, TimeSeriesError>> + Send;

    /// The server's name for the log, without a password.
    fn name(&self) -> String;
}

/// A Redis server, connected on first use.
#[derive(Debug)]
pub(super) struct OnRedis {
    options: Options,
    open: Option<TimeSeries>,
}

impl OnRedis {
    pub(super) fn new(options: Options) -> Self {
        Self { options, open: None }
    }
}

impl Server for OnRedis {
    async fn record(&mut self, samples: &[Sample<'_>]) -> Result<Recorded, TimeSeriesError> {
        let open = match &self.open {
            Some(open) => open,
            None => self.open.insert(TimeSeries::connect(self.options.clone()).await?),
        };
        let recorded = open.record(samples).await;
        if !recorded.as_ref().is_ok_and(all_answered) {
            // Reconnecting shows whether the server works again, even when no counts are queued.
            self.open = None;
        }
        recorded
    }

    fn name(&self) -> String {
        self.options.to_string()
    }
}

/// Whether all samples were sent and answered, even if refused.
fn all_answered(recorded: &Recorded) -> bool {
    recorded.unknown == 0 && recorded.unsent == 0
}

/// Sends counts from the queue to the server.
#[derive(Debug)]
pub(super) struct Writer<S> {
    server: S,
    queue: mpsc::Receiver<Count>,
    /// Resolves when the recorder has ended.
    ended: oneshot::Receiver<()>,
    /// The counts taken from the queue that are not settled.
    batch: Vec<Count>,
    tally: Arc<Tally>,
    transitions: Transitions,
}

impl<S: Server> Writer<S> {
    pub(super) fn new(
        server: S,
        queue: mpsc::Receiver<Count>,
        ended: oneshot::Receiver<()>,
        tally: Arc<Tally>,
    ) -> Self {
        Self { server, queue, ended, batch: Vec::new(), tally, transitions: Transitions::default() }
    }

    /// Writes until the recorder has ended, and then sends the remaining counts once more.
    pub(super) async fn run(mut self) {
        let [first, longest] = PAUSES;
        let mut pause = first;
        loop {
            // Read this first: if the queue is closed now, the write below takes the rest.
            let is_last = self.queue.is_closed();
            // Write even with an empty queue, so that a problem is logged at startup.
            let is_well = self.write().await;
            if is_last {
                return;
            }
            if is_well {
                pause = first;
                if self.queue.recv_many(&mut self.batch, MAX_BATCH).await == 0 {
                    return;
                }
            } else {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = &mut self.ended => {}
                }
                pause = (pause * 2).min(longest);
            }
        }
    }

    /// Writes until the queue is empty; false when the server needs a pause.
    async fn write(&mut self) -> bool {
        loop {
            while self.batch.len() < MAX_BATCH
                && let Ok(count) = self.queue.try_recv()
            {
                self.batch.push(count);
            }
            if !self.send().await {
                return false;
            }
            if self.queue.is_empty() {
                return true;
            }
        }
    }

    /// Sends the batch; false when the server did not answer for all of it.
    async fn send(&mut self) -> bool {
        let samples: Vec<Sample<'_>> = self.batch.iter().map(Count::sample).collect();
        let recorded = match self.server.record(&samples).await {
            Ok(recorded) => recorded,
            Err(error) => {
                self.log(Some(&error));
                return false;
            }
        };
        self.log(recorded.error.as_ref());
        self.tally.add_taken(recorded.taken);
        self.tally.add_lost(Lost::Refused, recorded.refused);
        self.tally.add_lost(Lost::Unknown, recorded.unknown);
        // Only the unsent counts at the end are tried again. Counts in doubt are not: the server
        // adds values, so a retry could count them twice.
        self.batch.drain(..self.batch.len().saturating_sub(recorded.unsent));
        all_answered(&recorded)
    }

    fn log(&mut self, error: Option<&TimeSeriesError>) {
        let health = if error.is_some() { Health::Bad } else { Health::Good };
        if !self.transitions.is_new(health, Instant::now()) {
            return;
        }
        let name = self.server.name();
        match error {
            Some(error) => tracing::warn!(
                target: "tollgate",
                "counts do not get into the time series at {name}: {error}"
            ),
            None => tracing::info!(target: "tollgate", "counts get into the time series at {name}"),
        }
    }
}

#[cfg(test)]
mod tests;
