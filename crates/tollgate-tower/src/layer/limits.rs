//! Limits that a function of the program gives for each request: by tenant, by plan, from a
//! database.

use core::future::Future;
use core::pin::Pin;
use std::error::Error as StdError;

use tollgate::LimitSet;
use tollgate_policy::{Loss, Prepared};

use super::refused::RequestHead;

type BoxError = Box<dyn StdError + Send + Sync>;
pub(super) type FoundLimits = Result<Option<LimitSet>, BoxError>;
pub(super) type Finding = Pin<Box<dyn Future<Output = FoundLimits> + Send>>;

/// The function that gives the limits of a policy.
pub(super) struct LimitsFunction {
    pub(super) policy: Box<str>,
    of: Box<dyn Fn(RequestHead<'_>) -> Finding + Send + Sync>,
    loss: Loss,
}

impl LimitsFunction {
    pub(super) fn new<F, R>(policy: &str, of: F) -> Self
    where
        F: Fn(RequestHead<'_>) -> R + Send + Sync + 'static,
        R: Future<Output = FoundLimits> + Send + 'static,
    {
        Self {
            policy: policy.into(),
            of: Box::new(move |head| Box::pin(of(head))),
            loss: Loss::new("the function that gives limits"),
        }
    }

    /// Begins to find the limits of a request.
    pub(super) fn find(&self, head: RequestHead<'_>) -> Finding {
        (self.of)(head)
    }

    /// Sets the limits that were found; without them the failure rule of the policy decides.
    pub(super) fn give(&self, prepared: &mut Prepared, found: FoundLimits) {
        let given = found.and_then(|limits| match limits {
            Some(limits) => prepared.limits(&self.policy, &limits).map_err(BoxError::from),
            None => Ok(()),
        });
        match given {
            Ok(()) => self.loss.answered(),
            Err(error) => {
                let goes_on = prepared.without_limits(&self.policy, &error);
                self.loss.failed(goes_on, &error);
            }
        }
    }
}
