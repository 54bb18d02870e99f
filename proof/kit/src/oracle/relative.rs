//! A state moved in time, and written down: for a search that merges the states that are alike.

use super::count::RateState;
use super::level::{Backlog, Greedy, Missing};
use super::{Oracle, Rule};

impl Oracle {
    /// Moves all that is held by `by_us`, a multiple of the lengths that are counted from the
    /// epoch. A backlog is written as of `now_us`, where that is no earlier than it was.
    pub(crate) fn shift(&mut self, now_us: u64, by_us: i64) {
        let (now, by) = (i128::from(now_us), i128::from(by_us));
        self.charged_at = 0;
        match &mut self.held {
            RateState::Greedy(greedy) => greedy.shift(now, by),
            RateState::Interval(interval) => {
                if let Some(Missing { refilled, .. }) = &mut interval.missing {
                    *refilled += by / interval.d;
                }
            }
            RateState::Fixed(fixed) => {
                fixed.written = fixed.written.map(|(start, end)| (start + by, end + by));
                fixed.events.shift(by);
            }
            RateState::Log(log) => log.events.shift(by),
            RateState::Sliding(sliding) => sliding.events.shift(by),
        }
    }

    /// Writes down all that is held: two of one rule that write the same are the same.
    pub(crate) fn write_down(&self, out: &mut Vec<i128>) {
        let before_all = i128::MIN;
        match &self.held {
            RateState::Greedy(Greedy { n, d, backlog, .. }) => {
                out.extend([*n, *d]);
                out.extend(backlog.map(|it| [it.parts, it.as_of]).into_iter().flatten());
            }
            RateState::Interval(interval) => {
                out.extend(
                    interval.missing.map(|it| [it.units, it.refilled]).into_iter().flatten(),
                );
            }
            RateState::Fixed(fixed) => {
                out.extend(fixed.written.map(|(start, end)| [start, end]).into_iter().flatten());
                out.extend(fixed.events.pairs_after(before_all));
            }
            RateState::Log(log) => out.extend(log.events.pairs_after(before_all)),
            RateState::Sliding(sliding) => out.extend(sliding.events.pairs_after(before_all)),
        }
        out.push(before_all);
    }
}

impl Greedy {
    /// As of a later time a backlog that has come back is below nothing: how long ago that was
    /// counts where the clock steps back.
    fn shift(&mut self, now: i128, by: i128) {
        if let Some(Backlog { parts, as_of }) = &mut self.backlog {
            if *as_of <= now {
                *parts -= (now - *as_of) * self.n;
                *as_of = now;
            }
            *as_of += by;
        }
    }
}

impl Rule {
    /// The length from the epoch on in which time is divided: states can be moved by multiples
    /// of it.
    pub(crate) fn beat_us(&self) -> u64 {
        match *self {
            Self::Greedy { .. } | Self::FixedFirstHit { .. } | Self::Log { .. } => 1,
            Self::Interval { d_us, .. } | Self::FixedEpoch { d_us, .. } => d_us,
            Self::Dates { d_us, .. } => d_us,
            Self::Window { precision_us, .. } => precision_us,
        }
    }
}
