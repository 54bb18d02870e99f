//! The operations of a store, each with its own answer.
//!
//! A store implements [`Operations`] or [`OperationsNow`], which have a method for each operation,
//! and its [`Store::perform`](crate::Store::perform) visits it. A store that wraps another forwards
//! all of them by one generic `perform`, and can forget none.

use core::future::{Future, ready};

use crate::adjustment::Adjustment;
use crate::cost::Amounts;
use crate::decision::Receipt;
use crate::engine::{Charged, Outcome};
use crate::error::StoreError;
use crate::hold::{Hold, Settled};
use crate::inspection::Inspection;
use crate::notice::{Notice, Notices};
use crate::question::{Counted, Question};
use crate::time::Time;

mod sealed {
    pub trait Sealed {}
}

/// One operation. It is sealed: the operations are those of this module.
pub trait Operation: sealed::Sealed + Sync {
    /// The name: that of its method of [`Operations`].
    const NAME: &'static str;

    /// The answer of a store.
    type Answer: Send;

    /// Calls the method of this operation.
    fn visit<S: Operations>(
        &self,
        store: &S,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;

    /// Calls the method of this operation, without waiting.
    fn visit_now<S: OperationsNow>(&self, store: &S) -> Option<Result<Self::Answer, StoreError>>;

    /// The question of a check; `None` for any other operation.
    fn question(&self) -> Option<&Question<'_>> {
        None
    }

    /// The outcome that a check was answered with; `None` for any other operation.
    fn outcome(answer: &Self::Answer) -> Option<&Outcome> {
        let _ = answer;
        None
    }

    /// Answers a check by this function; `None` for any other operation, and where the function has
    /// no answer.
    fn if_question(
        &self,
        answer: impl FnOnce(&Question<'_>) -> Option<Result<Outcome, StoreError>>,
    ) -> Option<Result<Self::Answer, StoreError>> {
        let _ = answer;
        None
    }
}

/// Defines an operation: its input, the method that it calls, and its answer.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? ($($field:ident: $type:ty),+);
        $method:ident -> $answer:ty $(; $($more:item)+)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct $name $(<$life>)? {
            $($field: $type),+
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// Creates the operation.
            #[must_use]
            #[inline]
            pub const fn new($($field: $type),+) -> Self {
                Self { $($field),+ }
            }
        }

        impl $(<$life>)? sealed::Sealed for $name $(<$life>)? {}

        impl $(<$life>)? Operation for $name $(<$life>)? {
            const NAME: &'static str = stringify!($method);
            type Answer = $answer;

            #[inline]
            fn visit<S: Operations>(
                &self,
                store: &S,
            ) -> impl Future<Output = Result<$answer, StoreError>> + Send {
                store.$method($(self.$field),+)
            }

            #[inline]
            fn visit_now<S: OperationsNow>(
                &self,
                store: &S,
            ) -> Option<Result<$answer, StoreError>> {
                store.$method($(self.$field),+)
            }

            $($($more)+)?
        }
    };
}

operation! {
    /// A check. One that places a hold is a question that has the terms of one.
    Check<'a>(question: &'a Question<'a>);
    check -> Outcome;

    #[inline]
    fn question(&self) -> Option<&Question<'_>> {
        Some(self.question)
    }

    #[inline]
    fn outcome(answer: &Outcome) -> Option<&Outcome> {
        Some(answer)
    }

    #[inline]
    fn if_question(
        &self,
        answer: impl FnOnce(&Question<'_>) -> Option<Result<Outcome, StoreError>>,
    ) -> Option<Result<Outcome, StoreError>> {
        answer(self.question)
    }
}

operation! {
    /// A refund of `units` of a charge.
    Refund<'a>(receipt: &'a Receipt, units: Amounts<'a>);
    refund -> crate::decision::Refund
}

operation! {
    /// A correction of a count.
    Adjust<'a>(counted: Counted<'a>, by: &'a Adjustment);
    adjust -> Vec<i64>
}

operation! {
    /// A charge without a check.
    Charge<'a>(counted: Counted<'a>, cost: Amounts<'a>);
    charge -> Vec<Charged>
}

operation! {
    /// The end of a hold, with the used units.
    Settle<'a>(hold: &'a Hold, actual: Amounts<'a>);
    settle -> Option<Settled>
}

operation! {
    /// A later end of a hold.
    Renew<'a>(hold: &'a Hold, ttl_us: u64);
    renew -> Option<Time>
}

operation! {
    /// The deletion of a count.
    Reset<'a>(counted: Counted<'a>);
    reset -> bool
}

operation! {
    /// A look at the stored state of a count.
    Inspect<'a>(counted: Counted<'a>);
    inspect -> Option<Inspection>
}

operation! {
    /// A read of the notices, unless their version is the one that was seen.
    ReadNotices(seen: Option<u64>);
    notices -> Option<Notices>
}

operation! {
    /// A notice for everybody who uses the store.
    Post<'a>(notice: &'a Notice);
    post -> ()
}

operation! {
    /// The removal of the notice of a name.
    Withdraw<'a>(name: &'a str);
    withdraw -> bool
}

/// A store's implementation of each operation, for stores that wait. Nothing is done before a
/// future is polled.
///
/// A store that keeps counts alone ([`Keeps::COUNTS`](crate::Keeps::COUNTS)) implements `check`,
/// `refund`, `adjust`, `reset` and `inspect`. The others refuse by themselves with
/// [`StoreError::misuse`].
pub trait Operations: Sync {
    /// Answers a question.
    fn check(
        &self,
        question: &Question<'_>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Refunds the part that still counts of `units` of a charge, or of a unit the rest of it if
    /// that is less. All refunds of a charge together never exceed it.
    fn refund(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
    ) -> impl Future<Output = Result<crate::decision::Refund, StoreError>> + Send;

    /// Returns to every limit the amount of its unit, or takes it when negative. Returns the change
    /// of `remaining` per limit.
    fn adjust(
        &self,
        counted: Counted<'_>,
        by: &Adjustment,
    ) -> impl Future<Output = Result<Vec<i64>, StoreError>> + Send;

    /// Charges `cost` to every limit without a check, each the amount of its unit, up to its debt.
    /// Returns what was done to each limit.
    fn charge(
        &self,
        _counted: Counted<'_>,
        _cost: Amounts<'_>,
    ) -> impl Future<Output = Result<Vec<Charged>, StoreError>> + Send {
        ready(Err(not_kept("charges without a check")))
    }

    /// Settles a hold: takes it away and charges the used amounts to every rate limit of its counts
    /// without a check, in one step. `None` when it is not open and nothing remembers it.
    fn settle(
        &self,
        _hold: &Hold,
        _actual: Amounts<'_>,
    ) -> impl Future<Output = Result<Option<Settled>, StoreError>> + Send {
        ready(Err(not_kept("holds")))
    }

    /// Renews a hold, which then ends `ttl_us` microseconds from now. Returns its new end; `None`
    /// when it is not open.
    fn renew(
        &self,
        _hold: &Hold,
        _ttl_us: u64,
    ) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send {
        ready(Err(not_kept("holds")))
    }

    /// Deletes a count and its holds. True when there was one.
    fn reset(&self, counted: Counted<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the stored state of a count; `None` if there is none.
    fn inspect(
        &self,
        counted: Counted<'_>,
    ) -> impl Future<Output = Result<Option<Inspection>, StoreError>> + Send;

    /// Returns the notices of the store; `None` if their version is still `seen`. Where none was
    /// ever posted, it is 0.
    fn notices(
        &self,
        _seen: Option<u64>,
    ) -> impl Future<Output = Result<Option<Notices>, StoreError>> + Send {
        ready(Err(not_kept("notices")))
    }

    /// Posts a notice, replacing one of the same name.
    fn post(&self, _notice: &Notice) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Err(not_kept("notices")))
    }

    /// Removes a notice before its expiry. True when there was one.
    fn withdraw(&self, _name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Err(not_kept("notices")))
    }
}

/// The same as [`Operations`], for stores that answer without waiting. `None` where one would have
/// to wait: nothing was done then.
pub trait OperationsNow {
    /// As [`Operations::check`].
    fn check(&self, question: &Question<'_>) -> Option<Result<Outcome, StoreError>>;

    /// As [`Operations::refund`].
    fn refund(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
    ) -> Option<Result<crate::decision::Refund, StoreError>>;

    /// As [`Operations::adjust`].
    fn adjust(&self, counted: Counted<'_>, by: &Adjustment)
    -> Option<Result<Vec<i64>, StoreError>>;

    /// As [`Operations::charge`].
    fn charge(
        &self,
        _counted: Counted<'_>,
        _cost: Amounts<'_>,
    ) -> Option<Result<Vec<Charged>, StoreError>> {
        Some(Err(not_kept("charges without a check")))
    }

    /// As [`Operations::settle`].
    fn settle(
        &self,
        _hold: &Hold,
        _actual: Amounts<'_>,
    ) -> Option<Result<Option<Settled>, StoreError>> {
        Some(Err(not_kept("holds")))
    }

    /// As [`Operations::renew`].
    fn renew(&self, _hold: &Hold, _ttl_us: u64) -> Option<Result<Option<Time>, StoreError>> {
        Some(Err(not_kept("holds")))
    }

    /// As [`Operations::reset`].
    fn reset(&self, counted: Counted<'_>) -> Option<Result<bool, StoreError>>;

    /// As [`Operations::inspect`].
    fn inspect(&self, counted: Counted<'_>) -> Option<Result<Option<Inspection>, StoreError>>;

    /// As [`Operations::notices`].
    fn notices(&self, _seen: Option<u64>) -> Option<Result<Option<Notices>, StoreError>> {
        Some(Err(not_kept("notices")))
    }

    /// As [`Operations::post`].
    fn post(&self, _notice: &Notice) -> Option<Result<(), StoreError>> {
        Some(Err(not_kept("notices")))
    }

    /// As [`Operations::withdraw`].
    fn withdraw(&self, _name: &str) -> Option<Result<bool, StoreError>> {
        Some(Err(not_kept("notices")))
    }
}

/// The refusal of a store that does not keep this.
pub(crate) fn not_kept(what: &str) -> StoreError {
    StoreError::misuse(format!("this store keeps no {what}: use memory, SQLite or Redis"))
}

#[cfg(test)]
mod tests {
    use core::slice::from_ref;
    use core::time::Duration;

    use super::*;
    use crate::engine::Mode;
    use crate::{HoldId, HoldKind, LimitSet, MemoryStore, Store as _, Subject};

    /// Its name, and whether a wrapper takes it for a check, before and after.
    fn seen<O: Operation>(store: &MemoryStore, operation: &O) -> (&'static str, bool, bool) {
        let answer = store.perform_now(operation).map(Result::unwrap);
        let outcome = answer.as_ref().and_then(O::outcome);
        (O::NAME, operation.question().is_some(), outcome.is_some())
    }

    #[test]
    fn a_wrapper_tells_checks_from_all_others() {
        let store = MemoryStore::new();
        let (subject, limits): (_, LimitSet) =
            (Subject::literal("ann").unwrap(), "5/s".parse().unwrap());
        let counted = Counted::new(&subject, &limits);
        let question = Question::new(from_ref(&counted), 1, Mode::Whole);
        assert_eq!(seen(&store, &Check::new(&question)), ("check", true, true));
        let outcome = Outcome::new(3, smallvec::SmallVec::new(), 0, Time::default());
        let given = Check::new(&question).if_question(|_| Some(Ok(outcome)));
        assert_eq!(given.unwrap().unwrap().granted, 3);
        let id = HoldId::random(HoldKind::Acquire, 1_000);
        let hold = Hold::new(id, 0, 1, Time::default(), [(subject.clone(), limits.clone())]);
        let receipt = Receipt::new(store.identity(), 1, Time::default(), 1, []);
        let notice = Notice::new("n", "", Duration::from_secs(1)).unwrap();
        let others = [
            seen(&store, &Refund::new(&receipt, 1.into())),
            seen(&store, &Adjust::new(counted, &1.into())),
            seen(&store, &Charge::new(counted, 1.into())),
            seen(&store, &Settle::new(&hold, 0.into())),
            seen(&store, &Renew::new(&hold, 1_000)),
            seen(&store, &Reset::new(counted)),
            seen(&store, &Inspect::new(counted)),
            seen(&store, &ReadNotices::new(None)),
            seen(&store, &Post::new(&notice)),
            seen(&store, &Withdraw::new("n")),
        ];
        let names = others.map(|(name, ..)| name);
        let expected = "refund adjust charge settle renew reset inspect notices post withdraw";
        assert_eq!(names.join(" "), expected);
        assert!(others.iter().all(|(_, before, after)| !before && !after));
        assert!(Reset::new(counted).if_question(|_| unreachable!("it is not a check")).is_none());
    }
}
