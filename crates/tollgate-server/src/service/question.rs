//! A question for the service: by its policies, or under limits that the caller sends.

use std::borrow::Cow;

use tollgate::{Cost, HoldKind, LimitSet, Patience, Subject};
use tollgate_policy::Terms;

use super::description::DescribedFields;
use super::refusal::Refusal;

/// The treatment of a question: charge it, or only look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Check,
    Peek,
}

/// One or more subjects with their limits.
pub(crate) type Parts = Vec<(Subject, LimitSet)>;

/// A question to the service.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) by: By<'a>,
    /// The cost. `None` takes the cost of the policies, or 1.
    pub(crate) cost: Option<Cost>,
    /// A retry with the same key is not charged again.
    pub(crate) idempotency_key: Option<Cow<'a, str>>,
    /// Whether the answer includes a receipt.
    pub(crate) receipt: bool,
    /// The kind of cost that a peek judges; `None` for a check.
    pub(crate) kind: Option<HoldKind>,
    /// Whether the caller waits where it is denied.
    pub(crate) patience: Patience,
}

impl<'a> Question<'a> {
    /// A question of the usual cost, without more.
    pub(crate) fn new(by: By<'a>) -> Self {
        let (receipt, patience) = (false, Patience::None);
        Self { by, cost: None, idempotency_key: None, receipt, kind: None, patience }
    }
}

impl Question<'_> {
    /// Rejects a wait, for all that is not denied and asked again.
    pub(super) fn without_waiting(&self) -> Result<(), Refusal> {
        if self.patience == Patience::None {
            return Ok(());
        }
        let detail = "this is not waited for: leave it out";
        Err(Refusal::invalid(detail).at("waiting"))
    }

    /// Rejects a kind for everything except a peek.
    pub(super) fn without_kind(&self) -> Result<(), Refusal> {
        if self.kind.is_none() {
            return Ok(());
        }
        let detail = "only a peek has a `kind`: leave it out";
        Err(Refusal::invalid(detail).at("kind"))
    }
}

/// The limits that decide a question.
#[derive(Debug)]
pub(crate) enum By<'a> {
    /// All policies that match, or the one with this name.
    Policies { policy: Option<Cow<'a, str>>, fields: DescribedFields<'a> },
    /// Inline limits, which the caller sends.
    Limits { parts: Parts, shard: Option<Cow<'a, str>>, terms: Terms },
}
