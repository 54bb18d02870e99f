//! Questions that wait for one connection at the same time, asked in one call.
//!
//! A call of a script costs the server some microseconds whatever the script does, and what it
//! does for a question is often less. So questions of one script that are there when the
//! connection is about to be written to go in one call of another script, which answers each as
//! if it had come alone, in the order in which they came. Nothing waits for others to come: a
//! question that is alone goes alone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ServerError, Value};
use tokio::sync::{mpsc, oneshot};

use super::wire::{lost, refused};
use crate::fault::{Fault, Outcome};
use crate::script::Script;

/// The most questions in one call: nobody else is answered while the server runs it, and beyond
/// this there is little left to save.
pub(crate) const MOST: usize = 16;

/// So many questions are looked through for those of one script.
const AT_ONCE: usize = 256;

/// The words of a call before its keys: EVALSHA, the script's name, how many keys.
const BEFORE_KEYS: usize = 3;

/// The script of several questions at once, and whether the server has it.
pub(crate) struct Many {
    script: Script,
    state: AtomicU8,
    /// Loads of this and others, ever.
    loads: Arc<AtomicU64>,
}

/// Nobody has loaded it, or the server has forgotten it.
const UNKNOWN: u8 = 0;
/// It is being loaded.
const LOADING: u8 = 1;
/// The server had it when it was called last.
const READY: u8 = 2;
/// The server does not answer several at once: a node of a cluster, or a user with few rights.
const NEVER: u8 = 3;

impl Many {
    /// `loads` counts how often scripts like this were loaded.
    pub(crate) fn new(script: Script, loads: Arc<AtomicU64>) -> Self {
        Self { script, state: AtomicU8::new(UNKNOWN), loads }
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    /// A call with the keys of several questions and not one argument: the script refuses it.
    pub(super) fn trial(&self, keys: &[String]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.sha()).arg(keys.len()).arg(keys);
        command
    }

    /// Notes what the trial was answered: by the script, or by the server instead of it.
    pub(super) fn tried(&self, answer: &Value) {
        let Value::ServerError(error) = answer else { return };
        match said_of_several(error) {
            Some(state) => self.set(state),
            None if matches!(refused(error), Fault::Refused { .. }) => self.set(READY),
            None => {}
        }
    }

    /// As if the server had it.
    #[cfg(test)]
    pub(super) fn pretend(self) -> Self {
        self.set(READY);
        self
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }

    /// True for one caller, who is to load it.
    fn is_to_be_loaded(&self) -> bool {
        let order = Ordering::AcqRel;
        self.state.compare_exchange(UNKNOWN, LOADING, order, Ordering::Acquire).is_ok()
    }

    fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY
    }
}

/// What became of a question.
pub(super) struct Heard {
    /// The call of it alone.
    pub(super) command: Cmd,
    /// The answer to it, which may be an error of the server; none when it was refused together
    /// with others, and none of them ran.
    pub(super) answer: Option<Value>,
}

/// A question that may be asked together with others of its script.
pub(super) struct Asked {
    pub(super) many: Arc<Many>,
    /// The call of it alone.
    pub(super) command: Cmd,
    /// How many keys it has.
    pub(super) keys: usize,
    pub(super) reply: oneshot::Sender<Result<Heard, Fault>>,
}

impl Asked {
    fn hear(self, answer: Option<Value>) {
        // Whoever asked may have gone.
        drop(self.reply.send(Ok(Heard { command: self.command, answer })));
    }

    fn fail(self, fault: Fault) {
        drop(self.reply.send(Err(fault)));
    }
}

type Sent = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The questions of one connection that were asked and are not answered.
pub(super) struct Batches {
    connection: MultiplexedConnection,
    asked: mpsc::UnboundedReceiver<Asked>,
    waiting: Vec<Asked>,
    /// In the order in which they were sent, which is that of the answers.
    sent: VecDeque<Sent>,
}

impl Batches {
    pub(super) fn new(
        connection: MultiplexedConnection,
        asked: mpsc::UnboundedReceiver<Asked>,
    ) -> Self {
        Self { connection, asked, waiting: Vec::new(), sent: VecDeque::new() }
    }

    /// Gives all questions that are there to the connection.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(1..) = self.asked.poll_recv_many(cx, &mut self.waiting, AT_ONCE) {
            let mut waiting = std::mem::take(&mut self.waiting);
            // Nobody waits any more, and it has not been sent: then it never is.
            waiting.retain(|asked| !asked.reply.is_closed());
            while let Some(first) = waiting.first() {
                let many = Arc::clone(&first.many);
                let is_alike = |asked: &mut Asked| Arc::ptr_eq(&asked.many, &many);
                let alike = waiting.extract_if(.., is_alike).collect();
                self.send_alike(cx, &many, alike);
            }
            // Its room is used again.
            self.waiting = waiting;
        }
    }

    /// Gives questions of one script to the connection.
    fn send_alike(&mut self, cx: &mut Context<'_>, many: &Arc<Many>, mut alike: Vec<Asked>) {
        if alike.len() > 1 && many.is_to_be_loaded() {
            let load = load(self.connection.clone(), Loading(Arc::clone(many)));
            self.begin(cx, Box::pin(load));
        }
        if alike.len() == 1 || !many.is_ready() {
            for asked in alike {
                self.begin(cx, Box::pin(alone(self.connection.clone(), asked)));
            }
            return;
        }
        // In parts of one size: 17 are 9 and 8.
        let size = alike.len().div_ceil(alike.len().div_ceil(MOST));
        while !alike.is_empty() {
            let rest = alike.split_off(size.min(alike.len()));
            self.begin(cx, Box::pin(together(self.connection.clone(), Arc::clone(many), alike)));
            alike = rest;
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>, mut question: Sent) {
        // The first poll puts it in the connection's queue.
        if question.as_mut().poll(cx).is_pending() {
            self.sent.push_back(question);
        }
    }

    /// Hands over the answers that are there.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>) {
        while let Some(first) = self.sent.front_mut() {
            if first.as_mut().poll(cx).is_pending() {
                return;
            }
            self.sent.pop_front();
        }
    }

    /// The connection has ended: says so to those that were never sent.
    pub(super) fn end(&mut self) {
        self.asked.close();
        while let Ok(asked) = self.asked.try_recv() {
            asked.fail(Fault::Closed { outcome: Outcome::NotCharged });
        }
    }
}

async fn alone(mut connection: MultiplexedConnection, asked: Asked) {
    match connection.send_packed_command(&asked.command).await {
        Ok(answer) => asked.hear(Some(answer)),
        Err(error) => asked.fail(lost(&error, Outcome::Unknown)),
    }
}

async fn together(mut connection: MultiplexedConnection, many: Arc<Many>, all: Vec<Asked>) {
    let answers = connection.send_packed_command(&call(&many.script, &all)).await;
    match answers {
        Ok(Value::Array(answers)) if answers.len() == all.len() => {
            for (asked, answer) in all.into_iter().zip(answers) {
                asked.hear(Some(answer));
            }
        }
        Ok(Value::ServerError(error)) => match said_of_several(&error) {
            Some(state) => {
                many.set(state);
                for asked in all {
                    asked.hear(None);
                }
            }
            None => {
                for asked in all {
                    asked.hear(Some(Value::ServerError(error.clone())));
                }
            }
        },
        Ok(_) => {
            for asked in all {
                asked.fail(Fault::Garbled { outcome: Outcome::Unknown });
            }
        }
        Err(error) => {
            for asked in all {
                asked.fail(lost(&error, Outcome::Unknown));
            }
        }
    }
}

/// When an error is about a call of several questions, and none of them ran: what is then known of
/// their script. Each of them alone may be answered.
fn said_of_several(error: &ServerError) -> Option<u8> {
    match refused(error) {
        Fault::NoScript => Some(UNKNOWN),
        // What is wrong may be the key of another question.
        Fault::CrossSlot
        | Fault::Cluster
        | Fault::ClusterDown
        | Fault::TryAgain
        | Fault::NoPermission { outcome: Outcome::NotCharged } => Some(NEVER),
        _ => None,
    }
}

/// One call for all of them: the keys of each, then the arguments of each.
fn call(script: &Script, all: &[Asked]) -> Cmd {
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

/// No call of ours has a cursor.
fn bytes<'w>(word: &Arg<&'w [u8]>) -> &'w [u8] {
    match word {
        Arg::Simple(word) => word,
        _ => b"",
    }
}

/// A load that is under way: when it comes to nothing, the next may try.
struct Loading(Arc<Many>);

impl Drop for Loading {
    fn drop(&mut self) {
        let order = Ordering::AcqRel;
        let _ = self.0.state.compare_exchange(LOADING, UNKNOWN, order, Ordering::Acquire);
    }
}

async fn load(mut connection: MultiplexedConnection, loading: Loading) {
    let script = &loading.0.script;
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script.text());
    // Questions go alone until it is there, and say what else is wrong.
    match connection.send_packed_command(&command).await {
        Ok(Value::BulkString(sha)) if sha == script.sha().as_bytes() => {
            loading.0.loads.fetch_add(1, Ordering::Relaxed);
            loading.0.set(READY);
        }
        Ok(Value::ServerError(error)) if said_of_several(&error).is_some() => loading.0.set(NEVER),
        _ => {}
    }
}
