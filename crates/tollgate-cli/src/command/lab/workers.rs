//! The workers of a queue in real time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_experiments::experiment::live::Live;
use tollgate_experiments::experiment::{QueueCase, QueueHandles};
use tollgate_queue::{AnyQueues, Error};

use super::begin::Begin;
use super::front::Front;
use super::offers::offered_us;
use crate::show;

/// The longest pause of an idle worker between two looks at the queue.
const IDLE: Duration = Duration::from_secs(1);

/// The pause of a worker after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// The most reports in memory. Beyond it workers wait until the driver has read some.
const MAX_REPORTS: usize = 4_096;

/// A report of a worker.
enum Report {
    Taken { at_us: u64, waited_us: u64 },
    Done { at_us: u64 },
    Failed(Error),
}

/// The workers of a case with a queue, until this is dropped.
pub(super) struct Workers {
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    has_failed: bool,
}

impl Workers {
    /// Starts them, for a case with a queue.
    pub(super) fn of<S>(front: &Front<S>, begin: Begin) -> Option<Self> {
        let Front::Queue(handles, case) = front else { return None };
        let (sender, reports) = mpsc::channel(MAX_REPORTS);
        let (handles, case) = (Arc::new(handles.clone()), Arc::new(case.clone()));
        let mut tasks = JoinSet::new();
        for number in 1..=case.workers {
            let (handles, case) = (Arc::clone(&handles), Arc::clone(&case));
            let sender = sender.clone();
            tasks.spawn(async move {
                let name = format!("worker-{number}");
                // It ends with the driver, which takes no more reports.
                while turn(&handles, &case, &name, begin, &sender).await.is_ok() {}
            });
        }
        Some(Self { reports, tasks, has_failed: false })
    }

    /// Counts what the workers have reported.
    pub(super) fn settle(&mut self, live: &mut Live<'_>) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Taken { at_us, waited_us } => live.delivered(at_us, waited_us),
                Report::Done { at_us } => live.done(at_us),
                Report::Failed(_) if self.has_failed => {}
                Report::Failed(error) => {
                    self.has_failed = true;
                    show::note(&format!("a worker got no answer, and tries again: {error}"));
                }
            }
        }
    }

    /// Stops them, and counts their last reports.
    pub(super) async fn end(mut self, live: &mut Live<'_>) {
        self.tasks.shutdown().await;
        self.settle(live);
    }
}

/// Takes a job and does it, or waits for one. An error is that of a driver that has ended.
async fn turn(
    handles: &QueueHandles<AnyQueues>,
    case: &QueueCase,
    name: &str,
    begin: Begin,
    reports: &mpsc::Sender<Report>,
) -> Result<(), mpsc::error::SendError<Report>> {
    let mut taken = match handles.consumer.take(name, 1).await {
        Ok(taken) => taken,
        Err(error) => {
            reports.send(Report::Failed(error)).await?;
            sleep_until(Instant::now() + PAUSE).await;
            return Ok(());
        }
    };
    let Some(job) = taken.jobs.pop() else {
        handles.consumer.wait(taken.next.unwrap_or(IDLE).min(IDLE)).await;
        return Ok(());
    };
    let (at, at_us) = (Instant::now(), begin.now_us());
    let since_us = offered_us(&job).unwrap_or(at_us);
    let waited_us = at_us.saturating_sub(since_us);
    reports.send(Report::Taken { at_us, waited_us }).await?;
    sleep_until(at + Duration::from_micros(case.work_us)).await;
    match handles.consumer.ack(&[job.id]).await {
        Ok(_) => reports.send(Report::Done { at_us: begin.now_us() }).await,
        Err(error) => reports.send(Report::Failed(error)).await,
    }
}
