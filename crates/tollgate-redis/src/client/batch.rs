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
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The most questions in one call. The server serves no other client while it runs the batch, and a
/// larger one would save little more.
pub const MAX_BATCHED: usize = 16;

/// The most waiting calls that are searched for those of one script.
const AT_ONCE: usize = 256;

/// The arguments of a call before its keys: EVALSHA, the script's name, the number of keys.
const BEFORE_KEYS: usize = 3;

/// The script of a batch, and whether the server has it.
pub(crate) struct BatchScript {
    /// Composed on first use, so a script without batches needs none.
    script: OnceLock<Script>,
    compose: Box<dyn Fn() -> Script + Send + Sync>,
    state: AtomicU8,
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
        let state = AtomicU8::new(UNKNOWN);
        Self { script: OnceLock::new(), compose: Box::new(compose), state, counts }
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
    pub(super) fn tried(&self, answer: &Value) -> Result<(), Fault> {
        let Value::ServerError(error) = answer else {
            return Err(Fault::Garbled { charge: ChargeState::NotCharged });
        };
        match refused(error) {
            // The trial's keys are invented, so the user may have permission for the real ones.
            Fault::Refused { .. } | Fault::NoPermission { charge: ChargeState::NotCharged } => {
                self.change(UNKNOWN, READY);
            }
            fault if is_for_good(&fault) => self.set(NEVER),
            fault => return Err(fault),
        }
        Ok(())
    }

    /// Pretends that the server has the script.
    #[cfg(test)]
    pub(super) fn pretend(self) -> Self {
        self.set(READY);
        self
    }

    #[cfg(test)]
    pub(super) fn refusals(&self) -> u64 {
        self.counts.refusals.load(Ordering::Relaxed)
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }

    /// Changes the state if it is still `from`; returns whether it did.
    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY
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

/// A call that may be batched with others of its script.
pub(super) struct PendingCall {
    /// The script of a batch; `None` for a call that is sent alone, and that no other overtakes.
    pub(super) batch: Option<Arc<BatchScript>>,
    /// The call on its own.
    pub(super) command: Cmd,
    /// The number of its keys.
    pub(super) keys: usize,
    /// When the caller stops waiting for the reply.
    pub(super) by: Deadline,
    pub(super) reply: oneshot::Sender<Result<CallReply, Fault>>,
}

impl PendingCall {
    fn hear(self, answer: Option<Value>) {
        // The caller may have been dropped.
        drop(self.reply.send(Ok(CallReply { command: self.command, answer })));
    }

    fn fail(self, fault: Fault) {
        drop(self.reply.send(Err(fault)));
    }
}

type Sent = Unconstrained<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The calls of one connection that were sent and have no reply yet.
pub(super) struct Batches {
    connection: MultiplexedConnection,
    asked: mpsc::UnboundedReceiver<PendingCall>,
    waiting: Vec<PendingCall>,
    /// In the order in which they were sent, which is that of the replies.
    sent: VecDeque<Sent>,
}

impl Batches {
    pub(super) fn new(
        connection: MultiplexedConnection,
        asked: mpsc::UnboundedReceiver<PendingCall>,
    ) -> Self {
        Self { connection, asked, waiting: Vec::new(), sent: VecDeque::new() }
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
                let Some(batch) = first.batch.clone() else {
                    let first = waiting.remove(0);
                    self.begin(cx, alone(self.connection.clone(), first));
                    continue;
                };
                let end = waiting.iter().position(|asked| asked.batch.is_none());
                let end = end.unwrap_or(waiting.len());
                let is_alike = |asked: &mut PendingCall| {
                    asked.batch.as_ref().is_some_and(|other| Arc::ptr_eq(other, &batch))
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
        if alike.len() > 1 && batch.change(UNKNOWN, LOADING) {
            self.begin(cx, load(self.connection.clone(), Loading(Arc::clone(batch))));
        }
        if alike.len() == 1 || !batch.is_ready() {
            for asked in alike {
                self.begin(cx, alone(self.connection.clone(), asked));
            }
            return;
        }
        // In batches of nearly equal size: 17 become 9 and 8.
        let size = alike.len().div_ceil(alike.len().div_ceil(MAX_BATCHED));
        while !alike.is_empty() {
            let rest = alike.split_off(size.min(alike.len()));
            self.begin(cx, together(self.connection.clone(), Arc::clone(batch), alike));
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
    match connection.send_packed_command(&asked.command).await {
        Ok(answer) => asked.hear(Some(answer)),
        Err(error) => asked.fail(lost(&error, ChargeState::Unknown)),
    }
}

async fn together(
    mut connection: MultiplexedConnection,
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
                batch.set(NEVER);
            } else if fault == Fault::NoScript {
                // Unless it is being loaded already.
                batch.change(READY, UNKNOWN);
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
    let denied = Fault::NoPermission { charge: ChargeState::NotCharged };
    matches!(fault, Fault::CrossSlot | Fault::Cluster) || *fault == denied
}

/// One call for all: the keys of each, then the arguments of each.
fn call(script: &Script, all: &[PendingCall]) -> Cmd {
    let words = all.iter().flat_map(|asked| asked.command.args_iter());
    let size = words.clone().map(|word| bytes(&word).len()).sum();
    let mut command = Cmd::with_capacity(words.count(), size);
    let keys: usize = all.iter().map(|asked| asked.keys).sum();
    command.arg("EVALSHA").arg(script.sha()).arg(keys);
    for asked in all {
        let words = asked.command.args_iter().skip(BEFORE_KEYS);
        words.take(asked.keys).for_each(|word| _ = command.arg(bytes(&word)));
    }
    for asked in all {
        let words = asked.command.args_iter().skip(BEFORE_KEYS + asked.keys);
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
struct Loading(Arc<BatchScript>);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.change(LOADING, UNKNOWN);
    }
}

async fn load(mut connection: MultiplexedConnection, loading: Loading) {
    let batch = &loading.0;
    let Ok(answer) = connection.send_packed_command(&script_load::command(batch.script())).await
    else {
        return;
    };
    // Until the script is loaded, calls are sent alone, and report other problems.
    match script_load::loaded(batch.script(), &answer) {
        Ok(()) => {
            batch.counts.loads.fetch_add(1, Ordering::Relaxed);
            batch.set(READY);
        }
        Err(fault) if is_for_good(&fault) => batch.set(NEVER),
        Err(_) => {}
    }
}
