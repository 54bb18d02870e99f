//! Turns a request into the input of the store: the subjects, the limits and the cost.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Cost, Error, Limit, MAX_PARTS, RequestId, Subject, SubjectPrefix, Unit};

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
    /// The policies that count nothing for the request, and only bring their price.
    pub(crate) priced: SmallVec<[usize; 1]>,
    /// For each part the limits that were set for the request, by an administrator or by the
    /// program, where there are some.
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
            priced: SmallVec::new(),
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
        self.priced.clear();
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
    /// Those of `priced` apply too, and count nothing: they only bring their costs.
    pub(crate) fn plan(
        &self,
        (places, priced): (&[usize], &[usize]),
        fields: &dyn Fields,
        usual: Duration,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        let mut refused: Option<Refused> = None;
        let mut others: SmallVec<[usize; 4]> = SmallVec::new();
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
            if plan.parts.len() == before {
                others.push(policy);
                continue;
            }
            if ready.on_failure.share().is_some() {
                plan.has_shares = true;
                if plan.on_failure == OnFailure::Allow {
                    plan.on_failure = ready.on_failure;
                }
            }
            if let (0, Some(field)) = (before, &ready.shard) {
                plan.shard = value(fields, field).map(|value| value.into_owned().into());
            }
            if let Err(refusal) = plan.add_price((policy, ready), fields, before == 0) {
                refused.get_or_insert(refusal);
            }
        }
        if !plan.parts.is_empty() {
            let refusal = self.add_prices(others.iter().chain(priced), fields, plan);
            refused = refused.or(refusal.err());
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

    /// Adds the costs of policies that count nothing for a request, and may still bring a price.
    fn add_prices<'p>(
        &self,
        policies: impl Iterator<Item = &'p usize>,
        fields: &dyn Fields,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        for &policy in policies {
            let Some(ready) = self.ready(policy).filter(|ready| ready.cost.plain().is_none())
            else {
                continue;
            };
            plan.add_price((policy, ready), fields, false)?;
            plan.priced.push(policy);
        }
        Ok(())
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
    /// Adds what one more policy charges for a request.
    #[inline]
    fn add_price(
        &mut self,
        (policy, ready): (usize, &Ready),
        fields: &dyn Fields,
        is_first: bool,
    ) -> Result<(), Refused> {
        if ready.cost.reserves().next().is_some() {
            self.reserves = self.reserves.or(Some(policy));
        }
        let cost = ready.cost.of_request(fields).map_err(|it| it.refused(policy))?;
        match is_first {
            true => self.cost = cost,
            false => self.add_cost(&cost),
        }
        Ok(())
    }

    /// Adds the cost of one more policy. Policies that can apply together have the same amount of
    /// a unit that they share, of which one part is charged for all of them.
    fn add_cost(&mut self, more: &Cost) {
        let known = self.cost.amounts();
        let new = more.amounts().iter().filter(|(unit, _)| known.named(unit).is_none());
        let all: Cost = known.iter().chain(new).map(|(unit, amount)| (*unit, amount)).collect();
        self.cost = all;
    }

    /// Whether a limit of this plan counts a unit, or would if a ruling had not made it unlimited.
    pub(crate) fn counts(&self, policies: &Policies, unit: &Unit) -> bool {
        let mut limits = self.limits(policies).flat_map(|set| set.whole.limits());
        limits.any(|limit| limit.has_capacity() && limit.unit().name() == unit.name())
    }

    /// Leaves out the amounts of units that no limit counts, as those of an override may not. If
    /// none counts any, the store refuses the question.
    #[inline]
    pub(crate) fn keep_counted(&mut self, policies: &Policies) {
        if self.cost.plain().is_some() {
            return;
        }
        let amounts = self.cost.amounts().iter();
        let counted = amounts.filter(|(unit, _)| self.counts(policies, unit));
        let mut counted: Vec<(Unit, u64)> = counted.map(|(unit, amount)| (*unit, amount)).collect();
        if counted.iter().all(|(_, amount)| *amount == 0) {
            return;
        }
        let takes_slots =
            || self.limits(policies).flat_map(|set| set.whole.limits()).any(Limit::needs_hold);
        // A cost of requests alone would be as many slots.
        if matches!(counted[..], [(Unit::REQUESTS, _)]) && takes_slots() {
            counted.push((Unit::SLOTS, 1));
        }
        self.cost = counted.into_iter().collect();
    }

    /// Gives a unit another amount, if it takes any of it.
    pub(crate) fn set_amount(&mut self, unit: &Unit, amount: u64) {
        let amounts = self.cost.amounts().iter();
        let changed =
            amounts.map(|(known, old)| (*known, if known == unit { amount } else { old }));
        self.cost = changed.collect();
    }

    /// The policies that apply, each once: those that count, then those that only bring a price.
    pub(crate) fn policies(&self) -> impl Iterator<Item = usize> {
        let mut last = None;
        let counting = self.parts.iter().map(|part| part.policy);
        let counting = counting.filter(move |policy| last.replace(*policy) != Some(*policy));
        counting.chain(self.priced.iter().copied())
    }
}
