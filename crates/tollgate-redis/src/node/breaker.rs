//! The circuit breaker: callers do not wait for a server that does not answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of the circuit breaker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls go to the server.
    Closed,
    /// The server has failed several times in a row: no call is sent until a pause is over.
    Open,
    /// The pause is over, and one call probes the server.
    HalfOpen,
}

/// What a call showed about the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It answered, even if with an error.
    Answered,
    /// It did not answer in time, or could not be reached.
    Silent,
    /// Neither: the connection broke, or the call was dropped or never sent.
    Unclear,
}

/// Permission for a call, returned with the verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    /// A verdict on a call from before the last change of state is ignored.
    epoch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    Probing,
}

/// Lets calls through until several in a row fail, then none for a pause, then one. It reads no
/// clock: the caller passes a monotonic `now`.
#[derive(Debug)]
pub(super) struct Breaker {
    most: u32,
    pause: Duration,
    state: State,
    epoch: u64,
}

impl Breaker {
    pub(super) fn new(most: u32, pause: Duration) -> Self {
        Self { most, pause, state: State::Closed { failures: 0 }, epoch: 0 }
    }

    /// Requests permission. The error is the time until the next probe; zero while one is in
    /// flight.
    pub(super) fn enter(&mut self, now: Instant) -> Result<Ticket, Duration> {
        match self.state {
            State::Closed { .. } => {}
            State::Open { until } if now >= until => self.change(State::Probing),
            State::Open { until } => return Err(until - now),
            State::Probing => return Err(Duration::ZERO),
        }
        Ok(Ticket { epoch: self.epoch })
    }

    /// Returns the permission.
    pub(super) fn leave(&mut self, ticket: Ticket, verdict: Verdict, now: Instant) {
        if ticket.epoch != self.epoch {
            return;
        }
        match (self.state, verdict) {
            (State::Closed { .. }, Verdict::Answered) => {
                self.state = State::Closed { failures: 0 };
            }
            (State::Closed { failures }, Verdict::Silent) if failures + 1 < self.most => {
                self.state = State::Closed { failures: failures + 1 };
            }
            (State::Closed { .. }, Verdict::Silent) | (State::Probing, Verdict::Silent) => {
                self.change(State::Open { until: now + self.pause });
            }
            (State::Probing, Verdict::Answered) => self.change(State::Closed { failures: 0 }),
            // The next call is the probe: another pause would punish the server for an impatient
            // caller.
            (State::Probing, Verdict::Unclear) => self.change(State::Open { until: now }),
            (State::Closed { .. }, Verdict::Unclear) | (State::Open { .. }, _) => {}
        }
    }

    /// The epoch while it is closed without a failure, else [`TROUBLED`].
    fn calm(&self) -> u64 {
        match self.state {
            State::Closed { failures: 0 } => self.epoch,
            _ => TROUBLED,
        }
    }

    fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing => BreakerState::HalfOpen,
        }
    }

    fn change(&mut self, state: State) {
        self.state = state;
        self.epoch = self.epoch.wrapping_add(1);
    }
}

/// A breaker for concurrent callers. It takes no lock while there are no failures.
#[derive(Debug)]
pub(super) struct SharedBreaker {
    breaker: Mutex<Breaker>,
    /// The epoch while it is closed without a failure, else [`TROUBLED`].
    calm: AtomicU64,
}

/// Never an epoch, since those count from 0.
const TROUBLED: u64 = u64::MAX;

impl SharedBreaker {
    pub(super) fn new(breaker: Breaker) -> Self {
        let calm = AtomicU64::new(breaker.calm());
        Self { breaker: Mutex::new(breaker), calm }
    }

    /// As [`Breaker::enter`].
    pub(super) fn enter(&self, now: Instant) -> Result<Ticket, Duration> {
        let epoch = self.calm.load(Ordering::Acquire);
        if epoch != TROUBLED {
            return Ok(Ticket { epoch });
        }
        self.locked(|breaker| breaker.enter(now))
    }

    /// As [`Breaker::leave`].
    pub(super) fn leave(&self, ticket: Ticket, verdict: Verdict) {
        // In this state an answer or an unclear verdict changes nothing.
        let calm = self.calm.load(Ordering::Acquire) == ticket.epoch;
        if !calm || verdict == Verdict::Silent {
            self.locked(|breaker| breaker.leave(ticket, verdict, Instant::now()));
        }
    }

    /// The current state.
    pub(super) fn state(&self) -> BreakerState {
        self.locked(|breaker| breaker.state())
    }

    fn locked<T>(&self, change: impl FnOnce(&mut Breaker) -> T) -> T {
        // A panic cannot leave the breaker half-changed.
        let mut breaker: MutexGuard<'_, Breaker> =
            self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut breaker);
        self.calm.store(breaker.calm(), Ordering::Release);
        answer
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(500);

    /// A breaker for two failures that has just opened.
    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(2, PAUSE);
        for _ in 0..2 {
            let ticket = breaker.enter(now).unwrap();
            breaker.leave(ticket, Verdict::Silent, now);
        }
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(2, PAUSE);
        for verdict in [Verdict::Silent, Verdict::Answered, Verdict::Silent, Verdict::Unclear] {
            let ticket = breaker.enter(now).unwrap();
            breaker.leave(ticket, verdict, now);
        }
        let ticket = breaker.enter(now).unwrap();
        breaker.leave(ticket, Verdict::Silent, now);
        assert_eq!(breaker.enter(now), Err(PAUSE));
    }

    #[test]
    fn one_probe_goes_through_and_decides() {
        let start = Instant::now();
        let mut breaker = open(start);
        let later = start + PAUSE;
        let probe = breaker.enter(later).unwrap();
        assert_eq!(breaker.enter(later), Err(Duration::ZERO), "only one");
        breaker.leave(probe, Verdict::Silent, later);
        assert_eq!(breaker.enter(later), Err(PAUSE));
        let probe = breaker.enter(later + PAUSE).unwrap();
        breaker.leave(probe, Verdict::Answered, later + PAUSE);
        assert!(breaker.enter(later + PAUSE).is_ok());
        assert!(breaker.enter(later + PAUSE).is_ok());
    }

    #[test]
    fn a_dropped_probe_makes_room_for_the_next() {
        let start = Instant::now();
        let mut breaker = open(start);
        let probe = breaker.enter(start + PAUSE).unwrap();
        breaker.leave(probe, Verdict::Unclear, start + PAUSE);
        assert!(breaker.enter(start + PAUSE).is_ok());
    }

    #[test]
    fn late_verdicts_change_nothing() {
        let start = Instant::now();
        let mut breaker = Breaker::new(1, PAUSE);
        let [early, other] = [breaker.enter(start).unwrap(), breaker.enter(start).unwrap()];
        breaker.leave(other, Verdict::Silent, start);
        breaker.leave(early, Verdict::Answered, start);
        assert_eq!(breaker.enter(start), Err(PAUSE), "an answer from before it opened");
        let probe = breaker.enter(start + PAUSE).unwrap();
        breaker.leave(early, Verdict::Silent, start + PAUSE);
        breaker.leave(probe, Verdict::Answered, start + PAUSE);
        breaker.leave(early, Verdict::Silent, start + PAUSE);
        assert!(breaker.enter(start + PAUSE).is_ok());
    }

    #[test]
    fn shared_it_opens_and_closes_as_alone() {
        let start = Instant::now();
        let shared = SharedBreaker::new(Breaker::new(2, Duration::ZERO));
        assert_eq!(shared.state(), BreakerState::Closed);
        let early = shared.enter(start).unwrap();
        for verdict in [Verdict::Silent, Verdict::Answered, Verdict::Silent] {
            shared.leave(shared.enter(start).unwrap(), verdict);
        }
        assert_ne!(shared.calm.load(Ordering::Relaxed), early.epoch, "a failure is counted");
        assert_eq!(shared.state(), BreakerState::Closed, "one failure of two");
        shared.leave(early, Verdict::Silent);
        assert_eq!(shared.state(), BreakerState::Open);
        let probe = shared.enter(Instant::now()).unwrap();
        assert_eq!(shared.state(), BreakerState::HalfOpen);
        assert_eq!(shared.enter(Instant::now()), Err(Duration::ZERO), "one probe");
        shared.leave(early, Verdict::Answered);
        assert_eq!(shared.enter(Instant::now()), Err(Duration::ZERO), "still one");
        shared.leave(probe, Verdict::Answered);
        assert_eq!(shared.calm.load(Ordering::Relaxed), probe.epoch + 1);
        assert!(shared.enter(Instant::now()).is_ok());
        assert_eq!(shared.state(), BreakerState::Closed);
    }
}
