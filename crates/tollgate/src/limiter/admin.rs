//! An administrator's operations on counts: adjust, reset, inspect.

use super::{Limiter, Pending, call};
use crate::adjustment::Adjustment;
use crate::ask::Ask;
use crate::store::Store;

/// The calls of an administrator on one count: [`Limiter::admin`].
#[derive(Debug)]
pub struct Admin<'l, S>(pub(super) &'l Limiter<S>);

impl<'l, S: Store> Admin<'l, S> {
    /// Returns units to every limit of a subject, the oldest first: a number of requests, or an
    /// amount of each unit. A negative amount takes units, at most what remains. This is an
    /// administrator's correction, without a receipt. After `+n`, any window that contains the
    /// adjustment admits at most `n` more than the limit's own bound.
    ///
    /// Returns the change of `remaining` per limit.
    ///
    /// # Errors
    /// No amount but 0, or one beyond 2^40 in either direction; an amount of a unit that no limit
    /// counts; more than one subject; or a store failure.
    pub fn adjust(
        &self,
        subject: impl Into<Ask<'l>>,
        by: impl Into<Adjustment>,
    ) -> Pending<'l, call::Adjust<'l, S>> {
        Pending::boxed(call::Adjust { limiter: self.0, ask: subject.into(), by: by.into() })
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
