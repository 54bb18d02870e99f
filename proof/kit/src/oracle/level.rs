//! The strategies whose state is a level: greedy refill (`uniform`, `gcra`, `token_bucket`) and
//! `token_bucket` with `refill interval`.

use super::count::{Count, SKEW_US, Used, floor_div};

/// `backlog / T` units are used; `backlog` shrinks by 1 us each us. Kept as `backlog * n`, which is
/// `used` in parts of `1/d` of a unit: a unit is `d` parts, and `n` parts come back each
/// microsecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greedy {
    pub(super) n: i128,
    pub(super) d: i128,
    pub(super) burst: i128,
    /// The most units that can be used.
    pub(super) most: i128,
    pub(super) backlog: Option<Backlog>,
}

/// A backlog of `parts` at the time `as_of`, when it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) parts: i128,
    pub(super) as_of: i128,
}

impl Greedy {
    /// Owes `parts` from `now` on.
    pub(super) fn owe(&mut self, parts: i128, now: i128) {
        self.backlog = Some(Backlog { parts, as_of: now });
    }

    /// At most this many units are used.
    pub(super) fn cut(&mut self, most: i128) {
        if let Some(backlog) = &mut self.backlog {
            backlog.parts = backlog.parts.min(most * self.d);
        }
    }

    fn parts(&self, t: i128) -> i128 {
        self.backlog.map_or(0, |backlog| (backlog.parts - (t - backlog.as_of) * self.n).max(0))
    }
}

impl Count for Greedy {
    fn limit(&self) -> i128 {
        self.burst
    }

    fn used(&self, t: i128) -> Used {
        Used { parts: self.parts(t), per_unit: self.d }
    }

    fn newest(&self) -> Option<i128> {
        None
    }

    fn repair_due(&self, now: i128) -> bool {
        self.backlog.is_some_and(|backlog| backlog.as_of > now)
    }

    /// A step back by J makes the backlog larger by J, up to `most*T`.
    fn repair(&mut self, now: i128) {
        if let Some(backlog) = &mut self.backlog {
            let grown = backlog.parts + (backlog.as_of - now) * self.n;
            *backlog = Backlog { parts: grown.min(self.most * self.d), as_of: now };
        }
    }

    fn charge(&mut self, t: i128, cost: i128) {
        self.backlog = Some(Backlog { parts: self.parts(t) + cost * self.d, as_of: t });
    }

    /// `cost*T - (now - at)`. A receipt from more than a second ahead of the clock was counted
    /// before a step back, and how much of it has come back since is not known: it gives nothing.
    fn refund(&mut self, t: i128, at: i128, left: i128, units: i128) {
        if at - t > SKEW_US {
            return;
        }
        let still_counts =
            |cost: i128| (cost.min(self.most) * self.d - (t - at).max(0) * self.n).max(0);
        let given = (still_counts(left) - still_counts(left - units)).min(self.parts(t));
        if given > 0 {
            self.backlog = Some(Backlog { parts: self.parts(t) - given, as_of: t });
        }
    }

    fn grant(&mut self, t: i128, units: i128) {
        let given = (units * self.d).min(self.parts(t));
        if given > 0 {
            self.backlog = Some(Backlog { parts: self.parts(t) - given, as_of: t });
        }
    }
}

/// `missing` units are used; at each multiple of `d` it shrinks by `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) n: i128,
    pub(super) d: i128,
    pub(super) burst: i128,
    /// The most units that can be used.
    pub(super) most: i128,
    pub(super) missing: Option<Missing>,
}

/// `units` were missing after the refill at the multiple `refilled * d`, when last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) units: i128,
    pub(super) refilled: i128,
}

impl Interval {
    pub(super) fn missing(&self, t: i128) -> i128 {
        self.missing.map_or(0, |missing| {
            let refills = floor_div(t, self.d) - missing.refilled;
            (missing.units - refills * self.n).max(0)
        })
    }

    /// At most this many units are missing.
    pub(super) fn cut(&mut self, most: i128) {
        if let Some(missing) = &mut self.missing {
            missing.units = missing.units.min(most);
        }
    }

    pub(super) fn write(&mut self, t: i128, units: i128) {
        self.missing = Some(Missing { units, refilled: floor_div(t, self.d) });
    }
}

impl Count for Interval {
    fn limit(&self) -> i128 {
        self.burst
    }

    fn used(&self, t: i128) -> Used {
        Used { parts: self.missing(t), per_unit: 1 }
    }

    fn newest(&self) -> Option<i128> {
        self.missing.map(|missing| missing.refilled * self.d)
    }

    fn repair(&mut self, now: i128) {
        if let Some(missing) = &mut self.missing {
            missing.refilled = floor_div(now, self.d);
        }
    }

    fn charge(&mut self, t: i128, cost: i128) {
        self.write(t, self.missing(t) + cost);
    }

    /// Only within the interval of the charge. (A receipt from a later interval was counted before
    /// a step back: refills since then are not known, so it gives nothing.)
    fn refund(&mut self, t: i128, at: i128, _: i128, units: i128) {
        if floor_div(at, self.d) == floor_div(t, self.d) {
            self.grant(t, units);
        }
    }

    fn grant(&mut self, t: i128, units: i128) {
        let given = units.min(self.missing(t));
        if given > 0 {
            self.write(t, self.missing(t) - given);
        }
    }
}
