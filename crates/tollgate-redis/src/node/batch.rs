//! Batching: calls that wait for one connection at the same time are sent as one.
//!
//! Calling a script costs the server some microseconds, often more than the script's own work for
//! one question. So when the connection is about to write, the waiting calls of one script are
//! combined into one call of a batch script. It answers each as if it had arrived alone, in their
//! order of arrival. No call waits for others to arrive: a single call is sent alone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Unconstrained, unconstrained};
use tokio::time::Instant;

use super::deadline::Deadline;
use super::reply_errors::{lost, refused};
use super::script_load;
use super::wire::Sending;
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The most questions in one call. The server serves no other client while it runs the batch, and a
/// larger one would save little more.
pub const MAX_BATCHED: usize = 16;

/// The most waiting calls that are searched for those of one script.
const AT_ONCE: usize = 256;

/// The arguments of a call before its keys: EVALSHA, the script's name, the number of keys.
pub(super) const BEFORE_KEYS: usize = 3;

/// The script of a batch, and whether the server has it.
pub(crate) struct BatchScript {
    /// Composed on first use, so a script without batches needs none.
    script: OnceLock<Script>,
    compose: Box<dyn Fn() -> Script + Send + Sync>,
    /// By the number of the node, modulo their count. Nodes that share a place at worst load the
    /// script again, or send calls alone.
    states: [AtomicU8; STATES],
    counts: Arc<Counts>,
}

/// Lifetime counters of batch scripts.
#[derive(Default)]
pub(crate) struct Counts {
    /// The loads.
    pub(crate) loads: AtomicU64,
    /// The batched calls that were refused, and whose questions were then sent one by one.
    pub(crate) refusals: AtomicU64,
}

/// More than most clusters have primaries.
const STATES: usize = 32;

/// Not loaded yet, or the server has forgotten it.
const UNKNOWN: u8 = 0;
/// Being loaded.
const LOADING: u8 = 1;
/// The server had it at the last call.
const READY: u8 = 2;
/// The server cannot run batches: it is a cluster node, or the user has too few permissions.
const NEVER: u8 = 3;

impl BatchScript {
    /// `compose` makes the script; all batch scripts share `counts`.
    pub(crate) fn new(
        compose: impl Fn() -> Script + Send + Sync + 'static,
        counts: Arc<Counts>,
    ) -> Self {
        let states = [const { AtomicU8::new(UNKNOWN) }; STATES];
        Self { script: OnceLock::new(), compose: Box::new(compose), states, counts }
    }

    pub(super) fn script(&self) -> &Script {
        self.script.get_or_init(&self.compose)
    }

    /// A call with the keys of several questions and no arguments, which the script refuses.
    pub(super) fn trial(&self, keys: &[String]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script().sha()).arg(keys.len()).arg(keys);
        command
    }

    /// Records the reply to the trial: of the script, or of the server instead.
    ///
    /// # Errors
    /// A reply that does not show whether the script works.
    pub(super) fn tried(&self, node: usize, answer: &Value) -> Result<(), Fault> {
        let Value::ServerError(error) = answer else {
            return Err(Fault::Garbled { charge: ChargeState::NotCharged });
        };
        match refused(error) {
            // The trial's keys are invented, so the user may have permission for the real ones.
            Fault::Refused { .. } | Fault::NoPermission { charge: ChargeState::NotCharged, .. } => {
                self.change(node, UNKNOWN, READY);
            }
            fault if is_for_good(&fault) => self.set(node, NEVER),
            fault => return Err(fault),
        }
        Ok(())
    }

    /// Records that a node has the script.
    pub(super) fn is_loaded(&self, node: usize) {
        self.change(node, UNKNOWN, READY);
    }

    /// Pretends that the server has the script.
    #[cfg(test)]
    pub(super) fn pretend(self) -> Self {
        self.set(0, READY);
        self
    }

    #[cfg(test)]
    pub(super) fn refusals(&self) -> u64 {
        self.counts.refusals.load(Ordering::Relaxed)
    }

    fn state(&self, node: usize) -> &AtomicU8 {
        #[expect(clippy::indexing_slicing, reason = "below the length")]
        &self.states[node % STATES]
    }

    fn set(&self, node: usize, state: u8) {
        self.state(node).store(state, Ordering::Release);
    }

    /// Changes the state if it is still `from`; returns whether it did.
    fn change(&self, node: usize, from: u8, to: u8) -> bool {
        let state = self.state(node);
        state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_ready(&self, node: usize) -> bool {
        self.state(node).load(Ordering::Acquire) == READY
    }
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct CallReply {
    /// The call on its own.
    pub(super) command: Cmd,
    /// The reply, which may be a server error. `None` when its batch was refused, so that none of
    /// its calls ran.
    pub(super) answer: Option<Value>,
}

/// A call that waits to be sent.
pub(super) struct PendingCall {
    pub(super) sending: Sending,
    /// When the caller stops waiting for the reply.
    pub(super) by: Deadline,
    pub(super) reply: oneshot::Sender<Result<CallReply, Fault>>,
}

impl PendingCall {
    fn hear(self, answer: Option<Value>) {
        // The caller may have been dropped.
        drop(self.reply.send(Ok(CallReply { command: self.sending.command, answer })));
    }

    fn fail(self, fault: Fault) {
        drop(self.reply.send(Err(fault)));
    }
}

type Sent = Unconstrained<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The calls of one connection that were sent and have no reply yet.
pub(super) struct Batches {
    connection: MultiplexedConnection,
    /// The number of the node.
    node: usize,
    asked: mpsc::UnboundedReceiver<PendingCall>,
    waiting: Vec<PendingCall>,
    /// In the order in which they were sent, which is that of the replies.
    sent: VecDeque<Sent>,
}

impl Batches {
    pub(super) fn new(
        connection: MultiplexedConnection,
        asked: mpsc::UnboundedReceiver<PendingCall>,
        node: usize,
    ) -> Self {
        Self { connection, node, asked, waiting: Vec::new(), sent: VecDeque::new() }
    }

    /// Passes all waiting calls to the connection.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(1..) = self.asked.poll_recv_many(cx, &mut self.waiting, AT_ONCE) {
            let mut waiting = std::mem::take(&mut self.waiting);
            // The caller no longer waits and the call was not sent, so it never is.
            let now = Instant::now();
            let is_late = |asked: &mut PendingCall| asked.reply.is_closed() || now >= asked.by.at;
            for late in waiting.extract_if(.., is_late) {
                let fault = late.by.passed(ChargeState::NotCharged);
                late.fail(fault);
            }
            while let Some(first) = waiting.first() {
                let Sending { slot, keys, words, .. } = first.sending;
                let Some(batch) = first.sending.batch.clone() else {
                    let first = waiting.remove(0);
                    self.begin(cx, alone(self.connection.clone(), first));
                    continue;
                };
                let end = waiting.iter().position(|asked| asked.sending.batch.is_none());
                let end = end.unwrap_or(waiting.len());
                // On a cluster, a call may have keys of one slot only. The script finds the
                // questions by their number of keys and arguments.
                let is_alike = |asked: &mut PendingCall| {
                    let Sending { batch: other, slot: place, keys: count, words: all, .. } =
                        &asked.sending;
                    (*place, *count, *all) == (slot, keys, words)
                        && other.as_ref().is_some_and(|it| Arc::ptr_eq(it, &batch))
                };
                let alike = waiting.extract_if(..end, is_alike).collect();
                self.send_alike(cx, &batch, alike);
            }
            // Reuse the allocation.
            self.waiting = waiting;
        }
    }

    /// Passes calls of one script to the connection.
    fn send_alike(
        &mut self,
        cx: &mut Context<'_>,
        batch: &Arc<BatchScript>,
        mut alike: Vec<PendingCall>,
    ) {
        if alike.len() > 1 && batch.change(self.node, UNKNOWN, LOADING) {
            self.begin(cx, load(self.connection.clone(), Loading(Arc::clone(batch), self.node)));
        }
        if alike.len() == 1 || !batch.is_ready(self.node) {
            for asked in alike {
                self.begin(cx, alone(self.connection.clone(), asked));
            }
            return;
        }
        // In batches of nearly equal size: 17 become 9 and 8.
        let size = alike.len().div_ceil(alike.len().div_ceil(MAX_BATCHED));
        while !alike.is_empty() {
            let rest = alike.split_off(size.min(alike.len()));
            self.begin(cx, together(self.connection.clone(), self.node, Arc::clone(batch), alike));
            alike = rest;
        }
    }

    /// Begins an exchange: its first poll puts it into the connection's queue.
    ///
    /// It runs without tokio's cooperative budget. With that budget spent, an exchange would not be
    /// sent at its first poll, and not be polled again before all calls already sent have replies.
    fn begin(&mut self, cx: &mut Context<'_>, exchange: impl Future<Output = ()> + Send + 'static) {
        let mut exchange: Sent = unconstrained(Box::pin(exchange));
        if Pin::new(&mut exchange).poll(cx).is_pending() {
            self.sent.push_back(exchange);
        }
    }

    /// Passes on the replies that have arrived.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>) {
        while let Some(first) = self.sent.front_mut() {
            if Pin::new(first).poll(cx).is_pending() {
                return;
            }
            self.sent.pop_front();
        }
    }
}

async fn alone(mut connection: MultiplexedConnection, asked: PendingCall) {
    match connection.send_packed_command(&asked.sending.command).await {
        Ok(answer) => asked.hear(Some(answer)),
        Err(error) => asked.fail(lost(&error, ChargeState::Unknown)),
    }
}

async fn together(
    mut connection: MultiplexedConnection,
    node: usize,
    batch: Arc<BatchScript>,
    all: Vec<PendingCall>,
) {
    let answers = connection.send_packed_command(&call(batch.script(), &all)).await;
    match answers {
        Ok(Value::Array(answers)) if answers.len() == all.len() => {
            for (asked, answer) in all.into_iter().zip(answers) {
                asked.hear(Some(answer));
            }
        }
        Ok(Value::ServerError(error)) => {
            let fault = refused(&error);
            if is_for_good(&fault) {
                batch.set(node, NEVER);
            } else if fault == Fault::NoScript {
                // Unless it is being loaded already.
                batch.change(node, READY, UNKNOWN);
            }
            let again = is_of_several(&fault);
            batch.counts.refusals.fetch_add(u64::from(again), Ordering::Relaxed);
            for asked in all {
                asked.hear((!again).then(|| Value::ServerError(error.clone())));
            }
        }
        Ok(_) => {
            for asked in all {
                asked.fail(Fault::Garbled { charge: ChargeState::Unknown });
            }
        }
        Err(error) => {
            for asked in all {
                asked.fail(lost(&error, ChargeState::Unknown));
            }
        }
    }
}

/// Whether a batch can fail with this error while each of its calls would succeed alone. None of
/// them ran.
fn is_of_several(fault: &Fault) -> bool {
    is_for_good(fault) || matches!(fault, Fault::NoScript | Fault::TryAgain | Fault::ClusterDown)
}

/// Whether the error is permanent: the server does not allow keys of several subjects in one call.
fn is_for_good(fault: &Fault) -> bool {
    let denied = ChargeState::NotCharged;
    matches!(fault, Fault::CrossSlot)
        || matches!(fault, Fault::NoPermission { charge, .. } if *charge == denied)
}

/// One call for all: the keys of each, then the arguments of each.
fn call(script: &Script, all: &[PendingCall]) -> Cmd {
    let words = all.iter().flat_map(|asked| asked.sending.command.args_iter());
    let size = words.clone().map(|word| bytes(&word).len()).sum();
    let mut command = Cmd::with_capacity(words.count(), size);
    let keys: usize = all.iter().map(|asked| asked.sending.keys).sum();
    command.arg("EVALSHA").arg(script.sha()).arg(keys);
    for asked in all {
        let words = asked.sending.command.args_iter().skip(BEFORE_KEYS);
        words.take(asked.sending.keys).for_each(|word| _ = command.arg(bytes(&word)));
    }
    for asked in all {
        let words = asked.sending.command.args_iter().skip(BEFORE_KEYS + asked.sending.keys);
        words.for_each(|word| _ = command.arg(bytes(&word)));
    }
    command
}

/// Our calls have no cursor arguments.
fn bytes<'w>(word: &Arg<&'w [u8]>) -> &'w [u8] {
    match word {
        Arg::Simple(word) => word,
        _ => b"",
    }
}

/// A load in progress; if it is dropped unfinished, the next caller may try.
struct Loading(Arc<BatchScript>, usize);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.change(self.1, LOADING, UNKNOWN);
    }
}

async fn load(mut connection: MultiplexedConnection, loading: Loading) {
    let Loading(batch, node) = &loading;
    let Ok(answer) = connection.send_packed_command(&script_load::command(batch.script())).await
    else {
        return;
    };
    // Until the script is loaded, calls are sent alone, and report other problems.
    match script_load::loaded(batch.script(), &answer) {
        Ok(()) => {
            batch.counts.loads.fetch_add(1, Ordering::Relaxed);
            batch.set(*node, READY);
        }
        Err(fault) if is_for_good(&fault) => batch.set(*node, NEVER),
        Err(_) => {}
    }
}
