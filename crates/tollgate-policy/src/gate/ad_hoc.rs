//! Operations of a gate besides checking a request by its policies. These are peeks, checks of one
//! policy by name, inline limits (the caller passes them with the check), and corrections.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::time::Instant;

use arc_swap::Guard;
use tollgate::{
    Ask, Charged, Decision, Error, Inspection, LimitSet, Receipt, Refund, RequestId, Store,
};

use super::local::InlineShares;
use super::observe::Counters;
use super::{Answer, Gate, Prepared};
use crate::cost::Cost;
use crate::field::Fields;
use crate::model::{DEFAULT_DEADLINE, Policy};
use crate::on_failure::OnFailure;
use crate::resolve::Refused;

/// The subject that [`Gate::probe`] charges.
const PROBE: &str = "tollgate:ready";

/// The limit of the probe. It admits more probes than there are instances to send them, and is
/// fresh, so its state is dropped, within a second.
const PROBE_LIMIT: &str = "1000/s via gcra";

/// The failure rule and the deadline of inline limits; a policy has its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// The answer when the store cannot answer.
    pub on_failure: OnFailure,
    /// The longest time to wait for the store.
    pub deadline: Duration,
}

impl Terms {
    /// Terms with this failure rule and the default deadline.
    #[must_use]
    pub fn new(on_failure: OnFailure) -> Self {
        Self { on_failure, deadline: DEFAULT_DEADLINE }
    }

    /// Sets the longest time to wait for the store.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl<S: Store> Gate<S> {
    /// As [`Gate::prepare`], for one policy by its name. Its conditions are ignored; everything
    /// else of it applies. `None` if there is no policy of this name.
    ///
    /// A shadow policy stays in shadow: it is checked, and never denies.
    #[must_use]
    pub fn prepare_named(&self, policy: &str, fields: &dyn Fields) -> Option<Prepared> {
        let mut prepared = self.begin();
        let place = prepared.live.policies.place_of(policy)?;
        prepared.matched = prepared.live.policies.matched_alone(place);
        prepared.fill(fields);
        Some(prepared)
    }

    /// The answer that the policies would give to a request: to a check, or to a hold of the kind
    /// that [`Prepared::kind`] says, or else the policies. It changes no count and no counter, and
    /// the observer is not called. Shadow policies are not checked.
    pub async fn peek(&self, prepared: Prepared) -> Answer<'static> {
        let Prepared { live, plan, kind, .. } = prepared;
        let live = Guard::into_inner(live);
        let kind = kind.or_else(|| plan.holds(&live).map(|(kind, _)| kind));
        let answer = match plan.question(&live) {
            Some(ask) => {
                let ask = match kind {
                    Some(kind) => ask.kind(kind),
                    None => ask,
                };
                let result = self.0.limiter.peek_within(plan.deadline, ask).await;
                self.0.conclude(&live, &plan, result, true)
            }
            None => plan.answered_early(&live),
        };
        answer.into_owned()
    }

    /// Checks inline limits, and charges when all of them admit. No policy is involved. The counts
    /// are the same as those of the same limits on the command line and in programs.
    ///
    /// # Errors
    /// An invalid ask, such as a cost of 0; a limit of which the share of a local rule cannot be
    /// counted. A store failure is not an error: the failure rule of `terms` decides.
    pub async fn check_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer<'static>, Error> {
        let started = self.started();
        let shares = InlineShares::new(&ask, terms.on_failure, false)?;
        let result = self.0.limiter.check_within(terms.deadline, ask).await;
        self.charged_limits(result, shares, terms, started)
    }

    pub(super) fn charged_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        shares: Option<Box<InlineShares>>,
        terms: Terms,
        started: Option<Instant>,
    ) -> Result<Answer<'static>, Error> {
        let answer = self.conclude_limits(result, shares.as_deref(), terms)?;
        if self.0.is_repeated(&answer) {
            return Ok(answer);
        }
        let (outcome, authority) = (answer.outcome(), answer.authority());
        let (live, error) = (&answer.live, answer.error());
        self.0.inline.add(outcome, authority);
        // A store that missed a shorter deadline than usual may answer all others in time.
        if error.is_none() || terms.deadline >= live.usual {
            self.0.loss.see(outcome, authority, error);
        }
        let what = (outcome, authority, true);
        let duration = started.map(|started| started.elapsed());
        self.0.report(live, None, what, answer.decision(), error, duration);
        Ok(answer)
    }

    /// The answer that [`Gate::check_limits`] would give. It changes no count and no counter.
    ///
    /// # Errors
    /// As [`Gate::check_limits`].
    pub async fn peek_limits(&self, ask: Ask<'_>, terms: Terms) -> Result<Answer<'static>, Error> {
        let shares = InlineShares::new(&ask, terms.on_failure, true)?;
        let result = self.0.limiter.peek_within(terms.deadline, ask).await;
        self.conclude_limits(result, shares.as_deref(), terms)
    }

    fn conclude_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        shares: Option<&InlineShares>,
        terms: Terms,
    ) -> Result<Answer<'static>, Error> {
        // An invalid ask is the caller's error; the failure rule does not apply.
        if let Err(error @ (Error::Ask(_) | Error::Parse(_))) = result {
            return Err(error);
        }
        Ok(self.0.conclude_inline(&self.0.live.load(), terms.on_failure, shares, result))
    }

    /// The number of each outcome under inline limits.
    #[must_use]
    pub fn counters_of_inline_limits(&self) -> &Counters {
        &self.0.inline
    }

    /// The number of answers that were repeated under a request id. They are in no other counter:
    /// each request was counted with its first answer.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.0.repeats.load(Ordering::Relaxed)
    }

    /// The number of checks under request ids that were repeated too often
    /// ([`Decision::is_id_overused`]).
    #[must_use]
    pub fn overused_ids(&self) -> u64 {
        self.0.overused.load(Ordering::Relaxed)
    }

    /// The number of each outcome of requests without a policy: `no_policy`, and `missing` if a
    /// front refused a request that it could not read.
    #[must_use]
    pub fn counters_of_unmatched(&self) -> &Counters {
        &self.0.unmatched
    }

    /// Tests whether the store can count now. It charges a count of the gate's own, which the store
    /// drops within about a second. A peek would not do: a store that is full or read-only answers
    /// peeks, and rejects every charge. The probe does not affect policies, counters or the
    /// observer.
    ///
    /// # Errors
    /// Why the store cannot count, or that it did not answer within the deadline.
    pub async fn probe(&self, deadline: Duration) -> Result<(), Error> {
        let limits: LimitSet = PROBE_LIMIT.parse()?;
        let ask = Ask::new(PROBE).under(&limits);
        self.0.limiter.check_within(deadline, ask).await.map(drop)
    }

    /// Refunds the charge of a receipt, once. What this process admitted by its share is given back
    /// there, if it still counts.
    ///
    /// # Errors
    /// A receipt of another store, or of the share of another process; or a store failure.
    pub async fn refund_receipt(&self, receipt: &Receipt) -> Result<Refund, Error> {
        self.refund_part(receipt, receipt.cost).await
    }

    /// Refunds `units` of the charge of a receipt, as [`tollgate::Limiter::refund_part`] does.
    ///
    /// # Errors
    /// Zero units, or more than were charged; as [`Gate::refund_receipt`].
    pub async fn refund_part(&self, receipt: &Receipt, units: u64) -> Result<Refund, Error> {
        match self.0.local_limiter(receipt) {
            Some(local) => local.refund_part(receipt, units).await,
            None => self.0.limiter.refund_part(receipt, units).await,
        }
    }

    /// Deletes a count. True when there was one.
    ///
    /// # Errors
    /// An invalid subject; or a store failure.
    pub async fn reset(&self, ask: Ask<'_>) -> Result<bool, Error> {
        self.0.limiter.reset(ask).await
    }

    /// Returns `delta` units, or takes them when negative. The result is the change of `remaining`
    /// per limit.
    ///
    /// # Errors
    /// As `Limiter::adjust`.
    pub async fn adjust(&self, ask: Ask<'_>, delta: i64) -> Result<Vec<i64>, Error> {
        self.0.limiter.adjust(ask, delta).await
    }

    /// Charges inline limits without a check, also beyond them.
    ///
    /// # Errors
    /// As `Limiter::charge`.
    pub async fn charge_limits(&self, ask: Ask<'_>) -> Result<Vec<Charged>, Error> {
        self.0.limiter.charge(ask).await
    }

    /// The stored state of a count; `None` if there is none.
    ///
    /// # Errors
    /// As [`Gate::reset`].
    pub async fn inspect(&self, ask: Ask<'_>) -> Result<Option<Inspection>, Error> {
        self.0.limiter.inspect(ask).await
    }
}

impl Prepared {
    /// Waits for the store at most this long, where the policies would wait longer.
    pub fn within(mut self, most: Duration) -> Self {
        self.plan.deadline = self.plan.deadline.min(most);
        self
    }

    /// Sets the id of the request ([`tollgate::Ask::request`]): asked again under it, the policies
    /// give their first answer, and nothing more is charged.
    pub fn request(&mut self, id: RequestId<'_>) {
        let shadows = self.shadows.iter_mut().map(|(_, plan)| plan);
        for plan in core::iter::once(&mut self.plan).chain(shadows) {
            plan.request = Some(Box::new((id.text().into(), id.with_text(""))));
        }
    }

    /// Sets the cost in units; the default is one. Of a policy that reserves it takes the place of
    /// the estimate, and is denied above its `max`. Nothing changes if a policy that applies has
    /// another cost of its own, since the two would conflict.
    ///
    /// # Errors
    /// The policy that has a cost.
    pub fn cost(&mut self, units: u64) -> Result<(), Box<Policy>> {
        let Self { live, matched, plan, shadows, .. } = self;
        let places = matched.enforced.iter().chain(&matched.shadows).copied();
        let own = |policy: &&Policy| !matches!(policy.cost, Cost::Fixed(1) | Cost::Reserve(_));
        let found = places.filter_map(|place| live.policies.policy(place)).find(own);
        if let Some(policy) = found {
            return Err(Box::new(policy.clone()));
        }
        for plan in core::iter::once(plan).chain(shadows.iter_mut().map(|(_, plan)| plan)) {
            plan.cost = units;
            if let Some(policy) = plan.reserves
                && let Some(max) = live.policies.policy(policy).and_then(|it| it.cost.max())
                && units > max
            {
                plan.refuse(Refused::Cost { policy, max });
            }
        }
        Ok(())
    }
}
