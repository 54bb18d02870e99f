//! Answers that have to be undone where they do not reach their clients, and how that is told.
//!
//! A client that closes a TCP connection before it has read everything resets it: its system says
//! so to the service. A reset soon after an answer therefore undoes the answer. A client that only
//! stops to send still reads, and nothing resets its connection.

use core::fmt;
use core::future::Future as _;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::Extensions;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

use super::pace::{Pace, Phase};

/// How long after an answer a reset still says that nobody has read it. It is longer than a way
/// forth and back over most networks. Programs that reset connections which they have read from, as
/// HAProxy does with idle ones, mostly do so later.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// The most answers of one connection that are waited for. Of more, the oldest count as read.
const MAX_WAITING: usize = 1_024;

/// The first pause between two looks at a connection that is closed. Each further one is twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// What to do if an answer is not delivered. It is done when this is dropped.
pub(crate) struct Undelivered(Vec<Box<dyn FnOnce() + Send + Sync>>);

impl Undelivered {
    pub(crate) fn new(undo: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(vec![Box::new(undo)])
    }

    /// Both of these together.
    #[cfg(feature = "grpc")]
    pub(crate) fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// The client has the answer: nothing is to be done.
    pub(crate) fn delivered(mut self) {
        self.0.clear();
    }

    /// Attaches it to a response.
    pub(crate) fn attach(self, extensions: &mut Extensions) {
        extensions.insert(Attached(Arc::new(Mutex::new(Some(self)))));
    }

    /// What is attached to a response.
    pub(crate) fn of(extensions: &mut Extensions) -> Option<Self> {
        extensions.remove::<Attached>().and_then(|attached| attached.0.lock().take())
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|undo| undo());
    }
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Undelivered")
    }
}

/// An [`Undelivered`] as the extension of a response, which has to be `Clone`.
#[derive(Clone)]
struct Attached(Arc<Mutex<Option<Undelivered>>>);

/// The answers of one connection that may not have been read.
#[derive(Debug, Default)]
pub(crate) struct OnTheWay {
    /// False while there are none, which is nearly always.
    is_any: AtomicBool,
    answers: Mutex<Vec<Answer>>,
}

#[derive(Debug)]
struct Answer {
    undelivered: Undelivered,
    /// When it was passed on to the system; `None` before.
    written: Option<Instant>,
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "only gRPC has several"))]
    way: Way,
}

/// How an answer goes over a connection of several streams.
#[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "only gRPC has several"))]
#[derive(Debug)]
enum Way {
    /// The connection has one stream.
    Only,
    /// In the frame with these bytes, which was not seen yet.
    Message(Bytes),
    Stream(u32),
}

impl Answer {
    fn is_old(&self) -> bool {
        self.written.is_some_and(|written| written.elapsed() > GRACE)
    }
}

impl OnTheWay {
    /// An answer is about to be written.
    pub(crate) fn add(&self, undelivered: Undelivered) {
        self.push(Answer { undelivered, written: None, way: Way::Only });
    }

    /// Adds an answer. Of too many, the oldest count as read, and so do those that are old.
    fn push(&self, answer: Answer) {
        let mut answers = self.answers.lock();
        while answers.len() >= MAX_WAITING || answers.first().is_some_and(Answer::is_old) {
            answers.remove(0).undelivered.delivered();
        }
        answers.push(answer);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// An answer with this message was passed on to be written.
    #[cfg(feature = "grpc")]
    pub(crate) fn passed_on(&self, undelivered: Undelivered, message: Bytes) {
        // In one step: several calls of a connection may pass their answers on at once.
        let (written, way) = (Some(Instant::now()), Way::Message(message));
        self.push(Answer { undelivered, written, way });
    }

    /// A frame with these bytes goes over this stream.
    #[cfg(feature = "grpc")]
    pub(crate) fn goes_over(&self, stream: u32, bytes: &[u8]) {
        let mut answers = self.answers.lock();
        let is_it =
            |answer: &&mut Answer| matches!(&answer.way, Way::Message(message) if message == bytes);
        if let Some(answer) = answers.iter_mut().find(is_it) {
            answer.way = Way::Stream(stream);
        }
    }

    /// The client has reset this stream: it did not read the answer over it.
    #[cfg(feature = "grpc")]
    pub(crate) fn reset(&self, stream: u32) {
        if !self.is_any() {
            return;
        }
        let is_it = |answer: &mut Answer| {
            matches!(answer.way, Way::Stream(over) if over == stream) && !answer.is_old()
        };
        // Dropped outside of the lock.
        let undelivered: Vec<Answer> = self.answers.lock().extract_if(.., is_it).collect();
        drop(undelivered);
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// All of them were passed on to the system.
    #[inline]
    pub(crate) fn written(&self) {
        if self.is_any() {
            let now = Instant::now();
            self.answers.lock().iter_mut().for_each(|it| it.written = it.written.or(Some(now)));
        }
    }

    /// The client sent more, after it has read what was written.
    #[inline]
    pub(crate) fn came(&self) {
        if self.is_any() {
            self.settle(|answer| answer.written.is_some());
        }
    }

    /// The connection was reset, or cannot be written to.
    #[cold]
    pub(crate) fn failed(&self) {
        self.settle(Answer::is_old);
        // Dropped outside of the lock: a memory store gives back within the drop.
        let undelivered = core::mem::take(&mut *self.answers.lock());
        self.is_any.store(false, Ordering::Relaxed);
        drop(undelivered);
    }

    /// The connection has ended, and nothing was said against it: what was written is delivered.
    pub(crate) fn ended(&self) {
        if self.is_any() {
            self.settle(|answer| answer.written.is_some());
            self.failed();
        }
    }

    /// Takes out the answers that were delivered.
    #[cold]
    fn settle(&self, is_delivered: impl Fn(&Answer) -> bool) {
        let mut answers = self.answers.lock();
        for answer in answers.extract_if(.., |answer| is_delivered(answer)) {
            answer.undelivered.delivered();
        }
        self.is_any.store(!answers.is_empty(), Ordering::Relaxed);
    }
}

/// A stream of a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether the end of the stream is a message of its own. A client that closes without reading
    /// that message resets the connection, though it has read the answers before.
    const HAS_CLOSING_MESSAGE: bool = false;

    /// The error of the connection that no read and no write has reported.
    fn error(&self) -> Option<io::Error>;
}

impl Transport for TcpStream {
    fn error(&self) -> Option<io::Error> {
        self.take_error().unwrap_or_else(Some)
    }
}

impl Transport for UnixStream {
    fn error(&self) -> Option<io::Error> {
        self.take_error().unwrap_or_else(Some)
    }
}

impl<T: Transport> Transport for TlsStream<T> {
    const HAS_CLOSING_MESSAGE: bool = true;

    fn error(&self) -> Option<io::Error> {
        self.get_ref().0.error()
    }
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn error(&self) -> Option<io::Error> {
        None
    }
}

/// The end of a connection: whether its last answers arrive.
#[derive(Debug)]
pub(crate) struct Farewell {
    sleep: Pin<Box<Sleep>>,
    pause: Duration,
    /// Whether the client has closed its side.
    has_ended: bool,
}

impl Farewell {
    fn new(has_ended: bool) -> Self {
        Self { sleep: Box::pin(sleep(FIRST_PAUSE)), pause: FIRST_PAUSE, has_ended }
    }

    /// Waits until the last answers were received or not, where that matters.
    pub(crate) fn part<T: Transport>(
        farewell: &mut Option<Self>,
        cx: &mut Context<'_>,
        stream: &mut T,
        (has_ended, pace): (bool, &Pace),
    ) -> Poll<()> {
        let says_nothing = T::HAS_CLOSING_MESSAGE && !has_ended;
        if !pace.on_the_way.is_any() || says_nothing {
            return Poll::Ready(());
        }
        if farewell.is_none() {
            // The time of a client that keeps its side open is bounded.
            pace.set_phase(Phase::Head);
        }
        let farewell = farewell.get_or_insert_with(|| Self::new(has_ended));
        farewell.poll(cx, stream, &pace.on_the_way)
    }

    /// Ready when the answers arrived or did not. What the client still sends is discarded.
    fn poll<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        on_the_way: &OnTheWay,
    ) -> Poll<()> {
        loop {
            let mut scratch = [0; 1_024];
            let mut buffer = ReadBuf::new(&mut scratch);
            // After its end a stream is readable at all times.
            if !self.has_ended
                && let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut buffer)
            {
                match read {
                    Ok(()) if buffer.filled().is_empty() => self.has_ended = true,
                    Ok(()) => continue,
                    Err(_) => {
                        on_the_way.failed();
                        return Poll::Ready(());
                    }
                }
            }
            if stream.error().is_some() {
                on_the_way.failed();
                return Poll::Ready(());
            }
            if self.pause > GRACE {
                return Poll::Ready(());
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.pause *= 2;
            self.sleep.as_mut().reset(Instant::now() + self.pause);
        }
    }
}
