//! One connection: how it sends calls, and how it ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use futures_util::future::{AbortHandle, abortable};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::batch::Batches;
use super::deadline::Deadline;
use super::reply_errors::lost;
use super::sending::{CallReply, PendingCall, Sending};
use crate::fault::{ChargeState, Fault};
use crate::options::Options;

/// A connection. It ends when the last handle is dropped. Each waiting call holds one, so a retired
/// connection lives until its last call is done.
///
/// redis-rs matches replies with calls by their order. It keeps the place of a dropped call, and
/// discards its reply (`InFlight` in its `multiplexed_connection.rs`). So a dropped call does no
/// harm to others.
pub(super) struct Wire {
    pub(super) id: u64,
    pub(super) since: Instant,
    connection: MultiplexedConnection,
    /// The queue of calls that may be batched.
    asked: mpsc::UnboundedSender<PendingCall>,
    driver: AbortHandle,
    ended: Arc<AtomicBool>,
    /// The calls that were sent and have no reply.
    open: AtomicUsize,
    most: usize,
    /// The calls that were dropped before their reply. They still count as open, since their
    /// replies may still arrive, and a hanging server would otherwise receive more and more calls.
    abandoned: AtomicUsize,
}

impl Wire {
    /// Starts the task that drives the connection.
    pub(super) fn new(
        id: u64,
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce(bool) + Send + 'static,
        options: &Options,
        number: usize,
    ) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let mut end = EndGuard { flag: Arc::clone(&flag), by_itself: false, told: Some(ended) };
        let (asked, questions) = mpsc::unbounded_channel();
        let batches = Batches::new(connection.clone(), questions, number);
        let (driving, driver) = abortable(async move {
            drive(driver, batches).await;
            end.by_itself = true;
            drop(end);
        });
        options.spawn(async move {
            let _ = driving.await;
        });
        Self {
            id,
            since: Instant::now(),
            connection,
            asked,
            driver,
            ended: flag,
            open: AtomicUsize::new(0),
            most: options.in_flight,
            abandoned: AtomicUsize::new(0),
        }
    }

    /// Whether it has ended, by itself or by [`Wire::cut`].
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether so many of its calls were dropped that a new connection is better.
    pub(super) fn is_worn(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) * 2 > self.most
    }

    /// Ends it immediately, with all waiting calls.
    pub(super) fn cut(&self) {
        self.ended.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Sends a command and waits for its reply, which may be a server error.
    pub(super) async fn exchange(&self, command: &Cmd, by: Deadline) -> Result<Value, Fault> {
        let mut connection = self.connection.clone();
        self.answered(awaited(connection.send_packed_command(command)), by).await
    }

    /// Calls a script and waits for the reply.
    pub(super) async fn ask(
        self: &Arc<Self>,
        sending: Sending,
        by: Deadline,
    ) -> Result<CallReply, CallError> {
        let place = self.begin(by)?;
        let (reply, mut answer) = oneshot::channel();
        if self.asked.send(PendingCall { sending, by, reply }).is_err() {
            place.close();
            return Err(Fault::Closed { charge: ChargeState::NotCharged }.into());
        }
        match timeout_at(by.at, &mut answer).await {
            Ok(answer) => {
                place.close();
                // Dropped without a reply: the connection was cut.
                Ok(answer.unwrap_or(Err(Fault::Closed { charge: ChargeState::Unknown }))?)
            }
            Err(_) => {
                place.leave_open();
                let (wire, fault) = (Arc::downgrade(self), by.passed(ChargeState::Unknown));
                Err(CallError::Late(fault, LateReply { wire, answer: Some(answer) }))
            }
        }
    }

    /// Sends commands in one write and waits for all replies, each of which may be a server error:
    /// outside of a transaction redis-rs returns those among the values. It counts as one call; if
    /// any reply is missing, it fails.
    pub(super) async fn exchange_all(
        &self,
        commands: &Pipeline,
        by: Deadline,
    ) -> Result<Vec<Value>, Fault> {
        let mut connection = self.connection.clone();
        let count = commands.len();
        let answers =
            self.answered(awaited(connection.send_packed_commands(commands, 0, count)), by).await?;
        if answers.len() == count {
            Ok(answers)
        } else {
            Err(Fault::Garbled { charge: ChargeState::Unknown })
        }
    }

    /// Waits for a reply. The call is sent only when this is polled.
    async fn answered<T>(
        &self,
        question: impl Future<Output = Result<T, Fault>>,
        by: Deadline,
    ) -> Result<T, Fault> {
        let place = self.begin(by)?;
        match timeout_at(by.at, question).await {
            Ok(answer) => {
                place.close();
                answer
            }
            Err(_) => Err(by.passed(ChargeState::Unknown)),
        }
    }

    /// Reserves a place for a call, unless its deadline has passed.
    fn begin(&self, by: Deadline) -> Result<InFlightGuard<'_>, Fault> {
        if Instant::now() >= by.at {
            return Err(by.passed(ChargeState::NotCharged));
        }
        if self.has_ended() {
            return Err(Fault::Closed { charge: ChargeState::NotCharged });
        }
        InFlightGuard::take(self)
    }

    fn abandon_one(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    fn close_one(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// An exchange of the greeting, whose caller has a timer around all of them.
    pub(super) async fn greet(&self, command: &Cmd) -> Result<Value, Fault> {
        let answer = self.connection.clone().send_packed_command(command).await;
        answer.map_err(|error| lost(&error, ChargeState::NotCharged))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The driver itself would first wait until the server accepts the unsent bytes.
        self.driver.abort();
    }
}

/// The reply to a call. It is unknown whether the call was sent before the connection broke.
async fn awaited<T>(question: impl Future<Output = RedisResult<T>>) -> Result<T, Fault> {
    question.await.map_err(|error| lost(&error, ChargeState::Unknown))
}

/// Drives a connection until it ends.
///
/// It yields to all runnable tasks before each turn, so that their calls go out in one write.
/// Otherwise a task that was just woken would run next, and cause a write for each call.
async fn drive(driver: impl Future<Output = ()>, mut batches: Batches) {
    let mut driver = pin!(driver);
    let mut has_waited = false;
    poll_fn(|cx| {
        has_waited = !has_waited;
        if has_waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        batches.send(cx);
        let ended = driver.as_mut().poll(cx);
        batches.receive(cx);
        ended
    })
    .await;
}

/// Reports that the driver has ended, even when its runtime drops it.
struct EndGuard<F: FnOnce(bool)> {
    flag: Arc<AtomicBool>,
    by_itself: bool,
    told: Option<F>,
}

impl<F: FnOnce(bool)> Drop for EndGuard<F> {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Release);
        if let Some(told) = self.told.take() {
            told(self.by_itself);
        }
    }
}

/// An open call on a connection: it counts as abandoned unless it is closed.
struct InFlightGuard<'a> {
    wire: &'a Wire,
    settled: bool,
}

impl<'a> InFlightGuard<'a> {
    fn take(wire: &'a Wire) -> Result<Self, Fault> {
        if wire.open.fetch_add(1, Ordering::Relaxed) >= wire.most {
            wire.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Fault::TooMany { limit: wire.most });
        }
        Ok(Self { wire, settled: false })
    }

    fn close(mut self) {
        self.settled = true;
        self.wire.close_one();
    }

    /// Another task will close or abandon it.
    fn leave_open(mut self) {
        self.settled = true;
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.wire.abandon_one();
        }
    }
}

/// Why a call has no reply.
#[derive(Debug)]
pub(super) enum CallError {
    /// The final result.
    Settled(Fault),
    /// Its deadline passed; the reply may still arrive.
    Late(Fault, LateReply),
}

impl CallError {
    /// The same with another fault.
    pub(super) fn map(self, change: impl FnOnce(Fault) -> Fault) -> Self {
        match self {
            Self::Settled(fault) => Self::Settled(change(fault)),
            Self::Late(fault, late) => Self::Late(change(fault), late),
        }
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Settled(fault)
    }
}

impl From<CallError> for Fault {
    /// The caller no longer waits for the reply.
    fn from(failed: CallError) -> Self {
        match failed {
            CallError::Settled(fault) | CallError::Late(fault, _) => fault,
        }
    }
}

/// A call that was sent and has no reply by its deadline. It counts as abandoned unless a task sees
/// the reply arrive.
#[derive(Debug)]
pub(super) struct LateReply {
    wire: Weak<Wire>,
    answer: Option<oneshot::Receiver<Result<CallReply, Fault>>>,
}

/// The fate of a call after its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LateOutcome {
    /// A reply arrived.
    Answered,
    /// No reply arrived.
    Silence,
    /// The connection broke, or the call was never sent.
    Lost,
}

impl LateReply {
    /// Waits for the reply, and discards it.
    pub(super) async fn wait(mut self, until: Instant) -> LateOutcome {
        let Some(answer) = self.answer.take() else { return LateOutcome::Lost };
        match timeout_at(until, answer).await {
            Ok(Ok(Ok(_))) => {
                if let Some(wire) = std::mem::take(&mut self.wire).upgrade() {
                    wire.close_one();
                }
                LateOutcome::Answered
            }
            Ok(_) => LateOutcome::Lost,
            Err(_) => LateOutcome::Silence,
        }
    }
}

impl Drop for LateReply {
    fn drop(&mut self) {
        if let Some(wire) = self.wire.upgrade() {
            wire.abandon_one();
        }
    }
}
