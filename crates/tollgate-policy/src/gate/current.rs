//! The policies in force, as one value: whatever is read of it belongs to one revision.

use core::any::Any;
use core::time::Duration;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::Guard;
use tollgate::{ParseError, Subject};

use super::live::Live;
use super::standing::SubjectCounts;
use super::{DecisionMark, Revision, ruled_sets};
use crate::field::Fields;
use crate::policies::Policies;
use crate::ruled_limit::RuledLimit;

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

    /// The counts that a policy keeps for a subject ([`Policies::counts_of`]), under the limits
    /// that administrators have set for it. Where such a ruling has conditions on other fields than
    /// the subject's dimensions, the policy's own limits are given: they are the same count.
    ///
    /// # Errors
    /// As [`Policies::counts_of`].
    pub fn counts_of(
        &self,
        policy: &str,
        subject: &Subject,
    ) -> Result<Option<SubjectCounts>, ParseError> {
        let mut counts = self.policies().counts_of(policy, subject)?;
        if let (Some(counts), Some(rulings)) = (&mut counts, &self.0.rulings) {
            let dimensions = subject.dimensions();
            let text = |value: Cow<'_, [u8]>| String::from_utf8_lossy(&value).into_owned();
            let fields: HashMap<String, String> =
                dimensions.map(|(name, value)| (name.to_owned(), text(value))).collect();
            let set = rulings.held(&fields, &self.0.misfits).set_in(policy);
            for limits in &mut counts.limits {
                *limits = ruled_sets::set_in(policy, &set, limits.clone());
            }
        }
        Ok(counts)
    }

    /// The limits that administrators have set in a policy for a request.
    #[must_use]
    pub fn set_limits(&self, policy: &str, fields: &dyn Fields) -> Vec<RuledLimit> {
        let held = self.0.rulings.as_ref().map(|it| it.held(fields, &self.0.misfits));
        let set = held.map(|held| held.set_in(policy)).unwrap_or_default();
        set.into_iter().cloned().collect()
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
