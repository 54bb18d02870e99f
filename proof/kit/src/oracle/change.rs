//! The units that are carried over when a limit's numbers change (section 6).

use super::count::{Count, RateState};
use super::level::{Greedy, Interval};
use super::rule::{MOST_UNITS, Rounding, Rule};
use super::windows::{Fixed, Log, Sliding, Windows};

/// The units that `old` counts, as the new `rule` counts them. The state was settled at `now`:
/// repaired under its own numbers where the clock had stepped back, and `at` is the time at which
/// it is judged. Nothing where the rules are of two strategies.
pub(super) fn carried(
    (old, most_before): (&RateState, i128),
    (rule, most): (Rule, i128),
    grouped: bool,
    now: i128,
    at: i128,
) -> RateState {
    let mut new = RateState::fresh(rule, most, grouped);
    match (old, &mut new) {
        (RateState::Greedy(old), RateState::Greedy(new)) => new.carry(old, now),
        (RateState::Interval(old), RateState::Interval(new)) if old.d == new.d => {
            new.carry(old, at);
        }
        (
            RateState::Greedy(_) | RateState::Interval(_),
            RateState::Greedy(_) | RateState::Interval(_),
        ) => {
            let used = old.count().used(at);
            let units = ceil(used.parts, used.per_unit).min(most_before).min(most);
            if units > 0 {
                new.count_mut().charge(now, units);
            }
        }
        (RateState::Fixed(old), RateState::Fixed(new)) if old.same_windows(new) => new.carry(old),
        (RateState::Log(old), RateState::Log(new)) => new.carry(old),
        (RateState::Sliding(old), RateState::Sliding(new)) if old.same_buckets(new) => {
            new.carry(old);
        }
        (RateState::Fixed(_), RateState::Fixed(_))
        | (RateState::Sliding(_), RateState::Sliding(_)) => {
            let used = old.count().used(at);
            let units = ceil(used.parts, used.per_unit).min(MOST_UNITS);
            if units > 0 {
                new.count_mut().charge(at, units);
            }
        }
        _ => {}
    }
    new
}

fn ceil(parts: i128, per_unit: i128) -> i128 {
    -(-parts).div_euclid(per_unit)
}

impl Rule {
    /// When a charge of `cost` that was counted at `at_us` no longer counts under these numbers
    /// (section 4), in microseconds. A window that opens at its first hit opens at the charge, if
    /// not before.
    #[must_use]
    pub fn counts_until(&self, at_us: u64, cost: u64) -> u64 {
        let (at, cost) = (i128::from(at_us), i128::from(cost));
        let multiple = |d_us: u64| (at.div_euclid(d_us.into()) + 1) * i128::from(d_us);
        let until = match *self {
            Self::Greedy { n, d_us, .. } => at + ceil(cost * i128::from(d_us), n.into()),
            Self::Interval { d_us, .. } | Self::FixedEpoch { d_us, .. } => multiple(d_us),
            Self::Dates { edges, .. } => {
                let us = edges.iter().map(|edge| i128::from(*edge) * 1_000_000);
                us.into_iter().find(|edge| *edge > at).unwrap_or(i128::MAX)
            }
            Self::FixedFirstHit { d_us, .. } | Self::Log { d_us, .. } => at + i128::from(d_us),
            Self::Window { d_us, precision_us, rounding, .. } => {
                let first = at.div_euclid(precision_us.into()) * i128::from(precision_us);
                let straddles = rounding != Rounding::Truncate;
                first + i128::from(d_us) + if straddles { i128::from(precision_us) } else { 0 }
            }
        };
        super::whole(until)
    }
}

impl Greedy {
    /// The whole units, and the part of one, in the new time of a unit.
    fn carry(&mut self, old: &Self, now: i128) {
        let used = old.used(now);
        if used.parts == 0 {
            return;
        }
        if old.n * self.d == self.n * old.d {
            // The same time: nothing is rounded.
            (self.n, self.d) = (old.n, old.d);
            self.owe(used.parts.min(self.most * self.d), now);
            return;
        }
        let (units, rest) = (used.parts.div_euclid(old.d), used.parts.rem_euclid(old.d));
        let rest_us = ceil(rest * self.d, old.d * self.n);
        let parts = units.min(self.most) * self.d + rest_us * self.n;
        self.owe(parts.min(self.most * self.d), now);
    }
}

impl Interval {
    fn carry(&mut self, old: &Self, at: i128) {
        let missing = old.missing(at).min(self.most);
        if missing > 0 {
            self.write(at, missing);
        }
    }
}

impl Fixed {
    fn same_windows(&self, other: &Self) -> bool {
        match (self.windows, other.windows) {
            // The edges may have moved.
            (Windows::Dates { kind, .. }, Windows::Dates { kind: other, .. }) => kind == other,
            (own, other) => own == other,
        }
    }

    fn carry(&mut self, old: &Self) {
        (self.written, self.events) = (old.written, old.events.clone());
    }
}

impl Log {
    fn carry(&mut self, old: &Self) {
        self.events = old.events.clone();
    }
}

impl Sliding {
    fn same_buckets(&self, other: &Self) -> bool {
        self.p == other.p && self.b == other.b
    }

    fn carry(&mut self, old: &Self) {
        self.events = old.events.clone();
    }
}
