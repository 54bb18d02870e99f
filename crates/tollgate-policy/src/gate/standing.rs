//! How policies stand to a request and to a subject, without asking the store.

use tollgate::{LimitSet, ParseError, Subject};

use crate::field::Fields;
use crate::model::{Policy, Rule};
use crate::pattern::Condition;
use crate::policies::Policies;

/// How one policy stands to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// The first of its conditions that does not hold; none when all do.
    pub fails: Option<&'p Condition>,
    /// Whether it is asked: all its conditions hold, and no policy before it is the only one that
    /// counts.
    pub applies: bool,
}

/// What a policy counts for one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubjectCounts {
    /// Every set of limits that the subject may be counted under: those of the entries with such a
    /// subject, and of their overrides. Each is a count of its own.
    pub limits: Vec<LimitSet>,
    /// What the policy shares on a cluster, where the subject has it.
    pub shard: Option<String>,
}

impl Policies {
    /// The counts that a policy keeps for a subject; without limits where it counts by other
    /// dimensions than the subject's. None when there is no such policy.
    ///
    /// # Errors
    /// None that a policy which was read has.
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
            let others = entry.overrides.iter().filter_map(|other| match &other.rule {
                Rule::Limits(limits) => Some(limits),
                Rule::Unlimited | Rule::Banned => None,
            });
            for set in core::iter::once(&entry.limits).chain(others) {
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

    /// How every policy stands to a request, in their order.
    #[must_use]
    pub fn standings(&self, fields: &dyn Fields) -> Vec<Standing<'_>> {
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
