//! Calls the store, and reports the answer to the counters, the observer and the log.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate::{Ask, Counted, Decision, Error, RequestId, Store, StoreError, at_once};

use super::answer::{Shadowed, reports};
use super::live::Live;
use super::observe::{Part, RuleName};
use super::shared::Inner;
use super::{Answer, Event};
use crate::field::Fields;
use crate::outcome::{Authority, Outcome};
use crate::resolve::{Early, Plan, Refused};

impl<S: Store> Inner<S> {
    /// The answer to a plan, within its deadline and `most`.
    pub(super) async fn ask<'l>(
        &'l self,
        live: &'l Arc<Live>,
        plan: &'l Plan,
        most: Duration,
    ) -> Answer<'l> {
        let Some(ask) = plan.question(live) else { return plan.answered_early(live) };
        let result = self.limiter.check(ask.within(plan.deadline.min(most))).await;
        self.conclude(live, plan, result, false)
    }

    /// Checks the shadow policies after the others have admitted, and records their results.
    /// Together they get the time that the others had, so they at most double the wait.
    pub(super) async fn ask_shadows(
        &self,
        live: &Arc<Live>,
        answer: &Answer<'_>,
        deadline: Duration,
        shadows: &[(usize, Plan)],
        started: Option<Instant>,
    ) -> Vec<Shadowed> {
        let mut all = Vec::new();
        if answer.outcome.admits() && !answer.authority.is_in_place_of_store() {
            let whole = if deadline == Duration::MAX { live.usual } else { deadline };
            let began = Instant::now();
            for (policy, plan) in shadows.iter().filter(|(_, plan)| plan.slots(live).is_none()) {
                let left = whole.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                let answer = self.ask(live, plan, left).await;
                let failed = answer.authority.is_in_place_of_store() && plan.early.is_none();
                let outcome = answer.outcome;
                let decision = answer.into_decision().map(Decision::into_owned);
                all.push(Shadowed { policy: *policy, outcome, decision });
                // A store that has just failed is not called for a shadow policy.
                if failed {
                    break;
                }
            }
        }
        let duration = started.map(|started| started.elapsed());
        let mut part = if answer.decision().is_some() { Part::Beside } else { Part::Alone };
        for Shadowed { policy, outcome, decision } in &all {
            live.count(*policy, *outcome, Authority::Shadow);
            let what = (*outcome, Authority::Shadow, part);
            if decision.is_some() {
                part = Part::Beside;
            }
            self.report(live, (Some(*policy), None), what, decision.as_ref(), (None, duration));
        }
        all
    }

    /// The same for a store that answers without waiting.
    #[inline]
    pub(super) fn ask_shadows_now(
        &self,
        live: &Arc<Live>,
        answer: &Answer<'_>,
        deadline: Duration,
        shadows: &[(usize, Plan)],
        started: Option<Instant>,
    ) -> Vec<Shadowed> {
        if shadows.is_empty() {
            return Vec::new();
        }
        at_once(self.ask_shadows(live, answer, deadline, shadows, started)).unwrap_or_default()
    }

    /// Counts the outcomes of the enforced policies and reports them to the observer. A loss of the
    /// store, and its return, are logged.
    #[inline]
    pub(super) fn record(&self, answer: &Answer<'_>, enforced: &[usize], started: Option<Instant>) {
        if self.is_repeated(answer) {
            return;
        }
        let duration = started.map(|started| started.elapsed());
        let (live, authority, error) = (&**answer.live, answer.authority, answer.error());
        if live.policies.notifies() {
            self.cross(live, answer);
        }
        if enforced.is_empty() {
            self.unmatched.add(answer.outcome, authority);
            let what = (answer.outcome, authority, Part::Decides);
            self.report(live, (None, None), what, None, (None, duration));
        }
        for &policy in enforced {
            let outcome = answer.outcome_of(policy, enforced.len());
            live.count(policy, outcome, authority);
            let decides = answer.policy == Some(policy);
            let decision = answer.decision().filter(|_| decides);
            if decides {
                self.loss.see(outcome, authority, error);
            }
            let part = if decides { Part::Decides } else { Part::Beside };
            let what = (outcome, authority, part);
            self.report(live, (Some(policy), None), what, decision, (error, duration));
        }
    }

    /// True for an answer under a request id once more, which was counted with the first one.
    /// Counts it, and the ids that were repeated too often.
    #[inline]
    pub(super) fn is_repeated(&self, answer: &Answer<'_>) -> bool {
        let Some(decision) = answer.decision() else { return false };
        if decision.is_repeated() {
            self.repeats.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        if decision.is_id_overused() {
            self.overused.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Reports to the observer, if there is one; `decision` is that of the binding limit.
    #[inline]
    pub(super) fn report(
        &self,
        live: &Live,
        (policy, rule): (Option<usize>, Option<RuleName<'_>>),
        (outcome, authority, part): (Outcome, Authority, Part),
        decision: Option<&Decision<'_>>,
        (error, duration): (Option<&Error>, Option<Duration>),
    ) {
        let Some((observer, duration)) = self.observer.as_ref().zip(duration) else { return };
        let binding = decision.map(Decision::binding);
        observer.observe(&Event {
            policy: policy.and_then(|at| Some(live.policies.policy(at)?.name.as_str())),
            rule,
            limit: binding.as_ref().map(tollgate::Report::limit),
            subject: binding.as_ref().map(tollgate::Report::subject),
            outcome,
            authority,
            error,
            duration,
            decides: part == Part::Decides,
            is_recorded: part != Part::Beside,
            answers: 1,
        });
    }
}

impl Answer<'_> {
    /// The outcome of one policy.
    fn outcome_of(&self, policy: usize, policies: usize) -> Outcome {
        if policies == 1 || self.policy == Some(policy) {
            return self.outcome;
        }
        let is_unlimited = self.live.policies.policy(policy).is_some_and(|it| it.unlimited);
        match self.outcome {
            outcome if is_unlimited && outcome.admits() => Outcome::Unlimited,
            Outcome::Allowed if !self.parts.iter().any(|part| part.policy == policy) => {
                match self.authority {
                    // The failure rule of this policy admits without a count.
                    Authority::LocalShare => Outcome::FailedOpen,
                    _ => Outcome::Unlimited,
                }
            }
            Outcome::Denied | Outcome::Never => {
                let mut reports = reports(self.decision(), &self.parts);
                let denies =
                    reports.any(|(part, report)| part.policy == policy && !report.admits());
                if denies { Outcome::Denied } else { Outcome::Withheld }
            }
            Outcome::Banned | Outcome::Missing => Outcome::Withheld,
            other => other,
        }
    }
}

impl Plan {
    /// Plans the check of these policies, or the answer that needs no store call.
    #[inline]
    pub(super) fn fill(&mut self, live: &Live, policies: &[usize], fields: &dyn Fields) {
        self.fill_and(live, (policies, &[]), fields, |_| ());
    }

    /// The same, at the costs of further policies that count nothing, and where `change` changes
    /// the limits.
    #[inline]
    pub(super) fn fill_and(
        &mut self,
        live: &Live,
        (policies, priced): (&[usize], &[usize]),
        fields: &dyn Fields,
        change: impl FnOnce(&mut Self),
    ) {
        let Some(first) = policies.first() else { return };
        match live.policies.plan((policies, priced), fields, live.usual, self) {
            Ok(()) if self.parts.is_empty() => {
                let (outcome, policy) = (Outcome::Unlimited, Some(*first));
                self.early = Some(Box::new(Early { outcome, policy, ..Early::NO_POLICY }));
            }
            Ok(()) => {
                change(self);
                self.estimate(live);
            }
            Err(refused) => self.refuse(refused),
        }
    }

    /// Refuses the request without a store call.
    #[cold]
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.clear();
        self.early = Some(Box::new(Early::refused(refused)));
    }

    /// The answer of a plan that needs no store call.
    pub(super) fn answered_early<'l>(&'l self, live: &'l Arc<Live>) -> Answer<'l> {
        Answer::early(live, self.early.as_deref().unwrap_or(&Early::NO_POLICY))
    }

    /// The question for the store; `None` if there is nothing to check.
    pub(super) fn question<'l>(&'l self, live: &'l Live) -> Option<Ask<'l>> {
        // Always found: every part was made from existing limits.
        let limits = |place| self.limits_at(&live.policies, place).map(|limits| &limits.whole);
        let (first, rest) = self.subjects.split_first()?;
        let mut ask = Ask::new(first).under(limits(0)?).cost(self.cost.clone());
        for (subject, place) in rest.iter().zip(1..) {
            ask = ask.and_under(subject, limits(place)?);
        }
        if let Some(shard) = &self.shard {
            ask = ask.shard(&**shard);
        }
        if let Some(request) = self.request() {
            ask = ask.request(request);
        }
        if self.waits {
            ask = ask.waiting();
        }
        Some(ask)
    }

    /// The id of the request, if it has one.
    pub(super) fn request(&self) -> Option<RequestId<'_>> {
        self.request.as_deref().map(|(text, id)| id.with_text(text))
    }

    /// The question, if it has exactly one count, no request id, and a caller that does
    /// not wait.
    #[inline]
    pub(super) fn only<'l>(&'l self, live: &'l Live) -> Option<Ask<'l>> {
        if self.request.is_some() || self.waits {
            return None;
        }
        let ([subject], [_]) = (&self.subjects[..], &self.parts[..]) else { return None };
        let limits = &self.limits_at(&live.policies, 0)?.whole;
        let counted = Counted::new(subject, limits).in_shard(self.shard.as_deref());
        Some(Ask::from(counted).cost(self.cost.clone()))
    }
}

/// A store that claims to answer immediately and does not is treated as failed.
#[cold]
pub(super) fn no_answer() -> Error {
    let what = "the store did not answer at once, though it says that it does";
    StoreError::ambiguous(what).into()
}
