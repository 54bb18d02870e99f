//! Holds: reserve and commit, acquire and release.

use core::slice;
use core::time::Duration;

use super::Limiter;
use crate::ask::{Ask, check_cost, check_shard, no_slots, text_of};
use crate::decision::Decision;
use crate::engine::{Mode, Outcome, Placed, RELEASED_WITHOUT_UNITS};
use crate::error::Error;
use crate::hold::{
    Hold, HoldId, HoldKind, HoldTerms, Holding, MAX_TTL_US, MIN_TTL_US, Patience, Reserve, Settled,
};
use crate::limit::{LimitSet, MAX_COST};
use crate::memory::MemoryStore;
use crate::operation::{self, Check, Settle};
use crate::store::{Parts, Question, Store};
use crate::subject::Subject;
use crate::time::{Period, Time};

impl<S: Store> Limiter<S> {
    /// Sets the cost aside for a caller that will know afterwards what it has used. The hold
    /// counts in full and does not recover until it is settled: [`Limiter::commit`] charges what
    /// was used, [`Limiter::cancel`] nothing. Where neither comes, it ends by itself after `ttl`.
    ///
    /// Of a concurrency limit it takes one slot, whatever its cost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Ask, Limiter};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("1000/m via token_bucket".parse()?);
    /// let estimate = Ask::new("bob").cost(800);
    /// let ttl = Duration::from_secs(60);
    /// let hold = limiter.reserve(estimate, ttl).await?.hold.expect("admitted");
    /// // Nobody else gets these 800 meanwhile.
    /// assert_eq!(limiter.peek("bob").await?.remaining(), 200);
    /// let settled = limiter.commit(&hold, 300).await?;
    /// assert_eq!(settled.charged[0].remaining, 700);
    /// // Twice is once.
    /// assert!(limiter.commit(&hold, 300).await?.already);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::check`]; also a partial ask, a `ttl` outside of 1 ms to 366 days or longer
    /// than the hold of a concurrency limit, and more than [`crate::engine::MAX_HOLDS`] open holds
    /// on a count.
    pub async fn reserve<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        reserve: impl Into<Reserve>,
    ) -> Result<Holding<'l>, Error> {
        let Reserve { ttl, charge_at_end } = reserve.into();
        let kind = if charge_at_end { HoldKind::Charging } else { HoldKind::Reserve };
        match self.hold_at_once(ask.into(), kind, Some(ttl))? {
            Ok(holding) => Ok(holding),
            Err(ask) => self.hold((None, kind, Some(ttl)), ask, None).await,
        }
    }

    /// Takes as many slots of every concurrency limit as the cost says, and charges the rate limits
    /// beside them as a check does: all or nothing. [`Limiter::release`] gives the slots back. A
    /// hold that is not released ends by itself after the time that the limit says (`20 at once
    /// hold 30s`), unless [`Limiter::renew`] comes before.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("100/s via gcra, 1 at once".parse()?);
    /// let hold = limiter.acquire("backend").await?.hold.expect("a slot is free");
    /// assert!(limiter.acquire("backend").await?.hold.is_none());
    /// limiter.release(&hold).await?;
    /// assert!(limiter.acquire("backend").await?.hold.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::check`]; also limits without a concurrency limit, a partial ask, and more than
    /// [`crate::engine::MAX_HOLDS`] open holds on a count.
    ///
    /// # Cancel safety
    /// Dropped while the store is asked, the store may have placed a hold that nobody knows, which
    /// stays until its end. [`Limiter::acquire_guard`] gives it back.
    pub async fn acquire<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Result<Holding<'l>, Error> {
        match self.hold_at_once(ask.into(), HoldKind::Acquire, None)? {
            Ok(holding) => Ok(holding),
            Err(ask) => self.hold((None, HoldKind::Acquire, None), ask, None).await,
        }
    }

    /// [`Limiter::reserve`] or [`Limiter::acquire`], as `kind` says, with this deadline in place of
    /// the store's.
    ///
    /// Where the store fails and may have placed the hold nevertheless, `in_doubt` is that hold:
    /// release it when the store answers again, or nobody does before it ends. One with a name is
    /// its caller's to release, who may have asked for it before.
    ///
    /// # Errors
    /// As those.
    pub async fn hold_within<'l>(
        &'l self,
        deadline: Duration,
        ask: impl Into<Ask<'l>>,
        (kind, ttl): (HoldKind, Option<Duration>),
        in_doubt: &mut Option<Hold>,
    ) -> Result<Holding<'l>, Error> {
        let ask = match self.hold_at_once(ask.into(), kind, ttl)? {
            Ok(holding) => return Ok(holding),
            Err(ask) => ask,
        };
        let placed = self.hold((Some(deadline), kind, ttl), ask, Some(in_doubt)).await;
        if !placed.as_ref().is_err_and(is_in_doubt) {
            *in_doubt = None;
        }
        in_doubt.take_if(|hold| hold.id.name().is_some());
        placed
    }

    /// Asks the store. Until it has answered, `asked` is the hold that it may have placed.
    async fn hold<'l>(
        &'l self,
        (deadline, kind, ttl): (Option<Duration>, HoldKind, Option<Duration>),
        mut ask: Ask<'l>,
        asked: Option<&mut Option<Hold>>,
    ) -> Result<Holding<'l>, Error> {
        let cost = ask.units();
        let shard = text_of(ask.shard.as_deref()).map(str::to_owned);
        let mut terms = None;
        let (counts, outcome) = {
            let mut parts = Parts::new();
            let lent = (&mut terms, &mut parts);
            let question =
                ask.question_holding(&self.limits, lent, |question| terms_of(question, kind, ttl))?;
            let counts = counts_of(&question);
            let question = Question { deadline, ..question };
            if let (Some(asked), Some(HoldTerms { id, .. })) = (asked, question.hold) {
                let (id, end, counts) = (*id, Time::default(), counts.clone());
                // One with a name may have been answered before, and is then kept.
                let hold = Hold::new(id, 0, cost, end, counts).undelivered();
                *asked = Some(Hold { shard, ..hold });
            }
            (counts, self.store.perform(&Check::new(&question)).await?)
        };
        self.holding(ask, terms, cost, counts, &outcome)
    }

    /// The answer for one subject from a store that can place a hold at once; otherwise the ask.
    /// Callers try it before they build the future of [`Limiter::hold`], into which the ask moves.
    #[inline]
    fn hold_at_once<'l>(
        &'l self,
        mut ask: Ask<'l>,
        kind: HoldKind,
        ttl: Option<Duration>,
    ) -> Result<Result<Holding<'l>, Ask<'l>>, Error> {
        let Ask {
            first: Some(first),
            more,
            cost,
            partial: false,
            shard,
            name: None,
            patience: patience @ (Patience::None | Patience::Waiting),
            kind: _,
            request: None,
        } = &mut ask
        else {
            return Ok(Err(ask));
        };
        if !more.is_empty() {
            return Ok(Err(ask));
        }
        let (cost, patience) = (*cost, *patience);
        check_cost(cost)?;
        let within = text_of(shard.as_deref());
        check_shard(within)?;
        let counted = first.counted(&self.limits, within)?;
        let slots = shortest_slots([counted.limits].into_iter());
        let terms = HoldTerms::new(kind, ttl_us(slots, ttl)?).with_patience(patience);
        let question = Question::new(slice::from_ref(&counted), cost, Mode::Whole).holding(&terms);
        let answer = self.store.perform_now(&Check::new(&question));
        if let Some(Err(error)) = answer {
            return Err(error.into());
        }
        // Read in place, as for a check.
        let Some(Ok(outcome)) = &answer else { return Ok(Err(ask)) };
        let hold = outcome.hold.as_deref().map(|Placed { fence, end, .. }| Hold {
            id: terms.id,
            fence: *fence,
            cost,
            end: *end,
            counts: vec![(counted.subject.clone(), counted.limits.clone())],
            shard: within.map(str::to_owned),
            answer: 0,
            is_undelivered: false,
        });
        let Ask { first: Some(first), shard, .. } = ask else { return Ok(Err(ask)) };
        let set = first.limits.unwrap_or(&self.limits);
        let shard = shard.map(|shard| *shard);
        let decision = self.decision_of_one((first.into_named()?, set), shard, outcome)?;
        Ok(Ok(Holding { decision, hold, ahead: 0 }))
    }

    fn holding<'l>(
        &'l self,
        ask: Ask<'l>,
        terms: Option<HoldTerms>,
        cost: u64,
        counts: Vec<(Subject, LimitSet)>,
        outcome: &Outcome,
    ) -> Result<Holding<'l>, Error> {
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

    /// Settles a hold in one step: takes it away, and charges `actual` units at this time. What
    /// does not fit is owed, as after a [`Limiter::charge`]. With 0, nothing was used.
    ///
    /// It is idempotent: a repeated commit within a minute charges nothing and says so. The slot of
    /// a concurrency limit is given back.
    ///
    /// # Errors
    /// A hold that is not open: it has ended by itself, was reset, or never was. Nothing was
    /// charged then; [`Limiter::charge`] charges what was used. Also more than 2^40 units, or units
    /// for a hold of [`Limiter::acquire`]; or a store failure.
    pub async fn commit(&self, hold: &Hold, actual: u64) -> Result<Settled, Error> {
        check_counts(hold)?;
        check_actual(hold, actual)?;
        self.store.perform(&Settle::new(hold, actual)).await?.ok_or_else(|| not_open(hold))
    }

    /// Settles a hold without a charge.
    ///
    /// # Errors
    /// As [`Limiter::commit`].
    pub async fn cancel(&self, hold: &Hold) -> Result<Settled, Error> {
        self.commit(hold, 0).await
    }

    /// The hold of a named ask, as far as its caller can know it without an answer: to settle or
    /// renew it. No store is asked.
    ///
    /// # Errors
    /// An ask that no hold could be placed by, or without a name ([`Ask::named`]).
    pub fn hold_named<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Result<Hold, Error> {
        let mut ask = ask.into();
        let Some(name) = ask.name else {
            return Err(Error::Ask("give the id that the hold was asked for under".to_owned()));
        };
        let cost = ask.units();
        let shard = text_of(ask.shard.as_deref()).map(str::to_owned);
        let counts = counts_of(&ask.question(&self.limits, true, &mut Parts::new())?);
        let hold = Hold::new(HoldId::of_any_kind(name), 0, cost, Time::from_micros(0), counts);
        Ok(Hold { shard, ..hold })
    }

    /// Gives the slots of a hold back. True when it was open until now.
    ///
    /// Where only its name is known ([`Limiter::hold_named`]) and no hold has it, an ask under the
    /// name is refused for as long as a hold lasts, and at most for a minute.
    ///
    /// # Errors
    /// A store failure.
    pub async fn release(&self, hold: &Hold) -> Result<bool, Error> {
        check_counts(hold)?;
        let settled = self.store.perform(&Settle::new(hold, 0)).await?;
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

    /// [`Limiter::acquire`], with a guard that releases when it is dropped. `None` on a denial.
    ///
    /// A store over a network is told by a task of the tokio runtime that drops the guard. Without
    /// one, and where the call is lost, the slot comes back when its hold ends.
    ///
    /// It is cancel-safe: dropped while the store is asked, it gives back what the store may have
    /// placed, as the guard does. So it does where the store may have placed a hold and failed.
    ///
    /// # Errors
    /// As [`Limiter::acquire`].
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
        ask: Ask<'l>,
    ) -> Result<(Decision<'l>, usize, Guard<S>), Error>
    where
        S: Clone + 'static,
    {
        let mut guard = Guard { limiter: Self::clone(self), hold: None };
        let placed = match self.hold_at_once(ask, HoldKind::Acquire, None)? {
            Ok(holding) => Ok(holding),
            Err(ask) => {
                let terms = (None, HoldKind::Acquire, None);
                self.hold(terms, ask, Some(&mut guard.hold)).await
            }
        };
        match placed {
            Ok(Holding { decision, hold, ahead }) => {
                guard.hold = hold;
                Ok((decision, ahead, guard))
            }
            Err(error) => {
                if !is_in_doubt(&error) {
                    guard.hold = None;
                }
                Err(error)
            }
        }
    }
}

impl Limiter<MemoryStore> {
    /// [`Limiter::acquire`] without async.
    ///
    /// # Errors
    /// As [`Limiter::acquire`].
    pub fn acquire_now<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Result<Holding<'l>, Error> {
        self.hold_now(ask.into(), HoldKind::Acquire, None)
    }

    /// [`Limiter::reserve`] without async.
    ///
    /// # Errors
    /// As [`Limiter::reserve`].
    pub fn reserve_now<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        reserve: impl Into<Reserve>,
    ) -> Result<Holding<'l>, Error> {
        let Reserve { ttl, charge_at_end } = reserve.into();
        let kind = if charge_at_end { HoldKind::Charging } else { HoldKind::Reserve };
        self.hold_now(ask.into(), kind, Some(ttl))
    }

    fn hold_now<'l>(
        &'l self,
        ask: Ask<'l>,
        kind: HoldKind,
        ttl: Option<Duration>,
    ) -> Result<Holding<'l>, Error> {
        let mut ask = match self.hold_at_once(ask, kind, ttl)? {
            Ok(holding) => return Ok(holding),
            Err(ask) => ask,
        };
        let cost = ask.units();
        let mut terms = None;
        let (counts, outcome) = {
            let mut parts = Parts::new();
            let lent = (&mut terms, &mut parts);
            let question =
                ask.question_holding(&self.limits, lent, |question| terms_of(question, kind, ttl))?;
            (counts_of(&question), self.store.answer(&question)?)
        };
        self.holding(ask, terms, cost, counts, &outcome)
    }

    /// [`Limiter::commit`] without async.
    ///
    /// # Errors
    /// As [`Limiter::commit`].
    pub fn commit_now(&self, hold: &Hold, actual: u64) -> Result<Settled, Error> {
        check_counts(hold)?;
        check_actual(hold, actual)?;
        self.store.settle_now(hold, actual)?.ok_or_else(|| not_open(hold))
    }

    /// [`Limiter::release`] without async.
    ///
    /// # Errors
    /// As [`Limiter::release`].
    pub fn release_now(&self, hold: &Hold) -> Result<bool, Error> {
        check_counts(hold)?;
        Ok(self.store.settle_now(hold, 0)?.is_some_and(|settled| !settled.already))
    }
}

/// A slot that is given back when this is dropped. [`Limiter::acquire_guard`] makes it.
#[derive(Debug)]
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
        if self.limiter.store.perform_now(&Settle::new(&hold, 0)).is_none() {
            release_later(self.limiter.store.clone(), hold);
        }
    }
}

/// Releases in a task of the runtime that runs here, if one does.
#[cfg(feature = "tokio")]
fn release_later<S: Store + 'static>(store: S, hold: Hold) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { store.perform(&Settle::new(&hold, 0)).await });
    }
}

/// Without a runtime the slot comes back when its hold ends.
#[cfg(not(feature = "tokio"))]
fn release_later<S: Store + 'static>(_: S, _: Hold) {}

fn terms_of(
    question: &Question<'_>,
    kind: HoldKind,
    ttl: Option<Duration>,
) -> Result<HoldTerms, Error> {
    let slots = shortest_slots(question.parts.iter().map(|part| part.limits));
    Ok(HoldTerms::new(kind, ttl_us(slots, ttl)?))
}

/// The set with the slots that last the shortest time; `None` where none has slots.
fn shortest_slots<'s>(sets: impl Iterator<Item = &'s LimitSet>) -> Option<&'s LimitSet> {
    sets.filter(|limits| limits.counts_slots()).min_by_key(|limits| limits.hold())
}

/// How long a hold lasts: as asked, or as long as the slots of this set.
fn ttl_us(slots: Option<&LimitSet>, ttl: Option<Duration>) -> Result<u64, Error> {
    match (ttl, slots.and_then(LimitSet::hold)) {
        (Some(ttl), _) => check_ttl(slots, ttl),
        (None, Some(hold)) => Ok(hold.as_micros()),
        (None, None) => Err(no_slots()),
    }
}

/// Rejects a time that a hold on the slots of this set cannot last.
fn check_ttl(slots: Option<&LimitSet>, ttl: Duration) -> Result<u64, Error> {
    let us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
    let longest = slots.and_then(LimitSet::hold);
    let longest_us = longest.map_or(MAX_TTL_US, Period::as_micros);
    if (MIN_TTL_US..=longest_us).contains(&us) {
        return Ok(us);
    }
    // As people write times.
    let written = |us| Period::from_micros(us).map_or_else(String::new, |time| time.to_string());
    let (least, most) = (written(MIN_TTL_US), written(longest_us));
    let asked = match Period::from_micros(us) {
        Some(ttl) => ttl.to_string(),
        None => format!("{ttl:?}"),
    };
    let mut limits = slots.iter().flat_map(|set| set.limits());
    let shortest =
        limits.find(|limit| limit.counts_slots() && Some(limit.quota().period) == longest);
    let why = match shortest.filter(|_| us > longest_us) {
        Some(limit) => format!("longer than a slot of `{limit}` lasts"),
        None => "out of range".to_owned(),
    };
    Err(Error::Ask(format!("a hold of {asked} is {why}: give {least} to {most}")))
}

/// Whether a hold may have been placed nevertheless.
fn is_in_doubt(error: &Error) -> bool {
    matches!(error, Error::Store(why) if why.is_ambiguous())
}

fn counts_of(question: &Question<'_>) -> Vec<(Subject, LimitSet)> {
    let parts = question.parts.iter();
    parts.map(|part| (part.subject.clone(), part.limits.clone())).collect()
}

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

fn check_actual(hold: &Hold, actual: u64) -> Result<(), Error> {
    if actual > MAX_COST {
        return Err(Error::Ask(format!(
            "{actual} units are too many to commit: the most is 2^40 = {MAX_COST}"
        )));
    }
    if actual > 0 && hold.kind() == HoldKind::Acquire {
        return Err(Error::Ask(RELEASED_WITHOUT_UNITS.to_owned()));
    }
    Ok(())
}

#[cold]
fn not_open(hold: &Hold) -> Error {
    let what = match hold.kind() {
        HoldKind::Charging => "nothing was charged now; its end has charged the estimate",
        HoldKind::Acquire | HoldKind::Reserve => "nothing was charged",
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
