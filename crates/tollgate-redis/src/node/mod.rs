//! A node is one server: it calls scripts over a few connections, within a deadline, and never
//! repeats a call that may have run.
//!
//! It needs a tokio runtime with I/O and time enabled: the runtime on which it is used drives the
//! connections.
//!
//! - A call that was sent without a reply is never sent again; its fault reports that it may have
//!   been charged. A call that failed before it was sent reports that it was not charged.
//! - A connection with an overdue reply gets no more calls. redis-rs would discard the late reply
//!   correctly, but a connection that is late is often dead, and a new one shows that. A reply is
//!   overdue when it exceeds the server's own time limit. A call with a shorter deadline fails
//!   alone, and shows nothing about the server before that limit.
//! - Every reply begins with the nonce of its call. A wrong nonce ends the connection with all
//!   calls that wait on it, since no later reply could be trusted.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};
use tollgate::StoreError;

use self::breaker::{Breaker, Ticket};
use self::loads::{LoadCount, Loads};
use self::script_reply::read;
use self::silence::Verdict;
use self::slot::{ConnectionSlot, STABLE};
use self::wire::{CallError, LateOutcome, LateReply, Wire};
use crate::fault::Fault;
#[cfg(test)]
use crate::options::Options;
use crate::options::{BREAKER_PAUSE, DEFAULT_BREAKER_TIMEOUT};
use crate::script::Script;

pub use self::batch::MAX_BATCHED;
pub(crate) use self::batch_script::{BatchScript, Counts};
pub use self::breaker::BreakerState;
pub(crate) use self::call::{Call, first_nonce};
pub(crate) use self::command_connection::CommandConnection;
pub(crate) use self::connector::Connector;
pub(crate) use self::deadline::Deadline;
pub(crate) use self::redirect::{NotAnswered, Redirect};
pub(crate) use self::reply_errors::refused;

mod batch;
mod batch_script;
mod breaker;
mod call;
mod command_connection;
mod connector;
mod deadline;
mod fill;
mod loads;
mod redirect;
mod reply_errors;
mod script_load;
mod script_reply;
mod sending;
mod silence;
mod slot;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

/// The most calls of a script for one question: one in a batch, the first one alone, one after
/// loading the script, and two more for a server that forgot the script in between.
const ROUNDS: usize = 5;

/// A client of one server. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub(crate) struct Node(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    slots: Box<[Arc<ConnectionSlot>]>,
    /// The next connection in turn.
    turn: AtomicUsize,
    breaker: Arc<Breaker>,
    loads: Loads,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.connector.options).finish()
    }
}

impl Node {
    /// Connects, and waits for one of the connections that `options` request.
    #[cfg(test)]
    pub(crate) async fn connect(options: Options) -> Result<Self, StoreError> {
        let node = Self::new(Connector::new(options)?);
        node.fill().await?;
        Ok(node)
    }

    /// A node without a connection yet. The first call starts to connect.
    pub(crate) fn new(connector: Connector) -> Self {
        let connector = Arc::new(connector);
        let options = &connector.options;
        let usual = DEFAULT_BREAKER_TIMEOUT.max(options.deadline);
        let patience = options.breaker_timeout.unwrap_or(usual);
        let breaker = Arc::new(Breaker::new(patience, BREAKER_PAUSE));
        let slots = (0..options.connections)
            .map(|_| ConnectionSlot::new(Arc::clone(&connector), Arc::clone(&breaker)))
            .collect();
        Self(Arc::new(Shared {
            slots,
            turn: AtomicUsize::new(0),
            breaker,
            loads: Loads::default(),
            connector,
        }))
    }

    /// True when both are clones of one node.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The part that makes its connections.
    pub(crate) fn connector(&self) -> &Arc<Connector> {
        &self.0.connector
    }

    /// The options that it was connected with.
    #[cfg(test)]
    pub(crate) fn options(&self) -> &Options {
        &self.0.connector.options
    }

    /// Callers will wait up to `longest` for a reply. The server may take as long, unless the
    /// options set its time limit.
    pub(crate) fn will_wait(&self, longest: Duration) {
        if self.0.connector.options.breaker_timeout.is_none() {
            self.0.breaker.allow(longest);
        }
    }

    /// The number of scripts loaded so far.
    pub(crate) fn loads(&self) -> u64 {
        self.0.loads.done()
    }

    /// The state of the circuit breaker.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.0.breaker.state(Instant::now())
    }

    /// The number of attempts to connect so far.
    #[cfg(test)]
    pub(crate) fn connects(&self) -> u64 {
        self.0.slots.iter().map(|slot| slot.opened()).sum()
    }

    /// Calls a script and returns its reply without the nonce.
    ///
    /// It returns by the deadline. When the future is dropped, the script may still run. After a
    /// redirect, or a fault of a reply that ran nothing, `call` can be used again.
    ///
    /// # Errors
    /// A fault, or the redirect of a cluster's node, which ran nothing.
    pub(crate) async fn call(
        &self,
        call: &mut Call<'_>,
        by: Deadline,
    ) -> Result<Vec<Value>, NotAnswered> {
        let mut entry = BreakerPass::new(&self.0)?;
        self.0.ask(call, by, &mut entry).await
    }

    /// The same for a call that was redirected with ASK: the node takes it although it does not own
    /// the slot yet.
    pub(crate) async fn call_asking(
        &self,
        call: &mut Call<'_>,
        by: Deadline,
    ) -> Result<Vec<Value>, NotAnswered> {
        let mut entry = BreakerPass::new(&self.0)?;
        self.0.ask_asking(call, by, &mut entry).await
    }

    /// Loads a script, so that its first call need not.
    ///
    /// # Errors
    /// As [`Node::call`]; nothing is charged.
    pub(crate) async fn load(&self, script: &Script, deadline: Duration) -> Result<(), StoreError> {
        let by = Deadline::within(deadline);
        let seen = self.0.loads.load_count();
        let wire = self.0.first_wire(by).await?;
        Ok(self.0.loads.load(script, seen, None, &wire, by).await.map_err(Fault::from)?)
    }

    /// Loads a batch script, so that calls are batched from the first. Where there are `keys`, it
    /// is tried on them before.
    ///
    /// # Errors
    /// As [`Node::call`]; nothing is charged.
    pub(crate) async fn load_batch(
        &self,
        batch: &BatchScript,
        keys: Option<&[String]>,
        deadline: Duration,
    ) -> Result<(), StoreError> {
        self.load(batch.script(), deadline).await?;
        let Some(keys) = keys else {
            batch.is_loaded(self.0.connector.number);
            return Ok(());
        };
        let by = Deadline::within(deadline);
        let answer = self.0.first_wire(by).await?.exchange(&batch.trial(keys), by).await?;
        Ok(batch.tried(self.0.connector.number, &answer)?)
    }

    /// Sends a command on a separate connection within the deadline, and returns the reply.
    ///
    /// It is for rare commands. Their replies contain no nonce, so their connection must carry
    /// nothing else. The breaker does not block them, since a diagnosis must reach the server.
    ///
    /// # Errors
    /// As [`Node::call`], and errors of the server.
    pub(crate) async fn raw(&self, command: Cmd, deadline: Duration) -> Result<Value, StoreError> {
        match self.0.connector.ask(&command, deadline).await? {
            Value::ServerError(error) => Err(refused(&error).into()),
            answer => Ok(answer),
        }
    }
}

impl Shared {
    async fn first_wire(&self, by: Deadline) -> Result<Arc<Wire>, Fault> {
        match self.slots.first() {
            Some(slot) => slot.wire(by).await,
            None => Err(self.connector.unreachable("there is no connection")),
        }
    }

    /// The next connection in turn.
    fn slot(&self) -> Result<&Arc<ConnectionSlot>, Fault> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let slot = self.slots.get(turn % self.slots.len().max(1));
        slot.ok_or_else(|| self.connector.unreachable("there is no connection"))
    }

    /// The connection of a slot, or the fault and its verdict.
    async fn wire(
        &self,
        slot: &Arc<ConnectionSlot>,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Result<Arc<Wire>, Fault> {
        slot.wire(by).await.inspect_err(|fault| {
            // A caller's own deadline shows nothing about a server that is allowed more time.
            let waited = by.from.elapsed();
            let is_early = waited >= by.after && waited < self.breaker.patience();
            entry.verdict = if is_early { Verdict::Unclear } else { verdict(fault) };
        })
    }

    async fn ask(
        self: &Arc<Self>,
        call: &mut Call<'_>,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Result<Vec<Value>, NotAnswered> {
        let mut batch = call.batch;
        let slot = self.slot()?;
        for _ in 0..ROUNDS {
            let seen = self.loads.load_count();
            let wire = self.wire(slot, by, entry).await?;
            let sent = call.send(batch.take().cloned());
            let heard = match wire.ask(sent, by).await {
                Ok(heard) => heard,
                Err(failed) => return Err(self.settle(slot, &wire, failed, by, entry).into()),
            };
            call.command = heard.command;
            // Its batch was refused, so it is sent alone from here on.
            let Some(answer) = heard.answer else { continue };
            if let Some(answer) = self.read(answer, call, seen, slot, &wire, by, entry).await? {
                return Ok(answer);
            }
        }
        entry.verdict = Verdict::Answered;
        Err(Fault::NoScript.into())
    }

    /// As [`Shared::ask`], with ASKING before each call in the same write.
    async fn ask_asking(
        self: &Arc<Self>,
        call: &mut Call<'_>,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Result<Vec<Value>, NotAnswered> {
        let slot = self.slot()?;
        let mut both = Pipeline::with_capacity(2);
        both.add_command(redis::cmd("ASKING")).add_command(call.command.clone());
        for _ in 0..ROUNDS {
            let seen = self.loads.load_count();
            let wire = self.wire(slot, by, entry).await?;
            let answer = match wire.exchange_all(&both, by).await {
                Ok(mut answers) => answers.pop().unwrap_or(Value::Nil),
                Err(fault) => {
                    return Err(self.settle(slot, &wire, fault.into(), by, entry).into());
                }
            };
            if let Some(answer) = self.read(answer, call, seen, slot, &wire, by, entry).await? {
                return Ok(answer);
            }
        }
        entry.verdict = Verdict::Answered;
        Err(Fault::NoScript.into())
    }

    /// Reads a reply. `None` when the server did not know the script, which it was then given.
    #[expect(clippy::too_many_arguments, reason = "all that a call is made of, read in one place")]
    async fn read(
        self: &Arc<Self>,
        answer: Value,
        call: &Call<'_>,
        seen: LoadCount,
        slot: &Arc<ConnectionSlot>,
        wire: &Arc<Wire>,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Result<Option<Vec<Value>>, NotAnswered> {
        let failed = match read(answer, call.nonce) {
            Ok(answer) => {
                entry.verdict = Verdict::Answered;
                return Ok(Some(answer));
            }
            Err(NotAnswered::Redirect(redirect)) => {
                entry.verdict = Verdict::Answered;
                return Err(redirect.into());
            }
            // Boxed as one, since most replies do without, and would have to make room for it.
            Err(NotAnswered::Fault(fault)) if is_of_scripts(&fault) => {
                match Box::pin(self.after_refusal(fault, call, seen, wire, by)).await {
                    Ok(()) => return Ok(None),
                    Err(failed) => failed,
                }
            }
            Err(NotAnswered::Fault(fault)) => fault.into(),
        };
        Err(self.settle(slot, wire, failed, by, entry).into())
    }

    /// Gives the server a script that it did not know, or asks it which rights are missing.
    async fn after_refusal(
        &self,
        fault: Fault,
        call: &Call<'_>,
        seen: LoadCount,
        wire: &Arc<Wire>,
        by: Deadline,
    ) -> Result<(), CallError> {
        let key = call.keys().next();
        let Fault::NoPermission { charge, .. } = fault else {
            return self.loads.load(call.script, seen, key, wire, by).await;
        };
        // Where the server cannot answer that, the refusal stays as it is.
        let missing = Loads::missing(call.script, key, wire, by).await.unwrap_or_default();
        Err(Fault::NoPermission { charge, missing }.into())
    }

    /// Retires or cuts a connection as its fault requires, and sets the verdict on the server.
    fn settle(
        self: &Arc<Self>,
        slot: &Arc<ConnectionSlot>,
        wire: &Arc<Wire>,
        failed: CallError,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Fault {
        let fault = match failed {
            CallError::Settled(fault) => fault,
            CallError::Late(fault, late) => {
                self.watch(slot, wire, late, by, entry);
                return fault;
            }
        };
        entry.verdict = verdict(&fault);
        match &fault {
            Fault::Garbled { .. } => {
                slot.retire(wire);
                wire.cut();
            }
            Fault::Closed { .. } => slot.retire(wire),
            // The name may resolve to another server by now, or the password may have changed. A
            // young connection is kept, though: this error tells more than a missing connection
            // would.
            Fault::ReadOnly | Fault::MasterDown | Fault::NoAuth
                if wire.since.elapsed() >= STABLE =>
            {
                slot.retire(wire);
            }
            _ => {}
        }
        fault
    }

    /// Watches, after a call's deadline, whether the server replies within its own time limit. Then
    /// it returns the permission to the breaker.
    fn watch(
        self: &Arc<Self>,
        slot: &Arc<ConnectionSlot>,
        wire: &Arc<Wire>,
        late: LateReply,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) {
        let until = by.from + self.breaker.patience();
        if Instant::now() >= until.into_std() {
            entry.verdict = Verdict::Silent;
            slot.retire(wire);
            return;
        }
        entry.is_lent = true;
        let (ticket, shared) = (entry.ticket, Arc::downgrade(self));
        let (slot, wire) = (Arc::downgrade(slot), Arc::downgrade(wire));
        tokio::spawn(async move {
            let verdict = match late.wait(until).await {
                LateOutcome::Answered => Verdict::Answered,
                LateOutcome::Lost => Verdict::Unclear,
                LateOutcome::Silence => Verdict::Silent,
            };
            let Some(shared) = shared.upgrade() else { return };
            shared.breaker.leave(ticket, verdict, Instant::now());
            if verdict == Verdict::Silent
                && let (Some(slot), Some(wire)) = (slot.upgrade(), wire.upgrade())
            {
                slot.retire(&wire);
            }
        });
    }
}

/// Whether the server did not know a script, or refused what it does without saying of what.
fn is_of_scripts(fault: &Fault) -> bool {
    match fault {
        Fault::NoScript => true,
        Fault::NoPermission { missing, .. } => missing.is_empty(),
        _ => false,
    }
}

fn verdict(fault: &Fault) -> Verdict {
    match fault {
        Fault::Unreachable { .. } => Verdict::Silent,
        // A deadline that passed before the call was sent.
        Fault::Deadline { .. }
        | Fault::Closed { .. }
        | Fault::Garbled { .. }
        | Fault::TooMany { .. } => Verdict::Unclear,
        // All other faults are answers of the server.
        _ => Verdict::Answered,
    }
}

/// A permission of the breaker, returned even when the call is dropped.
struct BreakerPass<'a> {
    breaker: &'a Breaker,
    ticket: Ticket,
    verdict: Verdict,
    /// True when a watching task returns it.
    is_lent: bool,
}

impl<'a> BreakerPass<'a> {
    fn new(shared: &'a Shared) -> Result<Self, Fault> {
        match shared.breaker.enter(Instant::now()) {
            Ok(ticket) => {
                let verdict = Verdict::Unclear;
                Ok(Self { breaker: &shared.breaker, ticket, verdict, is_lent: false })
            }
            Err(probe_in) => Err(Fault::Breaker { silent: shared.breaker.patience(), probe_in }),
        }
    }
}

impl Drop for BreakerPass<'_> {
    fn drop(&mut self) {
        if !self.is_lent {
            self.breaker.leave(self.ticket, self.verdict, Instant::now());
        }
    }
}
