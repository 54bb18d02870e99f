//! The policies of one revision, with what a gate keeps beside them.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Arc;

use tollgate::Store;

use super::extensions::Extensions;
use super::observe::{Quantiles, Registry};
use super::rulings::{Misfits, Rulings};
use super::{Counters, DecisionMark, Revision};
use crate::outcome::{Authority, Outcome};
use crate::policies::Policies;

/// The policies of one revision, with their counters.
pub(crate) struct Live {
    pub(crate) policies: Policies,
    pub(crate) revision: Revision,
    pub(super) mark: DecisionMark,
    counters: Vec<Arc<Counters>>,
    /// Of each policy, those of the units that it reserves by a quantile of its commits.
    pub(super) quantiles: Vec<Quantiles>,
    /// The values that fronts derive from these policies.
    extensions: Extensions,
    /// The deadline of policies that have none.
    pub(super) usual: Duration,
    /// The rulings of administrators; `None` while there are none.
    pub(super) rulings: Option<Arc<Rulings>>,
    /// Those of them that have no effect under these policies.
    pub(super) misfits: Misfits,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({})", self.revision)
    }
}

impl Live {
    pub(super) fn new(
        policies: Policies,
        number: u64,
        mark: DecisionMark,
        usual: Duration,
        registry: &Registry,
    ) -> Self {
        let names = policies.policies().iter().map(|policy| policy.name.as_str());
        let counters = registry.counters(names);
        let quantiles = registry.quantiles(policies.policies().iter());
        let revision = Revision { number, hash: policies.hash().to_owned() };
        let (extensions, rulings, misfits) = (Extensions::default(), None, Misfits::new());
        Self { policies, revision, mark, counters, quantiles, extensions, usual, rulings, misfits }
    }

    /// The value of this type derived from these policies, created now if there is none.
    #[inline]
    pub(super) fn extension<T: Any + Send + Sync>(&self, make: impl Fn(&Policies) -> T) -> &T {
        self.extensions.get_or_init(|| make(&self.policies))
    }

    #[inline]
    pub(super) fn count(&self, place: usize, outcome: Outcome, authority: Authority) {
        if let Some(counters) = self.counters.get(place) {
            counters.add(outcome, authority);
        }
    }

    /// The same revision with its policies in another form.
    pub(super) fn with_policies(&self, policies: Policies) -> Self {
        Self { policies, ..self.with_rulings(self.rulings.clone()) }
    }

    /// The same policies under other rulings.
    pub(super) fn with_rulings(&self, rulings: Option<Arc<Rulings>>) -> Self {
        let Self { policies, revision, mark, counters, quantiles, usual, .. } = self;
        let (policies, revision, counters) = (policies.clone(), revision.clone(), counters.clone());
        let quantiles = quantiles.clone();
        let (mark, usual, extensions) = (*mark, *usual, Extensions::default());
        let misfits = rulings.as_ref().map(|rulings| rulings.misfits(&policies));
        let misfits = misfits.unwrap_or_default();
        Self { policies, revision, mark, counters, quantiles, extensions, usual, rulings, misfits }
    }
}

impl Live {
    /// Logs the rulings that have no effect, unless `before` had them too.
    pub(super) fn warn_of_misfits(&self, before: &Self) {
        let known: HashSet<_> = before.misfits_by_text().collect();
        let mut new = self.misfits_by_text().filter(|misfit| !known.contains(misfit));
        if let Some((ruling, why)) = new.next() {
            tracing::warn!(
                target: "tollgate",
                rulings = 1 + new.count(),
                "limits that were set have no effect under these policies, such as {ruling}: {why}"
            );
        }
    }

    /// Logs the counts that begin anew under these policies.
    pub(super) fn warn_of_restarts(&self, before: &Self) {
        for restart in self.policies.restarts(&before.policies) {
            tracing::warn!(target: "tollgate", "{restart}");
        }
    }

    fn misfits_by_text(&self) -> impl Iterator<Item = (String, &str)> {
        let all = self.rulings.as_ref().map_or(&[][..], |rulings| &rulings.all);
        self.misfits
            .iter()
            .filter_map(|(number, why)| Some((all.get(*number)?.ruling.to_string(), why.as_str())))
    }
}

/// Reports to a store how long these policies wait for it. Returns the deadline of those without
/// one.
pub(super) fn tell_deadlines(store: &impl Store, policies: &Policies) -> Duration {
    let usual = store.facts().deadline.unwrap_or(crate::DEFAULT_DEADLINE);
    let own = policies.policies().iter().filter_map(|policy| policy.deadline);
    store.will_wait(own.fold(usual, Duration::max));
    usual
}
