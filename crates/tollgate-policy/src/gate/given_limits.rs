//! Limits that a program gives for one request in place of those of a policy: by tenant, by plan,
//! from a database.

use core::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use arc_swap::Guard;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::RwLock;
use tollgate::{Error, LimitSet, ParseError};

use super::Prepared;
use super::live::Live;
use crate::on_failure::OnFailure;
use crate::outcome::{Authority, Outcome};
use crate::ready::{PolicyPart, ReadyLimits};
use crate::resolve::{Cause, Early, Plan};

/// The most sets that are kept for one revision of the policies.
const MAX_SETS: usize = 10_000;

/// The sets that were given, each made once, so that its counts, leases and scripts are found
/// again.
#[derive(Debug, Default)]
struct GivenSets {
    known: RwLock<HashTable<Known>>,
    hash: RandomState,
}

#[derive(Debug)]
struct Known {
    policy: usize,
    given: LimitSet,
    hash: u64,
    set: Arc<ReadyLimits>,
}

impl GivenSets {
    /// These limits within the policy at this place.
    fn of(
        &self,
        live: &Live,
        policy: usize,
        given: &LimitSet,
    ) -> Result<Arc<ReadyLimits>, ParseError> {
        let hash = self.hash.hash_one((policy, given.full_text()));
        let is_it = |known: &Known| known.policy == policy && known.given == *given;
        if let Some(known) = self.known.read().find(hash, is_it) {
            return Ok(Arc::clone(&known.set));
        }
        let name = live.policies.policy(policy).map_or("", |policy| policy.name.as_str());
        let share = live.policies.ready(policy).and_then(|ready| ready.on_failure.share());
        let set = Arc::new(ReadyLimits::new(name, share, given)?);
        let mut all = self.known.write();
        if let Some(known) = all.find(hash, is_it) {
            return Ok(Arc::clone(&known.set));
        }
        if all.len() >= MAX_SETS {
            all.clear();
        }
        let known = Known { policy, given: given.clone(), hash, set: Arc::clone(&set) };
        all.insert_unique(hash, known, |known| known.hash);
        Ok(set)
    }
}

impl Prepared {
    /// Whether [`Prepared::limits`] of this policy would change the request: the policy applies,
    /// and for some subject neither an override of it nor an administrator says otherwise.
    #[must_use]
    pub fn takes_limits(&self, policy: &str) -> bool {
        let Some(place) = self.live.policies.place_of(policy) else { return false };
        let shadows = self.shadows.iter().map(|(_, plan)| plan);
        core::iter::once(&self.plan)
            .chain(shadows)
            .any(|plan| plan.parts.iter().any(|part| is_own(part, place)))
    }

    /// Sets the limits of a policy for this request, for each of its subjects. They count within
    /// the policy. An override of the policy that holds goes before, and so do limits that an
    /// administrator has set. Nothing changes for a policy that does not apply.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Combine, Entry, Gate, OnFailure, Policies, Policy};
    ///
    /// let plan = Policy::new("plan", OnFailure::Deny).entry(Entry::new(["ip"], "1/h")?);
    /// let gate = Gate::new(Policies::new(Combine::First, vec![plan])?, MemoryStore::new())?;
    /// let mut prepared = gate.prepare(&[("ip", "10.0.0.1")]);
    /// prepared.limits("plan", &"5/h".parse()?)?;
    /// # futures_executor::block_on(async {
    /// assert_eq!(gate.ask(prepared).await.decision().map(|it| it.remaining()), Some(4));
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Limits of which the local share of the policy cannot be counted.
    pub fn limits(&mut self, policy: &str, limits: &LimitSet) -> Result<(), ParseError> {
        let live = Arc::clone(&self.live);
        let Some(place) = live.policies.place_of(policy) else { return Ok(()) };
        let set = live.extension(|_| GivenSets::default()).of(&live, place, limits)?;
        for plan in self.plans() {
            plan.give(&live, place, &set);
        }
        Ok(())
    }

    /// Leaves the decision about a policy to its failure rule, because nobody knows the limits of
    /// this request: the function that gives them has failed. With `deny` the request is denied,
    /// with `allow` the policy does not count it, and with `local` the policy's own limits apply.
    /// True if the request may go on.
    pub fn without_limits(&mut self, policy: &str, why: &dyn fmt::Display) -> bool {
        let live = Arc::clone(&self.live);
        let Some(place) = live.policies.place_of(policy) else { return true };
        let rule = live.policies.ready(place).map_or(OnFailure::Deny, |ready| ready.on_failure);
        if rule.share().is_some() {
            return true;
        }
        let error = Error::Ask(format!("nobody knows the limits of this request: {why}"));
        let cause = Arc::new(Cause::Error(error));
        let early = || Early {
            outcome: Outcome::from(rule),
            authority: Authority::FailureRule,
            policy: Some(place),
            cause: Some(Arc::clone(&cause)),
        };
        for plan in self.plans() {
            if !plan.parts.iter().any(|part| is_own(part, place)) {
                continue;
            }
            if rule == OnFailure::Allow {
                plan.leave_out(place);
            } else {
                plan.clear();
            }
            if plan.parts.is_empty() {
                plan.early = Some(Box::new(early()));
            }
        }
        rule == OnFailure::Allow
    }

    /// The same request, to be kept for long, as while limits are looked up: a request that was
    /// just prepared holds on to the policies in a way that is meant for short use.
    pub fn for_long(self) -> Self {
        Self { live: Guard::from_inner(Guard::into_inner(self.live)), ..self }
    }

    fn plans(&mut self) -> impl Iterator<Item = &mut Plan> {
        core::iter::once(&mut self.plan).chain(self.shadows.iter_mut().map(|(_, plan)| plan))
    }
}

/// Whether limits may be given for this part of the policy at this place.
fn is_own(part: &PolicyPart, place: usize) -> bool {
    part.policy == place && part.rule.is_none() && !part.is_ruled
}

impl Plan {
    /// Puts limits in place for the policy at this place.
    fn give(&mut self, live: &Live, place: usize, set: &Arc<ReadyLimits>) {
        let mut ruled = self.ruled.take().map_or_else(Vec::new, Vec::from);
        ruled.resize(self.parts.len(), None);
        let mut changed = false;
        for (part, ruled) in self.parts.iter_mut().zip(&mut ruled) {
            if is_own(part, place) {
                (part.is_ruled, changed) = (true, true);
                *ruled = Some(Arc::clone(set));
            }
        }
        self.ruled = ruled.iter().any(Option::is_some).then(|| ruled.into());
        if changed {
            self.keep_counted(&live.policies);
            self.estimate(live);
        }
    }

    /// Leaves out what the policy at this place counts under its own limits.
    fn leave_out(&mut self, place: usize) {
        let keeps: Vec<bool> = self.parts.iter().map(|part| !is_own(part, place)).collect();
        let mut kept = keeps.iter();
        self.parts.retain(|_| kept.next().is_some_and(|keeps| *keeps));
        let mut kept = keeps.iter();
        self.subjects.retain(|_| kept.next().is_some_and(|keeps| *keeps));
        if let Some(ruled) = self.ruled.take() {
            let each = Vec::from(ruled).into_iter().zip(keeps);
            self.ruled = Some(each.filter(|(_, keeps)| *keeps).map(|(set, _)| set).collect());
        }
    }
}
