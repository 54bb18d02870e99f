//! The policies in force, as one value: whatever is read of it belongs to one revision.

use core::any::Any;
use core::time::Duration;
use std::sync::Arc;

use arc_swap::Guard;

use super::live::Live;
use super::{DecisionMark, Revision};
use crate::policies::Policies;

/// The policies in force at one time: [`Gate::current`](super::Gate::current). It is for short use:
/// while many are kept, further ones are slow.
#[derive(Debug)]
pub struct Current(pub(super) Guard<Arc<Live>>);

impl Current {
    /// The policies.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Their revision.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.0.revision
    }

    /// The mark for requests that are decided by them.
    #[must_use]
    pub fn mark(&self) -> DecisionMark {
        self.0.mark
    }

    /// The deadline if neither a policy nor a call sets one: that of the store's URL, or else
    /// [`DEFAULT_DEADLINE`](crate::DEFAULT_DEADLINE).
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.usual
    }

    /// The value of this type that is derived from the policies, created now if there is none. An
    /// answer has it then ([`Answer::extension`](super::Answer::extension)).
    pub fn extension<T: Any + Send + Sync>(&self, make: impl Fn(&Policies) -> T) -> &T {
        self.0.extension(make)
    }
}
