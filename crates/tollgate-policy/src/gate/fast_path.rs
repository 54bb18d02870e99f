//! The fast path: checks without waiting, if a request meets one policy that always makes the same
//! kind of check.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use tollgate::{Ask, Counted, Decision, Error, Store, Subject, SubjectPrefix, at_once};

use super::answer::Kept;
use super::ask::no_answer;
use super::live::Live;
use super::observe::Part;
use super::shared::Inner;
use super::{Answer, DecisionMark, Gate};
use crate::field::{Field, Fields};
use crate::outcome::Outcome;
use crate::ready::SingleCheck;
use crate::resolve::Plan;

impl<S: Store> Gate<S> {
    /// [`Gate::prepare`] and [`Gate::ask_now`] in one call, for a request that meets one policy
    /// whose checks differ in the value of one field only: one entry without overrides, one
    /// subject of one field, a fixed cost, no shard. `view` reads the answer. The result also
    /// contains the mark for the request ([`Prepared::mark`](super::Prepared::mark)).
    ///
    /// `fields` are those of the request. A front may leave them out while they take time to read;
    /// then only policies that have no conditions to read are checked so.
    ///
    /// `subject` builds the subject, as [`subject_of`](crate::subject_of) does. A front may build
    /// it without the field's text, and returns `None` if a field was malformed.
    ///
    /// `None` in all other cases: with other policies, if the store cannot answer immediately, and
    /// if the subject is invalid. The store was then not called; use the general path.
    #[inline(always)]
    pub fn check_at_once<T>(
        &self,
        fields: Option<&dyn Fields>,
        subject: impl FnOnce(&Field, &SubjectPrefix) -> Option<Subject>,
        view: impl FnOnce(&Answer<'_>) -> T,
    ) -> Option<(DecisionMark, T)> {
        if !self.store().facts().answers_at_once {
            return None;
        }
        let started = self.started();
        self.0.live.fast_path(|live| {
            let single = live.single_check(fields)?;
            let SingleCheck { part, field, prefix, limits, cost } = single;
            let subject = subject(field, prefix)?;
            let ask = Ask::from(Counted::new(&subject, limits)).cost(*cost);
            let checked = self.0.limiter.check(ask).at_once();
            // Read in place: the processor stalls on a move of data that was written just now.
            let Some(Ok(decision)) = &checked else {
                let failed = checked.and_then(Result::err);
                let answer = self.0.ask_single(live, single, subject, failed, started, view);
                return Some((live.mark, answer));
            };
            let (outcome, authority) =
                (Outcome::from(decision.verdict()), decision.authority().into());
            live.count(part.policy, outcome, authority);
            self.0.loss.see(outcome, authority, None);
            if let Some(started) = started {
                let what = (outcome, authority, Part::Decides);
                let duration = Some(started.elapsed());
                let policy = (Some(part.policy), None);
                self.0.report(live, policy, what, Some(decision), (None, duration));
            }
            let answer = Answer {
                live: Kept::Lent(live),
                parts: Cow::Borrowed(core::slice::from_ref(part)),
                outcome,
                authority,
                policy: Some(part.policy),
                decision: Some(Kept::Lent(decision)),
                cause: None,
                shadows: Vec::new(),
            };
            Some((live.mark, view(&answer)))
        })
    }
}

impl Live {
    /// As [`Policies::single_check`](crate::Policies); `None` while rulings are in force.
    #[inline]
    fn single_check(&self, fields: Option<&dyn Fields>) -> Option<&SingleCheck> {
        if self.rulings.is_some() {
            return None;
        }
        self.policies.single_check(fields)
    }

    pub(super) fn has_fast_path(&self) -> bool {
        self.rulings.is_none() && self.policies.has_single_checks()
    }
}

impl<S: Store> Inner<S> {
    /// The answer to a plan from a store that answers immediately.
    #[inline(always)]
    pub(super) fn ask_now<'l>(&'l self, live: &'l Arc<Live>, plan: &'l Plan) -> Answer<'l> {
        let checked = plan.only(live).and_then(|ask| self.limiter.check(ask).at_once());
        self.ask_unless(checked, live, plan)
    }

    /// The same, unless the plan already has an answer.
    #[inline(always)]
    fn ask_unless<'l>(
        &'l self,
        checked: Option<Result<Decision<'l>, Error>>,
        live: &'l Arc<Live>,
        plan: &'l Plan,
    ) -> Answer<'l> {
        let result = match checked {
            Some(result) => result,
            None => {
                let Some(ask) = plan.question(live) else { return plan.answered_early(live) };
                let result = at_once(self.limiter.check(ask.within(plan.deadline)));
                result.unwrap_or_else(|| Err(no_answer()))
            }
        };
        self.conclude(live, plan, result, false)
    }

    /// The answer if the direct check was not possible, as with slots to take, or if the store
    /// failed.
    #[inline(never)]
    fn ask_single<T>(
        &self,
        live: &Arc<Live>,
        single: &SingleCheck,
        subject: Subject,
        failed: Option<Error>,
        started: Option<Instant>,
        view: impl FnOnce(&Answer<'_>) -> T,
    ) -> T {
        let mut plan = Plan::new();
        plan.subjects.push(subject);
        plan.parts.push(single.part);
        plan.cost = single.cost.into();
        if let Some(ready) = live.policies.ready(single.part.policy) {
            plan.deadline = ready.deadline.unwrap_or(live.usual);
            plan.on_failure = ready.on_failure;
        }
        let answer = self.ask_unless(failed.map(Err), live, &plan);
        self.record(&answer, &[single.part.policy], started);
        view(&answer)
    }
}
