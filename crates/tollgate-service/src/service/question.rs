//! A question for the service: by its policies, or under limits that the caller sends.

use std::borrow::Cow;

use tollgate::{Cost, HoldKind, LimitSet, Patience, Subject};
use tollgate_policy::Terms;
use tollgate_tower::answer::{Profile, Reset};

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
    /// The headers of the response that the answer includes; `None` for no response.
    pub(crate) response: Option<Profile>,
    /// The kind of cost that a peek judges; `None` for a check.
    pub(crate) kind: Option<HoldKind>,
    /// Whether the caller waits where it is denied.
    pub(crate) patience: Patience,
}

impl<'a> Question<'a> {
    /// A question of the usual cost, without more.
    pub(crate) fn new(by: By<'a>) -> Self {
        let (receipt, patience) = (false, Patience::None);
        let (cost, idempotency_key, kind, response) = (None, None, None, None);
        Self { by, cost, idempotency_key, receipt, response, kind, patience }
    }
}

/// The headers of a response, by the name of their profile.
///
/// # Errors
/// There is no such profile.
pub(crate) fn profile_of(name: &str) -> Result<Profile, Refusal> {
    Ok(match name {
        "draft" => Profile::Draft,
        "legacy" => Profile::Legacy(Reset::Delta),
        "both" => Profile::Both(Reset::Delta),
        "none" => Profile::None,
        _ => {
            let detail = format!("`{name}` is not a set of headers: draft, legacy, both or none");
            return Err(Refusal::invalid(detail).at("response"));
        }
    })
}

impl Question<'_> {
    /// Rejects a response, for everything that no request waits for.
    pub(super) fn without_response(&self) -> Result<(), Refusal> {
        if self.response.is_none() {
            return Ok(());
        }
        let detail = "a check and a peek alone have a `response`: leave it out";
        Err(Refusal::invalid(detail).at("response"))
    }

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
