//! The slot that `run` keeps while its command runs.

use std::time::{Duration, Instant};

use tollgate::{Hold, Period};

use crate::show::{duration, say};
use crate::store::BlockingLimiter;

/// The shortest pause between two attempts to renew.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// A taken slot. It is renewed at a third of its hold, so that two renewals may fail.
pub(super) struct Slot<'c> {
    counter: &'c BlockingLimiter,
    hold: Hold,
    /// How long a hold lasts.
    lasts: Duration,
    /// Until when it is open for certain, by this machine's clock.
    until: Instant,
    /// The last report about it.
    said: Said,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Nothing,
    /// That it cannot be renewed.
    Failing,
    /// That others may have it.
    Gone,
}

impl<'c> Slot<'c> {
    /// A slot whose hold was asked for at this time.
    pub(super) fn new(counter: &'c BlockingLimiter, hold: Hold, asked: Instant) -> Self {
        let lasts = hold.counts.iter().filter_map(|(_, limits)| limits.hold()).min();
        let lasts = lasts.map_or(Duration::ZERO, Period::as_duration);
        Self { counter, hold, lasts, until: asked + lasts, said: Said::Nothing }
    }

    /// The number that is larger than that of every earlier hold.
    pub(super) fn fence(&self) -> u64 {
        self.hold.fence
    }

    /// When to renew it first.
    pub(super) fn pause(&self) -> Option<Duration> {
        Some((self.lasts / 3).max(SHORTEST_PAUSE))
    }

    /// Renews it. Returns the pause until the next renewal; `None` when it is gone.
    pub(super) fn tend(&mut self) -> Option<Duration> {
        self.counter.catch_up();
        let asked = Instant::now();
        match self.counter.wait(self.counter.limiter.renew(&mut self.hold, None)) {
            Ok(true) => {
                self.until = asked + self.lasts;
                self.said = Said::Nothing;
                self.pause()
            }
            Ok(false) => {
                self.say_gone("its hold had ended before it was renewed, or it was reset");
                None
            }
            Err(error) => {
                let left = self.until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    self.say_gone(&format!("it could not be renewed in time ({error})"));
                } else if self.said < Said::Failing {
                    self.said = Said::Failing;
                    let (subjects, left) = (self.subjects(), duration(left));
                    say(&format!(
                        "warning: the slot of {subjects} cannot be renewed, and ends in {left}: {error}"
                    ));
                }
                Some((self.lasts / 12).max(SHORTEST_PAUSE))
            }
        }
    }

    /// Gives it back. Errors are reported; nobody waits for it.
    pub(super) fn release(mut self) {
        self.counter.catch_up();
        match self.counter.wait(self.counter.limiter.release(&self.hold)) {
            Ok(true) => {}
            Ok(false) => self.say_gone("its hold had ended, or it was reset"),
            Err(error) => {
                let (subjects, lasts) = (self.subjects(), duration(self.lasts));
                say(&format!(
                    "warning: the slot of {subjects} could not be given back, and comes back by \
                     itself within {lasts}: {error}"
                ));
            }
        }
    }

    fn say_gone(&mut self, why: &str) {
        if self.said == Said::Gone {
            return;
        }
        self.said = Said::Gone;
        say(&format!(
            "error: THE SLOT OF {} IS GONE: {why}. The command still runs, and others may run at \
             the same time; a resource that compares TOLLGATE_FENCE ({}) can refuse it",
            self.subjects(),
            self.hold.fence
        ));
    }

    fn subjects(&self) -> String {
        let each = self.hold.counts.iter().map(|(subject, _)| subject.to_string());
        each.collect::<Vec<_>>().join(" and ")
    }
}
