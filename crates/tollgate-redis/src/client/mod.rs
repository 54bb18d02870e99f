//! The client: asks scripts over a few connections, within a deadline, and never twice.
//!
//! It needs a tokio runtime with I/O and time enabled: the one it is used in drives the
//! connections.
//!
//! - A question that was sent and not answered is never sent again; its fault says that it may
//!   have been charged. What failed before it was sent says that it was not.
//! - A connection on which an answer is overdue gets no more questions. redis-rs would drop the
//!   late answer rightly, but a connection that is late is often dead, and a fresh one finds out.
//!   Overdue is an answer that the server has not given within a time of its own: a question with a
//!   shorter deadline fails by itself, and says nothing of the server before that.
//! - Every answer begins with the nonce of its question. Another nonce ends the connection, with
//!   all that wait on it: no answer after it could be trusted.

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

/// How often a script is called in one question: together with others, the first time alone, once
/// it was loaded, and twice more for a server that forgot it in between.
const ROUNDS: usize = 5;

/// A client of one Redis. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    slots: Box<[Arc<ConnectionSlot>]>,
    /// Whose turn it is.
    turn: AtomicUsize,
    breaker: SharedBreaker,
    /// How long the server may take for an answer, in microseconds.
    patience_us: AtomicU64,
    loads: Loads,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.connector.options).finish()
    }
}

impl Client {
    /// Connects, and waits for one connection of those that `options` say.
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

    /// How its connections are made.
    pub(crate) fn connector(&self) -> &Arc<Connector> {
        &self.0.connector
    }

    /// What it was connected with.
    #[cfg(test)]
    pub(crate) fn options(&self) -> &Options {
        &self.0.connector.options
    }

    /// Callers wait as long as this for an answer: the server may take it, too, unless the options
    /// say how long.
    pub(crate) fn will_wait(&self, longest: Duration) {
        if self.0.connector.options.breaker_timeout.is_none() {
            self.0.patience_us.fetch_max(in_us(longest), Ordering::Relaxed);
        }
    }

    /// How many scripts were loaded, ever.
    pub(crate) fn loads(&self) -> u64 {
        self.0.loads.done()
    }

    /// Whether questions go to the server.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.0.breaker.state()
    }

    /// How many connections were attempted, ever.
    #[cfg(test)]
    pub(crate) fn connects(&self) -> u64 {
        self.0.slots.iter().map(|slot| slot.opened()).sum()
    }

    /// Calls a script and gives its answer without the nonce.
    ///
    /// It returns by the deadline. When the future is dropped, the script may run all the same.
    ///
    /// # Errors
    /// A [`Fault`] as the source says what happened; [`StoreError::is_ambiguous`] when the script
    /// may have run.
    pub(crate) async fn call(
        &self,
        call: Call<'_>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let by = Deadline::within(deadline);
        let mut entry = BreakerPass::new(&self.0, by.from.into_std())?;
        Ok(self.0.ask(call, by, &mut entry).await?)
    }

    /// Loads a script, so that the first call of it is not held up by that.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load(&self, script: &Script, deadline: Duration) -> Result<(), StoreError> {
        let by = Deadline::within(deadline);
        let seen = self.0.loads.load_count();
        let wire = self.0.first_wire(by).await?;
        Ok(self.0.loads.load(script, seen, &wire, by).await.map_err(Fault::from)?)
    }

    /// Loads the script of several questions and tries it on these keys, so that questions which
    /// come together go together from the first.
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

    /// Sends a command on a connection of its own, within the deadline, and gives the answer.
    ///
    /// For commands that are rare. Their answers carry no nonce, so nothing else may be on the
    /// way on their connection. The breaker does not keep them back: who looks for what is wrong
    /// must see it.
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

/// Where the nonces of a client begin: at random, so that those of other processes are others,
/// below 2^53 for Lua, and with room to count.
pub(crate) fn first_nonce() -> AtomicU64 {
    AtomicU64::new((1 << 50) + (RandomState::new().hash_one(std::process::id()) >> 12))
}

/// A script to be called, with its keys and arguments. One of these is the nonce in decimal digits,
/// and the script answers with a list that begins with it.
pub(crate) struct Call<'s> {
    script: &'s Script,
    /// The script of several such calls.
    batch: Option<&'s Arc<BatchScript>>,
    nonce: u64,
    keys: usize,
    command: Cmd,
}

/// Room for the words and the bytes of a usual call.
const USUAL_WORDS: usize = 8;
const USUAL_BYTES: usize = 192;

impl<'s> Call<'s> {
    /// A call without words yet: first come as many keys as it says.
    pub(crate) fn new(script: &'s Script, nonce: u64, keys: usize) -> Self {
        let mut command = Cmd::with_capacity(USUAL_WORDS, USUAL_BYTES);
        command.arg("EVALSHA").arg(script.sha()).arg(keys);
        Self { script, batch: None, nonce, keys, command }
    }

    /// Lets it be asked in one call with others of the same script, where there is one for several.
    pub(crate) fn with_others(self, batch: Option<&'s Arc<BatchScript>>) -> Self {
        Self { batch, ..self }
    }

    /// Adds a key or an argument.
    pub(crate) fn word(&mut self, word: impl ToRedisArgs) -> &mut Self {
        self.command.arg(word);
        self
    }
}

/// One connection for a few commands, for who looks at a server whatever its state: any answer to
/// the greeting will do, and it is not made anew.
pub(crate) struct CommandConnection(Wire);

impl CommandConnection {
    /// Connects.
    ///
    /// # Errors
    /// It cannot be reached; or it refuses user, password or database.
    pub(crate) async fn open(options: Options) -> Result<Self, Fault> {
        let connector = Connector::new(options)?.lenient();
        connector.diagnosed(connector.open(0, |_| {})).await.map(Self)
    }

    /// Sends a command and waits for its answer, which may be an error of the server.
    ///
    /// # Errors
    /// No answer in time, or the connection was lost.
    pub(crate) async fn exchange(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.0.exchange(command, Deadline::within(within)).await
    }

    /// Sends commands in one write and waits for all answers, each of which may be an error of the
    /// server.
    ///
    /// # Errors
    /// As [`CommandConnection::exchange`], for all of them: some may have been answered before.
    pub(crate) async fn exchange_all(
        &self,
        commands: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Fault> {
        self.0.exchange_all(commands, Deadline::within(within)).await
    }

    /// True when the connection is no more.
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
                    // Who waited until its deadline says nothing of a server that has more time.
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
            // Refused with others, it goes alone from here on.
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

    /// How long the server may take for an answer.
    fn patience(&self) -> Duration {
        Duration::from_micros(self.patience_us.load(Ordering::Relaxed))
    }

    /// Does to a connection what a fault on it calls for, and says what it shows about the server.
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
            // The name may lead to another server by now, or the password may be another. Not at
            // once again, though: the error says more than that there is no connection.
            Fault::ReadOnly | Fault::MasterDown | Fault::NoAuth
                if wire.since.elapsed() >= STABLE =>
            {
                slot.retire(wire);
            }
            _ => {}
        }
        fault
    }

    /// Sees whether the server answers a question within its own time, when the deadline of the
    /// question has passed. The pass of the breaker is handed back when that is known.
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

/// Reads the answer of a script: a list that begins with the nonce, or the numbers of one packed.
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

/// True when these are the number's digits: without a sign, and without a zero before them.
fn is_written(digits: &[u8], number: u64) -> bool {
    let alone = digits == b"0" || !matches!(digits.first(), Some(b'+' | b'0'));
    alone && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse() == Ok(number))
}

fn verdict(fault: &Fault) -> Verdict {
    match fault {
        Fault::Unreachable { .. } => Verdict::Silent,
        // A deadline that passed while the server had not been asked.
        Fault::Deadline { .. }
        | Fault::Closed { .. }
        | Fault::Garbled { .. }
        | Fault::TooMany { .. } => Verdict::Unclear,
        // Every other one is something that the server said.
        _ => Verdict::Answered,
    }
}

/// A pass of the breaker, handed back also when the question is dropped.
struct BreakerPass<'a> {
    breaker: &'a SharedBreaker,
    ticket: Ticket,
    verdict: Verdict,
    /// True when somebody else hands it back.
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
