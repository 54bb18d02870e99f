//! A prepared request, with the settings that a front may still change before the store is asked.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::Guard;
use smallvec::SmallVec;
use tollgate::{Cost, Error, HoldKind, HoldName, Patience, RequestId};

use super::DecisionMark;
use super::live::Live;
use super::rulings::Rulings;
use crate::cost::Amount;
use crate::field::{Field, Fields};
use crate::model::Policy;
use crate::outcome::{Authority, Outcome};
use crate::policies::Matched;
use crate::resolve::{Early, Plan, Refused};

/// A prepared request without an answer yet. It contains the check, and nothing borrowed from the
/// request. Every call with it charges again.
#[derive(Debug)]
#[must_use = "a request that is not asked for is not limited"]
pub struct Prepared {
    pub(super) live: Guard<Arc<Live>>,
    pub(super) matched: Matched,
    /// The check of the enforced policies.
    pub(super) plan: Plan,
    /// The checks of the shadow policies, with their positions, for when the others admit.
    pub(super) shadows: Vec<(usize, Plan)>,
    pub(super) started: Option<Instant>,
    /// The caller's name for a hold.
    pub(super) name: Option<HoldName>,
    /// The kind of cost that a peek judges.
    pub(super) kind: Option<HoldKind>,
    /// Whether nothing is charged.
    pub(super) is_peek: bool,
    /// Whether the caller waits for a hold in line.
    pub(super) patience: Patience,
}

impl Prepared {
    /// The kind and the time of the hold where a policy reserves its cost; the kind includes the
    /// effect of its end.
    #[must_use]
    pub fn reserves(&self) -> Option<(HoldKind, Duration)> {
        let (kind, ttl) = self.plan.holds(&self.live)?;
        ttl.map(|ttl| (kind, ttl))
    }

    /// Whether the request is admitted without a store call, since no limit applies to it: it is
    /// exempt, or the policies count nothing for it. Nothing is held for it then.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.plan.early.as_ref().is_some_and(|early| early.outcome == Outcome::Unlimited)
    }

    /// Names the hold that the request places, as [`tollgate::Ask::named`]. A check places none,
    /// and ignores it.
    pub fn named(self, name: Option<HoldName>) -> Self {
        Self { name, ..self }
    }

    /// Lets a peek judge as a hold of this kind, as [`tollgate::Ask::holding`]. Only a peek looks
    /// at it.
    pub fn kind(self, kind: Option<HoldKind>) -> Self {
        Self { kind, ..self }
    }

    /// Says whether the caller waits where it is denied, as [`tollgate::Ask::with_patience`]. A
    /// check takes no slot: there a place in line is no more than a wait.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        let shadows = self.shadows.iter_mut().map(|(_, plan)| plan);
        for plan in core::iter::once(&mut self.plan).chain(shadows) {
            plan.waits = patience != Patience::None;
        }
        self
    }

    /// Plans the check of the matched policies.
    #[inline(always)]
    pub(super) fn fill(&mut self, fields: &dyn Fields) {
        if let Some(rulings) = self.live.rulings.clone() {
            return self.fill_ruled(&rulings, fields);
        }
        self.fill_unruled(fields);
    }

    /// The same, whatever the rulings are.
    #[inline(always)]
    pub(super) fn fill_unruled(&mut self, fields: &dyn Fields) {
        let Self { live, matched, plan, .. } = self;
        plan.fill(live, &matched.enforced, fields);
        self.fill_shadows(|_| true, fields, |_| ());
    }

    /// Plans the checks of the matched policies that no ruling decides.
    #[cold]
    fn fill_ruled(&mut self, rulings: &Rulings, fields: &dyn Fields) {
        let live = Arc::clone(&self.live);
        let Self { matched, plan, .. } = self;
        let held = rulings.held(fields, &live.misfits);
        let change = |plan: &mut Plan| {
            if held.sets_limits() {
                plan.set_limits(&live.policies, &rulings.sets, |policy| held.set_in(policy));
            }
        };
        let places = &matched.enforced;
        let left: SmallVec<[usize; 4]> = places
            .iter()
            .copied()
            .filter(|place| !held.exempts_from(&live.policies, *place))
            .collect();
        let banned = if held.bans_from_all() {
            Some(left.first().or(places.first()).copied())
        } else {
            let mut left = left.iter().copied();
            left.find(|place| held.bans_from(&live.policies, *place)).map(Some)
        };
        let early = match (banned, places.first()) {
            (Some(policy), _) => Some((Outcome::Banned, policy)),
            (None, Some(first)) if left.is_empty() => Some((Outcome::Unlimited, Some(*first))),
            _ => None,
        };
        if let Some((outcome, policy)) = early {
            let authority = Authority::Ruling;
            plan.early = Some(Box::new(Early { outcome, authority, policy, cause: None }));
            if outcome == Outcome::Banned {
                return;
            }
        } else {
            let exempt = places.iter().copied().filter(|place| !left.contains(place));
            let exempt: SmallVec<[usize; 4]> = exempt.collect();
            plan.fill_and(&live, (&left, &exempt), fields, change);
        }
        let is_asked = |place| !held.exempts_from(&live.policies, place);
        self.fill_shadows(is_asked, fields, change);
    }

    /// Planned now, while the fields are available; checked after the others admit.
    #[inline(always)]
    fn fill_shadows(
        &mut self,
        is_asked: impl Fn(usize) -> bool,
        fields: &dyn Fields,
        change: impl Fn(&mut Plan),
    ) {
        let Self { live, matched, shadows, .. } = self;
        for &policy in matched.shadows.iter().filter(|policy| is_asked(**policy)) {
            let mut plan = Plan::new();
            plan.fill_and(live, (&[policy], &[]), fields, &change);
            shadows.push((policy, plan));
        }
    }

    /// The mark for the request once it is decided.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> DecisionMark {
        self.live.mark
    }

    /// True when a field affects the answer to this request: an enforced policy has a condition on
    /// it, or applies and reads it; or a ruling does. A field that only shadow policies read has no
    /// effect.
    #[must_use]
    pub fn enforces(&self, field: &Field) -> bool {
        let Live { policies, rulings, .. } = &**self.live;
        policies.is_condition(field)
            || rulings.as_ref().is_some_and(|rulings| rulings.reads(field))
            || self.matched.enforced.iter().any(|place| policies.reads(*place, field))
    }

    /// Asks what the policies would answer: to a check, or to a hold of the kind that
    /// [`Prepared::kind`] says, or else the policies. [`Gate::ask`](super::Gate::ask) then changes
    /// no count and no counter, and does not call the observer. Shadow policies are not checked.
    pub fn peek(self) -> Self {
        Self { is_peek: true, ..self }
    }

    /// Waits for the store at most this long, where the policies would wait longer.
    pub fn within(mut self, most: Duration) -> Self {
        self.plan.deadline = self.plan.deadline.min(most);
        self
    }

    /// Sets the id of the request ([`tollgate::Ask::request`]): asked again under it, the policies
    /// give their first answer, and nothing more is charged.
    pub fn request(&mut self, id: RequestId<'_>) {
        let shadows = self.shadows.iter_mut().map(|(_, plan)| plan);
        for plan in core::iter::once(&mut self.plan).chain(shadows) {
            plan.request = Some(Box::new((id.text().into(), id.with_text(""))));
        }
    }

    /// Sets the cost; a plain number is requests. It takes the place of estimates, and of the
    /// constant 1, unit by unit: units that it does not name keep the amounts of the policies. An
    /// amount above the `max` of an estimate is denied. Nothing changes on an error.
    ///
    /// # Errors
    /// A policy that applies has another amount of a unit, or no limit counts one.
    pub fn cost(&mut self, cost: impl Into<Cost>) -> Result<(), CostRefused> {
        let cost = cost.into();
        let Self { live, matched, plan, shadows, .. } = self;
        let places = matched.enforced.iter().chain(&matched.shadows).copied();
        let is_own = |unit| {
            move |policy: &&Policy| {
                let amount = policy.cost.of(unit);
                !matches!(amount, None | Some(Amount::Fixed(1) | Amount::Reserve(_)))
            }
        };
        for (unit, _) in cost.amounts().iter() {
            let policies = places.clone().filter_map(|place| live.policies.policy(place));
            if let Some(policy) = policies.clone().find(is_own(unit)) {
                return Err(CostRefused::Sets(Box::new(policy.clone())));
            }
        }
        let plans = core::iter::once(&*plan).chain(shadows.iter().map(|(_, plan)| plan));
        // Those of the policies: an amount of a unit that a ruling has opened is no mistake.
        let parts = plans.flat_map(|plan| &plan.parts);
        let sets = parts.filter_map(|part| live.policies.ready_limits_of(*part));
        let sets = sets.map(|limits| &limits.whole);
        if sets.clone().next().is_some() {
            cost.amounts().check_units(sets).map_err(CostRefused::Unknown)?;
        }
        for plan in core::iter::once(plan).chain(shadows.iter_mut().map(|(_, plan)| plan)) {
            plan.take_cost(live, &cost);
        }
        Ok(())
    }
}

impl Plan {
    /// Takes the place of estimates, and of the constant 1.
    fn take_cost(&mut self, live: &Live, cost: &Cost) {
        let given = cost.amounts();
        let kept = self.cost.amounts().iter().filter(|(unit, _)| given.named(unit).is_none());
        self.cost = given.iter().chain(kept).map(|(unit, amount)| (*unit, amount)).collect();
        self.keep_counted(&live.policies);
        let beyond = |policy: usize| {
            let rule = &live.policies.policy(policy)?.cost;
            given.iter().find_map(|(unit, amount)| {
                let max = rule.of(unit)?.max().filter(|max| amount > *max)?;
                Some(Refused::Cost { policy, unit: *unit, max })
            })
        };
        let refused = self.policies().find_map(beyond);
        if let Some(refused) = refused {
            self.refuse(refused);
        }
    }
}

/// Why a request cannot have a cost ([`Prepared::cost`]).
#[derive(Debug)]
#[allow(clippy::exhaustive_enums)] // a front answers each in its own words
pub enum CostRefused {
    /// This policy sets the amount of a unit itself.
    Sets(Box<Policy>),
    /// No limit that applies counts a unit; the error names it, and the known ones.
    Unknown(Error),
}
