//! Holds: reserve and commit, acquire and release, by policies and under inline limits.

use core::convert::Infallible;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::time::Instant;

use arc_swap::Guard;
use parking_lot::Mutex;
use tollgate::{Error, Hold, HoldKind, Holding, Limit, LimitSet, Period, Store};

use super::live::Live;
use super::shared::Inner;
use super::{Answer, Gate, Prepared};
use crate::cost::{Commit, Cost, Estimate, Reserve};
use crate::outcome::Outcome;
use crate::quantile::Quantile;
use crate::resolve::Plan;

/// The answer to a request for a hold.
#[derive(Debug)]
#[must_use = "a hold that nobody settles stays open until its time ends"]
#[non_exhaustive]
pub struct Admission {
    /// The answer. Its numbers are those after the hold was placed.
    pub answer: Answer<'static>,
    /// The hold. `None` where nothing is held: on a denial, without a policy or a limit, and where
    /// the failure rule admits.
    pub hold: Option<Hold>,
    /// The place where a front reads the used units, if the policy that reserved sets it.
    pub commit: Option<Commit>,
    /// A hold that the store may have placed though it failed. Nobody knows of it, so that it is to
    /// be given back ([`Holds::release_in_doubt`](super::Holds::release_in_doubt)), or it stays
    /// until it ends.
    pub in_doubt: Option<Hold>,
    /// How many wait ahead of a request that is in the line.
    pub ahead: usize,
}

impl<S: Store> Gate<S> {
    /// Places a hold for a prepared request, on all counts of all policies that apply, or on none.
    /// [`HoldKind::Acquire`] takes slots for as long as the concurrency limits say, and charges the
    /// rate limits beside them; the other kinds keep units for `ttl`.
    ///
    /// Shadow policies are checked as in [`Gate::ask`], except those with a concurrency limit: a
    /// slot in shadow would never be released.
    ///
    /// # Errors
    /// As [`tollgate::Limiter::hold`], without the failures of the store: the failure rule
    /// decides those. A share of this process (`on_failure = "local"`) can hold nothing, and
    /// denies.
    pub async fn hold(
        &self,
        prepared: Prepared,
        kind: HoldKind,
        ttl: Option<Duration>,
    ) -> Result<Admission, Error> {
        self.place(prepared, kind, ttl, Err).await
    }

    /// Admits a prepared request as its policies want: with a hold where their cost is reserved or
    /// one of their limits counts slots, and as [`Gate::ask`] does elsewhere. It is for fronts that
    /// know when a request has ended, and that settle what it held then.
    ///
    /// There is always an answer: a request that cannot be held is denied, whatever the failure
    /// rule is.
    pub async fn admit(&self, prepared: Prepared) -> Admission {
        let Some((kind, ttl)) = prepared.plan.holds(&prepared.live) else {
            let answer = self.ask(prepared).await;
            return Admission { answer, hold: None, commit: None, in_doubt: None, ahead: 0 };
        };
        let refused = Ok::<Error, Infallible>;
        match self.place(prepared, kind, ttl, refused).await {
            Ok(held) => held,
            Err(never) => match never {},
        }
    }

    async fn place<E>(
        &self,
        prepared: Prepared,
        kind: HoldKind,
        ttl: Option<Duration>,
        refused: impl FnOnce(Error) -> Result<Error, E>,
    ) -> Result<Admission, E> {
        let Prepared { live, matched, plan, shadows, started, name, patience, .. } = prepared;
        let live = Guard::into_inner(live);
        let mut in_doubt = None;
        let (mut answer, hold, ahead) = match plan.question(&live) {
            None => (plan.answered_early(&live), None, 0),
            Some(ask) => {
                let ask = ask.with_patience(patience);
                let ask = match name {
                    Some(name) => ask.named(name),
                    None => ask,
                };
                let mut placing = self.0.limiter.hold(ask.holding(kind, ttl).within(plan.deadline));
                let placed = (&mut placing).await;
                in_doubt = unnamed(placing.in_doubt());
                match self.0.placed(placed) {
                    Ok((result, hold, ahead)) => (Answer::new(&live, &plan, result), hold, ahead),
                    Err(error) => {
                        let mut answer = Answer::new(&live, &plan, Err(refused(error)?));
                        answer.refuse_slots();
                        (answer, None, 0)
                    }
                }
            }
        };
        self.0.record(&answer, &matched.enforced, started);
        let shadows = self.0.ask_shadows(&live, &answer, plan.deadline, &shadows, started).await;
        answer.shadows = shadows;
        let commit = hold.as_ref().and_then(|_| plan.reserve(&live)?.commit.clone());
        Ok(Admission { answer: answer.into_owned(), hold, commit, in_doubt, ahead })
    }
}

/// The decision, the hold, and how many are ahead in line.
pub(super) type Placed<'l> = (Result<tollgate::Decision<'l>, Error>, Option<Hold>, usize);

/// A hold in doubt that is given back here. One with a name is its caller's to release, who may
/// have asked for it before.
pub(super) fn unnamed(in_doubt: Option<&Hold>) -> Option<Hold> {
    in_doubt.filter(|hold| hold.id.name().is_none()).cloned()
}

impl<S: Store> Inner<S> {
    /// Splits a placed hold from its decision, and counts it. The failures of the store are left
    /// to the failure rule.
    pub(super) fn placed<'l>(
        &self,
        placed: Result<Holding<'l>, Error>,
    ) -> Result<Placed<'l>, Error> {
        match placed {
            Ok(Holding { decision, hold, ahead, .. }) => {
                if let Some(hold) = &hold {
                    let count = match hold.answer {
                        0 => None,
                        1 => Some(&self.holds.named),
                        _ => Some(&self.holds.answered_again),
                    };
                    if hold.answer <= 1 {
                        self.holds.open.placed(hold, decision.at(), Instant::now());
                        self.holds.of(hold.kind()).fetch_add(1, Ordering::Relaxed);
                    }
                    if let Some(count) = count {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok((Ok(decision), hold, ahead))
            }
            Err(error @ Error::Store(_)) => Ok((Err(error), None, 0)),
            Err(error) => {
                if matches!(error, Error::Conflict(_)) {
                    self.holds.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }
}

impl Live {
    /// The cost of the policy that placed a hold, if the policy is still there.
    pub(super) fn reserve_of(&self, hold: &Hold) -> Option<&Reserve> {
        let mut names = hold.counts.iter().filter_map(|(_, limits)| limits.policy());
        names.find_map(|name| self.reserve(self.policies.place_of(name)?))
    }

    fn quantile(&self, policy: usize) -> Option<&Mutex<Quantile>> {
        self.quantiles.get(policy)?.as_deref()
    }

    /// Notes what was committed, for the estimates to come.
    pub(super) fn learn(&self, hold: &Hold, actual: u64) {
        let names = hold.counts.iter().filter_map(|(_, limits)| limits.policy());
        let mut places = names.filter_map(|name| self.policies.place_of(name));
        if let Some(quantile) = places.find_map(|place| self.quantile(place)) {
            quantile.lock().add(actual);
        }
    }

    fn reserve(&self, policy: usize) -> Option<&Reserve> {
        match &self.policies.policy(policy)?.cost {
            Cost::Reserve(reserve) => Some(reserve),
            _ => None,
        }
    }
}

impl Plan {
    /// Reserves the quantile of earlier commits, where the policy wants that and enough is known.
    pub(super) fn estimate(&mut self, live: &Live) {
        let Some(place) = self.reserves else { return };
        let Some(Reserve { estimate: Estimate::Quantile { at_most, .. }, max, .. }) =
            live.reserve(place)
        else {
            return;
        };
        let known = live.quantile(place).and_then(|quantile| quantile.lock().estimate());
        let limits = self.parts.iter().filter_map(|part| live.policies.limits_of(*part));
        let bounds = limits.flat_map(LimitSet::limits).filter_map(Limit::largest_reservation);
        let part = bounds.map(|most| at_most.of(most)).min().unwrap_or(u64::MAX);
        self.cost = known.unwrap_or(self.cost).min(*max).min(part).max(1);
    }

    /// How the policy that has the cost reserves it.
    fn reserve<'l>(&self, live: &'l Live) -> Option<&'l Reserve> {
        live.reserve(self.reserves?)
    }

    /// The hold that the policies want, and how long it lasts; `None` for a check.
    pub(super) fn holds(&self, live: &Live) -> Option<(HoldKind, Option<Duration>)> {
        let slots = self.slots(live);
        let Some(Reserve { hold, charge_at_end, .. }) = self.reserve(live) else {
            return slots.map(|_| (HoldKind::Acquire, None));
        };
        let kind = if *charge_at_end { HoldKind::Charging } else { HoldKind::Reserve };
        // A hold that also takes a slot cannot last longer than that.
        Some((kind, Some(slots.map_or(*hold, |slots| slots.min(*hold)))))
    }

    /// The longest time that the slots of this plan are held. `None` if it takes none; otherwise a
    /// check is refused, since it could never release one.
    #[cold]
    pub(super) fn slots(&self, live: &Live) -> Option<Duration> {
        let limits = self.parts.iter().filter_map(|part| live.policies.limits_of(*part));
        limits.filter_map(LimitSet::hold).map(Period::as_duration).min()
    }
}

impl Answer<'_> {
    /// Denies what a check cannot ask, whatever the failure rule says: a slot that nobody releases
    /// is not admitted.
    #[cold]
    pub(super) fn refuse_slots(&mut self) {
        self.outcome = Outcome::FailedClosed;
    }

    /// True when [`Answer::retry_after`] is an upper bound: open holds are in the way, and whoever
    /// settles one lets others in earlier.
    #[must_use]
    pub fn is_until_hold(&self) -> bool {
        self.decision().is_some_and(tollgate::Decision::is_until_hold)
    }
}
