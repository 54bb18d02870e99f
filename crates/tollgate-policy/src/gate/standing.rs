//! How policies relate to a request and to a subject, without a call of the store.

use tollgate::{LimitSet, ParseError, Subject};

use crate::field::Fields;
use crate::model::Policy;
use crate::pattern::Condition;
use crate::policies::Policies;

/// How one policy relates to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// The first of its conditions that does not hold; `None` if all do.
    pub fails: Option<&'p Condition>,
    /// Whether it is checked: all its conditions hold, and no earlier policy is the only one that
    /// counts.
    pub applies: bool,
}

/// The counts of a policy for one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubjectCounts {
    /// Every limit set that the subject may be counted under: those of the entries with such a
    /// subject, and of their overrides. Each is a separate count.
    pub limits: Vec<LimitSet>,
    /// The shard of the policy on a cluster, if the subject has it.
    pub shard: Option<String>,
}

impl Policies {
    /// The counts that a policy keeps for a subject. The list of limits is empty if the policy
    /// counts by other dimensions than the subject's. `None` if there is no such policy.
    ///
    /// # Errors
    /// None in practice: the policies were checked when they were created.
    pub fn counts_of(
        &self,
        policy: &str,
        subject: &Subject,
    ) -> Result<Option<SubjectCounts>, ParseError> {
        let Some(place) = self.place_of(policy) else { return Ok(None) };
        let (Some(ready), Some(policy)) = (self.ready(place), self.policy(place)) else {
            return Ok(None);
        };
        let dimensions: Vec<(&str, _)> = subject.dimensions().collect();
        let has = |name: &str| dimensions.iter().any(|(known, _)| *known == name);
        let mut limits: Vec<LimitSet> = Vec::new();
        for entry in policy.entries.iter().filter(|entry| entry.counts_by(&has, dimensions.len())) {
            for set in entry.sets() {
                let set = set.clone().in_policy(&policy.name)?;
                // The same limits with other numbers are the same count.
                if limits.iter().all(|known| known.identity() != set.identity()) {
                    limits.push(set);
                }
            }
        }
        let shard = ready.shard.as_ref().and_then(|field| {
            let name = field.to_string();
            let (_, value) = dimensions.iter().find(|(known, _)| *known == name)?;
            String::from_utf8(value.to_vec()).ok()
        });
        Ok(Some(SubjectCounts { limits, shard }))
    }

    /// How every policy relates to a request, in order.
    #[must_use]
    pub fn standings(&self, fields: &dyn Fields) -> Vec<Standing<'_>> {
        let moment = self.moment(fields);
        let fields = moment.as_ref().map_or(fields, |moment| moment as &dyn Fields);
        let matched = self.matched(fields);
        let applies =
            |place: &usize| matched.enforced.contains(place) || matched.shadows.contains(place);
        let each = self.policies().iter().enumerate();
        each.map(|(place, policy)| Standing {
            policy,
            fails: policy.when.iter().find(|condition| !condition.holds(fields)),
            applies: applies(&place),
        })
        .collect()
    }
}
