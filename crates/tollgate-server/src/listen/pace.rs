//! What one connection is at, and since when.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use std::sync::{Arc, OnceLock};

/// What a connection is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Nothing of a request has come.
    Idle = 0,
    /// Some of a head has.
    Head = 1,
    /// The head has, and not all of the body.
    Body = 2,
    /// It is being decided; that has deadlines of its own.
    Work = 3,
    /// The response is on its way.
    Write = 4,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Body, Self::Work, Self::Write];
}

/// What a connection is at, and since when. The one that serves it writes, the watching task reads.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The tick above, the phase below.
    state: AtomicU64,
    clock: Arc<AtomicU32>,
    /// True when the connection ends before all that the client sends has been read.
    left_unread: AtomicBool,
    /// True while a part of a response has not been handed to the connection.
    is_responding: AtomicBool,
    /// True since the client first said something.
    has_sent: AtomicBool,
    /// True while it holds no buffers, or is asked to let go of them.
    is_to_rest: AtomicBool,
    /// Wakes its task.
    task: OnceLock<Waker>,
}

impl Pace {
    /// The pace of a new connection, by this clock of ticks.
    pub(super) fn new(clock: &Arc<AtomicU32>) -> Self {
        let pace = Self {
            state: AtomicU64::new(0),
            clock: Arc::clone(clock),
            left_unread: AtomicBool::new(false),
            is_responding: AtomicBool::new(false),
            has_sent: AtomicBool::new(false),
            is_to_rest: AtomicBool::new(true),
            task: OnceLock::new(),
        };
        pace.is_at(Phase::Idle);
        pace
    }

    #[inline]
    pub(crate) fn is_at(&self, phase: Phase) {
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

    /// Something that the client sends is not read.
    pub(crate) fn leave_unread(&self) {
        self.left_unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left_unread(&self) -> bool {
        self.left_unread.load(Ordering::Relaxed)
    }

    /// More of a response comes, or its last part was handed over.
    pub(crate) fn set_responding(&self, more: bool) {
        self.is_responding.store(more, Ordering::Relaxed);
    }

    pub(crate) fn is_responding(&self) -> bool {
        self.is_responding.load(Ordering::Relaxed)
    }

    pub(super) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    /// The task that serves it.
    pub(crate) fn is_served_by(&self, task: &Waker) {
        let _ = self.task.set(task.clone());
    }

    /// The client says something: it holds buffers from here on.
    pub(crate) fn works(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
        self.is_to_rest.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_to_rest(&self) -> bool {
        self.is_to_rest.load(Ordering::Relaxed) && self.phase() == Phase::Idle
    }

    /// Asks for its buffers, once.
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
