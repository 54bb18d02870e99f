//! The units that still count at a time, which determine what a store may have forgotten.

use super::{HeldLimit, HoldOracle, Open};
use crate::oracle::Rule;

impl HoldOracle {
    /// Whether something counts against every limit at `now_us`: no store may have forgotten it.
    #[must_use]
    pub fn all_count(&self, now_us: u64) -> bool {
        let then = self.after(now_us);
        then.limits.iter().all(|limit| match limit {
            HeldLimit::Rate(oracle) => oracle.peek(now_us, 1).fields.reset_after_us > 0,
            HeldLimit::Slots(_) => !then.open.is_empty(),
            HeldLimit::Ban(ban) => ban.until() > i128::from(now_us),
        })
    }

    /// Whether no store may have forgotten anything at `now_us` that another still remembers: each
    /// limit counts something then, or never did. Open holds are known to all, unless one is due.
    #[must_use]
    pub fn is_known(&self, now_us: u64) -> bool {
        let is_open = |hold: &Open| hold.end > i128::from(now_us);
        self.open.iter().all(is_open)
            && self.limits.iter().all(|limit| match limit {
                HeldLimit::Rate(oracle) => {
                    oracle.is_fresh() || oracle.peek(now_us, 1).fields.reset_after_us > 0
                }
                HeldLimit::Slots(_) => true,
                HeldLimit::Ban(ban) => ban.is_fresh() || ban.until() > i128::from(now_us),
            })
    }

    /// Whether a store must have a state of the count at `now_us`: something counts, or is held.
    #[must_use]
    pub fn is_kept(&self, now_us: u64) -> bool {
        let then = self.after(now_us);
        let counts = |limit: &HeldLimit| match limit {
            HeldLimit::Rate(oracle) => oracle.peek(now_us, 1).fields.reset_after_us > 0,
            HeldLimit::Slots(_) => false,
            HeldLimit::Ban(ban) => ban.until() > i128::from(now_us),
        };
        !then.open.is_empty() || then.limits.iter().any(counts)
    }

    /// Whether new numbers would show which uncounted parts a store still holds: events that a
    /// longer log, or another rounding of a window, counts again; all under a clock that may go
    /// back.
    #[must_use]
    pub fn would_tell(&self, now_us: u64, limits: &[HeldLimit], back: bool) -> bool {
        let then = self.after(now_us);
        then.limits.iter().zip(limits).any(|both| match both {
            (HeldLimit::Rate(old), HeldLimit::Rate(new)) => {
                let shows = back || matches!(old.rule(), Rule::Log { .. } | Rule::Window { .. });
                let counts = old.peek(now_us, 1).fields.reset_after_us > 0;
                shows && old.rule() != new.rule() && !old.is_fresh() && !counts
            }
            _ => false,
        })
    }

    /// Whether something counts against every rate at `now_us`. A count of zero may be forgotten by
    /// one store and not by another, and longer numbers would reveal that.
    #[must_use]
    pub fn all_rates_count(&self, now_us: u64) -> bool {
        let then = self.after(now_us);
        then.limits.iter().all(|limit| match limit {
            HeldLimit::Rate(oracle) => oracle.peek(now_us, 1).fields.reset_after_us > 0,
            HeldLimit::Slots(_) | HeldLimit::Ban(_) => true,
        })
    }
}
