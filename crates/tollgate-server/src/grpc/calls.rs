//! The calls of one connection that are being answered, so that its deadlines hold for all of them
//! together.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::listen::{Pace, Phase};

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls {
    pace: Arc<Pace>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many are being answered. A stream that stays open, as a watch of health, is none.
    working: usize,
    /// Since when there is none.
    idle_since: Instant,
}

impl Calls {
    pub(super) fn new(pace: Arc<Pace>) -> Arc<Self> {
        let state = State { working: 0, idle_since: Instant::now() };
        Arc::new(Self { pace, state: Mutex::new(state) })
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
