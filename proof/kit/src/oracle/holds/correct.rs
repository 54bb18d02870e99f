//! Corrections of a count beside its open holds: refunds of receipts, and adjustments.

use super::{HeldLimit, HoldOracle};
use crate::oracle::{Rule, whole};

/// A charge as its receipt knows it: the numbers that it was counted under, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The units charged.
    cost: u64,
    /// The units that were not given back yet.
    left: u64,
    /// For each limit that is a rate, its numbers and the time at which it counted the charge.
    at: Vec<Option<(Rule, u64)>>,
    /// How often the count had been reset.
    resets: u64,
    /// When something was given back of it last.
    refunded_us: Option<u64>,
}

/// The effect of a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests compare it")]
pub struct Refunded {
    /// Whether the whole charge had been given back before.
    pub already: bool,
    /// By how much `remaining` rose, for each limit.
    pub given: Vec<u64>,
    /// The units that were not given back yet.
    pub left: u64,
}

impl Charge {
    /// When each limit counted it, in microseconds; `None` for a limit that is not a rate.
    pub fn at_us(&self) -> impl Iterator<Item = Option<u64>> {
        self.at.iter().map(|at| at.map(|(_, at_us)| at_us))
    }

    /// The units charged.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether something was given back of it.
    #[must_use]
    pub const fn was_refunded(&self) -> bool {
        self.refunded_us.is_some()
    }

    /// Until when it counts under its own numbers, in microseconds.
    #[must_use]
    pub fn counts_until(&self) -> u64 {
        let each = self.at.iter().flatten();
        each.map(|(rule, at_us)| rule.counts_until(*at_us, self.cost)).max().unwrap_or(0)
    }

    /// Whether a store that has seen `latest_us` may have forgotten what was given back of it.
    #[must_use]
    pub fn may_be_forgotten(&self, latest_us: u64) -> bool {
        let forgotten = |us: u64| self.counts_until().max(us) + 1_000_000 <= latest_us;
        self.refunded_us.is_some_and(forgotten)
    }
}

impl HoldOracle {
    /// The last charge of all rates, of this many units.
    #[must_use]
    pub fn last_charge(&self, cost: u64) -> Charge {
        let at = self.limits.iter().map(|limit| match limit {
            HeldLimit::Rate(oracle) => Some((oracle.rule(), oracle.charged_at())),
            HeldLimit::Slots(_) | HeldLimit::Ban(_) => None,
        });
        let resets = self.resets;
        Charge { cost, left: cost, at: at.collect(), resets, refunded_us: None }
    }

    /// Whether the count was reset since the charge.
    #[must_use]
    pub fn was_reset_since(&self, charge: &Charge) -> bool {
        charge.resets != self.resets
    }

    /// Gives back `units` of a charge, or the rest of it, under the numbers of the count. The open
    /// holds stay as they are.
    pub fn refund(&mut self, now_us: u64, charge: &mut Charge, units: u64) -> Refunded {
        let (left, units) = (charge.left, units.min(charge.left));
        charge.left -= units;
        if left == 0 || charge.resets != self.resets {
            // Nothing is done to the count.
            let given = vec![0; self.limits.len()];
            return Refunded { already: left == 0, given, left: charge.left };
        }
        self.end_due(now_us);
        let before = self.left_of_each(now_us);
        charge.refunded_us = Some(now_us);
        for (limit, at) in self.limits.iter_mut().zip(&charge.at) {
            match (limit, at) {
                (HeldLimit::Rate(oracle), Some((rule, at_us))) if rule.is_like(oracle.rule()) => {
                    let counts = now_us < rule.counts_until(*at_us, charge.cost);
                    oracle.refund_part(now_us, *at_us, left, if counts { units } else { 0 });
                }
                // Where the strategy changed, nothing is done to the limit.
                (HeldLimit::Rate(_) | HeldLimit::Slots(_), _) => {}
                (HeldLimit::Ban(ban), _) => ban.cut(i128::from(now_us)),
            }
        }
        let after = self.left_of_each(now_us).into_iter();
        let given = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Refunded { already: false, given: given.collect(), left: charge.left }
    }

    /// An administrator's correction: gives `delta` units back to each rate, or takes them, at most
    /// what remains beside the open holds. Returns by how much `remaining` changed.
    pub fn adjust(&mut self, now_us: u64, delta: i64) -> Vec<i64> {
        self.end_due(now_us);
        self.repair(now_us);
        let before = self.left_of_each(now_us);
        for (limit, left) in self.limits.iter_mut().zip(&before) {
            if let HeldLimit::Rate(oracle) = limit {
                let left = i64::try_from(*left).unwrap_or(i64::MAX);
                // Where nothing is taken, the state stays as it is.
                if delta.max(-left) != 0 {
                    oracle.adjust(now_us, delta.max(-left));
                }
            }
        }
        let after = self.left_of_each(now_us).into_iter();
        let changed = after
            .zip(before)
            .map(|(after, before)| whole_change(i128::from(after) - i128::from(before)));
        changed.collect()
    }

    /// `remaining` of each limit.
    fn left_of_each(&self, now_us: u64) -> Vec<u64> {
        let mut then = self.after(now_us);
        then.repair(now_us);
        then.limits.iter().map(|limit| then.remaining(limit, now_us)).collect()
    }
}

impl Rule {
    /// Whether a change between them is one of numbers, not of the strategy.
    fn is_like(&self, other: Self) -> bool {
        let kind = |rule: &Self| match rule {
            Self::Greedy { .. } | Self::Interval { .. } => 0,
            Self::FixedEpoch { .. } | Self::FixedFirstHit { .. } | Self::Dates { .. } => 1,
            Self::Log { .. } => 2,
            Self::Window { .. } => 3,
        };
        kind(self) == kind(&other)
    }
}

fn whole_change(change: i128) -> i64 {
    let size = i64::try_from(whole(change.abs())).unwrap_or(i64::MAX);
    if change < 0 { -size } else { size }
}
