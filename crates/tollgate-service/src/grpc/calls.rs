//! The calls of one connection, so that its deadlines and its share of the memory hold for all of
//! them together.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::listen::{Budget, Pace, Phase, Share};

/// The memory that a call takes of the shared budget: its stream, its task, and its read buffer. An
/// attack with 768,000 calls took 2.4 to 3.3 KiB for each, with a head of 150 bytes.
pub(super) const CALL_BYTES: usize = 4 * 1_024;

/// The bytes of a head that are in this.
const HEAD_BYTES: usize = 1_024;

/// A connection begins another call while it holds at most a sixteenth of the calls that could
/// still begin. So 256 calls of one are too many only when others hold half of the room, and when
/// hundreds of connections take all that they may, a new one still begins its first calls.
const SPARES: usize = 16;

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls {
    pace: Arc<Pace>,
    /// How many hold memory: until their answers were sent.
    open: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many are being answered. A stream that stays open, as a watch of health, does not count.
    working: usize,
    /// Since when no call is being answered.
    idle_since: Instant,
}

impl Calls {
    pub(super) fn new(pace: Arc<Pace>) -> Arc<Self> {
        let state = State { working: 0, idle_since: Instant::now() };
        Arc::new(Self { pace, open: AtomicUsize::new(0), state: Mutex::new(state) })
    }

    /// Takes room for a call with this many bytes of a head; `None` when there is none, or when
    /// this connection holds more than its part of it.
    pub(super) fn room(self: &Arc<Self>, budget: &Arc<Budget>, head: usize) -> Option<Room> {
        let held = self.open.load(Ordering::Relaxed).saturating_mul(CALL_BYTES);
        if held.saturating_mul(SPARES) > budget.room() {
            return None;
        }
        let share = budget.take(CALL_BYTES + head.saturating_sub(HEAD_BYTES))?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Room { calls: Arc::clone(self), _share: share })
    }

    /// Begins a call, which ends when it is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Call {
        let mut state = self.state.lock();
        state.working += 1;
        self.pace.set_phase(Phase::Work);
        Call(Arc::clone(self))
    }

    /// How long nothing was answered; `None` while something is.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.state.lock();
        (state.working == 0).then(|| state.idle_since.elapsed())
    }
}

/// The memory that a call takes of the shared budget, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    calls: Arc<Calls>,
    _share: Share,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.calls.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that is being answered.
#[derive(Debug)]
pub(super) struct Call(Arc<Calls>);

impl Drop for Call {
    fn drop(&mut self) {
        let Self(calls) = self;
        let mut state = calls.state.lock();
        state.working -= 1;
        if state.working == 0 {
            state.idle_since = Instant::now();
            calls.pace.set_phase(Phase::Idle);
        }
    }
}
