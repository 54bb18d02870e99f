//! What is asked of a gate other than for a request that policies decide: peeks, one policy by its
//! name, inline limits (those that the caller gives with the question), and corrections.

use core::time::Duration;
use std::time::Instant;

use arc_swap::Guard;
use tollgate::{Ask, Decision, Error, Inspection, LimitSet, Receipt, Refund, Store};

use super::observe::Counters;
use super::{Answer, Gate, Prepared};
use crate::field::Fields;
use crate::model::{Cost, DEFAULT_DEADLINE, OnFailure, Policy};
use crate::resolve::Plan;

/// Whose count [`Gate::probe`] writes.
const PROBE: &str = "tollgate:ready";

/// The limit of that count: it admits more probes than there are instances to send them, and is
/// fresh, so forgotten, within a second.
const PROBE_LIMIT: &str = "1000/s via gcra";

/// What holds for inline limits, as a policy says it for its own.
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
    /// As [`Gate::prepare`], for one policy by its name: its conditions are not looked at, its
    /// other parts are. Nothing when there is none of this name.
    ///
    /// A policy in shadow stays in shadow: it is asked, and never denies.
    #[must_use]
    pub fn prepare_named(&self, policy: &str, fields: &dyn Fields) -> Option<Prepared> {
        let mut prepared = self.begin();
        let place = prepared.live.policies.place_of(policy)?;
        prepared.matched = prepared.live.policies.matched_alone(place);
        prepared.fill(fields);
        Some(prepared)
    }

    /// What the policies would say to a request, and changes nothing: no count, no counter, no
    /// word to the observer. Policies in shadow are not asked.
    pub async fn peek(&self, prepared: Prepared) -> Answer<'static> {
        let Prepared { live, plan, .. } = prepared;
        let live = Guard::into_inner(live);
        let answer = match plan.question(&live) {
            Some(ask) => {
                let result = self.0.limiter.peek_within(plan.deadline, ask).await;
                Answer::new(&live, &plan, result)
            }
            None => plan.answered_early(&live),
        };
        answer.into_owned()
    }

    /// Asks under inline limits, and charges when all of them admit. No policy is looked at, so
    /// counts are those of the same limits on the command line and in programs.
    ///
    /// # Errors
    /// An ask that makes no sense, as a cost of 0. A store that cannot answer is no error: the
    /// failure rule of `terms` answers.
    pub async fn check_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer<'static>, Error> {
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
    ) -> Result<Answer<'static>, Error> {
        let started = self.started();
        let result = self.0.limiter.check_idempotent_within(terms.deadline, request, ask).await;
        self.charged_limits(result, terms, started)
    }

    fn charged_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        terms: Terms,
        started: Option<Instant>,
    ) -> Result<Answer<'static>, Error> {
        let answer = self.conclude_limits(result, terms)?;
        let (outcome, authority) = (answer.outcome(), answer.authority());
        let (live, error) = (&answer.live, answer.error());
        self.0.inline.add(outcome, authority);
        // A store that missed a deadline shorter than usual may answer all others in time.
        if error.is_none() || terms.deadline >= live.usual {
            self.0.loss.see(outcome, authority, error);
        }
        let what = (outcome, authority, true);
        let duration = started.map(|started| started.elapsed());
        self.0.report(live, None, what, answer.decision(), error, duration);
        Ok(answer)
    }

    /// What [`Gate::check_limits`] would say; changes and counts nothing.
    ///
    /// # Errors
    /// As [`Gate::check_limits`].
    pub async fn peek_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer<'static>, Error> {
        let result = self.0.limiter.peek_within(terms.deadline, ask).await;
        self.conclude_limits(result, terms)
    }

    fn conclude_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        terms: Terms,
    ) -> Result<Answer<'static>, Error> {
        // A question that makes no sense is the caller's, and no failure rule answers it.
        if let Err(error @ (Error::Ask(_) | Error::Parse(_))) = result {
            return Err(error);
        }
        let plan = Plan { on_failure: terms.on_failure, ..Plan::new() };
        Ok(Answer::new(&self.0.live.load(), &plan, result).into_owned())
    }

    /// How often each outcome was under inline limits.
    #[must_use]
    pub fn counters_of_inline_limits(&self) -> &Counters {
        &self.0.inline
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

impl Prepared {
    /// Asks for so many units, in place of one. Nothing is changed when a policy that applies has a
    /// cost of its own: then two would say what the request costs.
    ///
    /// # Errors
    /// The policy that has one.
    pub fn cost(&mut self, units: u64) -> Result<(), Box<Policy>> {
        let Self { live, matched, plan, shadows, .. } = self;
        let places = matched.enforced.iter().chain(&matched.shadows).copied();
        let own = |policy: &&Policy| policy.cost != Cost::Fixed(1);
        let found = places.filter_map(|place| live.policies.policy(place)).find(own);
        if let Some(policy) = found {
            return Err(Box::new(policy.clone()));
        }
        for plan in core::iter::once(plan).chain(shadows.iter_mut().map(|(_, plan)| plan)) {
            plan.cost = units;
        }
        Ok(())
    }
}
