//! The calls of a limiter, for the type of a [`Pending`](super::Pending). Nothing here is called by
//! hand.

use super::Limiter;
use super::kept::{check_charges, check_request};
use super::pending::Sealed;
pub use super::pending::{Boxed, Call, InMemory};
use crate::adjustment::Adjustment;
use crate::ask::Ask;
use crate::cost::Cost;
use crate::decision::{Decision, ReceiptPart, Refund as Refunded};
use crate::engine::Charged;
use crate::error::Error;
use crate::hold::{Hold as OpenHold, HoldTerms, Holding, Settled};
use crate::inspection::Inspection;
use crate::memory::MemoryStore;
use crate::operation;
use crate::question::Parts;
use crate::store::Store;

/// [`Limiter::check`].
#[derive(Debug)]
pub struct Check<'l, S>(pub(super) &'l Limiter<S>, pub(super) Ask<'l>);

impl<S> Sealed for Check<'_, S> {}

impl<'l> InMemory for Check<'l, MemoryStore> {
    #[inline(always)]
    fn in_memory(self) -> Result<Decision<'l>, Error> {
        self.0.answer_now(self.1)
    }
}

impl<'l, S: Store> Call for Check<'l, S> {
    type Answer = Decision<'l>;

    #[inline(always)]
    fn at_once(&mut self) -> Option<Result<Decision<'l>, Error>> {
        let Self(limiter, ask) = self;
        limiter.at_once(ask)
    }

    async fn wait(mut self) -> Result<Decision<'l>, Error> {
        check_request::<S>(&self.1)?;
        // Not taken apart: a future keeps its parts beside the whole.
        let outcome = {
            let mut parts = Parts::new();
            let question = self.1.question(&self.0.limits, &mut parts)?;
            self.0.store.perform(&operation::Check::new(&question)).await?
        };
        self.0.decision(self.1, &outcome)
    }
}

/// [`Limiter::hold`].
#[derive(Debug)]
pub struct Hold<'l, S> {
    pub(super) limiter: &'l Limiter<S>,
    pub(super) ask: Ask<'l>,
    /// Those of the hold, once they are made: an id is made once.
    pub(super) terms: Option<HoldTerms>,
}

impl<S> Sealed for Hold<'_, S> {}

impl InMemory for Hold<'_, MemoryStore> {}

impl<'l, S: Store> Call for Hold<'l, S> {
    type Answer = Holding<'l>;

    #[inline]
    fn at_once(&mut self) -> Option<Result<Holding<'l>, Error>> {
        self.limiter.hold_at_once(&mut self.ask)
    }

    fn in_doubt(&mut self) -> Result<Option<OpenHold>, Error> {
        self.limiter.hold_in_doubt(&mut self.ask, &mut self.terms)
    }

    async fn wait(self) -> Result<Holding<'l>, Error> {
        self.limiter.place(self.ask, self.terms).await
    }
}

/// [`Limiter::commit`].
#[derive(Debug)]
pub struct Commit<'l, S> {
    pub(super) limiter: &'l Limiter<S>,
    pub(super) hold: &'l OpenHold,
    pub(super) actual: Cost,
}

impl<S> Sealed for Commit<'_, S> {}

impl InMemory for Commit<'_, MemoryStore> {}

impl<'l, S: Store> Call for Commit<'l, S> {
    type Answer = Settled;

    #[inline]
    fn at_once(&mut self) -> Option<Result<Settled, Error>> {
        self.limiter.settle_at_once(self.hold, self.actual.amounts())
    }

    async fn wait(self) -> Result<Settled, Error> {
        self.limiter.settle(self.hold, self.actual.amounts()).await
    }
}

/// [`Limiter::release`].
#[derive(Debug)]
pub struct Release<'l, S>(pub(super) &'l Limiter<S>, pub(super) &'l OpenHold);

impl<S> Sealed for Release<'_, S> {}

impl InMemory for Release<'_, MemoryStore> {}

impl<'l, S: Store> Call for Release<'l, S> {
    type Answer = bool;

    #[inline]
    fn at_once(&mut self) -> Option<Result<bool, Error>> {
        self.0.give_back_at_once(self.1)
    }

    async fn wait(self) -> Result<bool, Error> {
        self.0.give_back(self.1).await
    }
}

/// [`Limiter::refund`].
#[derive(Debug)]
pub struct Refund<'l, S>(pub(super) &'l Limiter<S>, pub(super) ReceiptPart<'l>);

impl<S> Sealed for Refund<'_, S> {}

impl InMemory for Refund<'_, MemoryStore> {}

impl<'l, S: Store> Call for Refund<'l, S> {
    type Answer = Refunded;

    async fn wait(self) -> Result<Refunded, Error> {
        let Self(limiter, part) = self;
        let ReceiptPart { receipt, units } = &part;
        if !part.is_charged() {
            let charged = &receipt.cost;
            let most = match charged.plain() {
                Some(charged) => format!("1 to {charged}"),
                None => "of each charged unit at most its amount".to_owned(),
            };
            return Err(Error::Ask(format!(
                "{units} units of a charge of {charged} cannot be given back: give {most}"
            )));
        }
        if !limiter.store.issued(receipt) {
            return Err(Error::Ask(
                "this receipt is from another store: refund it where it was charged".to_owned(),
            ));
        }
        Ok(limiter.store.perform(&operation::Refund::new(receipt, units.amounts())).await?)
    }
}

/// [`Limiter::charge`].
#[derive(Debug)]
pub struct Charge<'l, S>(pub(super) &'l Limiter<S>, pub(super) Ask<'l>);

impl<S> Sealed for Charge<'_, S> {}

impl InMemory for Charge<'_, MemoryStore> {}

impl<'l, S: Store> Call for Charge<'l, S> {
    type Answer = Vec<Charged>;

    async fn wait(self) -> Result<Vec<Charged>, Error> {
        let Self(limiter, mut ask) = self;
        check_charges::<S>()?;
        let mut parts = Parts::new();
        let question = ask.question_of_charge(&limiter.limits, &mut parts)?;
        let mut charged = Vec::new();
        for part in question.parts {
            let charge = operation::Charge::new(*part, question.cost);
            charged.extend(limiter.store.perform(&charge).await?);
        }
        Ok(charged)
    }
}

/// [`Admin::adjust`](super::Admin::adjust).
#[derive(Debug)]
pub struct Adjust<'l, S> {
    pub(super) limiter: &'l Limiter<S>,
    pub(super) ask: Ask<'l>,
    pub(super) by: Adjustment,
}

impl<S> Sealed for Adjust<'_, S> {}

impl InMemory for Adjust<'_, MemoryStore> {}

impl<'l, S: Store> Call for Adjust<'l, S> {
    type Answer = Vec<i64>;

    async fn wait(self) -> Result<Vec<i64>, Error> {
        let Self { limiter, ask, by } = self;
        let Some(size) = by.size() else {
            return Err(Error::Ask(format!(
                "an adjustment of {by} is out of range: give a number from 1 to 2^40 to give \
                 units back, or negative to take them"
            )));
        };
        let mut ask = ask.cost(size);
        let counted = ask.only(&limiter.limits)?;
        Ok(limiter.store.perform(&operation::Adjust::new(counted, &by)).await?)
    }
}

/// [`Admin::reset`](super::Admin::reset).
#[derive(Debug)]
pub struct Reset<'l, S>(pub(super) &'l Limiter<S>, pub(super) Ask<'l>);

impl<S> Sealed for Reset<'_, S> {}

impl InMemory for Reset<'_, MemoryStore> {}

impl<'l, S: Store> Call for Reset<'l, S> {
    type Answer = bool;

    async fn wait(self) -> Result<bool, Error> {
        let Self(limiter, mut ask) = self;
        Ok(limiter.store.perform(&operation::Reset::new(ask.only(&limiter.limits)?)).await?)
    }
}

/// [`Admin::inspect`](super::Admin::inspect).
#[derive(Debug)]
pub struct Inspect<'l, S>(pub(super) &'l Limiter<S>, pub(super) Ask<'l>);

impl<S> Sealed for Inspect<'_, S> {}

impl InMemory for Inspect<'_, MemoryStore> {}

impl<'l, S: Store> Call for Inspect<'l, S> {
    type Answer = Option<Inspection>;

    async fn wait(self) -> Result<Option<Inspection>, Error> {
        let Self(limiter, mut ask) = self;
        Ok(limiter.store.perform(&operation::Inspect::new(ask.only(&limiter.limits)?)).await?)
    }
}
