//! The answer from what the store said; where it failed and the failure rule is local, by the share
//! of this process.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate::{Cost, Decision, Error, Limiter, MemoryStore, Receipt, Store};

use super::Answer;
use super::answer::Kept;
use super::live::Live;
use super::local::{Demand, InlineShares, LocalCounts, SharedCount, counted_by};
use super::shared::Inner;
use crate::on_failure::OnFailure;
use crate::outcome::{Authority, Outcome};
use crate::ready::Parts;
use crate::resolve::{Cause, Plan};

/// The bound of the local states of one gate. Beyond it new subjects share states.
const MAX_BYTES: usize = 64 << 20;

impl<S: Store> Inner<S> {
    /// The counts of this process; made when a limit with a share is checked first.
    pub(super) fn local(&self) -> &LocalCounts {
        self.local.get_or_init(|| {
            let store = MemoryStore::builder().max_bytes(MAX_BYTES).build();
            Box::new(LocalCounts::new(self.limiter.limits().clone(), store))
        })
    }

    /// The limiter that charged this receipt.
    pub(super) fn local_limiter(&self, receipt: &Receipt) -> Option<&Limiter<MemoryStore>> {
        let local = self.local.get().filter(|local| local.issued(receipt))?;
        Some(&local.limiter)
    }

    /// The answer to a plan from the store's result; where the store failed and the policies allow
    /// it, by the share of this process.
    #[inline(always)]
    pub(super) fn conclude<'l>(
        &'l self,
        live: &'l Arc<Live>,
        plan: &'l Plan,
        result: Result<Decision<'l>, Error>,
        is_peek: bool,
    ) -> Answer<'l> {
        // No store failed: the policies and the request do not fit together.
        if matches!(result, Err(Error::Ask(_))) {
            let mut answer = Answer::new(live, plan, result);
            answer.refuse();
            return answer;
        }
        match plan.has_shares {
            false => Answer::new(live, plan, result),
            true => self.conclude_with_shares(live, plan, result, is_peek),
        }
    }

    #[inline(never)]
    fn conclude_with_shares<'l>(
        &'l self,
        live: &'l Arc<Live>,
        plan: &'l Plan,
        result: Result<Decision<'l>, Error>,
        is_peek: bool,
    ) -> Answer<'l> {
        let limits = |place| plan.limits_at(&live.policies, place);
        let error = match result {
            Ok(decision) => {
                let whole = |part: usize| {
                    let limits = limits(part)?;
                    limits.local.is_some().then_some(&limits.whole)
                };
                self.local().note(&decision, whole);
                return Answer::new(live, plan, Ok(decision));
            }
            Err(error) if plan.on_failure.share().is_none() => {
                return Answer::new(live, plan, Err(error));
            }
            Err(error) => error,
        };
        let parts = plan.subjects.iter().zip(&plan.parts).enumerate();
        let shared = parts.filter_map(|(place, (subject, part))| {
            let ready = limits(place)?;
            let local = ready.local.as_deref()?;
            Some((*part, SharedCount { subject, whole: &ready.whole, local }))
        });
        let counts = shared.clone().map(|(_, count)| count);
        let cost = counted_by(&plan.cost, counts.clone());
        let demand = Demand { cost, is_partial: false, is_peek, waits: plan.waits };
        let Ok(decision) = self.local().decide(counts.clone(), &demand, plan.request()) else {
            return Answer::new(live, plan, Err(error));
        };
        let outcome = outcome_of(&decision, &plan.cost, counts);
        let parts: Parts = shared.map(|(part, _)| part).collect();
        Answer::by_share(live, parts, outcome, decision, error)
    }

    /// As `conclude`, for inline limits.
    pub(super) fn conclude_inline<'l>(
        &'l self,
        live: &'l Arc<Live>,
        rule: OnFailure,
        shares: Option<&'l InlineShares>,
        result: Result<Decision<'l>, Error>,
    ) -> Answer<'static> {
        let plan = Plan { on_failure: rule, ..Plan::new() };
        let Some(shares) = shares else { return Answer::new(live, &plan, result).into_owned() };
        match result {
            Ok(decision) => {
                let whole = |part: usize| shares.counts.get(part).map(|(_, whole, _)| whole);
                self.local().note(&decision, whole);
                Answer::new(live, &plan, Ok(decision)).into_owned()
            }
            Err(error) => {
                match self.local().decide(shares.counts(), &shares.demand, shares.request()) {
                    Ok(decision) => {
                        let outcome = outcome_of(&decision, &shares.demand.cost, shares.counts());
                        Answer::by_share(live, Parts::new(), outcome, decision, error).into_owned()
                    }
                    Err(_) => Answer::new(live, &plan, Err(error)).into_owned(),
                }
            }
        }
    }
}

impl<'a> Answer<'a> {
    /// The answer by the share of this process, because of this failure of the store.
    fn by_share(
        live: &'a Arc<Live>,
        parts: Parts,
        outcome: Outcome,
        decision: Decision<'a>,
        error: Error,
    ) -> Self {
        let policy = match outcome {
            Outcome::FailedClosed => parts.first(),
            _ => parts.get(decision.binding().part()),
        };
        Self {
            live: Kept::Lent(live),
            policy: policy.map(|part| part.policy),
            parts: Cow::Owned(parts.into_vec()),
            outcome,
            authority: Authority::LocalShare,
            // Its text is about the share, which waiting does not enlarge.
            decision: (outcome != Outcome::FailedClosed).then_some(Kept::Owned(decision)),
            cause: Some(Arc::new(Cause::Error(error))),
            shadows: Vec::new(),
        }
    }
}

/// The outcome of a decision by shares. A cost above a share, and not above the limit, is denied
/// for now, and not for ever.
fn outcome_of<'a>(
    decision: &Decision<'_>,
    cost: &Cost,
    mut counts: impl Iterator<Item = SharedCount<'a>>,
) -> Outcome {
    let fits = |count: SharedCount<'_>| {
        let mut limits = count.whole.limits().iter();
        limits.all(|limit| limit.capacity() >= cost.amounts().of(limit.unit()))
    };
    match Outcome::from(decision.verdict()) {
        Outcome::Never if counts.all(fits) => Outcome::FailedClosed,
        outcome => outcome,
    }
}
