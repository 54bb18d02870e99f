//! The answer of a gate.

use core::any::Any;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use tollgate::{Decision, Error, Limit, Receipt, Report, Unit};

use super::Revision;
use super::live::Live;
use crate::field::Field;
use crate::model::Policy;
use crate::outcome::{Authority, Outcome};
use crate::policies::Policies;
use crate::ready::PolicyPart;
use crate::resolve::{Cause, Early, Plan};

/// A borrowed or an owned value.
#[derive(Debug)]
pub(crate) enum Kept<'a, T> {
    Lent(&'a T),
    Owned(T),
}

impl<T> Deref for Kept<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Lent(lent) => lent,
            Self::Owned(owned) => owned,
        }
    }
}

impl<T: Clone> Kept<'_, T> {
    /// The value, cloned if it is borrowed.
    fn into_inner(self) -> T {
        match self {
            Self::Lent(lent) => lent.clone(),
            Self::Owned(owned) => owned,
        }
    }
}

/// The answer of a gate: whether the request may go on, the authority that decided it, and the
/// reason.
///
/// An answer keeps the policies that it was given under, and stays valid when they are replaced.
/// [`Answer::into_owned`] turns one that borrows ([`Gate::ask_now`](super::Gate::ask_now)) into one
/// that does not.
#[derive(Debug)]
#[must_use = "an answer that nobody looks at limits nothing"]
pub struct Answer<'a> {
    pub(crate) live: Kept<'a, Arc<Live>>,
    pub(crate) parts: Cow<'a, [PolicyPart]>,
    pub(crate) outcome: Outcome,
    pub(crate) authority: Authority,
    /// The policy that decided; `None` if no policy applies.
    pub(crate) policy: Option<usize>,
    pub(crate) decision: Option<Kept<'a, Decision<'a>>>,
    pub(crate) cause: Option<Arc<Cause>>,
    /// The results of the shadow policies, checked after the others admitted.
    pub(crate) shadows: Vec<Shadowed>,
}

/// The result of a shadow policy.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub(crate) policy: usize,
    pub(crate) outcome: Outcome,
    pub(crate) decision: Option<Decision<'static>>,
}

impl<'a> Answer<'a> {
    /// The answer to a plan that needs no store call.
    pub(super) fn early(live: &'a Arc<Live>, early: &'a Early) -> Self {
        let Early { outcome, authority, policy, cause } = early;
        Self {
            live: Kept::Lent(live),
            parts: Cow::Borrowed(&[]),
            outcome: *outcome,
            authority: *authority,
            policy: *policy,
            decision: None,
            cause: cause.clone(),
            shadows: Vec::new(),
        }
    }

    /// The answer to a plan, from the store's result.
    #[inline(always)]
    pub(super) fn new(
        live: &'a Arc<Live>,
        plan: &'a Plan,
        result: Result<Decision<'a>, Error>,
    ) -> Self {
        let parts = &plan.parts[..];
        let first = parts.first().map(|part| part.policy);
        let (outcome, authority, policy, decision, cause) = match result {
            Ok(decision) => {
                let outcome = Outcome::from(decision.verdict());
                let authority = decision.authority().into();
                let policy = match parts {
                    [_] => first,
                    parts => parts.get(decision.binding().part()).map(|part| part.policy),
                };
                (outcome, authority, policy, Some(Kept::Owned(decision)), None)
            }
            Err(error) => {
                let outcome = Outcome::from(plan.on_failure);
                let cause = Some(Arc::new(Cause::Error(error)));
                (outcome, Authority::FailureRule, plan.denier.or(first), None, cause)
            }
        };
        let (live, parts) = (Kept::Lent(live), Cow::Borrowed(parts));
        Self { live, parts, outcome, authority, policy, decision, cause, shadows: Vec::new() }
    }

    /// The same answer, no longer borrowing from the gate and the request.
    pub fn into_owned(self) -> Answer<'static> {
        let Self { live, parts, outcome, authority, policy, decision, cause, shadows } = self;
        Answer {
            live: Kept::Owned(live.into_inner()),
            parts: Cow::Owned(parts.into_owned()),
            outcome,
            authority,
            policy,
            decision: decision.map(|kept| Kept::Owned(kept.into_inner().into_owned())),
            cause,
            shadows,
        }
    }

    /// The decision alone.
    pub(super) fn into_decision(self) -> Option<Decision<'a>> {
        self.decision.map(Kept::into_inner)
    }

    /// True when the request may go on.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome.admits()
    }

    /// The outcome of the request.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The authority that decided the request.
    #[must_use]
    #[inline]
    pub fn authority(&self) -> Authority {
        self.authority
    }

    /// The revision of the policies that the answer was given under.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> &Revision {
        &self.live.revision
    }

    /// The policy that decided: on a denial the one that denied, otherwise the one with the binding
    /// limit. `None` if no policy applies.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.live.policies.policy(self.policy?)
    }

    /// The binding limit: on a denial the one with the longest wait, otherwise the one with the
    /// least remaining. `None` if no limit was checked.
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        Some(self.decision()?.binding().limit())
    }

    /// The store's decision over all enforced limits; `None` if the store was not called, or
    /// failed.
    #[must_use]
    #[inline]
    pub fn decision(&self) -> Option<&Decision<'a>> {
        self.decision.as_deref()
    }

    /// All policies that the answer was given under.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.live.policies
    }

    /// A value that a front derives from the policies of this revision: one of each type, created
    /// once, and dropped with the policies. Other threads wait while it is created.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Format, Gate, Policies};
    ///
    /// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    ///             limits = [{ subject = \"ip\", limit = \"1/h\" }]";
    /// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
    /// # futures_executor::block_on(async {
    /// let answer = gate.check(&[("ip", "10.0.0.1")]).await;
    /// let count = |policies: &Policies| policies.policies().len();
    /// assert_eq!(answer.extension(count), &1);
    /// assert_eq!(answer.extension(|_| 7_usize), &1, "it was made before");
    /// assert_eq!(answer.extension(|_| "text"), &"text", "each type has a value");
    /// assert_eq!(answer.extension(count), &1);
    /// gate.replace(Policies::parse(&format!("{text}\n"), Format::Toml)?);
    /// let answer = gate.check(&[("ip", "10.0.0.1")]).await;
    /// assert_eq!(answer.extension(|_| 7_usize), &7, "other policies");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn extension<T: Any + Send + Sync>(&self, make: impl Fn(&Policies) -> T) -> &T {
        self.live.extension(make)
    }

    /// The position of each subject's limits in the policies, in the order of the decision. Empty
    /// without a decision.
    #[must_use]
    #[inline]
    pub fn parts(&self) -> &[PolicyPart] {
        if self.decision.is_some() { &self.parts } else { &[] }
    }

    /// The report of every limit in the decision, with its policy.
    pub fn reports(&self) -> impl Iterator<Item = (&Policy, Report<'_>)> {
        let policies = &self.live.policies;
        reports(self.decision(), &self.parts)
            .filter_map(|(part, report)| Some((policies.policy(part.policy)?, report)))
    }

    /// The wait until the same request is admitted, if nothing else is charged. `None` when it was
    /// admitted, never will be, or the wait is unknown.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            Outcome::Denied => self.decision()?.retry_after(),
            _ => None,
        }
    }

    /// The missing field: a dimension, or the field of a cost.
    #[must_use]
    pub fn missing(&self) -> Option<&Field> {
        match self.cause.as_deref() {
            Some(Cause::Missing(field)) => Some(field),
            _ => None,
        }
    }

    /// The unit of which the cost is above the `max` of its policy, and that `max`.
    #[must_use]
    pub fn too_costly(&self) -> Option<(&Unit, u64)> {
        match self.cause.as_deref() {
            Some(Cause::TooCostly { unit, max, .. }) => Some((unit, *max)),
            _ => None,
        }
    }

    /// Why the store failed, if the failure rule decided; or that the cost is above what the policy
    /// takes.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self.cause.as_deref() {
            Some(Cause::Error(error) | Cause::TooCostly { error, .. }) => Some(error),
            _ => None,
        }
    }

    /// The results of the shadow policies.
    pub fn shadows(&self) -> impl Iterator<Item = Shadow<'_>> {
        let live = &**self.live;
        self.shadows.iter().map(move |shadowed| Shadow { live, shadowed })
    }

    /// The receipts of shadow charges.
    pub(crate) fn shadow_receipts(&self) -> impl Iterator<Item = Receipt> {
        self.shadows.iter().filter_map(|shadowed| shadowed.decision.as_ref()?.receipt())
    }
}

/// The report of every limit in a decision over `parts`, with its part.
pub(crate) fn reports<'a>(
    decision: Option<&'a Decision<'_>>,
    parts: &'a [PolicyPart],
) -> impl Iterator<Item = (&'a PolicyPart, Report<'a>)> {
    let all = decision.into_iter().flat_map(Decision::reports);
    all.filter_map(|report| Some((parts.get(report.part())?, report)))
}

/// The result of a shadow policy.
#[derive(Clone, Copy, Debug)]
pub struct Shadow<'a> {
    live: &'a Live,
    shadowed: &'a Shadowed,
}

impl<'a> Shadow<'a> {
    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Option<&'a Policy> {
        self.live.policies.policy(self.shadowed.policy)
    }

    /// The outcome that the policy would have had.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.shadowed.outcome
    }

    /// The store's decision.
    #[must_use]
    pub fn decision(&self) -> Option<&'a Decision<'static>> {
        self.shadowed.decision.as_ref()
    }
}

impl fmt::Display for Answer<'_> {
    /// One line for humans: the outcome, the policy, and the store's decision with the subject of
    /// the binding limit. The subject is personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome().name())?;
        if let Some(policy) = self.policy() {
            write!(f, " by {}", policy.name)?;
        }
        if let Some(field) = self.missing() {
            write!(f, ": no {field}")?;
        }
        if let Some(error) = self.error() {
            write!(f, ": {error}")?;
        }
        if let Some(decision) = self.decision() {
            write!(f, ": {decision}")?;
        }
        Ok(())
    }
}
