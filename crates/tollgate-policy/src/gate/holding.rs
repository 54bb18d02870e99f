//! Holds: reserve and commit, acquire and release, by policies and under inline limits.

use core::convert::Infallible;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::time::Instant;

use arc_swap::Guard;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::{Cost, Error, Hold, HoldKind, Holding, Limit, Period, Store, Unit};

use super::live::Live;
use super::open_holds::Priced;
use super::shared::Inner;
use super::{Answer, Gate, Prepared};
use crate::outcome::Outcome;
use crate::quantile::Quantile;
use crate::reserve::{Commit, Commits, Estimate, Reserve};
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
    /// Where a front reads the used units, as far as the policies that reserved set it.
    pub commits: Commits,
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
            return Admission {
                answer,
                hold: None,
                commits: Commits::default(),
                in_doubt: None,
                ahead: 0,
            };
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
                match self.0.placed(placed, || plan.priced(&live)) {
                    Ok((result, hold, ahead)) => (Answer::new(&live, &plan, result), hold, ahead),
                    Err(error) => {
                        let mut answer = Answer::new(&live, &plan, Err(refused(error)?));
                        answer.refuse();
                        (answer, None, 0)
                    }
                }
            }
        };
        self.0.record(&answer, &matched.enforced, started);
        let shadows = self.0.ask_shadows(&live, &answer, plan.deadline, &shadows, started).await;
        answer.shadows = shadows;
        let commits = hold.as_ref().map(|_| plan.commits(&live)).unwrap_or_default();
        Ok(Admission { answer: answer.into_owned(), hold, commits, in_doubt, ahead })
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
        priced: impl FnOnce() -> Priced,
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
                        self.holds.open.placed(hold, priced(), decision.at(), Instant::now());
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
    /// The positions of the policies that placed a hold and of those that only brought their price,
    /// as far as they are still there.
    pub(super) fn policies_of<'h>(
        &'h self,
        hold: &'h Hold,
        priced: &'h Priced,
    ) -> impl Iterator<Item = usize> + use<'h> {
        let names = hold.counts.iter().filter_map(|(_, limits)| limits.policy());
        let names = names.chain(priced.iter().map(String::as_str));
        names.filter_map(|name| self.policies.place_of(name))
    }

    /// The amounts of a policy that are known afterwards.
    fn reserves(&self, policy: usize) -> impl Iterator<Item = (&Unit, &Reserve)> {
        self.policies.policy(policy).into_iter().flat_map(|policy| policy.cost.reserves())
    }

    /// How a policy reserves a unit.
    pub(super) fn reserve(&self, policy: usize, unit: &Unit) -> Option<&Reserve> {
        self.policies.policy(policy)?.cost.of(unit)?.reserve()
    }

    fn quantile(&self, policy: usize, unit: &Unit) -> Option<&Mutex<Quantile>> {
        let mut of_policy = self.quantiles.get(policy)?.iter();
        of_policy.find(|(known, _)| known == unit).map(|(_, quantile)| &**quantile)
    }

    /// Notes what was committed, for the estimates to come.
    pub(super) fn learn(&self, (hold, priced): (&Hold, &Priced), actual: &Cost) {
        for (unit, amount) in actual.amounts().iter() {
            let mut found = self.policies_of(hold, priced);
            if let Some(quantile) = found.find_map(|place| self.quantile(place, unit)) {
                quantile.lock().add(amount);
            }
        }
    }
}

impl Plan {
    /// Reserves the quantiles of earlier commits, where the policies want that and enough is known.
    pub(super) fn estimate(&mut self, live: &Live) {
        if self.reserves.is_none() {
            return;
        }
        let policies: SmallVec<[usize; 4]> = self.policies().collect();
        for (place, (unit, reserve)) in
            policies.into_iter().flat_map(|place| live.reserves(place).map(move |it| (place, it)))
        {
            let Estimate::Quantile { at_most, .. } = &reserve.estimate else { continue };
            let Some(first) = self.cost.amounts().named(unit) else { continue };
            let known = live.quantile(place, unit).and_then(|it| it.lock().estimate());
            let limits = self.limits(&live.policies).flat_map(|set| set.whole.limits());
            let limits = limits.filter(|limit| limit.unit() == unit);
            let bounds = limits.filter_map(Limit::largest_reservation);
            let part = bounds.map(|most| at_most.of(most)).min().unwrap_or(u64::MAX);
            self.set_amount(unit, known.unwrap_or(first).min(reserve.max).min(part).max(1));
        }
    }

    /// How the first policy with a cost that is known afterwards reserves it. The others that apply
    /// have the same terms.
    fn reserve<'l>(&self, live: &'l Live) -> Option<&'l Reserve> {
        live.reserves(self.reserves?).next().map(|(_, reserve)| reserve)
    }

    /// Where a front reads what was used.
    fn commits(&self, live: &Live) -> Commits {
        let reserves = self.policies().flat_map(|place| live.reserves(place));
        let mut all: Vec<(Unit, Commit)> = Vec::new();
        for (unit, reserve) in reserves {
            // Policies that share a unit read the same.
            if let Some(commit) = &reserve.commit
                && all.iter().all(|(known, _)| known != unit)
            {
                all.push((*unit, commit.clone()));
            }
        }
        all.into_iter().collect()
    }

    /// The names of the policies that only bring their price.
    fn priced(&self, live: &Live) -> Priced {
        let policies = self.priced.iter().filter_map(|place| live.policies.policy(*place));
        policies.map(|policy| policy.name.clone()).collect()
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
        let limits = self.limits(&live.policies);
        limits.filter_map(|set| set.whole.hold()).map(Period::as_duration).min()
    }
}

impl Answer<'_> {
    /// Denies what cannot be asked, whatever the failure rule says: as a check of slots, which
    /// nobody would release.
    #[cold]
    pub(super) fn refuse(&mut self) {
        self.outcome = Outcome::FailedClosed;
    }

    /// True when [`Answer::retry_after`] is an upper bound: open holds are in the way, and whoever
    /// settles one lets others in earlier.
    #[must_use]
    pub fn is_until_hold(&self) -> bool {
        self.decision().is_some_and(tollgate::Decision::is_until_hold)
    }
}
