//! The answers of one connection that wait to be read, by the evidence about them.

#[cfg(feature = "grpc")]
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
#[cfg(feature = "grpc")]
use std::sync::Arc;

#[cfg(feature = "grpc")]
use bytes::Bytes;
use tokio::time::Instant;

#[cfg(feature = "grpc")]
use crate::listen::budget::{Budget, Share};
use crate::listen::undelivered::Undelivered;

/// The longest frame that is compared with an answer, in bytes: a hold of a few counts fits.
#[cfg(feature = "grpc")]
pub(crate) const MAX_COMPARED_BYTES: usize = 16 * 1_024;

/// The most answers of one connection that are waited for. Of more, the oldest count as read.
pub(super) const MAX_WAITING: usize = 1_024;

/// The most streams of a connection that are known to be reset. The bytes that the HTTP library is
/// writing belong to one of the latest.
#[cfg(feature = "grpc")]
const MAX_RESETS: usize = 256;

/// The answers of one connection that may not have been read.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Those that are still to be written, the oldest first.
    pub(super) coming: VecDeque<AnswerOnTheWay>,
    /// Those that were passed on to the system, and when: the oldest first.
    pub(super) written: VecDeque<(Instant, AnswerOnTheWay)>,
    /// The streams that were reset last, the latest at the end.
    #[cfg(feature = "grpc")]
    resets: VecDeque<u32>,
    #[cfg(feature = "grpc")]
    pub(super) last_number: u64,
}

#[derive(Debug)]
pub(super) struct AnswerOnTheWay {
    pub(super) undelivered: Undelivered,
    /// How it goes over a connection of several streams.
    #[cfg(feature = "grpc")]
    pub(super) message: Option<Message>,
}

impl Waiting {
    /// Counts answers that were written longer ago than this as read.
    pub(super) fn settle(&mut self, longest: Duration) {
        while self.written.front().is_some_and(|(written, _)| written.elapsed() > longest) {
            self.read_oldest();
        }
    }

    /// Makes room for an answer.
    pub(super) fn make_room(&mut self, longest: Duration) {
        self.settle(longest);
        while self.coming.len() + self.written.len() >= MAX_WAITING {
            self.read_oldest();
        }
    }

    /// Counts the oldest answer as read. False when there is none.
    fn read_oldest(&mut self) -> bool {
        let written = self.written.pop_front().map(|(_, answer)| answer);
        let oldest = written.or_else(|| self.coming.pop_front());
        oldest.map(|answer| answer.undelivered.delivered()).is_some()
    }

    /// Everything that was written is read.
    pub(super) fn read_all(&mut self) {
        self.written.drain(..).for_each(|(_, answer)| answer.undelivered.delivered());
    }

    /// All of them: they are not read.
    pub(super) fn take_all(&mut self) -> Vec<AnswerOnTheWay> {
        let written = self.written.drain(..).map(|(_, answer)| answer);
        written.chain(self.coming.drain(..)).collect()
    }
}

/// The message of an answer over one stream of several.
#[cfg(feature = "grpc")]
#[derive(Debug)]
pub(super) struct Message {
    /// Its number among those of the connection.
    pub(super) number: u64,
    /// Its bytes, until a frame with them was seen.
    bytes: Bytes,
    /// Whether the HTTP library has the bytes no more: they were written, or discarded.
    is_dropped: Arc<AtomicBool>,
    /// Whether a part of them may have gone over some stream, as a small window has it.
    is_in_parts: bool,
    /// The stream, once the bytes went over it.
    stream: Option<u32>,
    _share: Share,
}

#[cfg(feature = "grpc")]
impl Message {
    /// A message, and the bytes that are to be written.
    pub(super) fn new(number: u64, bytes: Bytes, share: Share) -> (Self, Bytes) {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let noted = Noted { bytes: bytes.clone(), is_dropped: Arc::clone(&is_dropped) };
        let is_in_parts = bytes.len() > MAX_COMPARED_BYTES;
        let this = Self { number, bytes, is_dropped, is_in_parts, stream: None, _share: share };
        (this, Bytes::from_owner(noted))
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

#[cfg(feature = "grpc")]
impl Waiting {
    /// Takes room for an answer. The oldest count as read until there is enough.
    pub(super) fn share(&mut self, room: &Arc<Budget>, bytes: usize) -> Option<Share> {
        loop {
            let share = room.take(bytes);
            if share.is_some() || !self.read_oldest() {
                return share;
            }
        }
    }

    /// The answer whose message is this one, which nobody reads.
    pub(super) fn take_out(&mut self, is_it: impl Fn(&Message) -> bool) -> Option<AnswerOnTheWay> {
        let is_it = |answer: &AnswerOnTheWay| answer.message.as_ref().is_some_and(&is_it);
        if let Some(at) = self.coming.iter().position(is_it) {
            return self.coming.remove(at);
        }
        let at = self.written.iter().position(|(_, answer)| is_it(answer))?;
        self.written.remove(at).map(|(_, answer)| answer)
    }

    /// Notes a frame that goes over a stream. Returns its answer if nobody will read it.
    pub(super) fn goes_over(&mut self, stream: u32, bytes: &[u8]) -> Option<AnswerOnTheWay> {
        let mut whole = None;
        for (at, answer) in self.coming.iter_mut().enumerate() {
            let Some(message) = &mut answer.message else { continue };
            if message.bytes == bytes {
                whole = Some(at);
                break;
            }
            message.is_in_parts |= !bytes.is_empty() && message.bytes.starts_with(bytes);
        }
        let mut answer = self.coming.remove(whole?)?;
        // Bytes that are being written still go out after their stream was reset.
        if self.resets.contains(&stream) {
            return Some(answer);
        }
        if let Some(message) = &mut answer.message {
            message.stream = Some(stream);
        }
        self.is_written(Instant::now(), answer);
        None
    }

    /// An answer was passed on to the system: its bytes are needed no more.
    fn is_written(&mut self, now: Instant, mut answer: AnswerOnTheWay) {
        if let Some(message) = &mut answer.message {
            message.bytes = Bytes::new();
        }
        self.written.push_back((now, answer));
    }

    /// Notes that a stream is reset. Returns the answer that went over it.
    pub(super) fn reset(&mut self, stream: u32) -> Option<AnswerOnTheWay> {
        if self.resets.len() >= MAX_RESETS {
            self.resets.pop_front();
        }
        self.resets.push_back(stream);
        self.take_out(|message| message.stream == Some(stream))
    }

    /// Everything to be written is written. Returns what was discarded.
    pub(super) fn flushed(&mut self) -> Vec<AnswerOnTheWay> {
        let mut discarded = Vec::new();
        let is_dropped = |answer: &AnswerOnTheWay| {
            let message = answer.message.as_ref();
            message.is_some_and(|message| message.is_dropped.load(Ordering::Acquire))
        };
        while let Some(at) = self.coming.iter().position(is_dropped) {
            let Some(answer) = self.coming.remove(at) else { break };
            match answer.message.as_ref().is_some_and(|message| message.is_in_parts) {
                true => self.is_written(Instant::now(), answer),
                false => discarded.push(answer),
            }
        }
        discarded
    }
}
