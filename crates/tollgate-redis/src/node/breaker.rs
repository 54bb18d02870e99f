//! The circuit breaker: callers do not wait for a server that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::silence::{Silence, Verdict};

/// The state of the circuit breaker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls go to the server.
    Closed,
    /// The server left calls unanswered for too long: no call is sent until a pause is over.
    Open,
    /// The pause is over, and one call probes the server.
    HalfOpen,
}

/// Permission for a call, returned with the verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    /// The number of the probe that the call is; 0 for any other call.
    probe: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Open { until: Instant },
    Probing { probe: u64 },
}

/// Lets calls through until the server has answered none of them for a time while one waited. Then
/// it lets none through for a pause, then one. Any answer closes it, however late.
///
/// It takes no lock while it is closed.
#[derive(Debug)]
pub(super) struct Breaker {
    silence: Silence,
    /// How long the server may be silent, in microseconds.
    patience_us: AtomicU64,
    pause: Duration,
    is_closed: AtomicBool,
    state: Mutex<State>,
    /// The number of probes so far.
    probes: AtomicU64,
}

impl Breaker {
    pub(super) fn new(patience: Duration, pause: Duration) -> Self {
        Self {
            silence: Silence::new(Instant::now()),
            patience_us: AtomicU64::new(in_us(patience)),
            pause,
            is_closed: AtomicBool::new(true),
            state: Mutex::new(State::Closed),
            probes: AtomicU64::new(0),
        }
    }

    /// How long the server may be silent while a call waits.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_micros(self.patience_us.load(Ordering::Relaxed))
    }

    /// The server may be silent at least this long.
    pub(super) fn allow(&self, patience: Duration) {
        self.patience_us.fetch_max(in_us(patience), Ordering::Relaxed);
    }

    /// Requests permission. The error is the time until the next probe; zero while one is in
    /// flight.
    pub(super) fn enter(&self, now: Instant) -> Result<Ticket, Duration> {
        let patience = self.patience();
        if self.is_closed.load(Ordering::Acquire) && self.silence.begin(now, patience) {
            return Ok(Ticket { probe: 0 });
        }
        let mut state = self.judged(now);
        match *state {
            State::Closed => {
                self.silence.begin_anyway(now, patience);
                Ok(Ticket { probe: 0 })
            }
            State::Open { until } if now >= until => {
                let probe = self.probes.fetch_add(1, Ordering::Relaxed) + 1;
                *state = State::Probing { probe };
                self.silence.begin_anyway(now, patience);
                Ok(Ticket { probe })
            }
            State::Open { until } => Err(until - now),
            State::Probing { .. } => Err(Duration::ZERO),
        }
    }

    /// Returns the permission.
    pub(super) fn leave(&self, ticket: Ticket, verdict: Verdict, now: Instant) {
        self.silence.end(verdict, now);
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        match verdict {
            Verdict::Answered if is_closed => {}
            Verdict::Answered => {
                *self.locked() = State::Closed;
                self.is_closed.store(true, Ordering::SeqCst);
            }
            // It may have been the last call, so that no other would find out.
            Verdict::Silent if is_closed => drop(self.judged(now)),
            Verdict::Silent => self.fail(ticket, now + self.pause),
            // The next call is the probe: another pause would punish the server for an impatient
            // caller.
            Verdict::Unclear => self.fail(ticket, now),
        }
    }

    /// The server took a new connection, and the next call may see whether it answers.
    pub(super) fn connected(&self, now: Instant) {
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.locked();
        if let State::Open { until } = &mut *state {
            *until = now.min(*until);
        }
    }

    /// The current state.
    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match *self.judged(now) {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing { .. } => BreakerState::HalfOpen,
        }
    }

    /// Opens it again until then, if this call is the probe.
    fn fail(&self, ticket: Ticket, until: Instant) {
        if ticket.probe == 0 {
            return;
        }
        let mut state = self.locked();
        if *state == (State::Probing { probe: ticket.probe }) {
            *state = State::Open { until };
        }
    }

    /// The state, after it was opened if the server has been silent for too long.
    fn judged(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.locked();
        if *state == State::Closed {
            // In this order, an answer at the same time is either seen here or closes it.
            self.is_closed.store(false, Ordering::SeqCst);
            if self.silence.has_lasted(now, self.patience()) {
                *state = State::Open { until: now + self.pause };
            } else {
                self.is_closed.store(true, Ordering::SeqCst);
            }
        }
        state
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(500);
    const MS: Duration = Duration::from_millis(1);

    fn closed() -> (Breaker, Instant) {
        (Breaker::new(PATIENCE, PAUSE), Instant::now())
    }

    /// A breaker that has just opened, with the call that has no answer.
    fn open() -> (Breaker, Instant, Ticket) {
        let (breaker, start) = closed();
        let waiting = breaker.enter(start).unwrap();
        let now = start + PATIENCE;
        assert_eq!(breaker.enter(now), Err(PAUSE));
        (breaker, now, waiting)
    }

    #[test]
    fn fifty_late_calls_are_one_stall() {
        let (breaker, start) = closed();
        let waiting: Vec<Ticket> = (0..50).map(|_| breaker.enter(start).unwrap()).collect();
        let almost = start + PATIENCE - MS;
        assert!(breaker.enter(almost).is_ok());
        for ticket in waiting {
            breaker.leave(ticket, Verdict::Answered, almost);
        }
        // The last one waits since the others were answered.
        assert_eq!(breaker.state(almost + PATIENCE - MS), BreakerState::Closed);
        assert_eq!(breaker.enter(almost + PATIENCE), Err(PAUSE));
        assert_eq!(breaker.state(almost + PATIENCE), BreakerState::Open);
    }

    #[test]
    fn it_is_measured_from_the_oldest_call_without_an_answer() {
        let (breaker, start) = closed();
        for ms in [0, 300, 600, 900] {
            assert!(breaker.enter(start + MS * ms).is_ok());
        }
        assert_eq!(breaker.enter(start + PATIENCE), Err(PAUSE));
    }

    #[test]
    fn idle_time_does_not_count() {
        let (breaker, start) = closed();
        for (hour, verdict) in (1..).zip([Verdict::Answered, Verdict::Unclear, Verdict::Silent]) {
            let now = start + PATIENCE * 3600 * hour;
            let ticket = breaker.enter(now).unwrap();
            breaker.leave(ticket, verdict, now + MS);
            assert_eq!(breaker.state(now + PATIENCE * 1800), BreakerState::Closed, "{verdict:?}");
        }
        assert!(breaker.enter(start + PATIENCE * 36_000).is_ok());
    }

    #[test]
    fn it_opens_for_a_server_that_cannot_be_reached() {
        let (breaker, start) = closed();
        for ms in (0..1000).step_by(100) {
            let ticket = breaker.enter(start + MS * ms).unwrap();
            breaker.leave(ticket, Verdict::Silent, start + MS * ms);
        }
        assert_eq!(breaker.enter(start + PATIENCE), Err(PAUSE));
    }

    #[test]
    fn a_call_that_was_never_answered_opens_it_at_its_end() {
        let (breaker, start) = closed();
        let ticket = breaker.enter(start).unwrap();
        breaker.leave(ticket, Verdict::Silent, start + PATIENCE);
        assert_eq!(breaker.enter(start + PATIENCE + MS), Err(PAUSE - MS));
    }

    #[test]
    fn one_probe_goes_through_and_decides() {
        let (breaker, now, _) = open();
        let later = now + PAUSE;
        let probe = breaker.enter(later).unwrap();
        assert_eq!(breaker.enter(later), Err(Duration::ZERO), "only one");
        assert_eq!(breaker.state(later), BreakerState::HalfOpen);
        breaker.leave(probe, Verdict::Silent, later);
        assert_eq!(breaker.enter(later), Err(PAUSE));
        let probe = breaker.enter(later + PAUSE).unwrap();
        breaker.leave(probe, Verdict::Answered, later + PAUSE);
        assert!(breaker.enter(later + PAUSE).is_ok());
        assert!(breaker.enter(later + PAUSE).is_ok());
    }

    #[test]
    fn a_dropped_probe_makes_room_for_the_next() {
        let (breaker, now, _) = open();
        let probe = breaker.enter(now + PAUSE).unwrap();
        breaker.leave(probe, Verdict::Unclear, now + PAUSE);
        assert!(breaker.enter(now + PAUSE).is_ok());
    }

    #[test]
    fn a_late_answer_closes_it_and_a_late_silence_is_no_probe() {
        let (breaker, now, late) = open();
        let probe = breaker.enter(now + PAUSE).unwrap();
        breaker.leave(late, Verdict::Silent, now + PAUSE);
        assert_eq!(breaker.state(now + PAUSE), BreakerState::HalfOpen, "the probe decides");
        breaker.leave(probe, Verdict::Silent, now + PAUSE);
        let (breaker, now, late) = open();
        breaker.leave(late, Verdict::Answered, now + MS);
        assert_eq!(breaker.state(now + MS), BreakerState::Closed);
        assert!(breaker.enter(now + MS).is_ok());
    }

    #[test]
    fn a_new_connection_ends_the_pause() {
        let (breaker, now, _) = open();
        breaker.connected(now + MS);
        assert!(breaker.enter(now + MS).is_ok());
        assert_eq!(breaker.enter(now + MS), Err(Duration::ZERO), "it is the probe");
    }
}
