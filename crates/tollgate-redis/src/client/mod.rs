//! The client calls scripts over a few connections, within a deadline, and never repeats a call.
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
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, ToRedisArgs, Value};
use tokio::time::timeout_at;
use tollgate::StoreError;

use self::breaker::{Breaker, SharedBreaker, Ticket, Verdict};
use self::deadline::Deadline;
use self::loads::Loads;
use self::slot::{ConnectionSlot, STABLE};
use self::wire::{CallError, LateOutcome, LateReply, Wire};
use crate::compose::unpack_reply;
use crate::fault::{ChargeState, Fault};
use crate::options::Options;
use crate::script::Script;

pub use self::batch::MAX_BATCHED;
pub(crate) use self::batch::{BatchScript, Counts};
pub use self::breaker::BreakerState;
pub(crate) use self::connector::Connector;
pub(crate) use self::reply_errors::refused;

mod batch;
mod breaker;
mod connector;
mod deadline;
mod loads;
mod reply_errors;
mod script_load;
mod slot;
#[cfg(test)]
mod tests;
mod wire;

/// The most calls of a script for one question: one in a batch, the first one alone, one after
/// loading the script, and two more for a server that forgot the script in between.
const ROUNDS: usize = 5;

/// A client of one Redis. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    slots: Box<[Arc<ConnectionSlot>]>,
    /// The next connection in turn.
    turn: AtomicUsize,
    breaker: SharedBreaker,
    /// How long the server may take for a reply, in microseconds.
    patience_us: AtomicU64,
    loads: Loads,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.connector.options).finish()
    }
}

impl Client {
    /// Connects, and waits for one of the connections that `options` request.
    pub(crate) async fn connect(options: Options) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(options)?);
        let slots = (0..connector.options.connections)
            .map(|_| ConnectionSlot::new(Arc::clone(&connector)))
            .collect();
        let options = &connector.options;
        let breaker = Breaker::new(options.breaker_failures, options.breaker_pause);
        let patience = options.breaker_timeout.unwrap_or(options.deadline);
        let client = Self(Arc::new(Shared {
            slots,
            turn: AtomicUsize::new(0),
            breaker: SharedBreaker::new(breaker),
            patience_us: AtomicU64::new(in_us(patience)),
            loads: Loads::default(),
            connector,
        }));
        for (index, slot) in client.0.slots.iter().enumerate() {
            if index > 0 {
                slot.start();
            } else {
                client.0.connector.diagnosed(slot.fill()).await?;
            }
        }
        Ok(client)
    }

    /// What makes its connections.
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
            self.0.patience_us.fetch_max(in_us(longest), Ordering::Relaxed);
        }
    }

    /// The number of scripts loaded so far.
    pub(crate) fn loads(&self) -> u64 {
        self.0.loads.done()
    }

    /// The state of the circuit breaker.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.0.breaker.state()
    }

    /// The number of attempts to connect so far.
    #[cfg(test)]
    pub(crate) fn connects(&self) -> u64 {
        self.0.slots.iter().map(|slot| slot.opened()).sum()
    }

    /// Calls a script and returns its reply without the nonce.
    ///
    /// It returns by the deadline. When the future is dropped, the script may still run.
    ///
    /// # Errors
    /// The error's source is the [`Fault`]; [`StoreError::is_ambiguous`] when the script may have
    /// run.
    pub(crate) async fn call(
        &self,
        call: Call<'_>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let by = Deadline::within(deadline);
        let mut entry = BreakerPass::new(&self.0, by.from.into_std())?;
        Ok(self.0.ask(call, by, &mut entry).await?)
    }

    /// Loads a script, so that its first call need not.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load(&self, script: &Script, deadline: Duration) -> Result<(), StoreError> {
        let by = Deadline::within(deadline);
        let seen = self.0.loads.load_count();
        let wire = self.0.first_wire(by).await?;
        Ok(self.0.loads.load(script, seen, &wire, by).await.map_err(Fault::from)?)
    }

    /// Loads a batch script and tries it on these keys, so that calls are batched from the first.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load_batch(
        &self,
        batch: &BatchScript,
        keys: &[String],
        deadline: Duration,
    ) -> Result<(), StoreError> {
        self.load(batch.script(), deadline).await?;
        let by = Deadline::within(deadline);
        let answer = self.0.first_wire(by).await?.exchange(&batch.trial(keys), by).await?;
        Ok(batch.tried(&answer)?)
    }

    /// Sends a command on a separate connection within the deadline, and returns the reply.
    ///
    /// It is for rare commands. Their replies contain no nonce, so their connection must carry
    /// nothing else. The breaker does not block them, since a diagnosis must reach the server.
    ///
    /// # Errors
    /// As [`Client::call`], and errors of the server.
    pub(crate) async fn raw(&self, command: Cmd, deadline: Duration) -> Result<Value, StoreError> {
        let by = Deadline::within(deadline);
        let Ok(wire) = timeout_at(by.at, self.0.connector.open(0, |_| {})).await else {
            return Err(by.passed(ChargeState::NotCharged).into());
        };
        match wire?.exchange(&command, by).await? {
            Value::ServerError(error) => Err(refused(&error).into()),
            answer => Ok(answer),
        }
    }
}

/// A client's first nonce: random, so that processes differ; below 2^53 for Lua, with room to
/// count.
pub(crate) fn first_nonce() -> AtomicU64 {
    AtomicU64::new((1 << 50) + (RandomState::new().hash_one(std::process::id()) >> 12))
}

/// A script call with keys and arguments. One argument is the nonce in decimal digits, and the
/// script replies with a list that begins with it.
pub(crate) struct Call<'s> {
    script: &'s Script,
    /// The script for a batch of such calls.
    batch: Option<&'s Arc<BatchScript>>,
    nonce: u64,
    keys: usize,
    command: Cmd,
}

/// The arguments and bytes of a usual call.
const USUAL_WORDS: usize = 8;
const USUAL_BYTES: usize = 192;

impl<'s> Call<'s> {
    /// A call without arguments yet; the first `keys` of them are its keys.
    pub(crate) fn new(script: &'s Script, nonce: u64, keys: usize) -> Self {
        let mut command = Cmd::with_capacity(USUAL_WORDS, USUAL_BYTES);
        command.arg("EVALSHA").arg(script.sha()).arg(keys);
        Self { script, batch: None, nonce, keys, command }
    }

    /// Allows the call to be batched with others of its script, where there is a batch script.
    pub(crate) fn with_others(self, batch: Option<&'s Arc<BatchScript>>) -> Self {
        Self { batch, ..self }
    }

    /// Appends a key or an argument.
    pub(crate) fn word(&mut self, word: impl ToRedisArgs) -> &mut Self {
        self.command.arg(word);
        self
    }
}

/// One connection for a few commands, to inspect a server in any state. Any answer to the greeting
/// is accepted, and a lost connection is not replaced.
pub(crate) struct CommandConnection(Wire);

impl CommandConnection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the user, the password or the database.
    pub(crate) async fn open(options: Options) -> Result<Self, Fault> {
        let connector = Connector::new(options)?.lenient();
        connector.diagnosed(connector.open(0, |_| {})).await.map(Self)
    }

    /// Sends a command and waits for its reply, which may be a server error.
    ///
    /// # Errors
    /// No reply in time, or the connection was lost.
    pub(crate) async fn exchange(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.0.exchange(command, Deadline::within(within)).await
    }

    /// Sends commands in one write and waits for all replies, each of which may be a server error.
    ///
    /// # Errors
    /// As [`CommandConnection::exchange`], for all together: some commands may have been answered
    /// before.
    pub(crate) async fn exchange_all(
        &self,
        commands: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Fault> {
        self.0.exchange_all(commands, Deadline::within(within)).await
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

impl Shared {
    async fn first_wire(&self, by: Deadline) -> Result<Arc<Wire>, Fault> {
        match self.slots.first() {
            Some(slot) => slot.wire(by).await,
            None => Err(self.connector.unreachable("there is no connection")),
        }
    }

    async fn ask(
        self: &Arc<Self>,
        call: Call<'_>,
        by: Deadline,
        entry: &mut BreakerPass<'_>,
    ) -> Result<Vec<Value>, Fault> {
        let Call { script, mut batch, nonce, keys, mut command } = call;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.slots.get(turn % self.slots.len().max(1)) else {
            return Err(self.connector.unreachable("there is no connection"));
        };
        for _ in 0..ROUNDS {
            let seen = self.loads.load_count();
            let wire = match slot.wire(by).await {
                Ok(wire) => wire,
                Err(fault) => {
                    // A caller's own deadline shows nothing about a server that is allowed more
                    // time.
                    let waited = by.from.elapsed();
                    let is_early = waited >= by.after && waited < self.patience();
                    entry.verdict = if is_early { Verdict::Unclear } else { verdict(&fault) };
                    return Err(fault);
                }
            };
            let heard = match wire.ask(command, keys, batch.take().cloned(), by).await {
                Ok(heard) => heard,
                Err(failed) => return Err(self.settle(slot, &wire, failed, by, entry)),
            };
            command = heard.command;
            // Its batch was refused, so it is sent alone from here on.
            let Some(answer) = heard.answer else { continue };
            let missing = match read(answer, nonce) {
                Ok(answer) => {
                    entry.verdict = Verdict::Answered;
                    return Ok(answer);
                }
                Err(Fault::NoScript) => self.loads.load(script, seen, &wire, by).await,
                Err(fault) => Err(fault.into()),
            };
            if let Err(failed) = missing {
                return Err(self.settle(slot, &wire, failed, by, entry));
            }
        }
        entry.verdict = Verdict::Answered;
        Err(Fault::NoScript)
    }

    /// How long the server may take for a reply.
    fn patience(&self) -> Duration {
        Duration::from_micros(self.patience_us.load(Ordering::Relaxed))
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
        let until = by.from + self.patience();
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
            shared.breaker.leave(ticket, verdict);
            if verdict == Verdict::Silent
                && let (Some(slot), Some(wire)) = (slot.upgrade(), wire.upgrade())
            {
                slot.retire(&wire);
            }
        });
    }
}

fn in_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Parses a script's reply: a list that begins with the nonce, or a packed list of numbers.
fn read(answer: Value, nonce: u64) -> Result<Vec<Value>, Fault> {
    let garbled = Fault::Garbled { charge: ChargeState::Unknown };
    let mut list = match answer {
        Value::ServerError(error) => return Err(refused(&error)),
        Value::Array(list) => list.into_iter(),
        Value::BulkString(packed) => {
            let Some(mut numbers) = unpack_reply(&packed) else { return Err(garbled) };
            let ours = numbers.next().is_some_and(|number| u64::try_from(number) == Ok(nonce));
            return if ours { Ok(numbers.map(Value::Int).collect()) } else { Err(garbled) };
        }
        _ => return Err(garbled),
    };
    let ours = match list.next() {
        Some(Value::BulkString(digits)) => is_written(&digits, nonce),
        Some(Value::Int(number)) => u64::try_from(number) == Ok(nonce),
        _ => false,
    };
    if ours { Ok(list.collect()) } else { Err(garbled) }
}

/// Whether these are the canonical digits of the number: no sign, no leading zero.
fn is_written(digits: &[u8], number: u64) -> bool {
    let alone = digits == b"0" || !matches!(digits.first(), Some(b'+' | b'0'));
    alone && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse() == Ok(number))
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
    breaker: &'a SharedBreaker,
    ticket: Ticket,
    verdict: Verdict,
    /// True when a watching task returns it.
    is_lent: bool,
}

impl<'a> BreakerPass<'a> {
    fn new(shared: &'a Shared, now: Instant) -> Result<Self, Fault> {
        match shared.breaker.enter(now) {
            Ok(ticket) => {
                let verdict = Verdict::Unclear;
                Ok(Self { breaker: &shared.breaker, ticket, verdict, is_lent: false })
            }
            Err(probe_in) => {
                let failures = shared.connector.options.breaker_failures;
                Err(Fault::Breaker { failures, probe_in })
            }
        }
    }
}

impl Drop for BreakerPass<'_> {
    fn drop(&mut self) {
        if !self.is_lent {
            self.breaker.leave(self.ticket, self.verdict);
        }
    }
}
