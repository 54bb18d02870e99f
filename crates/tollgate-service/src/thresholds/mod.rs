//! Reports of charges that reach a threshold (`docs/policies.md`): each once over all processes on
//! the store, in the log, in the metrics, and to a webhook.

mod counts;
mod webhook;

use std::sync::Arc;

use tokio::sync::mpsc;
use tollgate_policy::{Crossing, Gate};
use tollgate_stores::AnyStore;

use crate::denials::SubjectForm;

pub(crate) use counts::{Delivery, ThresholdCounts};
pub use webhook::{MIN_SECRET_BYTES, Posted, Webhook, WebhookClient};

/// The most crossings that wait to be reported, and the most reports that wait for the webhook.
/// Further ones are lost, and counted.
const MAX_WAITING: usize = 1_000;

/// The end at which charges put in what they reached.
#[derive(Debug)]
pub(crate) struct Crossings(mpsc::Sender<Crossing>);

impl Crossings {
    /// Both ends.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Crossing>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    /// False if it is lost.
    pub(crate) fn put(&self, crossing: Crossing) -> bool {
        self.0.try_send(crossing).is_ok()
    }
}

/// Reports crossings until it is dropped.
pub(crate) async fn report(
    gate: Gate<AnyStore>,
    mut crossings: mpsc::Receiver<Crossing>,
    counts: Arc<ThresholdCounts>,
    webhook: Option<Arc<Webhook>>,
    subjects: SubjectForm,
) {
    let (reports, waiting) = mpsc::channel(MAX_WAITING);
    let delivering = async {
        match &webhook {
            Some(webhook) => webhook.deliver(waiting, &counts).await,
            None => drop(waiting),
        }
    };
    let reporting = async {
        while let Some(crossing) = crossings.recv().await {
            match gate.is_first(&crossing).await {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => {
                    counts.lost();
                    tracing::warn!(target: "tollgate", "a threshold is not reported: {error}");
                    continue;
                }
            }
            counts.add(&crossing.policy, crossing.threshold);
            tracing::warn!(
                target: "tollgate",
                policy = crossing.policy,
                subject = %subjects.written(&crossing.subject),
                limit = %crossing.limit,
                threshold = %crossing.threshold.percent(),
                used = crossing.used,
                "a limit has reached a threshold"
            );
            if webhook.is_some() && reports.try_send(crossing).is_err() {
                counts.deliver(Delivery::Dropped);
            }
        }
    };
    tokio::join!(delivering, reporting);
}
