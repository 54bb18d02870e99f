//! The answer that each strategy must give about itself, and the search for a wait.

use super::level::{Greedy, Interval};
use super::rule::Rule;
use super::windows::{Fixed, Log, Sliding, Windows};

/// A backward step of at most this is skew, no step (section 3), in microseconds.
pub(super) const SKEW_US: i128 = 1_000_000;

/// `used` of section 2, as a fraction: `parts / per_unit` units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) parts: i128,
    pub(super) per_unit: i128,
}

/// One row of each table of the definitions. Times are in microseconds, `t` is a time that
/// [`Count::settle`] or [`Count::judged`] returned.
pub(super) trait Count {
    /// The capacity of a fresh subject.
    fn limit(&self) -> i128;

    /// The units that count against the limit at `t`.
    fn used(&self, t: i128) -> Used;

    /// The newest time the state holds; `None` for a fresh one and for the greedy strategies.
    fn newest(&self) -> Option<i128>;

    /// Section 3: carries what counted at `newest` to `now`.
    fn repair(&mut self, now: i128);

    /// An event of `cost` at `t`. Forgets what can never count again: from here on, no question is
    /// judged before `newest`.
    fn charge(&mut self, t: i128, cost: i128);

    /// Section 4: `units` of a charge counted at `at`, when `left` were not given back before.
    fn refund(&mut self, t: i128, at: i128, left: i128, units: i128);

    /// Section 5: gives `units` back, the oldest that count first.
    fn grant(&mut self, t: i128, units: i128);

    /// Repairs the state when the clock has stepped back, and returns the time at which a question
    /// asked at `now` is judged.
    fn settle(&mut self, now: i128) -> i128 {
        if self.repair_due(now) {
            self.repair(now);
        }
        self.judged(now)
    }

    /// Whether the clock has stepped back.
    fn repair_due(&self, now: i128) -> bool {
        self.newest().is_some_and(|newest| newest - now > SKEW_US)
    }

    /// The time at which a question at `now` is judged, when no repair is due.
    fn judged(&self, now: i128) -> i128 {
        self.newest().map_or(now, |newest| newest.max(now))
    }
}

/// The state of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RateState {
    Greedy(Greedy),
    Interval(Interval),
    Fixed(Fixed),
    Log(Log),
    Sliding(Sliding),
}

impl RateState {
    pub(super) fn fresh(rule: Rule, most: i128, grouped: bool) -> Self {
        match rule {
            Rule::Greedy { n, d_us, burst } => Self::Greedy(Greedy {
                n: n.into(),
                d: d_us.into(),
                burst: burst.into(),
                most,
                backlog: None,
            }),
            Rule::Interval { n, d_us, burst } => Self::Interval(Interval {
                n: n.into(),
                d: d_us.into(),
                burst: burst.into(),
                most,
                missing: None,
            }),
            Rule::FixedEpoch { n, d_us } => {
                Self::Fixed(Fixed::fresh(n, Windows::Epoch(d_us.into()), grouped))
            }
            Rule::FixedFirstHit { n, d_us } => {
                Self::Fixed(Fixed::fresh(n, Windows::FirstHit(d_us.into()), grouped))
            }
            Rule::Dates { n, d_us: kind, edges } => {
                Self::Fixed(Fixed::fresh(n, Windows::Dates { kind, edges }, grouped))
            }
            Rule::Log { n, d_us } => Self::Log(Log::fresh(n, d_us, grouped)),
            Rule::Window { n, d_us, precision_us, rounding } => {
                Self::Sliding(Sliding::fresh(n, d_us, precision_us, rounding, grouped))
            }
        }
    }

    pub(super) fn count(&self) -> &dyn Count {
        match self {
            Self::Greedy(it) => it,
            Self::Interval(it) => it,
            Self::Fixed(it) => it,
            Self::Log(it) => it,
            Self::Sliding(it) => it,
        }
    }

    pub(super) fn count_mut(&mut self) -> &mut dyn Count {
        match self {
            Self::Greedy(it) => it,
            Self::Interval(it) => it,
            Self::Fixed(it) => it,
            Self::Log(it) => it,
            Self::Sliding(it) => it,
        }
    }
}

/// `a / b`, rounded down. The machine divides 64 bits much faster than 128, and nearly every number
/// here is small enough for that.
pub(super) fn floor_div(a: i128, b: i128) -> i128 {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => a.div_euclid(b).into(),
        _ => a.div_euclid(b),
    }
}

/// No wait of an accepted rule reaches this: the longest is an interval refill below 2^63 us, and
/// skew adds a second.
const LONGEST_WAIT_US: i128 = 1 << 64;

/// The least wait, in whole microseconds from 0 up, after which `holds` is true. Without other
/// events `used` only falls, so once true it stays true: a guess that works, while a microsecond
/// less does not, is the shortest. Otherwise take 256 times as much until true, then halve the gap.
/// (Doubling asks nearly twice as often: most waits are long.)
pub(super) fn least_wait(guess_us: u64, holds: impl Fn(i128) -> bool) -> i128 {
    let guess = i128::from(guess_us);
    if holds(guess) && (guess == 0 || !holds(guess - 1)) {
        return guess;
    }
    if guess != 0 && holds(0) {
        return 0;
    }
    let (mut not_yet, mut enough) = (0, 1);
    while enough < LONGEST_WAIT_US && !holds(enough) {
        not_yet = enough;
        enough *= 256;
    }
    while enough - not_yet > 1 {
        let middle = not_yet + (enough - not_yet) / 2;
        if holds(middle) {
            enough = middle;
        } else {
            not_yet = middle;
        }
    }
    enough
}
