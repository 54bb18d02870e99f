//! Batching: calls that wait for one connection at the same time are sent as one.
//!
//! Calling a script costs the server some microseconds, often more than the script's own work for
//! one question. So when the connection is about to write, the waiting calls of one script are
//! combined into one call of a batch script. It answers each as if it had arrived alone, in their
//! order of arrival. No call waits for others to arrive: a single call is sent alone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Value};
use tokio::sync::mpsc;
use tokio::task::{Unconstrained, unconstrained};
use tokio::time::Instant;

use super::batch_script::BatchScript;
use super::reply_errors::{lost, refused};
use super::script_load;
use super::sending::{BEFORE_KEYS, PendingCall, Sending};
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The most questions in one call. The server serves no other client while it runs the batch, and a
/// larger one would save little more.
pub const MAX_BATCHED: usize = 16;

/// The most waiting calls that are searched for those of one script.
const AT_ONCE: usize = 256;

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
        if alike.len() > 1 && batch.begin_load(self.node) {
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
            let again = batch.refuse(node, &refused(&error));
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
        self.0.drop_load(self.1);
    }
}

async fn load(mut connection: MultiplexedConnection, loading: Loading) {
    let Loading(batch, node) = &loading;
    let command = script_load::command(batch.script());
    if let Ok(answer) = connection.send_packed_command(&command).await {
        batch.end_load(*node, script_load::loaded(batch.script(), &answer));
    }
}
