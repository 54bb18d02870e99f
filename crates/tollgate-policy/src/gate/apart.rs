//! What is asked of a gate other than for a request that policies decide: a look that changes
//! nothing, one policy by its name, limits that the caller brings, and corrections.

use core::time::Duration;
use std::time::Instant;

use arc_swap::Guard;
use tollgate::{
    Ask, Decision, Error, Inspection, LimitSet, ParseError, Receipt, Refund, Store, Subject,
};

use super::answer::{Answered, Cause, Said};
use super::observe::Counters;
use super::outcome::{Authority, Outcome};
use super::{Answer, Gate, Looked};
use crate::field::Fields;
use crate::model::{Cost, DEFAULT_DEADLINE, OnFailure, Policy, Rule};
use crate::pattern::Condition;
use crate::policies::Policies;
use crate::resolve::Parts;

/// Whose count [`Gate::probe`] writes.
const PROBE: &str = "tollgate:ready";

/// The limit of that count: it admits more probes than there are instances to send them, and is
/// fresh, so forgotten, within a second.
const PROBE_LIMIT: &str = "1000/s via gcra";

/// What holds for limits that a caller brings, as a policy says it for its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// The answer when the store cannot answer.
    pub on_failure: OnFailure,
    /// How long the store may take.
    pub deadline: Duration,
}

impl Terms {
    /// This failure rule, and the usual deadline.
    #[must_use]
    pub fn new(on_failure: OnFailure) -> Self {
        Self { on_failure, deadline: DEFAULT_DEADLINE }
    }

    /// How long the store may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl<S: Store> Gate<S> {
    /// As [`Gate::look`], for one policy by its name: its conditions are not looked at, its other
    /// parts are. Nothing when there is none of this name.
    ///
    /// A policy in shadow is looked at as it is everywhere: it is asked, and never denies.
    #[must_use]
    pub fn look_named(&self, policy: &str, fields: &dyn Fields) -> Option<Looked> {
        let mut looked = self.begin();
        let place = looked.live.policies.place_of(policy)?;
        looked.matched = looked.live.policies.matched_alone(place);
        looked.prepare(fields);
        Some(looked)
    }

    /// What the policies would say to a request, and changes nothing: no count, no counter, no
    /// word to the observer. Policies in shadow are not asked.
    pub async fn peek(&self, looked: Looked) -> Answer {
        let Looked { live, asked, .. } = looked;
        let (live, plan) = (Guard::into_inner(live), asked.plan);
        let said = match plan.question(&live) {
            Some(ask) => {
                let result = self.0.limiter.peek_within(plan.deadline, ask).await;
                Some(Said::of_store(&plan, result).into_owned())
            }
            None => asked.early.map(|early| *early),
        };
        let (parts, said, shadows) = (plan.parts, said.unwrap_or_default(), Vec::new());
        Answer(Box::new(Answered { live, parts, said, shadows }))
    }

    /// Asks under limits that the caller brings, and charges when all of them admit. No policy is
    /// looked at, so counts are those of the same limits on the command line and in programs.
    ///
    /// # Errors
    /// An ask that makes no sense, as a cost of 0. A store that cannot answer is no error: the
    /// failure rule of `terms` answers.
    pub async fn check_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer, Error> {
        let started = self.started();
        let result = self.0.limiter.check_within(terms.deadline, ask).await;
        self.charged_limits(result, terms, started)
    }

    /// As [`Gate::check_limits`], under a request id: asked again with the same id, nothing is
    /// charged again, and the first decision is answered.
    ///
    /// # Errors
    /// As [`Gate::check_limits`]; another question under the same id; an empty id or one of over
    /// 256 bytes; a store that remembers no ids, as memory and SQLite.
    pub async fn check_limits_once(
        &self,
        request: &str,
        ask: Ask<'_>,
        terms: Terms,
    ) -> Result<Answer, Error> {
        let started = self.started();
        let result = self.0.limiter.check_idempotent_within(terms.deadline, request, ask).await;
        self.charged_limits(result, terms, started)
    }

    fn charged_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        terms: Terms,
        started: Option<Instant>,
    ) -> Result<Answer, Error> {
        let answer = self.conclude_limits(result.map(Decision::into_owned), terms)?;
        let Answered { live, said, .. } = &*answer.0;
        self.0.brought.add(said.outcome, said.authority);
        // Who gives the store less time than others do says nothing of it with a deadline missed.
        if said.error().is_none() || terms.deadline >= live.usual {
            self.0.loss.see(said.outcome, said.authority, said.error());
        }
        let what = (said.outcome, said.authority, true);
        let duration = started.map(|started| started.elapsed());
        self.0.tell(live, None, what, said.decision.as_ref(), said.error(), duration);
        Ok(answer)
    }

    /// What [`Gate::check_limits`] would say; changes and counts nothing.
    ///
    /// # Errors
    /// As [`Gate::check_limits`].
    pub async fn peek_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer, Error> {
        let result = self.0.limiter.peek_within(terms.deadline, ask).await;
        self.conclude_limits(result.map(Decision::into_owned), terms)
    }

    fn conclude_limits(
        &self,
        result: Result<Decision<'static>, Error>,
        terms: Terms,
    ) -> Result<Answer, Error> {
        let mut said = Said::default();
        match result {
            Ok(decision) => {
                said.outcome = Outcome::of(decision.verdict());
                said.authority = Authority::Store;
                said.decision = Some(decision);
            }
            Err(error @ Error::Store(_)) => {
                said.outcome = Outcome::failed(terms.on_failure);
                said.authority = Authority::FailureRule;
                said.cause = Some(Cause::Error(error));
            }
            Err(error) => return Err(error),
        }
        let (live, parts, shadows) =
            (Guard::into_inner(self.0.live.load()), Parts::new(), Vec::new());
        Ok(Answer(Box::new(Answered { live, parts, said, shadows })))
    }

    /// How often each outcome was under limits that callers brought.
    #[must_use]
    pub fn counters_of_limits(&self) -> &Counters {
        &self.0.brought
    }

    /// How often each outcome was where no policy applied: `no_policy`, and `missing` where a front
    /// refused a request that it could not read.
    #[must_use]
    pub fn counters_of_unmatched(&self) -> &Counters {
        &self.0.unmatched
    }

    /// Whether the store can count now: charges a count of the gate's own, which the store forgets
    /// within about a second. A look would not do: a store that is full or read-only answers looks,
    /// and refuses every charge. No policy, no counter and no observer sees it.
    ///
    /// # Errors
    /// Why the store cannot count, within the deadline.
    pub async fn probe(&self, deadline: Duration) -> Result<(), Error> {
        let limits: LimitSet = PROBE_LIMIT.parse()?;
        let ask = Ask::new(PROBE).under(&limits);
        self.0.limiter.check_within(deadline, ask).await.map(drop)
    }

    /// Gives back what a receipt says was charged, once.
    ///
    /// # Errors
    /// A receipt of another store; or the store could not answer.
    pub async fn refund_receipt(&self, receipt: &Receipt) -> Result<Refund, Error> {
        self.0.limiter.refund(receipt).await
    }

    /// Gives back `units` of what a receipt says was charged, as [`tollgate::Limiter::refund_part`]
    /// does.
    ///
    /// # Errors
    /// No units, or more than were charged; as [`Gate::refund_receipt`].
    pub async fn refund_part(&self, receipt: &Receipt, units: u64) -> Result<Refund, Error> {
        self.0.limiter.refund_part(receipt, units).await
    }

    /// Forgets a count. True when there was one.
    ///
    /// # Errors
    /// A subject that is none; or the store could not answer.
    pub async fn reset(&self, ask: Ask<'_>) -> Result<bool, Error> {
        self.0.limiter.reset(ask).await
    }

    /// Gives units back, or takes them when negative: the change of `remaining` per limit.
    ///
    /// # Errors
    /// As `Limiter::adjust`.
    pub async fn adjust(&self, ask: Ask<'_>, delta: i64) -> Result<Vec<i64>, Error> {
        self.0.limiter.adjust(ask, delta).await
    }

    /// What is held for a count.
    ///
    /// # Errors
    /// As [`Gate::reset`].
    pub async fn inspect(&self, ask: Ask<'_>) -> Result<Option<Inspection>, Error> {
        self.0.limiter.inspect(ask).await
    }
}

impl Looked {
    /// Asks for so many units, in place of one. Nothing is changed when a policy that applies has a
    /// cost of its own: then two would say what the request costs.
    ///
    /// # Errors
    /// The policy that has one.
    pub fn cost(&mut self, units: u64) -> Result<(), Box<Policy>> {
        let Self { live, matched, asked, shadows, .. } = self;
        let places = matched.enforced.iter().chain(&matched.shadows).copied();
        let own = |policy: &&Policy| policy.cost != Cost::Fixed(1);
        let found = places.filter_map(|place| live.policies.policy(place)).find(own);
        if let Some(policy) = found {
            return Err(Box::new(policy.clone()));
        }
        for asked in core::iter::once(asked).chain(shadows.iter_mut().map(|(_, asked)| asked)) {
            asked.plan.cost = units;
        }
        Ok(())
    }
}

/// How one policy stands to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// The first of its conditions that does not hold; none when all do.
    pub fails: Option<&'p Condition>,
    /// Whether it is asked: all its conditions hold, and no policy before it is the only one that
    /// counts.
    pub applies: bool,
}

/// What a policy counts for one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubjectCounts {
    /// Every set of limits that the subject may be counted under: those of the entries with such a
    /// subject, and of their overrides. Each is a count of its own.
    pub limits: Vec<LimitSet>,
    /// What the policy shares on a cluster, where the subject has it.
    pub shard: Option<String>,
}

impl Policies {
    /// The counts that a policy keeps for a subject; without limits where it counts by other
    /// dimensions than the subject's. None when there is no such policy.
    ///
    /// # Errors
    /// None that a policy which was read has.
    pub fn counts_of(
        &self,
        policy: &str,
        subject: &Subject,
    ) -> Result<Option<SubjectCounts>, ParseError> {
        let Some(place) = self.place_of(policy) else { return Ok(None) };
        let (Some(ready), Some(policy)) = (self.ready(place), self.policy(place)) else {
            return Ok(None);
        };
        let dimensions: Vec<(&str, _)> = subject.dimensions().collect();
        let has = |name: &str| dimensions.iter().any(|(known, _)| *known == name);
        let mut limits: Vec<LimitSet> = Vec::new();
        for entry in policy.entries.iter().filter(|entry| entry.counts_by(&has, dimensions.len())) {
            let others = entry.overrides.iter().filter_map(|other| match &other.rule {
                Rule::Limits(limits) => Some(limits),
                Rule::Unlimited | Rule::Banned => None,
            });
            for set in core::iter::once(&entry.limits).chain(others) {
                let set = set.clone().in_policy(&policy.name)?;
                // The same limits with other numbers are the same count.
                if limits.iter().all(|known| known.identity() != set.identity()) {
                    limits.push(set);
                }
            }
        }
        let shard = ready.shard.as_ref().and_then(|field| {
            let name = field.to_string();
            let (_, value) = dimensions.iter().find(|(known, _)| *known == name)?;
            String::from_utf8(value.to_vec()).ok()
        });
        Ok(Some(SubjectCounts { limits, shard }))
    }

    /// How every policy stands to a request, in their order.
    #[must_use]
    pub fn standings(&self, fields: &dyn Fields) -> Vec<Standing<'_>> {
        let matched = self.matched(fields);
        let applies =
            |place: &usize| matched.enforced.contains(place) || matched.shadows.contains(place);
        let each = self.policies().iter().enumerate();
        each.map(|(place, policy)| Standing {
            policy,
            fails: policy.when.iter().find(|condition| !condition.holds(fields)),
            applies: applies(&place),
        })
        .collect()
    }
}
