//! The backend that answers the questions of a case in real time: the store, nodes in front of it,
//! or a queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::{Limiter, Store};
use tollgate_experiments::experiment::live::{DueAttempt, TimedAnswer};
use tollgate_experiments::experiment::{Case, Node, NodeAnswer, QueueCase, QueueHandles, Spread};
use tollgate_logs::decide::ask;
use tollgate_logs::{PerLimits, Verdict};
use tollgate_policy::Authority;
use tollgate_queue::AnyQueues;

use super::begin::Begin;
use super::cut_off::CutOff;
use super::offers::{job, store_error, verdict_of};

/// The backend that answers the questions of a case.
pub(super) enum Front<S> {
    /// The store alone.
    Store(Limiter<S>),
    /// Nodes in front of it.
    Nodes(Vec<Node<CutOff<S>>>, Spread),
    /// A queue, to which attempts are offered.
    Queue(QueueHandles<AnyQueues>, QueueCase),
}

/// An answer, to be measured; of a node with the authority that decided.
pub(super) struct CallResult {
    pub(super) question: DueAttempt,
    pub(super) answer: Result<(TimedAnswer, Option<Authority>), tollgate::Error>,
}

/// The store alone, for a case with limits.
pub(super) fn store_alone<S: Store>(case: &Case, store: S) -> Option<Front<S>> {
    Some(Front::Store(Limiter::new(case.parts.first()?.limits.clone(), store)))
}

/// How often nodes return units that nobody spent, as the service does.
const RETURNS: Duration = Duration::from_secs(1);

/// The task in which nodes return units, until the case has ended.
pub(super) struct Returning(JoinHandle<()>);

impl Returning {
    /// Begins it, for a case with nodes.
    pub(super) fn of<S: Store + 'static>(front: &Arc<Front<S>>) -> Option<Self> {
        let Front::Nodes(..) = &**front else { return None };
        let front = Arc::clone(front);
        Some(Self(tokio::spawn(async move {
            let mut seconds = tokio::time::interval(RETURNS);
            loop {
                seconds.tick().await;
                let Front::Nodes(nodes, _) = &*front else { return };
                for node in nodes {
                    node.give_back(false).await;
                }
            }
        })))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a question and records the times.
pub(super) async fn put<S: Store>(
    front: &Front<S>,
    parts: &[PerLimits],
    begin: Begin,
    question: DueAttempt,
) -> CallResult {
    let sent_us = begin.now_us();
    let answer = match front {
        Front::Store(limiter) => {
            let client = question.client().to_string();
            let Some(ask) = ask(parts, &client) else { unreachable!("a case has parts") };
            let answer = limiter.check(ask).await;
            let answered_us = begin.now_us();
            answer.map(|decision| {
                let (decided_us, verdict) =
                    (decision.at().as_micros(), Verdict::from_decision(&decision));
                (TimedAnswer { sent_us, decided_us, answered_us, verdict }, None)
            })
        }
        Front::Nodes(nodes, spread) => {
            let number = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            let node = spread.node(question.client(), question.number(), number);
            let Some(node) = nodes.get(node as usize) else { unreachable!("it is one of them") };
            let answer = node.answer(parts, question.client()).await;
            let answered_us = begin.now_us();
            answer.map(|NodeAnswer { verdict, authority, .. }| {
                let decided_us = begin.store_us.saturating_add(answered_us);
                (TimedAnswer { sent_us, decided_us, answered_us, verdict }, Some(authority))
            })
        }
        Front::Queue(handles, _) => {
            let offered = handles.producer.offer(&job(sent_us)).await;
            let answered_us = begin.now_us();
            offered.map_err(store_error).map(|outcome| {
                let verdict = verdict_of(&outcome);
                let decided_us = begin.store_us.saturating_add(answered_us);
                (TimedAnswer { sent_us, decided_us, answered_us, verdict }, None)
            })
        }
    };
    CallResult { question, answer }
}
