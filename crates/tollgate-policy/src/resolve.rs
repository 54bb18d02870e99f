//! Turns a request into the input of the store: the subjects, the limits and the cost.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Cost, Error, MAX_PARTS, RequestId, Subject, SubjectPrefix, Unit};

use crate::cost::{Amount, CostRule};
use crate::field::{Field, Fields, value};
use crate::on_failure::OnFailure;
use crate::outcome::{Authority, Outcome};
use crate::policies::Policies;
use crate::ready::{
    Parts, PolicyPart, ReadyDimension, ReadyEntry, ReadyLimits, ReadyRule, Without,
};
use crate::reserve::{Estimate, Reserve};
use crate::sum::{WeightedSum, whole_number};
use crate::tiers::Tiered;

/// The input of a store call. It is filled in place: moving it takes as long as building it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The subjects; `parts` has the position of each one's limits, in the same order.
    pub(crate) subjects: SmallVec<[Subject; 1]>,
    pub(crate) parts: Parts,
    /// For each part the limits that an administrator has set, where there are some.
    pub(crate) ruled: Option<Box<[Option<Arc<ReadyLimits>>]>>,
    pub(crate) cost: Cost,
    pub(crate) shard: Option<Box<str>>,
    /// The first policy with a cost that is known afterwards.
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
            ruled: None,
            cost: Cost::from(1),
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

    /// Removes the counts.
    pub(crate) fn clear(&mut self) {
        self.subjects.clear();
        self.parts.clear();
        self.ruled = None;
    }

    /// The limits of the part at this place.
    #[inline]
    pub(crate) fn limits_at<'l>(
        &'l self,
        policies: &'l Policies,
        place: usize,
    ) -> Option<&'l ReadyLimits> {
        if let Some(ruled) = &self.ruled
            && let Some(Some(set)) = ruled.get(place)
        {
            return Some(set);
        }
        policies.ready_limits_of(*self.parts.get(place)?)
    }

    /// The limits of every part.
    pub(crate) fn limits<'l>(
        &'l self,
        policies: &'l Policies,
    ) -> impl Iterator<Item = &'l ReadyLimits> + Clone {
        (0..self.parts.len()).filter_map(|place| self.limits_at(policies, place))
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
        unit: Unit,
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
            Refused::Cost { policy, unit, max } => {
                let of = if unit == Unit::REQUESTS { "units" } else { unit.name() };
                let error = Error::Ask(format!(
                    "the cost is above the `max` of the policy and is never admitted: at most {max} \
                     {of}"
                ));
                (Outcome::Never, policy, Some(Arc::new(Cause::TooCostly { unit, max, error })))
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
    /// The cost is above the `max` of its policy.
    TooCostly {
        unit: Unit,
        max: u64,
        error: Error,
    },
    Error(Error),
}

impl Policies {
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
                        plan.parts.push(PolicyPart { policy, entry, rule, is_ruled: false });
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
            if plan.parts.len() > before {
                if let (0, Some(field)) = (before, &ready.shard) {
                    plan.shard = value(fields, field).map(|value| value.into_owned().into());
                }
                if ready.cost.reserves().next().is_some() {
                    plan.reserves = plan.reserves.or(Some(policy));
                }
                match ready.cost.of_request(fields) {
                    Ok(cost) if before == 0 => plan.cost = cost,
                    Ok(cost) => plan.add_cost(&cost),
                    Err(uncosted) => {
                        refused.get_or_insert(uncosted.refused(policy));
                    }
                }
            }
        }
        // Only now are all policies known: a later one may deny.
        match (refused, plan.parts.get(MAX_PARTS)) {
            (Some(refused), _) => Err(refused),
            (None, Some(part)) => Err(Refused::Parts { policy: part.policy }),
            (None, None) => {
                plan.keep_counted(self);
                Ok(())
            }
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

impl Plan {
    /// Adds the cost of one more policy. Policies that can apply together have the same amount of
    /// a unit that they share, of which one part is charged for all of them.
    fn add_cost(&mut self, more: &Cost) {
        let known = self.cost.amounts();
        let new = more.amounts().iter().filter(|(unit, _)| known.named(unit).is_none());
        let all: Cost = known.iter().chain(new).map(|(unit, amount)| (*unit, amount)).collect();
        self.cost = all;
    }

    /// Whether a limit of this plan counts a unit. Slots count a plain cost, too.
    pub(crate) fn counts(&self, policies: &Policies, unit: &Unit) -> bool {
        let limits = self.limits(policies).flat_map(|set| set.whole.limits());
        limits.filter(|limit| !limit.is_uncounted()).any(|limit| {
            limit.has_capacity() && limit.unit() == unit
                || limit.needs_hold() && *unit == Unit::REQUESTS
        })
    }

    /// Leaves out the amounts of units that no limit counts, as those of an override may not, or of
    /// a ruling. If none is left because of a ruling, nothing is asked; else the store refuses the
    /// question.
    #[inline]
    pub(crate) fn keep_counted(&mut self, policies: &Policies) {
        if self.cost.plain().is_some() && self.ruled.is_none() {
            return;
        }
        let amounts = self.cost.amounts().iter();
        let counted = amounts.filter(|(unit, _)| self.counts(policies, unit));
        let counted: Cost = counted.map(|(unit, amount)| (*unit, amount)).collect();
        if !counted.amounts().is_zero() {
            self.cost = counted;
        } else if self.ruled.is_some() {
            let policy = self.parts.first().map(|part| part.policy);
            let (outcome, authority) = (Outcome::Unlimited, Authority::Ruling);
            self.clear();
            self.early = Some(Box::new(Early { outcome, authority, policy, cause: None }));
        }
    }

    /// Gives a unit another amount, if it takes any of it.
    pub(crate) fn set_amount(&mut self, unit: &Unit, amount: u64) {
        let amounts = self.cost.amounts().iter();
        let changed =
            amounts.map(|(known, old)| (*known, if known == unit { amount } else { old }));
        self.cost = changed.collect();
    }

    /// The policies that apply, each once.
    pub(crate) fn policies(&self) -> impl Iterator<Item = usize> {
        let mut last = None;
        let all = self.parts.iter().map(|part| part.policy);
        all.filter(move |policy| last.replace(*policy) != Some(*policy))
    }
}

/// Why a request has no cost.
enum Uncosted {
    /// The amount of a unit is above its bound.
    TooCostly(Unit, u64),
    Missing(Field),
}

impl Uncosted {
    fn refused(self, policy: usize) -> Refused {
        match self {
            Self::TooCostly(unit, max) => Refused::Cost { policy, unit, max },
            Self::Missing(field) => Refused::Missing { policy, field },
        }
    }
}

impl CostRule {
    /// The cost of a request.
    #[inline]
    fn of_request(&self, fields: &dyn Fields) -> Result<Cost, Uncosted> {
        if let Some(amount) = self.plain() {
            return amount.of_request(fields, (&Unit::REQUESTS, false)).map(Cost::from);
        }
        self.of_units(fields)
    }

    fn of_units(&self, fields: &dyn Fields) -> Result<Cost, Uncosted> {
        let mut amounts: SmallVec<[(Unit, u64); 4]> = SmallVec::new();
        for (unit, amount) in self.amounts() {
            let amount = amount.of_request(fields, (unit, true))?;
            if amount > 0 {
                amounts.push((*unit, amount));
            }
        }
        match (amounts.is_empty(), self.fields().next()) {
            // A request that takes nothing is as one that does not say what it takes.
            (true, Some(field)) => Err(Uncosted::Missing(field.clone())),
            _ => Ok(amounts.into_iter().collect()),
        }
    }
}

impl Amount {
    /// The amount of this unit that a request takes, which may be 0 only if `or_none`.
    #[inline]
    fn of_request(
        &self,
        fields: &dyn Fields,
        (unit, or_none): (&Unit, bool),
    ) -> Result<u64, Uncosted> {
        let (sum, max, otherwise) = match self {
            Self::Fixed(units) => return Ok(*units),
            Self::From { sum, max, otherwise } => (sum, *max, *otherwise),
            Self::Reserve(Reserve { estimate, max, .. }) => match estimate {
                Estimate::Units(units) => return Ok(*units),
                Estimate::From { sum, otherwise } => (sum, *max, *otherwise),
                // The gate knows better, once it has seen enough.
                Estimate::Quantile { otherwise, .. } => return Ok(*otherwise),
            },
        };
        let number = |field: &Field| whole_number(&value(fields, field)?);
        match sum.total(number) {
            Ok(units) if units > max => Err(Uncosted::TooCostly(*unit, max)),
            Ok(units) if units > 0 || or_none => Ok(units),
            total => otherwise.ok_or_else(|| Uncosted::Missing(missing(total, sum).clone())),
        }
    }
}

/// The field that a total lacks, or else the first one.
fn missing<'f>(total: Result<u64, &'f Field>, sum: &'f WeightedSum<Field>) -> &'f Field {
    total.err().or(sum.sources().next()).unwrap_or(&Field::Ip)
}
