//! The phase of one connection, and since when.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use super::on_the_way::OnTheWay;

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Phase {
    /// No byte of a request has arrived.
    Idle = 0,
    /// Part of a request head has arrived.
    Head = 1,
    /// The head has arrived, but not the whole body.
    Body = 2,
    /// The request is being decided, which has its own deadlines.
    Work = 3,
    /// The response is being sent.
    Write = 4,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Body, Self::Work, Self::Write];
}

/// The phase of a connection, and since when. Its own task writes these values; the watching task
/// reads them.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The tick in the upper half, the phase in the lower half.
    state: AtomicU64,
    clock: Arc<AtomicU32>,
    /// True when the connection closes before everything that the client sends has been read.
    left_unread: AtomicBool,
    /// True while a part of the response has not been passed to the connection.
    is_responding: AtomicBool,
    /// True once the client has sent a byte.
    has_sent: AtomicBool,
    /// True while the connection holds no buffers, or is asked to release them.
    is_to_rest: AtomicBool,
    /// True while the work ends with the client's side of the connection.
    is_watched: AtomicBool,
    /// True once the client closed its side while it was watched.
    has_hung_up: AtomicBool,
    /// Wakes the connection's task.
    task: OnceLock<Waker>,
    /// The answers that may not have been read.
    pub(crate) on_the_way: OnTheWay,
}

impl Pace {
    /// The pace of a new connection, with times from this clock of ticks.
    pub(super) fn new(clock: &Arc<AtomicU32>, grace: Duration) -> Self {
        let pace = Self {
            state: AtomicU64::new(0),
            clock: Arc::clone(clock),
            left_unread: AtomicBool::new(false),
            is_responding: AtomicBool::new(false),
            has_sent: AtomicBool::new(false),
            is_to_rest: AtomicBool::new(true),
            is_watched: AtomicBool::new(false),
            has_hung_up: AtomicBool::new(false),
            task: OnceLock::new(),
            on_the_way: OnTheWay::new(grace),
        };
        pace.set_phase(Phase::Idle);
        pace
    }

    #[inline]
    pub(crate) fn set_phase(&self, phase: Phase) {
        let tick = u64::from(self.clock.load(Ordering::Relaxed));
        self.state.store(tick << 32 | phase as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        let number = self.state.load(Ordering::Relaxed) & 0xFFFF_FFFF;
        usize::try_from(number)
            .ok()
            .and_then(|at| Phase::ALL.get(at))
            .copied()
            .unwrap_or(Phase::Idle)
    }

    /// Records that something the client sends stays unread.
    pub(crate) fn leave_unread(&self) {
        self.left_unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left_unread(&self) -> bool {
        self.left_unread.load(Ordering::Relaxed)
    }

    /// Records whether more of the response follows.
    pub(crate) fn set_responding(&self, more: bool) {
        self.is_responding.store(more, Ordering::Relaxed);
    }

    pub(crate) fn is_responding(&self) -> bool {
        self.is_responding.load(Ordering::Relaxed)
    }

    pub(super) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    /// Waits until the client closes its side of the connection, in the connection's own task. A
    /// service that does not wait for it answers a client that only stops to send.
    pub(crate) async fn hung_up(&self) {
        let _watched = Watched::new(self);
        // The thread that notes the end wakes the task, and polls everything that the task waits
        // for.
        poll_fn(|_| match self.has_hung_up.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Whether to look for the end of the client's side.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Records that the client closed its side.
    pub(crate) fn hangs_up(&self) {
        self.has_hung_up.store(true, Ordering::Relaxed);
    }

    /// Sets the task that serves the connection.
    pub(crate) fn is_served_by(&self, task: &Waker) {
        let _ = self.task.set(task.clone());
    }

    /// Records that the client sent something: the connection holds buffers from here on.
    pub(crate) fn works(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
        self.is_to_rest.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_to_rest(&self) -> bool {
        self.is_to_rest.load(Ordering::Relaxed) && self.phase() == Phase::Idle
    }

    /// Asks the connection once to release its buffers.
    pub(super) fn rest(&self) {
        if !self.is_to_rest.swap(true, Ordering::Relaxed)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    pub(super) fn since(&self) -> u32 {
        u32::try_from(self.state.load(Ordering::Relaxed) >> 32).unwrap_or(u32::MAX)
    }
}

/// The time in which a client is watched.
struct Watched<'a>(&'a Pace);

impl<'a> Watched<'a> {
    fn new(pace: &'a Pace) -> Self {
        pace.is_watched.store(true, Ordering::Relaxed);
        Self(pace)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.is_watched.store(false, Ordering::Relaxed);
    }
}
