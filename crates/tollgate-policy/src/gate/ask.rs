//! Asking the store, and telling what it said: to counters, the observer and the log.

use core::future::Future;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use tollgate::{Ask, Counted, Decision, Error, Store, StoreError};

use super::answer::{Asked, Cause, Said, Shadowed, reports};
use super::{Authority, Event, Inner, Live, Outcome};
use crate::resolve::Plan;

impl<S: Store> Inner<S> {
    /// What the store says, within the plan's deadline and `most`; none when there is nothing to
    /// ask.
    pub(super) async fn ask<'l>(
        &'l self,
        live: &'l Live,
        plan: &'l Plan,
        most: Duration,
    ) -> Option<Said<'l>> {
        let ask = plan.question(live)?;
        let result = self.limiter.check_within(plan.deadline.min(most), ask).await;
        Some(Said::of_store(plan, result))
    }

    /// Asks the policies in shadow, after the others have admitted, and records them. All of them
    /// together get the time that the others had: a shadow holds nobody up for longer.
    pub(super) async fn ask_shadows(
        &self,
        live: &Live,
        plan: &Plan,
        said: &Said<'_>,
        shadows: &[(usize, Asked)],
        started: Option<Instant>,
    ) -> Vec<Shadowed> {
        let mut all = Vec::new();
        if said.outcome.admits() && said.authority != Authority::FailureRule {
            let whole = plan.deadline;
            let whole = if whole == Duration::MAX { live.usual } else { whole };
            let began = Instant::now();
            for (policy, Asked { plan, early }) in shadows {
                let left = whole.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                let asked = self.ask(live, plan, left).await;
                let failed = asked.as_ref().is_some_and(|said| said.cause.is_some());
                let early = early.as_deref().unwrap_or(&Said::NOTHING);
                let outcome = asked.as_ref().unwrap_or(early).outcome;
                let decision = asked.and_then(|said| said.decision).map(Decision::into_owned);
                all.push(Shadowed { policy: *policy, outcome, decision });
                // A store that has just failed is not asked for what has no effect.
                if failed {
                    break;
                }
            }
        }
        let duration = started.map(|started| started.elapsed());
        for Shadowed { policy, outcome, decision } in &all {
            live.count(*policy, *outcome, Authority::Shadow);
            let said = (*outcome, Authority::Shadow, false);
            self.tell(live, Some(*policy), said, decision.as_ref(), None, duration);
        }
        all
    }

    /// The same without waiting.
    #[inline]
    pub(super) fn ask_shadows_now(
        &self,
        live: &Live,
        plan: &Plan,
        said: &Said<'_>,
        shadows: &[(usize, Asked)],
        started: Option<Instant>,
    ) -> Vec<Shadowed> {
        if shadows.is_empty() {
            return Vec::new();
        }
        at_once(self.ask_shadows(live, plan, said, shadows, started)).unwrap_or_default()
    }

    /// Counts what became of the policies that are enforced, and tells the observer, and the log
    /// when the store is lost or back.
    #[inline]
    pub(super) fn record(
        &self,
        live: &Live,
        enforced: &[usize],
        plan: &Plan,
        said: &Said<'_>,
        started: Option<Instant>,
    ) {
        let duration = started.map(|started| started.elapsed());
        let authority = said.authority;
        if enforced.is_empty() {
            self.unmatched.add(said.outcome, authority);
            self.tell(live, None, (said.outcome, authority, true), None, None, duration);
        }
        for &place in enforced {
            let outcome = said.outcome_of(plan, place, enforced.len());
            live.count(place, outcome, authority);
            let decides = said.policy == Some(place);
            let decision = said.decision.as_ref().filter(|_| decides);
            if decides {
                self.loss.see(outcome, authority, said.error());
            }
            let (what, error) = ((outcome, authority, decides), said.error());
            self.tell(live, Some(place), what, decision, error, duration);
        }
    }

    /// Tells the observer, when there is one; `decision` is that of the limit that binds.
    #[inline]
    pub(super) fn tell(
        &self,
        live: &Live,
        place: Option<usize>,
        (outcome, authority, decides): (Outcome, Authority, bool),
        decision: Option<&Decision<'_>>,
        error: Option<&Error>,
        duration: Option<Duration>,
    ) {
        let Some((observer, duration)) = self.observer.as_ref().zip(duration) else { return };
        let binding = decision.map(Decision::binding);
        let limit = binding.as_ref().map(tollgate::Report::limit);
        let subject = binding.as_ref().map(tollgate::Report::subject);
        let policy = place.and_then(|place| Some(live.policies.policy(place)?.name.as_str()));
        observer.observe(&Event {
            policy,
            limit,
            subject,
            outcome,
            authority,
            error,
            duration,
            decides,
        });
    }
}

impl<'l> Said<'l> {
    /// What the store said to the question of a plan.
    #[inline(always)]
    pub(super) fn of_store(plan: &Plan, result: Result<Decision<'l>, Error>) -> Self {
        let policy = plan.parts.first().map(|part| part.policy);
        match result {
            Ok(decision) => {
                let outcome = Outcome::of(decision.verdict());
                let policy = match &plan.parts[..] {
                    [_] => policy,
                    parts => parts.get(decision.binding().part()).map(|part| part.policy),
                };
                let (authority, decision) = (Authority::Store, Some(decision));
                Self { outcome, authority, policy, decision, cause: None }
            }
            Err(error) => Self {
                outcome: Outcome::failed(plan.on_failure),
                authority: Authority::FailureRule,
                policy: plan.denier.or(policy),
                decision: None,
                cause: Some(Cause::Error(error)),
            },
        }
    }

    /// Why the store could not answer.
    pub(super) fn error(&self) -> Option<&Error> {
        match &self.cause {
            Some(Cause::Error(error)) => Some(error),
            Some(Cause::Missing(_)) | None => None,
        }
    }

    /// What became of one policy's part.
    fn outcome_of(&self, plan: &Plan, number: usize, policies: usize) -> Outcome {
        if policies == 1 || self.policy == Some(number) {
            return self.outcome;
        }
        match self.outcome {
            Outcome::Allowed if !plan.parts.iter().any(|part| part.policy == number) => {
                Outcome::Unlimited
            }
            Outcome::Denied | Outcome::Never => {
                let mut reports = reports(self.decision.as_ref(), &plan.parts);
                let denies =
                    reports.any(|(part, report)| part.policy == number && !report.admits());
                if denies { Outcome::Denied } else { Outcome::Withheld }
            }
            Outcome::Banned | Outcome::Missing => Outcome::Withheld,
            other => other,
        }
    }
}

impl Plan {
    /// The question to the store; none when there is nothing to ask.
    pub(super) fn question<'l>(&'l self, live: &'l Live) -> Option<Ask<'l>> {
        let (mut subjects, mut parts) = (self.subjects.iter(), self.parts.iter());
        let subject = subjects.next()?;
        // Every part was made of limits that are there.
        let first = live.policies.limits_of(*parts.next()?)?;
        let mut ask = Ask::new(subject).under(first).cost(self.cost);
        for (subject, part) in subjects.zip(parts) {
            ask = ask.and_under(subject, live.policies.limits_of(*part)?);
        }
        if let Some(shard) = &self.shard {
            ask = ask.shard(&**shard);
        }
        Some(ask)
    }

    /// The only count of the question, where it is over one.
    #[inline]
    pub(super) fn only<'l>(&'l self, live: &'l Live) -> Option<Counted<'l>> {
        let ([subject], [part]) = (&self.subjects[..], &self.parts[..]) else { return None };
        let limits = live.policies.limits_of(*part)?;
        Some(Counted::new(subject, limits).in_shard(self.shard.as_deref()))
    }
}

/// What a future gives that is ready at once.
#[inline]
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = core::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A store that breaks its word is one that did not answer.
#[cold]
pub(super) fn no_answer() -> Error {
    let what = "the store did not answer at once, though it says that it does";
    StoreError::ambiguous(what).into()
}
