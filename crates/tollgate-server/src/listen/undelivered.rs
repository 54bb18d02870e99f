//! Answers that have to be undone where they do not reach their clients, and how that is told.
//!
//! A client that closes a TCP connection before it has read everything resets it: its system says
//! so to the service. A reset soon after an answer therefore undoes the answer. A client that only
//! stops to send still reads, and nothing resets its connection.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
#[cfg(feature = "grpc")]
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

#[cfg(feature = "grpc")]
use bytes::Bytes;
use http::Extensions;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

/// The most answers of one connection that are waited for. Of more, the oldest count as read.
const MAX_WAITING: usize = 1_024;

/// The most streams of a connection that are known to be reset. The bytes that the HTTP library is
/// writing belong to one of the latest.
#[cfg(feature = "grpc")]
const MAX_RESETS: usize = 256;

/// The longest frame that is compared with an answer, in bytes: a hold of a few counts fits.
#[cfg(feature = "grpc")]
pub(crate) const MAX_COMPARED_BYTES: usize = 16 * 1_024;

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
#[derive(Debug)]
pub(crate) struct OnTheWay {
    /// [`Bounds::grace`](super::Bounds::grace).
    grace: Duration,
    /// False while there are none, which is nearly always.
    is_any: AtomicBool,
    answers: Mutex<Vec<Answer>>,
    /// The streams that were reset last, the latest at the end.
    #[cfg(feature = "grpc")]
    resets: Mutex<VecDeque<u32>>,
}

#[derive(Debug)]
struct Answer {
    undelivered: Undelivered,
    /// When it was passed on to the system; `None` before.
    written: Option<Instant>,
    /// How it goes over a connection of several streams.
    #[cfg(feature = "grpc")]
    message: Option<Message>,
}

/// The message of an answer over one stream of several.
#[cfg(feature = "grpc")]
#[derive(Debug)]
struct Message {
    bytes: Bytes,
    /// Whether the HTTP library has the bytes no more: they are being written, or were discarded.
    is_dropped: Arc<AtomicBool>,
    /// The stream, once the bytes went over it.
    stream: Option<u32>,
    /// Whether a part of them may have gone over some stream, as a small window has it.
    is_in_parts: bool,
}

#[cfg(feature = "grpc")]
impl Message {
    fn was_discarded(&self) -> bool {
        self.stream.is_none() && !self.is_in_parts && self.is_dropped.load(Ordering::Acquire)
    }
}

/// The bytes of a message, which note when they are dropped.
#[cfg(feature = "grpc")]
struct Noted {
    bytes: Bytes,
    is_dropped: Arc<AtomicBool>,
}

#[cfg(feature = "grpc")]
impl AsRef<[u8]> for Noted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(feature = "grpc")]
impl Drop for Noted {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Release);
    }
}

impl Answer {
    fn is_old(&self, grace: Duration) -> bool {
        self.written.is_some_and(|written| written.elapsed() > grace)
    }

    /// Whether it counts as read, when others follow. A reset of a stream says at any time that
    /// its answer was not read.
    fn is_settled(&self, grace: Duration) -> bool {
        #[cfg(feature = "grpc")]
        if self.message.is_some() {
            return false;
        }
        self.is_old(grace)
    }

    #[cfg(feature = "grpc")]
    fn goes_by(&self, is_it: impl FnOnce(&Message) -> bool) -> bool {
        self.message.as_ref().is_some_and(is_it)
    }
}

impl OnTheWay {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            is_any: AtomicBool::new(false),
            answers: Mutex::default(),
            #[cfg(feature = "grpc")]
            resets: Mutex::default(),
        }
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// An answer is about to be written.
    pub(crate) fn add(&self, undelivered: Undelivered) {
        self.push(Answer {
            undelivered,
            written: None,
            #[cfg(feature = "grpc")]
            message: None,
        });
    }

    /// Adds an answer. Of too many, the oldest count as read, and so do those that are settled.
    fn push(&self, answer: Answer) {
        let mut answers = self.answers.lock();
        let is_settled = |answer: &Answer| answer.is_settled(self.grace);
        while answers.len() >= MAX_WAITING || answers.first().is_some_and(is_settled) {
            answers.remove(0).undelivered.delivered();
        }
        answers.push(answer);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// An answer with this message is about to be written over a stream. Returns the bytes that are
    /// to be written.
    #[cfg(feature = "grpc")]
    pub(crate) fn passed_on(&self, undelivered: Undelivered, bytes: Bytes) -> Bytes {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let noted = Noted { bytes: bytes.clone(), is_dropped: Arc::clone(&is_dropped) };
        let is_in_parts = bytes.len() > MAX_COMPARED_BYTES;
        let message = Some(Message { bytes, is_dropped, stream: None, is_in_parts });
        // Before anybody can write it: other threads may do so at once.
        self.push(Answer { undelivered, written: Some(Instant::now()), message });
        Bytes::from_owner(noted)
    }

    /// The stream with this message ended before the answer was whole.
    #[cfg(feature = "grpc")]
    pub(crate) fn cut_off(&self, message: &[u8]) {
        self.undo(|it| it.bytes == message);
    }

    /// A frame with these bytes goes over this stream.
    #[cfg(feature = "grpc")]
    pub(crate) fn goes_over(&self, stream: u32, bytes: &[u8]) {
        let mut answers = self.answers.lock();
        let messages = answers.iter_mut().filter_map(|answer| answer.message.as_mut());
        for message in messages.filter(|message| message.stream.is_none()) {
            if message.bytes == bytes {
                message.stream = Some(stream);
                break;
            }
            message.is_in_parts |= !bytes.is_empty() && message.bytes.starts_with(bytes);
        }
        drop(answers);
        // Bytes that are being written still go out after their stream was reset.
        if self.resets.lock().contains(&stream) {
            self.undo(|it| it.stream == Some(stream));
        }
    }

    /// The client has reset this stream: it did not read the answer over it.
    #[cfg(feature = "grpc")]
    pub(crate) fn reset(&self, stream: u32) {
        if !self.is_any() {
            return;
        }
        let mut resets = self.resets.lock();
        if resets.len() >= MAX_RESETS {
            resets.pop_front();
        }
        resets.push_back(stream);
        drop(resets);
        self.undo(|it| it.stream == Some(stream));
    }

    /// All that was to be written is written: messages that nobody has any more were discarded.
    #[cfg(feature = "grpc")]
    pub(crate) fn flushed(&self) {
        if self.is_any() {
            self.undo(Message::was_discarded);
        }
    }

    #[cfg(feature = "grpc")]
    fn undo(&self, is_it: impl Fn(&Message) -> bool) {
        let is_it = |answer: &mut Answer| answer.goes_by(&is_it);
        // Dropped outside of the lock.
        let undelivered: Vec<Answer> = {
            let mut answers = self.answers.lock();
            let undelivered = answers.extract_if(.., is_it).collect();
            self.is_any.store(!answers.is_empty(), Ordering::Relaxed);
            undelivered
        };
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
        self.settle(|answer| answer.is_old(self.grace));
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

#[cfg(all(test, feature = "grpc"))]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"the text of a hold";

    /// An answer on its way, the bytes that the HTTP library has of it, and whether it was undone.
    fn on_the_way() -> (OnTheWay, Bytes, Arc<AtomicBool>) {
        let all = OnTheWay::new(Duration::from_secs(60));
        let was_undone = Arc::new(AtomicBool::new(false));
        let undone = Arc::clone(&was_undone);
        let undelivered = Undelivered::new(move || undone.store(true, Ordering::Relaxed));
        let bytes = all.passed_on(undelivered, Bytes::from_static(MESSAGE));
        assert_eq!(bytes, MESSAGE);
        (all, bytes, was_undone)
    }

    #[test]
    fn a_stream_that_is_reset_after_its_message_went_undoes_it() {
        let (all, bytes, undone) = on_the_way();
        all.goes_over(7, MESSAGE);
        drop(bytes);
        all.flushed();
        all.reset(5);
        assert!(all.is_any() && !undone.load(Ordering::Relaxed));
        all.reset(7);
        assert!(!all.is_any() && undone.load(Ordering::Relaxed));
    }

    #[test]
    fn a_message_that_goes_after_its_stream_was_reset_is_undone() {
        let (all, bytes, undone) = on_the_way();
        drop(bytes);
        all.reset(7);
        assert!(!undone.load(Ordering::Relaxed));
        all.goes_over(7, MESSAGE);
        assert!(undone.load(Ordering::Relaxed));
    }

    #[test]
    fn a_message_that_was_discarded_is_undone_and_one_that_waits_is_not() {
        let (all, bytes, undone) = on_the_way();
        all.flushed();
        assert!(!undone.load(Ordering::Relaxed));
        drop(bytes);
        all.flushed();
        assert!(undone.load(Ordering::Relaxed));
    }

    #[test]
    fn a_message_in_parts_counts_as_written() {
        let (all, bytes, undone) = on_the_way();
        let (first, second) = MESSAGE.split_at(5);
        all.goes_over(7, first);
        all.goes_over(7, second);
        drop(bytes);
        all.flushed();
        all.ended();
        assert!(!undone.load(Ordering::Relaxed));
    }

    #[test]
    fn an_answer_without_its_end_is_undone() {
        let (all, _bytes, undone) = on_the_way();
        all.cut_off(b"another");
        assert!(!undone.load(Ordering::Relaxed));
        all.cut_off(MESSAGE);
        assert!(undone.load(Ordering::Relaxed));
    }
}
