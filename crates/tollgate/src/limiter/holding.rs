//! Holds: reserve and commit, acquire and release.

use core::slice;
use core::time::Duration;

use super::decide::{Limiter, refused};
use super::kept::{check_holds, check_placed};
use super::{Pending, call};
use crate::ask::{
    Ask, check_cost, check_shard, check_ttl, counts_of, shortest_slots, text_of, ttl_us,
};
use crate::cost::{Amounts, Cost};
use crate::decision::Decision;
use crate::engine::{Mode, Outcome, Placed, RELEASED_WITHOUT_UNITS};
use crate::error::Error;
use crate::hold::{Hold, HoldKind, HoldTerms, Holding, Patience, Settled};
use crate::limit::{LimitSet, MAX_COST};
use crate::operation::{self, Check, Settle};
use crate::question::{Parts, Question};
use crate::store::Store;
use crate::subject::Subject;
use crate::time::Time;

impl<S: Store> Limiter<S> {
    /// Places the hold that the ask describes ([`Ask::reserve`], [`Ask::acquire`]) on all of its
    /// counts, or on none.
    ///
    /// A reserve counts in full and does not recover until it is settled: [`Limiter::commit`]
    /// charges what was used, with 0 nothing. Where no commit comes, it ends by itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Ask, Limiter};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("1000/m via token_bucket".parse()?);
    /// let estimate = Ask::new("bob").cost(800).reserve(Duration::from_secs(60));
    /// let hold = limiter.hold(estimate).await?.hold.expect("admitted");
    /// // Nobody else gets these 800 meanwhile.
    /// assert_eq!(limiter.check(Ask::new("bob").peek()).await?.remaining(), 200);
    /// let settled = limiter.commit(&hold, 300).await?;
    /// assert_eq!(settled.charged[0].remaining, 700);
    /// // Twice is once.
    /// assert!(limiter.commit(&hold, 300).await?.already);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// An acquire takes slots, which [`Limiter::release`] gives back. A hold that is not released
    /// ends by itself after the time that the limit says, unless [`Limiter::renew`] comes before.
    ///
    /// ```
    /// use tollgate::{Ask, Limiter};
    /// let limiter = Limiter::memory("100/s via gcra, 1 at once".parse()?);
    /// let slot = || limiter.hold(Ask::new("backend").acquire()).now();
    /// let hold = slot()?.hold.expect("a slot is free");
    /// assert!(slot()?.hold.is_none());
    /// limiter.release(&hold).now()?;
    /// assert!(slot()?.hold.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::check`]; also an ask without terms, a partial ask, a `ttl` outside of 1 ms to
    /// 366 days or longer than the hold of a concurrency limit, an acquire of limits without slots,
    /// and more than [`crate::engine::MAX_HOLDS`] open holds on a count.
    ///
    /// # Cancel safety
    /// Dropped while the store is asked, the store may have placed a hold that nobody knows, which
    /// stays until its end: [`Pending::in_doubt`]. [`Limiter::acquire_guard`] gives it back.
    pub fn hold<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Pending<'l, call::Hold<'l, S>> {
        Pending::boxed(call::Hold { limiter: self, ask: ask.into(), terms: None })
    }

    /// Makes the terms of a hold. The result is the hold that a store may have placed by them
    /// without an answer.
    pub(super) fn hold_in_doubt(
        &self,
        ask: &mut Ask<'_>,
        terms: &mut Option<HoldTerms>,
    ) -> Result<Option<Hold>, Error> {
        let cost = ask.cost.clone();
        let shard = text_of(ask.shard.as_deref()).map(str::to_owned);
        let mut parts = Parts::new();
        let question = ask.question_holding(&self.limits, (terms, &mut parts))?;
        Ok(question.hold.map(|HoldTerms { id, .. }| {
            let counts = counts_of(&question);
            // One with a name may have been answered before, and is then kept.
            let hold = Hold::new(*id, 0, cost, Time::default(), counts).undelivered();
            Hold { shard, ..hold }
        }))
    }

    /// Asks the store to place a hold, by terms that were made for it before, if any were.
    pub(super) async fn place<'l>(
        &'l self,
        mut ask: Ask<'l>,
        mut terms: Option<HoldTerms>,
    ) -> Result<Holding<'l>, Error> {
        check_holds::<S>()?;
        let cost = ask.cost.clone();
        let (counts, outcome) = {
            let mut parts = Parts::new();
            let question = ask.question_holding(&self.limits, (&mut terms, &mut parts))?;
            (counts_of(&question), self.store.perform(&Check::new(&question)).await?)
        };
        self.holding(ask, terms, cost, counts, &outcome)
    }

    /// The answer for one subject from a store that can place a hold immediately. It is tried
    /// before a future is built, into which the ask moves. On `None` nothing was asked, and the ask
    /// is as it was.
    #[inline]
    pub(super) fn hold_at_once<'l>(
        &'l self,
        ask: &mut Ask<'l>,
    ) -> Option<Result<Holding<'l>, Error>> {
        let Ask {
            first: Some(first),
            more,
            cost: Cost { amount: cost, units: None },
            partial: false,
            shard,
            name: None,
            patience: patience @ (Patience::None | Patience::Waiting),
            hold: Some((kind, ttl)),
            request: None,
            peek: false,
            deadline: _,
        } = ask
        else {
            return None;
        };
        if !more.is_empty() {
            return None;
        }
        let (cost, patience, kind, ttl) = (*cost, *patience, *kind, *ttl);
        if kind == HoldKind::Credit || !S::KEEPS.holds {
            return None;
        }
        let within = text_of(shard.as_deref());
        let checked = check_cost(cost).and_then(|()| check_shard(within));
        let read = checked.and_then(|()| {
            let counted = first.counted(&self.limits, within)?;
            let slots = shortest_slots([counted.limits].into_iter());
            Ok((counted, ttl_us(slots, ttl)?))
        });
        let (counted, ttl_us) = match read {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        let terms = HoldTerms::new(kind, ttl_us).with_patience(patience);
        if !counted.limits.is_plain() {
            return None;
        }
        let question = Question::new(slice::from_ref(&counted), cost, Mode::Whole).holding(&terms);
        // Read in place, as for a check.
        let answer = self.store.perform_now(&Check::new(&question));
        let Some(Ok(outcome)) = &answer else { return refused(answer) };
        if let Err(error) = check_placed(outcome) {
            return Some(Err(error));
        }
        let hold = outcome.hold.as_deref().map(|Placed { fence, end, .. }| Hold {
            id: terms.id,
            fence: *fence,
            cost: cost.into(),
            end: *end,
            counts: vec![(counted.subject.clone(), counted.limits.clone())],
            shard: within.map(str::to_owned),
            answer: 0,
            is_undelivered: false,
        });
        let first = ask.first.take()?;
        let set = first.limits.unwrap_or(&self.limits);
        let shard = ask.shard.take().map(|shard| *shard);
        let decision = first.into_named().map_err(Error::from);
        let decision = decision.and_then(|it| self.decision_of_one((it, set), shard, outcome));
        Some(decision.map(|decision| Holding { decision, hold, ahead: 0 }))
    }

    fn holding<'l>(
        &'l self,
        ask: Ask<'l>,
        terms: Option<HoldTerms>,
        cost: Cost,
        counts: Vec<(Subject, LimitSet)>,
        outcome: &Outcome,
    ) -> Result<Holding<'l>, Error> {
        if terms.is_some() {
            check_placed(outcome)?;
        }
        let shard = text_of(ask.shard.as_deref()).map(str::to_owned);
        let decision = self.decision(ask, outcome)?;
        let placed = terms.zip(outcome.hold.as_deref());
        let hold = placed.map(|(HoldTerms { id, .. }, Placed { fence, end, answer })| Hold {
            shard,
            answer: *answer,
            ..Hold::new(id, *fence, cost, *end, counts)
        });
        Ok(Holding { decision, hold, ahead: outcome.ahead.into() })
    }

    /// Settles a hold in one step: takes it away, and charges the used units at this time. The
    /// excess is debt, as after a [`Limiter::charge`]. With 0, nothing was used.
    ///
    /// A number is requests. Of a unit that [`Cost::used`] does not name, the estimate is charged
    /// if the hold [charges at its end](crate::Reserve::charging), else nothing. A plain 0 is
    /// nothing of any unit. A unit that was not reserved may be named.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Ask, Cost, Limiter, Reserve};
    /// let limiter = Limiter::memory("60/m, 100000/m of tokens via gcra".parse()?);
    /// let estimate = Cost::new([("requests", 1), ("tokens", 4_000)])?;
    /// let terms = Reserve::from(Duration::from_secs(60)).charging();
    /// let hold = limiter.hold(Ask::new("bob").cost(estimate).reserve(terms)).now()?.hold;
    /// let used = Cost::used([("tokens", 1_312)])?;
    /// let settled = limiter.commit(&hold.expect("admitted"), used).now()?;
    /// assert_eq!(settled.actual.to_string(), "requests=1,tokens=1312");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It is idempotent: a repeated commit within a minute charges nothing and reports that. The
    /// slot of a concurrency limit is given back.
    ///
    /// # Errors
    /// A hold that is not open: it has ended by itself, was reset, or never was. Nothing was
    /// charged then; [`Limiter::charge`] charges what was used. Also more than 2^40 units, or units
    /// for a hold of [`Ask::acquire`]; or a store failure.
    pub fn commit<'l>(
        &'l self,
        hold: &'l Hold,
        actual: impl Into<Cost>,
    ) -> Pending<'l, call::Commit<'l, S>> {
        Pending::boxed(call::Commit { limiter: self, hold, actual: actual.into() })
    }

    pub(super) fn settle_at_once(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Option<Result<Settled, Error>> {
        if let Err(error) = check_counts(hold).and_then(|()| check_actual(hold, actual)) {
            return Some(Err(error));
        }
        Some(match self.store.perform_now(&Settle::new(hold, actual))? {
            Ok(settled) => settled.ok_or_else(|| not_open(hold)),
            Err(error) => Err(error.into()),
        })
    }

    pub(super) async fn settle(&self, hold: &Hold, actual: Amounts<'_>) -> Result<Settled, Error> {
        check_counts(hold)?;
        check_actual(hold, actual)?;
        self.store.perform(&Settle::new(hold, actual)).await?.ok_or_else(|| not_open(hold))
    }

    /// Gives the slots of a hold back. True when it was open until now.
    ///
    /// Where only its name is known ([`Ask::named_hold`]) and no hold has it, an ask under the
    /// name is refused for as long as a hold lasts, and at most for a minute.
    ///
    /// # Errors
    /// A store failure.
    pub fn release<'l>(&'l self, hold: &'l Hold) -> Pending<'l, call::Release<'l, S>> {
        Pending::boxed(call::Release(self, hold))
    }

    pub(super) fn give_back_at_once(&self, hold: &Hold) -> Option<Result<bool, Error>> {
        if let Err(error) = check_counts(hold) {
            return Some(Err(error));
        }
        let settled = self.store.perform_now(&Settle::new(hold, 0.into()))?;
        Some(settled.map(|it| it.is_some_and(|it| !it.already)).map_err(Error::from))
    }

    pub(super) async fn give_back(&self, hold: &Hold) -> Result<bool, Error> {
        check_counts(hold)?;
        let settled = self.store.perform(&Settle::new(hold, 0.into())).await?;
        Ok(settled.is_some_and(|settled| !settled.already))
    }

    /// Renews a hold, which then ends after `ttl`, or after the time that its concurrency limits
    /// say. False when it is not open any more. Its holder must stop then, since others may have
    /// its slot.
    ///
    /// # Errors
    /// A `ttl` out of range; or a store failure.
    pub async fn renew(&self, hold: &mut Hold, ttl: Option<Duration>) -> Result<bool, Error> {
        check_counts(hold)?;
        let slots = shortest_slots(hold.counts.iter().map(|(_, limits)| limits));
        let ttl_us = match (ttl, slots.and_then(LimitSet::hold)) {
            (Some(ttl), _) => check_ttl(slots, ttl)?,
            (None, Some(longest)) => longest.as_micros(),
            (None, None) => {
                return Err(Error::Ask(
                    "say how long the hold is to last: give a `ttl`".to_owned(),
                ));
            }
        };
        let end: Option<Time> = self.store.perform(&operation::Renew::new(hold, ttl_us)).await?;
        if let Some(end) = end {
            hold.end = end;
        }
        Ok(end.is_some())
    }

    /// Places a hold with a guard that releases it when it is dropped. `None` on a denial. An ask
    /// without terms [acquires](Ask::acquire).
    ///
    /// For a store over a network, a task of the tokio runtime that drops the guard releases it.
    /// Without one, and where the call is lost, the slot comes back when its hold ends.
    ///
    /// It is cancel-safe: dropped while the store is asked, it gives back what the store may have
    /// placed, as the guard does. So it does where the store may have placed a hold and failed.
    ///
    /// # Errors
    /// As [`Limiter::hold`].
    pub async fn acquire_guard<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
    ) -> Result<Option<Guard<S>>, Error>
    where
        S: Clone + 'static,
    {
        let (_, _, guard) = self.acquire_guarded(ask.into()).await?;
        Ok(Some(guard).filter(|guard| guard.hold.is_some()))
    }

    /// [`Limiter::acquire_guard`], with the decision, and how many are ahead in line.
    pub(super) async fn acquire_guarded<'l>(
        &'l self,
        mut ask: Ask<'l>,
    ) -> Result<(Decision<'l>, usize, Guard<S>), Error>
    where
        S: Clone + 'static,
    {
        ask.hold.get_or_insert((HoldKind::Acquire, None));
        let mut placing = Placing { limiter: self, pending: self.hold(ask) };
        let placed = (&mut placing.pending).await;
        let Holding { decision, hold, ahead } = placed?;
        Ok((decision, ahead, Guard { limiter: Self::clone(self), hold }))
    }
}

/// A hold that is being placed: dropped, it gives back what the store may have placed.
struct Placing<'l, S: Store + Clone + 'static> {
    limiter: &'l Limiter<S>,
    pending: Pending<'l, call::Hold<'l, S>>,
}

impl<S: Store + Clone + 'static> Drop for Placing<'_, S> {
    fn drop(&mut self) {
        let hold = self.pending.in_doubt().cloned();
        drop(hold.map(|hold| Guard { limiter: self.limiter.clone(), hold: Some(hold) }));
    }
}

/// A slot that is given back when this is dropped. [`Limiter::acquire_guard`] makes it.
#[derive(Debug)]
#[doc(alias("semaphore", "permit"))]
pub struct Guard<S: Store + Clone + 'static> {
    limiter: Limiter<S>,
    /// `None` once it was released.
    hold: Option<Hold>,
}

impl<S: Store + Clone + 'static> Guard<S> {
    /// A guard of a hold that the store may have, or of a place in line for one.
    #[cfg(feature = "tokio")]
    pub(super) fn of(limiter: Limiter<S>, hold: Hold) -> Self {
        Self { limiter, hold: Some(hold) }
    }

    /// The hold, which this does not give back any more.
    #[cfg(feature = "tokio")]
    pub(super) fn into_hold(mut self) -> Option<Hold> {
        self.hold.take()
    }

    /// The hold: its fencing number and its end.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// Renews the hold. False when it is not open any more: others may have its slot.
    ///
    /// # Errors
    /// As [`Limiter::renew`].
    pub async fn renew(&mut self) -> Result<bool, Error> {
        match &mut self.hold {
            Some(hold) => self.limiter.renew(hold, None).await,
            None => Ok(false),
        }
    }

    /// Gives the slot back, and waits until the store has it. True when it was open until now.
    ///
    /// # Errors
    /// As [`Limiter::release`].
    pub async fn release(mut self) -> Result<bool, Error> {
        match self.hold.take() {
            Some(hold) => self.limiter.release(&hold).await,
            None => Ok(false),
        }
    }
}

impl<S: Store + Clone + 'static> Drop for Guard<S> {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        // There is nobody to tell of an error.
        if self.limiter.store.perform_now(&Settle::new(&hold, 0.into())).is_none() {
            release_later(self.limiter.store.clone(), hold);
        }
    }
}

/// Releases in a task of the runtime that runs here, if one does.
#[cfg(feature = "tokio")]
fn release_later<S: Store + 'static>(store: S, hold: Hold) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { store.perform(&Settle::new(&hold, 0.into())).await });
    }
}

/// Without a runtime the slot comes back when its hold ends.
#[cfg(not(feature = "tokio"))]
fn release_later<S: Store + 'static>(_: S, _: Hold) {}

/// Rejects a hold that names a count twice: none was given out.
fn check_counts(hold: &Hold) -> Result<(), Error> {
    for (place, (subject, limits)) in hold.counts.iter().enumerate() {
        let mut before = hold.counts.iter().take(place);
        if before.any(|(other, under)| other == subject && under.identity() == limits.identity()) {
            return Err(Error::Ask(format!(
                "the hold names the count of `{subject}` twice: give it back as it was given out"
            )));
        }
    }
    Ok(())
}

fn check_actual(hold: &Hold, actual: Amounts<'_>) -> Result<(), Error> {
    if let Some((_, most)) = actual.iter().find(|(_, amount)| *amount > MAX_COST) {
        return Err(Error::Ask(format!(
            "{most} units are too many to commit: the most is 2^40 = {MAX_COST}"
        )));
    }
    if actual.is_zero() {
        return Ok(());
    }
    match hold.kind() {
        HoldKind::Acquire => return Err(Error::Ask(RELEASED_WITHOUT_UNITS.to_owned())),
        HoldKind::Credit => {
            let what = "a credit is taken back without units: all that is left of it goes";
            return Err(Error::Ask(what.to_owned()));
        }
        HoldKind::Reserve | HoldKind::Charging => {}
    }
    actual.check_units(hold.counts.iter().map(|(_, limits)| limits))
}

#[cold]
fn not_open(hold: &Hold) -> Error {
    let what = match hold.kind() {
        HoldKind::Charging => {
            "nothing was charged now; if it ended by itself, that charged the estimate"
        }
        HoldKind::Acquire | HoldKind::Reserve | HoldKind::Credit => "nothing was charged",
    };
    if hold.id.is_of_any_kind() {
        return Error::NotOpen(
            "no hold with this id is open: it has ended by itself, was reset, or never was; nothing \
             was charged now"
                .to_owned(),
        );
    }
    Error::NotOpen(format!(
        "the hold {} is not open: it has ended by itself, was reset, or never was; {what}",
        hold.id
    ))
}
