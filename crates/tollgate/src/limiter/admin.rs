//! An administrator's operations on counts: adjust, reset, inspect.

use super::{Limiter, Pending, call};
use crate::ask::Ask;
use crate::store::Store;

/// The calls of an administrator on one count: [`Limiter::admin`].
#[derive(Debug)]
pub struct Admin<'l, S>(pub(super) &'l Limiter<S>);

impl<'l, S: Store> Admin<'l, S> {
    /// Returns `delta` units to every limit of a subject, the oldest first. A negative `delta`
    /// takes units, at most what remains. This is an administrator's correction, without a receipt.
    /// After `+n`, any window that contains the adjustment admits at most `n` more than the limit's
    /// own bound.
    ///
    /// Returns the change of `remaining` per limit.
    ///
    /// # Errors
    /// A delta of 0 or beyond 2^40 in either direction, or more than one subject; or a store
    /// failure.
    pub fn adjust(
        &self,
        subject: impl Into<Ask<'l>>,
        delta: i64,
    ) -> Pending<'l, call::Adjust<'l, S>> {
        Pending::boxed(call::Adjust { limiter: self.0, ask: subject.into(), delta })
    }

    /// Deletes a subject's count and its holds. True when there was one.
    ///
    /// # Errors
    /// An invalid subject; or a store failure.
    pub fn reset(&self, subject: impl Into<Ask<'l>>) -> Pending<'l, call::Reset<'l, S>> {
        Pending::boxed(call::Reset(self.0, subject.into()))
    }

    /// Returns the stored state of a subject; `None` when it is fresh.
    ///
    /// # Errors
    /// An invalid subject; or a store failure.
    pub fn inspect(&self, subject: impl Into<Ask<'l>>) -> Pending<'l, call::Inspect<'l, S>> {
        Pending::boxed(call::Inspect(self.0, subject.into()))
    }
}
