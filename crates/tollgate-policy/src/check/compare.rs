//! Comparisons of the conditions of policies, in a bounded number of steps.

use crate::model::Policy;
use crate::pattern::Condition;

/// The most steps to compare policies with each other. 10,000 policies are 50 million pairs, each
/// with up to 10,000 values, and a file must load quickly.
const MAX_WORK: usize = 40_000_000;

/// The remaining steps for comparisons.
pub(super) struct Work(usize);

impl Work {
    pub(super) const fn new() -> Self {
        Self(MAX_WORK)
    }

    /// False when comparing these two would exceed the remaining steps.
    pub(super) fn allows(&mut self, one: &[Condition], other: &[Condition]) -> bool {
        let pairs = one.iter().flat_map(|mine| other.iter().map(move |theirs| mine.work(theirs)));
        let steps = pairs.sum::<usize>() + 1;
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// True when no request can match both.
pub(super) fn are_disjoint(one: &Policy, other: &Policy) -> bool {
    one.when.iter().any(|mine| other.when.iter().any(|theirs| mine.excludes(theirs)))
}
