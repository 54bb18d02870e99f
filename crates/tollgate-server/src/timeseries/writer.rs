//! The task that writes counts to a server, and waits where that one is slow or gone.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tollgate_redis::Options;
use tollgate_redis::timeseries::{Recorded, Sample, TimeSeries, TimeSeriesError};

use super::outbox::Count;
use super::tally::{Lost, Tally};
use super::transitions::{Health, Transitions};

/// The most counts of one round: as many as one write takes, and as can be in doubt at once.
const MAX_BATCH: usize = 1_000;

/// How long a server that failed is left alone: first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// What takes counts.
pub(super) trait Server: Send + 'static {
    /// As [`TimeSeries::record`]; connects where that was not done, also for no samples.
    fn record(
        &mut self,
        samples: &[Sample<'_>],
    ) -> impl Future<Output = Result<Recorded, TimeSeriesError>> + Send;

    /// What people know it by, without a password.
    fn name(&self) -> String;
}

/// A server that is connected to when it is first asked.
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
            // Whether it works again is seen by connecting, also when nothing waits.
            self.open = None;
        }
        recorded
    }

    fn name(&self) -> String {
        self.options.to_string()
    }
}

/// Whether all were sent and answered, be it with a refusal.
fn all_answered(recorded: &Recorded) -> bool {
    recorded.unknown == 0 && recorded.unsent == 0
}

/// Takes counts from the queue to the server.
#[derive(Debug)]
pub(super) struct Writer<S> {
    server: S,
    queue: mpsc::Receiver<Count>,
    /// Ends with the recorder.
    ended: oneshot::Receiver<()>,
    /// What was taken from the queue and not settled.
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

    /// Writes until the recorder is gone, and what waits then once more.
    pub(super) async fn run(mut self) {
        let [first, longest] = PAUSES;
        let mut pause = first;
        loop {
            // Asked before: of a queue that is closed, the round below takes the rest.
            let is_last = self.queue.is_closed();
            // Also when nothing waits, so that what is wrong is told at the start.
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

    /// Writes until nothing waits; false when the server is to be left alone for now.
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

    /// Sends the batch; false when some of it was not taken for a reason that holds for all.
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
        // The last ones were not sent, and are tried again. What may be in is not: the server adds
        // up, and would count it twice.
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
