//! When to log a problem: when it begins and when it ends, not while it lasts.

use std::time::{Duration, Instant};

/// The shortest interval between two logged beginnings of a problem that comes and goes.
const SELDOM: Duration = Duration::from_secs(60);

/// The state that was logged last.
#[derive(Debug, Default)]
pub(super) struct Transitions {
    now: Option<Health>,
    last_bad: Option<Instant>,
}

/// The current health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    Good,
    Bad,
}

impl Transitions {
    /// An initial state of good health, which is not logged.
    pub(super) fn healthy() -> Self {
        Self { now: Some(Health::Good), last_bad: None }
    }

    /// Whether to log this state at this time.
    pub(super) fn is_new(&mut self, health: Health, at: Instant) -> bool {
        let is_soon =
            || self.last_bad.is_some_and(|last| at.saturating_duration_since(last) < SELDOM);
        if self.now == Some(health) || health == Health::Bad && is_soon() {
            return false;
        }
        self.now = Some(health);
        if health == Health::Bad {
            self.last_bad = Some(at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_what_ends_is_new() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut told = Transitions::default();
        for (seconds, health, is_new) in [
            (0, Health::Bad, true),
            (1, Health::Bad, false),
            (2, Health::Good, true),
            (3, Health::Good, false),
            // A problem that comes and goes is logged once a minute.
            (4, Health::Bad, false),
            (5, Health::Good, false),
            (59, Health::Bad, false),
            (60, Health::Bad, true),
            (61, Health::Good, true),
            (200, Health::Bad, true),
        ] {
            assert_eq!(told.is_new(health, at(seconds)), is_new, "{seconds} s");
        }
        assert!(Transitions::default().is_new(Health::Good, start), "the first word");
        assert!(!Transitions::healthy().is_new(Health::Good, start));
        assert!(Transitions::healthy().is_new(Health::Bad, start));
    }
}
