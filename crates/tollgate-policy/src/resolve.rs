//! Turns a request into the input of the store: the subjects, the limits and the cost.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Error, LimitSet, MAX_COST, MAX_PARTS, RequestId, Subject, SubjectPrefix};

use crate::cost::{Cost, Estimate, Reserve};
use crate::field::{Field, Fields, value};
use crate::on_failure::OnFailure;
use crate::outcome::{Authority, Outcome};
use crate::policies::Policies;
use crate::ready::{
    Parts, PolicyPart, Ready, ReadyDimension, ReadyEntry, ReadyLimits, ReadyRule, Without,
};
use crate::tiers::Tiered;

/// The input of a store call. It is filled in place: moving it takes as long as building it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The subjects; `parts` has the position of each one's limits, in the same order.
    pub(crate) subjects: SmallVec<[Subject; 1]>,
    pub(crate) parts: Parts,
    pub(crate) cost: u64,
    pub(crate) shard: Option<Box<str>>,
    /// The policy whose cost is known afterwards.
    pub(crate) reserves: Option<usize>,
    pub(crate) deadline: Duration,
    pub(crate) on_failure: OnFailure,
    /// The first policy with the failure rule `deny`.
    pub(crate) denier: Option<usize>,
    /// True when a limit here has a local share: the store's answer is noted for that.
    pub(crate) has_shares: bool,
    /// The text of the request id, and the rest of it. Boxed, since few requests have one.
    pub(crate) request: Option<Box<(Box<str>, RequestId<'static>)>>,
    /// Whether the caller waits where it is denied.
    pub(crate) waits: bool,
    /// The answer if the store need not be called. Boxed, since few requests have one.
    pub(crate) early: Option<Box<Early>>,
}

impl Plan {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            subjects: SmallVec::new(),
            parts: SmallVec::new(),
            cost: 1,
            shard: None,
            reserves: None,
            deadline: Duration::MAX,
            on_failure: OnFailure::Allow,
            denier: None,
            has_shares: false,
            request: None,
            waits: false,
            early: None,
        }
    }
}

/// Why a request is denied without a store call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Banned {
        policy: usize,
    },
    Missing {
        policy: usize,
        field: Field,
    },
    /// Its cost is above the bound of the policy.
    Cost {
        policy: usize,
        max: u64,
    },
    /// It would need more subjects than one check can have.
    Parts {
        policy: usize,
    },
}

/// An answer without a store call.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) outcome: Outcome,
    pub(crate) authority: Authority,
    /// The policy that decided; `None` if no policy applies.
    pub(crate) policy: Option<usize>,
    pub(crate) cause: Option<Arc<Cause>>,
}

impl Early {
    /// The answer if no policy applies.
    pub(crate) const NO_POLICY: Self = Self {
        outcome: Outcome::NoPolicy,
        authority: Authority::Policy,
        policy: None,
        cause: None,
    };

    /// The answer to a request that is refused without a store call.
    #[cold]
    pub(crate) fn refused(refused: Refused) -> Self {
        let mut authority = Authority::Policy;
        let (outcome, policy, cause) = match refused {
            Refused::Banned { policy } => (Outcome::Banned, policy, None),
            Refused::Cost { policy, max } => {
                let error = Error::Ask(format!(
                    "the cost is above the `max` of the policy and is never admitted: at most {max} \
                     units"
                ));
                (Outcome::Never, policy, Some(Arc::new(Cause::Error(error))))
            }
            Refused::Missing { policy, field } => {
                (Outcome::Missing, policy, Some(Arc::new(Cause::Missing(field))))
            }
            // Independent of the failure rules: nothing failed, and a caller that makes more
            // policies apply must not evade all of them.
            Refused::Parts { policy } => {
                let error = Error::Ask(format!(
                    "the policies that apply count more than {} subjects, which no check has: let \
                     fewer apply together",
                    MAX_PARTS
                ));
                authority = Authority::FailureRule;
                (Outcome::FailedClosed, policy, Some(Arc::new(Cause::Error(error))))
            }
        };
        Self { outcome, authority, policy: Some(policy), cause }
    }
}

/// Why the store did not decide.
#[derive(Debug)]
pub(crate) enum Cause {
    Missing(Field),
    Error(Error),
}

impl Policies {
    #[inline]
    pub(crate) fn limits_of(&self, part: PolicyPart) -> Option<&LimitSet> {
        self.ready_limits_of(part).map(|limits| &limits.whole)
    }

    /// The limits of a part, with their local shares.
    #[inline]
    pub(crate) fn ready_limits_of(&self, part: PolicyPart) -> Option<&ReadyLimits> {
        let entry = self.ready(part.policy)?.entries.get(part.entry)?;
        match part.rule {
            None => Some(&entry.limits),
            Some(rule) => match entry.rules.get(rule)? {
                ReadyRule::Limits(set) => Some(set),
                ReadyRule::Unlimited | ReadyRule::Banned => None,
            },
        }
    }

    /// The plan of these policies for a request; `usual` is the deadline of those without one.
    pub(crate) fn plan(
        &self,
        places: &[usize],
        fields: &dyn Fields,
        usual: Duration,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        let mut refused: Option<Refused> = None;
        let mut priced = false;
        for &policy in places {
            // Nothing of an unlimited policy counts for those that apply beside it.
            let Some(ready) = self.ready(policy).filter(|ready| !ready.entries.is_empty()) else {
                continue;
            };
            let tiered = ready.tiers.as_ref().map(|tiers| {
                let tier = tiers.tier_of(fields);
                Tiered { fields, tier }
            });
            let of_rules = tiered.as_ref().map_or(fields, |tiered| tiered as &dyn Fields);
            plan.deadline = plan.deadline.min(ready.deadline.unwrap_or(usual));
            if ready.on_failure == OnFailure::Deny {
                plan.on_failure = OnFailure::Deny;
                plan.denier = plan.denier.or(Some(policy));
            }
            let before = plan.parts.len();
            for (entry, ready) in ready.entries.iter().enumerate() {
                let rule = match ready.rule(of_rules) {
                    None => None,
                    Some((rule, ReadyRule::Limits(_))) => Some(rule),
                    Some((_, ReadyRule::Unlimited)) => continue,
                    // A ban decides whatever the other policies do.
                    Some((_, ReadyRule::Banned)) => return Err(Refused::Banned { policy }),
                };
                match ready.subject(fields) {
                    Ok(Some(subject)) => {
                        plan.subjects.push(subject);
                        plan.parts.push(PolicyPart { policy, entry, rule });
                    }
                    Ok(None) => {}
                    Err(field) => {
                        refused.get_or_insert(Refused::Missing { policy, field: *field });
                    }
                }
            }
            if ready.on_failure.share().is_some() && plan.parts.len() > before {
                plan.has_shares = true;
                if plan.on_failure == OnFailure::Allow {
                    plan.on_failure = ready.on_failure;
                }
            }
            // Policies that can apply together have one cost: the first that counts charges all of
            // it.
            if !priced && plan.parts.len() > before {
                priced = true;
                if let Some(field) = &ready.shard {
                    plan.shard = value(fields, field).map(|value| value.into_owned().into());
                }
                plan.reserves = matches!(ready.cost, Cost::Reserve(_)).then_some(policy);
                match ready.cost_of(fields) {
                    Costs::Units(units) => plan.cost = units,
                    Costs::Never => {
                        let max = ready.cost.max().unwrap_or(MAX_COST);
                        refused.get_or_insert(Refused::Cost { policy, max });
                    }
                    Costs::Missing(field) => {
                        refused.get_or_insert(Refused::Missing { policy, field });
                    }
                }
            }
        }
        // Only now are all policies known: a later one may deny.
        match (refused, plan.parts.get(MAX_PARTS)) {
            (Some(refused), _) => Err(refused),
            (None, Some(part)) => Err(Refused::Parts { policy: part.policy }),
            (None, None) => Ok(()),
        }
    }
}

impl ReadyEntry {
    /// The override that holds, with its position.
    #[inline]
    fn rule(&self, fields: &dyn Fields) -> Option<(usize, &ReadyRule)> {
        let rule = self.others.as_ref()?.first(fields)?;
        let rule = usize::try_from(rule).ok()?;
        Some((rule, self.rules.get(rule)?))
    }

    /// The subject of this entry; `None` if the entry is skipped; or the missing field.
    #[inline]
    fn subject(&self, fields: &dyn Fields) -> Result<Option<Subject>, Box<Field>> {
        let [one] = &self.dimensions[..] else { return self.subject_of_several(fields) };
        match one.value(fields) {
            // Only fails for a value of many kilobytes, which is not an identity.
            Ok(Some((prefix, value))) => {
                prefix.with(&value).map(Some).map_err(|_| Box::new(one.field()))
            }
            Ok(None) => Ok(None),
            Err(field) => Err(Box::new(field.clone())),
        }
    }

    fn subject_of_several(&self, fields: &dyn Fields) -> Result<Option<Subject>, Box<Field>> {
        let mut pairs: SmallVec<[Pair<'_>; 4]> = SmallVec::new();
        for dimension in &self.dimensions {
            match dimension.value(fields) {
                // A substitute may already be in the subject; it is then not repeated.
                Ok(Some((prefix, _))) if pairs.iter().any(|(other, _)| *other == prefix) => {}
                Ok(Some(pair)) => pairs.push(pair),
                Ok(None) => return Ok(None),
                Err(field) => return Err(Box::new(field.clone())),
            }
        }
        let all = pairs.iter().map(|(prefix, value)| (prefix.dimension(), value.as_bytes()));
        match (Subject::from_dimensions(all), self.dimensions.first()) {
            (Ok(subject), _) => Ok(Some(subject)),
            // Only reached with a value of many kilobytes, which is not an identity.
            (Err(_), Some(first)) => Err(Box::new(first.field())),
            (Err(_), None) => Ok(None),
        }
    }
}

type Pair<'v> = (&'v SubjectPrefix, Cow<'v, str>);

impl ReadyDimension {
    /// The prefix of its subjects, and its value in this request; `None` to skip; or the missing
    /// field.
    #[inline]
    fn value<'v>(&'v self, fields: &'v dyn Fields) -> Result<Option<Pair<'v>>, &'v Field> {
        match self {
            Self::Constant { prefix, value } => Ok(Some((prefix, Cow::Borrowed(value)))),
            Self::Field { field, prefix, absent } => match (value(fields, field), absent) {
                (Some(value), _) => Ok(Some((prefix, value))),
                (None, Without::Skip) => Ok(None),
                (None, Without::Deny) => Err(field),
                (None, Without::Instead(other)) => other.value(fields),
            },
        }
    }

    /// The field of this dimension.
    fn field(&self) -> Field {
        match self {
            Self::Field { field, .. } => field.clone(),
            Self::Constant { prefix, .. } => Field::Custom(prefix.dimension().into()),
        }
    }
}

/// The cost of a request, or why it has none.
enum Costs {
    Units(u64),
    /// The cost is above the bound.
    Never,
    Missing(Field),
}

impl Ready {
    fn cost_of(&self, fields: &dyn Fields) -> Costs {
        match &self.cost {
            Cost::Fixed(units) => Costs::Units(*units),
            Cost::From { field, max, otherwise } => Costs::from(fields, field, *max, *otherwise),
            Cost::Reserve(Reserve { estimate, max, .. }) => match estimate {
                Estimate::Units(units) => Costs::Units(*units),
                Estimate::From { field, otherwise } => Costs::from(fields, field, *max, *otherwise),
                // The gate knows better, once it has seen enough.
                Estimate::Quantile { otherwise, .. } => Costs::Units(*otherwise),
            },
        }
    }
}

impl Costs {
    /// The number in a field.
    fn from(fields: &dyn Fields, field: &Field, max: u64, otherwise: Option<u64>) -> Self {
        let value = value(fields, field);
        let digits = value.as_deref().map(|text| text.trim_start_matches('0'));
        let number = digits.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        match number {
            // A number with more digits than any `u64` is above any bound.
            Some(digits) if digits.len() > 19 => Self::Never,
            Some(digits) => match digits.parse::<u64>() {
                Ok(units) if units > max => Self::Never,
                Ok(units) => Self::Units(units),
                Err(_) => Self::otherwise(otherwise, field),
            },
            None => Self::otherwise(otherwise, field),
        }
    }

    fn otherwise(otherwise: Option<u64>, field: &Field) -> Self {
        otherwise.map_or_else(|| Self::Missing(field.clone()), Self::Units)
    }
}
