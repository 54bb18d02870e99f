//! The undelivered answers of one connection, and how the service learns that one does not arrive.
//!
//! A client that closes a TCP connection before it has read everything resets it, and the system
//! reports the reset to the service. A reset soon after an answer therefore undoes the answer. A
//! client that only stops to send still reads, and nothing resets its connection.

mod waiting;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
#[cfg(feature = "grpc")]
use std::sync::Arc;

#[cfg(feature = "grpc")]
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

#[cfg(feature = "grpc")]
pub(crate) use self::waiting::MAX_COMPARED_BYTES;
#[cfg(feature = "grpc")]
use self::waiting::Message;
use self::waiting::{AnswerOnTheWay, Waiting};
#[cfg(feature = "grpc")]
use super::budget::Budget;
use super::undelivered::Undelivered;

/// How long after an answer was written a reset of its stream still says that nobody has read it.
/// A client may take as long for the rest of a response ([`Bounds::write`](super::Bounds::write)).
/// One that resets a stream later has had its answer, and only now gives up the call.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// The most bytes of answers over gRPC that are waited for. Of more, the oldest of the same
/// connection count as read.
#[cfg(feature = "grpc")]
pub(crate) const MAX_WAITING_BYTES: usize = 16 * 1_024 * 1_024;

/// The part of these bytes that one connection takes at most.
#[cfg(feature = "grpc")]
pub(crate) const MAX_WAITING_BYTES_OF_ONE: usize = 1_024 * 1_024;

/// The memory of an answer besides its message: the subjects of its hold.
#[cfg(feature = "grpc")]
const ANSWER_BYTES: usize = 512;

/// How many answers a connection has room for in any case.
const FEW: usize = 16;

/// The answers of one connection that may not have been read.
#[derive(Debug)]
pub(crate) struct OnTheWay {
    /// [`Bounds::grace`](super::Bounds::grace).
    grace: Duration,
    /// [`READ_WITHIN`], or a longer grace.
    read_within: Duration,
    /// False while there are none, which is nearly always.
    is_any: AtomicBool,
    /// False while all of them are written. Writes look at none of them then.
    is_any_coming: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl OnTheWay {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            read_within: grace.max(READ_WITHIN),
            is_any: AtomicBool::new(false),
            is_any_coming: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_any_coming(&self) -> bool {
        self.is_any_coming.load(Ordering::Relaxed)
    }

    /// Changes what waits. Drop the value that the change returns outside of the lock: a memory
    /// store gives back within the drop.
    fn with<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.waiting.lock();
        let changed = change(&mut waiting);
        let Waiting { coming, written, .. } = &mut *waiting;
        self.is_any_coming.store(!coming.is_empty(), Ordering::Relaxed);
        self.is_any.store(!coming.is_empty() || !written.is_empty(), Ordering::Relaxed);
        if written.is_empty() {
            written.shrink_to(FEW);
        }
        changed
    }

    /// An answer is about to be written.
    pub(crate) fn add(&self, undelivered: Undelivered) {
        self.with(|waiting| {
            waiting.make_room(self.read_within);
            waiting.coming.push_back(AnswerOnTheWay {
                undelivered,
                #[cfg(feature = "grpc")]
                message: None,
            });
        });
    }

    /// All of them were passed on to the system.
    #[inline]
    pub(crate) fn written(&self) {
        if self.is_any_coming() {
            self.with(|waiting| {
                let now = Instant::now();
                waiting.written.extend(waiting.coming.drain(..).map(|answer| (now, answer)));
            });
        }
    }

    /// The client sent more, after it has read what was written.
    #[inline]
    pub(crate) fn came(&self) {
        if self.is_any() {
            self.with(Waiting::read_all);
        }
    }

    /// The connection was reset, or cannot be written to.
    #[cold]
    pub(crate) fn failed(&self) {
        drop(self.with(|waiting| {
            waiting.settle(self.grace);
            waiting.take_all()
        }));
    }

    /// The connection has ended, and nothing speaks against it: the written answers are delivered.
    pub(crate) fn ended(&self) {
        if self.is_any() {
            drop(self.with(|waiting| {
                waiting.read_all();
                waiting.take_all()
            }));
        }
    }
}

#[cfg(feature = "grpc")]
impl OnTheWay {
    /// An answer with this message is about to be written over a stream. Returns its number, and
    /// the bytes that are to be written. An answer that finds no room counts as read.
    pub(crate) fn passed_on(
        &self,
        undelivered: Undelivered,
        bytes: Bytes,
        room: &Arc<Budget>,
    ) -> (u64, Bytes) {
        // Before anybody can write it: other threads may do so immediately.
        self.with(|waiting| {
            waiting.make_room(self.read_within);
            waiting.last_number += 1;
            let number = waiting.last_number;
            let Some(share) = waiting.share(room, ANSWER_BYTES + bytes.len()) else {
                undelivered.delivered();
                return (number, bytes);
            };
            let (message, bytes) = Message::new(number, bytes, share);
            waiting.coming.push_back(AnswerOnTheWay { undelivered, message: Some(message) });
            (number, bytes)
        })
    }

    /// The stream of the answer with this number ended before the answer was whole.
    pub(crate) fn cut_off(&self, number: u64) {
        drop(self.with(|waiting| waiting.take_out(|message| message.number == number)));
    }

    /// A frame with these bytes goes over this stream.
    pub(crate) fn goes_over(&self, stream: u32, bytes: &[u8]) {
        drop(self.with(|waiting| waiting.goes_over(stream, bytes)));
    }

    /// The client has reset this stream: it did not read the answer over it.
    pub(crate) fn reset(&self, stream: u32) {
        drop(self.with(|waiting| {
            waiting.settle(self.read_within);
            waiting.reset(stream)
        }));
    }

    /// Everything to be written is written: messages that nobody has any more were discarded.
    #[inline]
    pub(crate) fn flushed(&self) {
        if self.is_any() {
            drop(self.with(|waiting| {
                waiting.settle(self.read_within);
                waiting.flushed()
            }));
        }
    }
}

#[cfg(all(test, feature = "grpc"))]
mod tests;
