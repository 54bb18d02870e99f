//! The limiter, and how it makes a decision of an ask.

use core::slice;
use std::borrow::Cow;

use crate::ask::{Ask, check_cost, check_shard, text_of};
use crate::cost::Cost;
use crate::decision::{Decision, Named};
use crate::engine::{Mode, Outcome};
use crate::error::{Error, StoreError};
use crate::hold::Patience;
use crate::limit::LimitSet;
use crate::memory::MemoryStore;
use crate::operation::Check;
use crate::question::{Counted, Parts, Question};
use crate::store::Store;

#[cfg(doc)]
use super::pending::Pending;
/// Limits and the store that counts them: the entry point for checks. Share it by reference or in
/// an `Arc`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate::{Ask, LimitSet, Limiter};
///
/// let limiter = Limiter::memory("10/s, 240/h".parse()?);
/// let decision = limiter.check("user:42").await?;
/// if let Some(wait) = decision.retry_after() { println!("wait {wait:?}"); }
/// limiter.check(Ask::new("user:42").cost(5)).await?;
/// let (shared, own): (LimitSet, LimitSet) = ("5/10s".parse()?, "3/10s".parse()?);
/// limiter.check([("resource:12", &shared), ("consumer:1", &own)]).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias("rate limit", "rate limiter", "throttle", "governor"))]
pub struct Limiter<S = MemoryStore> {
    pub(super) limits: LimitSet,
    pub(super) store: S,
}

impl Limiter<MemoryStore> {
    /// A limiter that counts in the memory of this process.
    #[must_use]
    pub fn memory(limits: LimitSet) -> Self {
        Self::new(limits, MemoryStore::new())
    }

    // Inlined, so that the ask is never built in memory: its parts fit into a few registers.
    #[inline(always)]
    pub(super) fn answer_now<'l>(&'l self, ask: Ask<'l>) -> Result<Decision<'l>, Error> {
        // Nearly every check has one subject under one small set of limits: nothing is allocated
        // for it.
        let Ask {
            first: Some(first),
            more,
            cost: Cost { amount: cost, units: None },
            partial: false,
            shard: None,
            name: None,
            patience: Patience::None,
            hold: None,
            request: None,
            peek,
            deadline: _,
        } = ask
        else {
            return self.answer_many(ask);
        };
        // Taken apart by value: a reference to the ask, or a match with a guard, would need it in
        // memory, which takes a third longer.
        let first = match more.is_empty() {
            true => first.into_literal(),
            false => Err(first),
        };
        match first {
            Ok((text, limits)) => self.answer_one(text, limits.unwrap_or(&self.limits), cost, peek),
            Err(first) => {
                let cost = Cost::from(cost);
                let ask = Ask { first: Some(first), more, cost, peek, ..Ask::empty() };
                self.answer_many(ask)
            }
        }
    }

    /// The answer for one subject, built in place where the caller wants it. A move of a decision
    /// right after it was written stalls the processor, which cannot forward narrow stores to the
    /// wide loads of the move.
    #[inline(never)]
    fn answer_one<'l>(
        &'l self,
        text: &'l str,
        limits: &'l LimitSet,
        cost: u64,
        peek: bool,
    ) -> Result<Decision<'l>, Error> {
        let mode = if peek { Mode::Peek } else { Mode::Whole };
        if check_cost(cost).is_ok() {
            let known = self.store.answer_known::<true, _>(
                text,
                limits,
                (cost, mode),
                |single| Ok(Decision::single(text, limits, single, self.store.identity())),
                |outcome| self.decision_of_one((Named::Lent(text), limits), None, outcome),
            );
            if let Some(decision) = known {
                return decision;
            }
        }
        // The text has no entry yet, so it is parsed now. If the text is its own written form, that
        // entry is known to be absent.
        let mut ask = Ask { peek, ..Ask::new(text).under(limits).cost(cost) };
        let outcome = {
            let mut parts = Parts::new();
            let question = ask.question(&self.limits, &mut parts)?;
            match question.parts[0].subject.as_str() == text {
                true => self.store.answer_general(&question)?,
                false => self.store.answer_now(&question)?,
            }
        };
        self.decision(ask, &outcome)
    }

    #[inline(never)]
    fn answer_many<'l>(&'l self, mut ask: Ask<'l>) -> Result<Decision<'l>, Error> {
        if let Some((text, limits)) = ask.only_literal() {
            let limits = limits.unwrap_or(&self.limits);
            let mode = if ask.peek { Mode::Peek } else { Mode::Whole };
            let amounts = ask.cost.amounts();
            let is_sound = check_cost(amounts.first()).is_ok()
                && amounts.check_units(core::iter::once(limits)).is_ok()
                && !limits.needs_hold();
            let question = Question::new(&[], amounts, mode);
            if is_sound
                && let Some(outcome) = self.store.answer_units::<true>(text, limits, &question)
            {
                let decision = self.decision_of_one((Named::Lent(text), limits), None, &outcome)?;
                return Ok(decision.with_units(ask.cost.units));
            }
        }
        let outcome = self.store.answer_now(&ask.question(&self.limits, &mut Parts::new())?)?;
        self.decision(ask, &outcome)
    }
}

impl<S: Store> Limiter<S> {
    /// A limiter whose limits are counted in `store`.
    #[must_use]
    pub fn new(limits: LimitSet, store: S) -> Self {
        Self { limits, store }
    }

    /// The limits of every ask that sets none.
    #[must_use]
    pub fn limits(&self) -> &LimitSet {
        &self.limits
    }

    /// The store that keeps the counts.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The decision for one subject from a store that can answer immediately. On `None` nothing was
    /// asked, and the ask is as it was.
    ///
    /// This runs before the first await. Otherwise subject and limits would be stored in the future
    /// and moved several times, which takes longer than the check.
    #[inline(always)]
    pub(super) fn at_once<'l>(&'l self, ask: &mut Ask<'l>) -> Option<Result<Decision<'l>, Error>> {
        // A subject that the caller keeps is lent on, and the ask is never built in memory.
        if let Some((subject, limits)) = ask.only_known() {
            let counted = Counted::new(subject, limits.unwrap_or(&self.limits));
            return self.known_at_once(counted, ask.cost.amount, ask.peek);
        }
        self.read_at_once(ask)
    }

    #[inline(always)]
    fn known_at_once<'l>(
        &'l self,
        counted: Counted<'l>,
        cost: u64,
        peek: bool,
    ) -> Option<Result<Decision<'l>, Error>> {
        if let Err(error) = check_cost(cost) {
            return Some(Err(error));
        }
        let mode = if peek { Mode::Peek } else { Mode::Whole };
        let question = Question::of_known_check(slice::from_ref(&counted), cost.into(), mode)?;
        // Read in place: the processor stalls on a move of data that was written just now.
        let answer = self.store.perform_now(&Check::new(&question));
        let Some(Ok(outcome)) = &answer else { return refused(answer) };
        let first = (Named::Lent(counted.subject.as_str()), counted.limits);
        Some(self.decision_of_one(first, None, outcome))
    }

    /// The same of a subject that is read first, or with a shard.
    fn read_at_once<'l>(&'l self, ask: &mut Ask<'l>) -> Option<Result<Decision<'l>, Error>> {
        // The one part is borrowed in place: a question would be built, moved and dropped.
        let Ask {
            first: Some(first),
            more,
            cost,
            partial: false,
            shard,
            name: None,
            patience: Patience::None,
            hold: None,
            request,
            peek,
            deadline: _,
        } = ask
        else {
            return None;
        };
        let peek = *peek;
        if !more.is_empty() || request.is_some() && !peek {
            return None;
        }
        let within = text_of(shard.as_deref());
        let checked = check_cost(cost.amounts().first()).and_then(|()| check_shard(within));
        let counted = match checked.and_then(|()| Ok(first.counted(&self.limits, within)?)) {
            Ok(counted) => counted,
            Err(error) => return Some(Err(error)),
        };
        let mode = if peek { Mode::Peek } else { Mode::Whole };
        let question = Question::of_known_check(slice::from_ref(&counted), cost.amounts(), mode)?;
        // Read in place, as above.
        let answer = self.store.perform_now(&Check::new(&question));
        let Some(Ok(outcome)) = &answer else { return refused(answer) };
        // The ask is taken apart here: to hand it on to `decision` makes a check half as slow again
        // (100 ns to 147).
        let first = ask.first.take()?;
        let set = first.limits.unwrap_or(&self.limits);
        let shard = ask.shard.take().map(|shard| *shard);
        let units = ask.cost.units.take();
        Some(match first.into_named() {
            Ok(subject) => {
                let decision = self.decision_of_one((subject, set), shard, outcome);
                decision.map(|decision| decision.with_units(units))
            }
            Err(error) => Err(error.into()),
        })
    }

    /// Makes the decision from a store's answer to an ask.
    #[inline]
    pub(super) fn decision<'l>(
        &'l self,
        ask: Ask<'l>,
        outcome: &Outcome,
    ) -> Result<Decision<'l>, Error> {
        let Ask { first: Some(first), more, shard, cost, .. } = ask else {
            return Err(of_other_limits());
        };
        let set = first.limits.unwrap_or(&self.limits);
        let first = (first.into_named()?, set);
        let shard = shard.map(|shard| *shard);
        let units = cost.units;
        if more.is_empty() {
            let decision = self.decision_of_one(first, shard, outcome)?;
            return Ok(decision.with_units(units));
        }
        let mut limits = set.limits().len();
        let mut rest = Vec::with_capacity(more.len());
        for part in more {
            let set = part.limits.unwrap_or(&self.limits);
            limits += set.limits().len();
            rest.push((part.into_named()?.into_subject(), set.clone()));
        }
        if outcome.fields.len() != limits {
            return Err(of_other_limits());
        }
        let decision = Decision::new(first, rest, shard, outcome, self.store.identity());
        Ok(decision.with_units(units))
    }

    /// As `decision`, for one subject.
    #[inline(always)]
    pub(super) fn decision_of_one<'l>(
        &'l self,
        (subject, set): (Named<'l>, &'l LimitSet),
        shard: Option<Cow<'l, str>>,
        outcome: &Outcome,
    ) -> Result<Decision<'l>, Error> {
        if outcome.fields.len() != set.limits().len() {
            return Err(of_other_limits());
        }
        let store = self.store.identity();
        Ok(Decision::new((subject, set), Vec::new(), shard, outcome, store))
    }
}

/// The error of a store that did not decide; `None` where it would have to wait.
#[cold]
pub(super) fn refused<T>(answer: Option<Result<Outcome, StoreError>>) -> Option<Result<T, Error>> {
    answer.and_then(Result::err).map(|error| Err(error.into()))
}

#[cold]
fn of_other_limits() -> Error {
    Error::Store(StoreError::permanent("the store answered for other limits than it was asked"))
}
