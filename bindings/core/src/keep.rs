//! The part of a decision that a language keeps, in the answers that it gets.

use tollgate::{Decision, Error, Limiter, Store};

use crate::answer::BindingAnswer;
use crate::operation::Operation;

/// The part of a decision that a language keeps.
pub trait Keep: Sized + Send + 'static {
    /// Asks a limiter, and keeps its answer.
    fn ask<S: Store>(
        operation: &Operation,
        limiter: &Limiter<S>,
    ) -> impl Future<Output = Result<BindingAnswer<Self>, Error>> + Send;
}

impl Keep for Decision<'static> {
    async fn ask<S: Store>(
        operation: &Operation,
        limiter: &Limiter<S>,
    ) -> Result<BindingAnswer<Self>, Error> {
        operation.perform(limiter, |_, it| it.into_owned()).await
    }
}
