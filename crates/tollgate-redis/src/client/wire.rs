//! One connection: what is sent over it, and how it ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::batch::{BatchScript, Batches, CallReply, PendingCall};
use super::deadline::Deadline;
use super::reply_errors::lost;
use crate::fault::{ChargeState, Fault};

/// A connection. It ends when the last handle is dropped: whoever waits on it holds one, so a
/// connection that is no longer used for new questions lives until the last old one is done.
///
/// Answers are matched with questions by their order, by redis-rs. It keeps a place in that order
/// for a question that nobody waits for any more, and drops the answer (`InFlight` in its
/// `multiplexed_connection.rs`); so a dropped question does no harm to others.
pub(super) struct Wire {
    pub(super) id: u64,
    pub(super) since: Instant,
    connection: MultiplexedConnection,
    /// Where questions go that may be asked together.
    asked: mpsc::UnboundedSender<PendingCall>,
    driver: AbortHandle,
    ended: Arc<AtomicBool>,
    /// Questions that were sent and not answered.
    open: AtomicUsize,
    most: usize,
    /// Questions that were dropped before their answer. They stay open, for the answers may still
    /// come, and a server that hangs would be sent more and more.
    abandoned: AtomicUsize,
}

impl Wire {
    /// Starts the task that drives the connection.
    pub(super) fn new(
        id: u64,
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce(bool) + Send + 'static,
        most: usize,
    ) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let mut end = EndGuard { flag: Arc::clone(&flag), by_itself: false, told: Some(ended) };
        let (asked, questions) = mpsc::unbounded_channel();
        let batches = Batches::new(connection.clone(), questions);
        let driver = tokio::spawn(async move {
            drive(driver, batches).await;
            end.by_itself = true;
            drop(end);
        });
        Self {
            id,
            since: Instant::now(),
            connection,
            asked,
            driver: driver.abort_handle(),
            ended: flag,
            open: AtomicUsize::new(0),
            most,
            abandoned: AtomicUsize::new(0),
        }
    }

    /// True when it has ended, by itself or by [`Wire::cut`].
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// True when so many questions were dropped on it that a fresh one is better.
    pub(super) fn is_worn(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) * 2 > self.most
    }

    /// Ends it at once, with all that wait.
    pub(super) fn cut(&self) {
        self.ended.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Sends a command and waits for the answer to it, which may be an error of the server.
    pub(super) async fn exchange(&self, command: &Cmd, by: Deadline) -> Result<Value, Fault> {
        let mut connection = self.connection.clone();
        self.answered(awaited(connection.send_packed_command(command)), by).await
    }

    /// Sends the call of a script and waits for the answer to it: alone, or with `batch` in one
    /// call with others of the same script that are there. `keys` is how many keys it has.
    pub(super) async fn ask(
        self: &Arc<Self>,
        command: Cmd,
        keys: usize,
        batch: Option<Arc<BatchScript>>,
        by: Deadline,
    ) -> Result<CallReply, CallError> {
        let place = self.begin(by)?;
        let (reply, mut answer) = oneshot::channel();
        if self.asked.send(PendingCall { batch, command, keys, by, reply }).is_err() {
            place.close();
            return Err(Fault::Closed { charge: ChargeState::NotCharged }.into());
        }
        match timeout_at(by.at, &mut answer).await {
            Ok(answer) => {
                place.close();
                // Dropped without an answer: the connection was cut.
                Ok(answer.unwrap_or(Err(Fault::Closed { charge: ChargeState::Unknown }))?)
            }
            Err(_) => {
                place.leave_open();
                let (wire, fault) = (Arc::downgrade(self), by.passed(ChargeState::Unknown));
                Err(CallError::Late(fault, LateReply { wire, answer: Some(answer) }))
            }
        }
    }

    /// Sends commands in one write and waits for all answers, each of which may be an error of the
    /// server: redis-rs keeps those among the values, outside of a transaction. It counts as one
    /// question, and without all answers there is none.
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

    /// Waits for what was asked, which is not sent before this is.
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

    /// A place for a question, unless its time is over before it is sent.
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

    /// An exchange of the greeting, which has a timer around all of it.
    pub(super) async fn greet(&self, command: &Cmd) -> Result<Value, Fault> {
        let answer = self.connection.clone().send_packed_command(command).await;
        answer.map_err(|error| lost(&error, ChargeState::NotCharged))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Left to itself the driver would first wait until the server takes what is unsent.
        self.driver.abort();
    }
}

/// What was said to a question. Whether it was sent before the connection broke is not known for
/// sure.
async fn awaited<T>(question: impl Future<Output = RedisResult<T>>) -> Result<T, Fault> {
    question.await.map_err(|error| lost(&error, ChargeState::Unknown))
}

/// Drives a connection until it ends.
///
/// It lets every task that can run go before each of its turns: what they ask is then sent in one
/// write. A task that was just woken would run next, and write for one question at a time.
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

/// Tells that the driver has ended, also when it is dropped with its runtime.
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

/// An open question on a connection: abandoned, unless it is closed.
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

    /// Somebody else closes or abandons it.
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

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// That is all there is to know.
    Settled(Fault),
    /// Its deadline passed; the answer may come yet.
    Late(Fault, LateReply),
}

impl CallError {
    /// The same question with another fault.
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
    /// Nobody waits for the answer any more.
    fn from(failed: CallError) -> Self {
        match failed {
            CallError::Settled(fault) | CallError::Late(fault, _) => fault,
        }
    }
}

/// A question that was sent and has no answer within its own deadline: abandoned, unless somebody
/// sees the answer come.
#[derive(Debug)]
pub(super) struct LateReply {
    wire: Weak<Wire>,
    answer: Option<oneshot::Receiver<Result<CallReply, Fault>>>,
}

/// What became of a question after its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LateOutcome {
    /// It was answered.
    Answered,
    /// It was not.
    Silence,
    /// The connection broke, or the question was never sent.
    Lost,
}

impl LateReply {
    /// Waits for the answer, which nobody reads.
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
