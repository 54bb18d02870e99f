//! A node's knowledge of a count.

use smallvec::SmallVec;
use tollgate::engine::{Fields, Outcome};
use tollgate::{Authority, Carried, Time};

use crate::denial::Asked;

/// The newest answer of the store about a count.
#[derive(Clone, Debug)]
pub(crate) struct LastAnswer {
    now: Time,
    fields: SmallVec<[Fields; 2]>,
    /// When it was asked for, by the node's clock, in microseconds.
    sent_us: u64,
}

impl LastAnswer {
    /// The knowledge from an answer.
    pub(crate) fn new(outcome: &Outcome, asked: Asked) -> Self {
        Self { now: outcome.now, fields: outcome.fields.clone(), sent_us: asked.sent_us }
    }

    /// Whether this is of a later time of the store.
    pub(crate) fn is_newer(&self, other: &Self) -> bool {
        self.now >= other.now
    }

    /// An Allow of `granted` units that were charged before, at these times. The remaining units
    /// are those that remained at the store, and the `held` units of this node.
    #[inline]
    pub(crate) fn allow(
        &self,
        (granted, number): (u64, u64),
        (at, charged_at_us): (Time, &[u64]),
        held: u64,
        now_us: u64,
    ) -> Outcome {
        let passed = now_us.saturating_sub(self.sent_us);
        let each = self.fields.iter().zip(charged_at_us).map(|(fields, charged_at_us)| {
            let remaining = fields.remaining.saturating_add(held);
            let reset_after_us = fields.reset_after_us.saturating_sub(passed);
            Fields::new(remaining, Some(0), reset_after_us, *charged_at_us, Carried::Same)
        });
        let mut outcome = Outcome::new(granted, each.collect(), number, at);
        outcome.authority = Authority::Lease;
        outcome
    }
}
