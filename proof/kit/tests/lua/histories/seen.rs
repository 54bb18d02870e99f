//! How often each branch of a check was reached.

use std::collections::HashMap;

/// How often each thing happened.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) cases: u64,
    counts: HashMap<&'static str, u64>,
}

impl Seen {
    pub(super) fn saw(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The share of each branch of a check in percent; all of them, also those never seen.
    #[allow(clippy::cast_precision_loss)] // a share
    pub(crate) fn shares(&self) -> Vec<(&'static str, f64)> {
        let share = |what| {
            let count = self.counts.get(what).copied().unwrap_or_default();
            (what, count as f64 * 100.0 / self.cases as f64)
        };
        BRANCHES.into_iter().map(share).collect()
    }
}

/// The possible outcomes of a check.
pub(crate) const BRANCHES: [&str; 13] = [
    "allow",
    "not yet",
    "never",
    "partial less",
    "peek",
    "fresh",
    "full",
    "skew or step back",
    "numbers changed",
    "refund",
    "adjust",
    "charge",
    "something expired",
];
