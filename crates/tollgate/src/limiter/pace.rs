//! The earliest time of the next admission, as far as an admission shows it.

use core::time::Duration;
use std::collections::VecDeque;

use crate::limit::{LimitKind, Refill};
use crate::{Decision, Report, Strategy};

/// A window of more units than this is not followed.
const LONGEST: u64 = 1024;

/// The time before which no check of the same cost can be admitted, learned from the admissions of
/// one caller for the same subjects. Callers that wait in turn save a question by it: without it,
/// each has to be denied once, only to learn its wait.
///
/// The time is exact for `uniform`, `fixed_window`, `gcra` and `token_bucket`. For `sliding_log`
/// and `sliding_window` it is a lower bound: others may have charged as well. As after a denial, a
/// refund in the meantime allows an earlier one.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Pace};
/// let limiter = Limiter::memory("1/10s via gcra".parse()?);
/// let wait = Pace::new().admitted(&limiter.check("api").now()?);
/// assert_eq!(wait, Duration::from_secs(10));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// The time of each admission and its cost, the oldest first.
    recent: VecDeque<(u64, u64)>,
}

impl Pace {
    /// Without any admission.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an admission. Returns how long after it the next check of the same cost can be
    /// admitted, at the earliest.
    pub fn admitted(&mut self, decision: &Decision<'_>) -> Duration {
        let (at, cost) = (decision.at().as_micros(), decision.granted());
        let windows = decision.reports().filter(|it| is_followed(it));
        let longest = windows.map(|it| it.limit().quota().period.as_micros()).max();
        match longest {
            Some(longest) => {
                self.recent.push_back((at, cost));
                while self.recent.front().is_some_and(|(old, _)| old.saturating_add(longest) <= at)
                {
                    self.recent.pop_front();
                }
            }
            None => self.recent.clear(),
        }
        let waits = decision.reports().map(|report| self.wait(&report, at, cost));
        Duration::from_micros(waits.max().unwrap_or(0))
    }

    /// The least wait by one limit, in microseconds.
    fn wait(&self, report: &Report<'_>, at: u64, cost: u64) -> u64 {
        let limit = report.limit();
        if limit.kind() != LimitKind::Rate || !limit.counts_requests() || report.remaining() >= cost
        {
            return 0;
        }
        let reset = u64::try_from(report.reset_after().as_micros()).unwrap_or(u64::MAX);
        let (quota, capacity) = (limit.quota(), limit.capacity());
        match limit.strategy() {
            Strategy::Uniform | Strategy::FixedWindow => reset,
            Strategy::TokenBucket if quota.refill == Some(Refill::Interval) => 0,
            Strategy::Gcra | Strategy::TokenBucket => {
                // All but the cost may still be missing then.
                let missing = u128::from(capacity.saturating_sub(cost));
                let gap = missing * u128::from(quota.period.as_micros()) / u128::from(quota.units);
                reset.saturating_sub(u64::try_from(gap).unwrap_or(u64::MAX))
            }
            _ => self.wait_of_window(quota.period.as_micros(), capacity, at, cost),
        }
    }

    /// The wait until so much left a window that the cost fits, of our own units alone.
    fn wait_of_window(&self, period: u64, capacity: u64, at: u64, cost: u64) -> u64 {
        let mut units = 0;
        for (when, charged) in self.recent.iter().rev() {
            units += charged;
            if units + cost > capacity {
                return when.saturating_add(period).saturating_sub(at);
            }
        }
        0
    }
}

/// Whether the units of a window are few enough to know the time of each.
fn is_followed(report: &Report<'_>) -> bool {
    let limit = report.limit();
    limit.counts_requests()
        && limit.capacity() <= LONGEST
        && matches!(limit.strategy(), Strategy::SlidingLog | Strategy::SlidingWindow)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use crate::{Ask, Limiter, ManualClock, MemoryStore};

    /// Asks for each cost as early as the pace says, and returns how many of the questions were
    /// denied, and how many waits were shorter than what the limits say.
    fn run(limits: &str, costs: &[u64]) -> (usize, usize) {
        let clock = ManualClock::at_micros(1_000_000_007);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(limits.parse().unwrap(), store);
        let (mut pace, mut denied, mut short) = (Pace::new(), 0, 0);
        for round in 0..40 {
            let cost = costs[round % costs.len()];
            let ask = || Ask::new("api").cost(cost);
            let mut decision = limiter.check(ask()).now().unwrap();
            if let Some(wait) = decision.retry_after() {
                denied += 1;
                clock.advance(wait);
                decision = limiter.check(ask()).now().unwrap();
            }
            assert!(decision.is_allowed(), "{limits}: {decision}");
            let wait = pace.admitted(&decision);
            let again = limiter.check(ask().peek()).now().unwrap();
            let exact = again.retry_after().unwrap_or_default();
            // A part of a microsecond is rounded up.
            let most = exact + Duration::from_micros(1);
            assert!(wait <= most, "{limits}: {wait:?} is more than {exact:?}");
            short += usize::from(wait < exact);
            clock.advance(wait);
        }
        (denied, short)
    }

    #[test]
    fn the_next_admission_is_known_and_never_too_late() {
        for limits in [
            "3/10ms via uniform",
            "3/10ms via gcra",
            "3/10ms via gcra burst 7",
            "7/10ms via token_bucket",
            "3/10ms via fixed_window",
            "3/10ms via fixed_window anchor first-hit",
            "3/10ms via sliding_log",
            "3/10ms, 5/40ms via sliding_log",
            "3/10ms via gcra, 5/40ms via sliding_log",
        ] {
            assert_eq!(run(limits, &[1]), (0, 0), "{limits}");
        }
        // A bucket holds at least two.
        for limits in ["3/10ms via gcra", "7/10ms via token_bucket", "3/10ms via sliding_log"] {
            assert_eq!(run(limits, &[2]), (0, 0), "{limits}");
        }
    }

    #[test]
    fn where_it_is_not_known_the_wait_is_shorter() {
        for limits in
            ["3/10ms via sliding_window precision 2ms", "3/10ms via token_bucket refill interval"]
        {
            let (denied, _) = run(limits, &[1]);
            assert!(denied > 0, "{limits}");
        }
        // Other costs, slots and the units of others.
        run("5/10ms via sliding_log", &[1, 2, 3]);
        run("5/10ms via gcra", &[3, 1, 2]);
        let limiter = Limiter::memory("2/h via sliding_log".parse().unwrap());
        drop(limiter.check("api").now().unwrap());
        let second = limiter.check("api").now().unwrap();
        assert_eq!((second.remaining(), Pace::new().admitted(&second)), (0, Duration::ZERO));
    }

    #[test]
    fn what_left_the_longest_window_is_forgotten() {
        let clock = ManualClock::at_micros(1_000_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new("100/1ms via sliding_log".parse().unwrap(), store);
        let mut pace = Pace::new();
        for _ in 0..50 {
            pace.admitted(&limiter.check("api").now().unwrap());
            clock.advance(Duration::from_micros(100));
        }
        assert!(pace.recent.len() <= 10, "{}", pace.recent.len());
    }
}
