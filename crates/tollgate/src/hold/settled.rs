//! The effect of settling a hold.

use smallvec::SmallVec;

use super::Hold;
use crate::cost::Cost;
use crate::engine::Charged;
use crate::limit::{Limit, LimitSet};
use crate::subject::Subject;

/// A store's effect when it settles a hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settled {
    /// True when it was settled before. Nothing was done now.
    pub already: bool,
    /// True when no hold had the name: one that comes within the next minute is refused.
    pub is_early: bool,
    /// The amounts charged for it: now, or when it was settled.
    pub actual: Cost,
    /// The effect on each limit, in the order of the hold's counts. Empty when it was settled
    /// before. A count that was reset meanwhile has no entries.
    pub charged: Vec<Charged>,
    /// The places of the hold's counts that it was open on: those of the entries.
    pub open_on: SmallVec<[usize; 2]>,
}

impl Settled {
    /// The result of settling a hold now, on these of its counts.
    #[must_use]
    pub const fn now(actual: Cost, charged: Vec<Charged>, open_on: SmallVec<[usize; 2]>) -> Self {
        Self { already: false, is_early: false, actual, charged, open_on }
    }

    /// The result for a hold that was settled before.
    #[must_use]
    pub fn before(actual: Cost) -> Self {
        Self { already: true, ..Self::now(actual, Vec::new(), SmallVec::new()) }
    }

    /// The result for a name that no hold has yet.
    #[must_use]
    pub fn early() -> Self {
        Self { is_early: true, ..Self::before(0.into()) }
    }
}

/// The effect of a commit or a charge without a check on one limit, with its subject.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ChargedLimit<'a> {
    /// The subject.
    pub subject: &'a Subject,
    /// The policy of the limit; `None` for limits without one.
    pub policy: Option<&'a str>,
    /// The limit.
    pub limit: &'a Limit,
    /// The effect on it.
    pub charged: &'a Charged,
}

impl<'a> ChargedLimit<'a> {
    /// Names what [`crate::Limiter::charge`] did to the limits of these counts.
    pub fn each(
        counts: impl IntoIterator<Item = (&'a Subject, &'a LimitSet)>,
        charged: &'a [Charged],
    ) -> impl Iterator<Item = Self> {
        let limits = counts.into_iter().flat_map(|(subject, set)| {
            set.limits().iter().map(move |limit| (subject, set.policy(), limit))
        });
        let each = limits.zip(charged);
        each.map(|((subject, policy, limit), charged)| Self { subject, policy, limit, charged })
    }
}

impl Hold {
    /// Names what settling this hold did to each limit.
    pub fn charged<'a>(&'a self, settled: &'a Settled) -> impl Iterator<Item = ChargedLimit<'a>> {
        let counts = settled.open_on.iter().filter_map(|place| self.counts.get(*place));
        ChargedLimit::each(counts.map(|(subject, limits)| (subject, limits)), &settled.charged)
    }
}
