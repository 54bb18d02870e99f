//! What a language keeps of a decision. Who asks a limiter names it, and gets answers that have it.

use tollgate::{Decision, Error, Limiter, Store};

use crate::answer::BindingAnswer;
use crate::operation::Operation;

/// What a language keeps of a decision.
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
