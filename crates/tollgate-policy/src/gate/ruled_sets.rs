//! The sets of limits that administrators changed, each made once, so that its counts, leases and
//! scripts are found again.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::RwLock;
use tollgate::{Limit, LimitSet};

use crate::outcome::{Authority, Outcome};
use crate::policies::Policies;
use crate::ready::ReadyLimits;
use crate::resolve::{Early, Plan};
use crate::ruled_limit::{Changes, Ruled, RuledLimit, changes_of};

/// The most sets that are kept: as many as there can be rulings.
const MAX_SETS: usize = tollgate::MAX_NOTICES;

/// The changed sets, by those of the policies and by their changes. Rulings of equal numbers share
/// one.
#[derive(Debug, Default)]
pub(super) struct RuledSets {
    known: RwLock<HashTable<Known>>,
    hash: RandomState,
}

#[derive(Debug)]
struct Known {
    /// The serial of the policy's set.
    base: u64,
    changes: Vec<(usize, RuledLimit)>,
    hash: u64,
    /// `None` where they do not fit.
    set: Option<Arc<ReadyLimits>>,
}

impl RuledSets {
    /// The limits of a policy with these changes; `None` where they do not fit any more.
    fn of(
        &self,
        policy: &str,
        base: &ReadyLimits,
        changes: &Changes<'_>,
    ) -> Option<Arc<ReadyLimits>> {
        let serial = base.whole.serial();
        let texts = changes.iter().map(|(place, ruled)| (place, ruled.text()));
        let hash = self.hash.hash_one((serial, texts.collect::<smallvec::SmallVec<[_; 2]>>()));
        let is_it = |known: &Known| {
            let own = known.changes.iter().map(|(place, ruled)| (place, ruled));
            known.base == serial && own.eq(changes.iter().map(|(place, ruled)| (place, *ruled)))
        };
        if let Some(known) = self.known.read().find(hash, is_it) {
            return known.set.clone();
        }
        let set = base.with(policy, changes).ok().map(Arc::new);
        let mut all = self.known.write();
        if let Some(known) = all.find(hash, is_it) {
            return known.set.clone();
        }
        if all.len() >= MAX_SETS {
            all.clear();
        }
        let changes = changes.iter().map(|(place, ruled)| (*place, (*ruled).clone())).collect();
        let known = Known { base: serial, changes, hash, set: set.clone() };
        all.insert_unique(hash, known, |known| known.hash);
        set
    }
}

impl Plan {
    /// Puts the limits in place that administrators have set for the request.
    pub(super) fn set_limits<'r>(
        &mut self,
        policies: &Policies,
        sets: &RuledSets,
        set_in: impl Fn(&str) -> Ruled<'r>,
    ) {
        let mut ruled = vec![None; self.parts.len()];
        for (part, place) in self.parts.iter_mut().zip(&mut ruled) {
            let base = policies.ready_limits_of(*part);
            let Some((base, policy)) = base.zip(policies.policy(part.policy)) else {
                continue;
            };
            let changes = changes_of(&base.whole, &set_in(&policy.name));
            if !changes.is_empty() {
                *place = sets.of(&policy.name, base, &changes);
                part.is_ruled = place.is_some();
            }
        }
        if ruled.iter().all(Option::is_none) {
            return;
        }
        self.ruled = Some(ruled.into());
        let is_open = |set: &ReadyLimits| set.whole.limits().iter().all(Limit::is_uncounted);
        if self.limits(policies).all(is_open) {
            let policy = self.parts.first().map(|part| part.policy);
            let (outcome, authority) = (Outcome::Unlimited, Authority::Ruling);
            self.clear();
            self.early = Some(Box::new(Early { outcome, authority, policy, cause: None }));
        }
    }
}

/// The limits of a policy as administrators have set them.
pub(super) fn set_in(policy: &str, set: &[&RuledLimit], limits: LimitSet) -> LimitSet {
    let changes = changes_of(&limits, set);
    if changes.is_empty() {
        return limits;
    }
    let base = ReadyLimits { whole: limits, local: None };
    base.with(policy, &changes).map_or(base.whole, |set| set.whole)
}
