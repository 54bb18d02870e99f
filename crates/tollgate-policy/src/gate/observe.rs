//! A gate's reports about its answers: its own counters, and an observer of the program.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate::{Error, Limit, Unit};

use super::HoldCounters;
use super::crossing::Crossing;
use crate::model::Policy;
use crate::outcome::{Authority, Outcome};
use crate::quantile::Quantile;
use crate::reserve::{Estimate, Reserve};

/// The part of one policy in one answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'e> {
    /// The policy; `None` if none applied.
    pub policy: Option<&'e str>,
    /// The rule of another notation that the binding limit is from, if the caller named it
    /// ([`Inline::from_rules`](super::Inline::from_rules)).
    pub rule: Option<RuleName<'e>>,
    /// The binding limit, if it belongs to this policy.
    pub limit: Option<&'e Limit>,
    /// The subject of the binding limit. It is personal data, so log only a hash of it. As a metric
    /// label it would have unbounded cardinality.
    pub subject: Option<&'e str>,
    /// The outcome.
    pub outcome: Outcome,
    /// The authority that decided.
    pub authority: Authority,
    /// Why the store failed, if a failure rule decided.
    pub error: Option<&'e Error>,
    /// The duration of the whole answer; the mean one of answers that were given together.
    pub duration: Duration,
    /// True for exactly one event of each answer, to count answers when several policies are part
    /// of one. Never true for a shadow policy.
    pub decides: bool,
    /// True for the event that stands for the request in a log of checks: the one that decides, or
    /// that of the first shadow policy if no limit decided.
    pub is_recorded: bool,
    /// The number of answers: more than one where a front decided several together
    /// ([`Inline::batch`](super::Inline::batch)) and these had the same outcome. The limit
    /// and the subject are those of the first one; [`Observer::observe_further`] receives the
    /// subjects of the others.
    pub answers: u64,
}

/// The place of an event among those of one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// It decides.
    Decides,
    /// It is beside the one that decides.
    Beside,
    /// It is of a policy in shadow, and no limit decided.
    Alone,
}

/// The name of a rule that inline limits are from, such as one of Envoy's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RuleName<'r> {
    /// The domain that the rule belongs to.
    pub domain: &'r str,
    /// Its name within all domains; `None` for a limit that a request brought into the domain.
    pub rule: Option<&'r str>,
}

impl<'r> RuleName<'r> {
    /// The name of a rule of this domain.
    #[must_use]
    pub const fn new(domain: &'r str, rule: Option<&'r str>) -> Self {
        Self { domain, rule }
    }
}

/// Receives every answer, on the path of the request: an observer must be fast and must not block.
pub trait Observer: Send + Sync {
    /// Receives the part of one policy in one answer.
    fn observe(&self, event: &Event<'_>);

    /// Whether [`Observer::observe_further`] is called; false by default. It is asked once for all
    /// answers that are given together.
    fn wants_further(&self) -> bool {
        false
    }

    /// Receives the subject and the outcome of an answer under inline limits that was given
    /// together with others, when their event has the subject of an earlier one. It is called
    /// before that event.
    fn observe_further(&self, _subject: &str, _outcome: Outcome) {}

    /// Receives a charge that reached a threshold. [`Gate::is_first`](super::Gate::is_first) says
    /// whether it is to be reported.
    fn crossed(&self, _crossing: Crossing) {}
}

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

const OUTCOMES: usize = Outcome::ALL.len();
const CELLS: usize = OUTCOMES * Authority::ALL.len();

/// The number of each outcome, by authority.
pub struct Counters([AtomicU64; CELLS]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; CELLS])
    }
}

impl Counters {
    /// Adds one, for observers that count by something other than a gate does.
    #[inline]
    pub fn add(&self, outcome: Outcome, authority: Authority) {
        self.add_many(outcome, authority, 1);
    }

    /// Adds as many.
    #[inline]
    pub fn add_many(&self, outcome: Outcome, authority: Authority, answers: u64) {
        if let Some(cell) = self.0.get(cell(outcome, authority)) {
            cell.fetch_add(answers, Ordering::Relaxed);
        }
    }

    /// Adds other counters, for sums.
    pub fn add_all(&self, others: &Self) {
        for (sum, other) in self.0.iter().zip(&others.0) {
            sum.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The number of this outcome by this authority.
    #[must_use]
    pub fn get(&self, outcome: Outcome, authority: Authority) -> u64 {
        self.0.get(cell(outcome, authority)).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// The number of this outcome by any authority.
    #[must_use]
    pub fn total(&self, outcome: Outcome) -> u64 {
        Authority::ALL.iter().map(|authority| self.get(outcome, *authority)).sum()
    }

    /// All counters that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, Authority, u64)> {
        let each = Outcome::ALL.iter().flat_map(|o| Authority::ALL.iter().map(move |a| (*o, *a)));
        each.map(|(outcome, authority)| (outcome, authority, self.get(outcome, authority)))
            .filter(|(.., number)| *number > 0)
    }
}

#[inline]
fn cell(outcome: Outcome, authority: Authority) -> usize {
    authority as usize * OUTCOMES + outcome as usize
}

/// The counters of a gate so far.
#[derive(Debug)]
#[non_exhaustive]
pub struct GateCounters<'g> {
    pub(super) registry: &'g Registry,
    /// The number of each outcome under inline limits.
    pub inline_limits: &'g Counters,
    /// The number of each outcome of requests without a policy: `no_policy`, and `missing` if a
    /// front refused a request that it could not read.
    pub unmatched: &'g Counters,
    /// The number of holds.
    pub holds: &'g HoldCounters,
    /// The number of answers that were repeated under a request id. They are in no other counter:
    /// each request was counted with its first answer.
    pub repeats: u64,
    /// The number of checks under request ids that were repeated too often
    /// ([`tollgate::Decision::is_id_overused`]).
    pub overused_ids: u64,
}

impl GateCounters<'_> {
    /// The counters of every policy, by name.
    #[must_use]
    pub fn policies(&self) -> Vec<(String, Arc<Counters>)> {
        self.registry.all()
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The counters by policy. It outlives a reload, so no count is lost.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    counters: Mutex<BTreeMap<String, Arc<Counters>>>,
    quantiles: Mutex<BTreeMap<(String, Unit), Running>>,
}

/// The running quantiles of a policy, each of the commits of one unit.
pub(super) type Quantiles = Vec<(Unit, Arc<Mutex<Quantile>>)>;

/// A running quantile, and the percentage that it is of.
type Running = (u8, Arc<Mutex<Quantile>>);

/// The most names kept; beyond it, the counters of removed policies are dropped.
const MAX_KEPT: usize = 2 * crate::read::MAX_POLICIES;

impl Registry {
    /// The counters of these policies, in order.
    pub(crate) fn counters<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Vec<Arc<Counters>> {
        let mut known = self.counters.lock();
        if known.len() > MAX_KEPT {
            let live: std::collections::BTreeSet<&str> = names.clone().collect();
            known.retain(|name, _| live.contains(name.as_str()));
        }
        names.map(|name| Arc::clone(known.entry(name.to_owned()).or_default())).collect()
    }

    /// The running quantiles of these policies, in order.
    pub(super) fn quantiles<'p>(
        &self,
        policies: impl Iterator<Item = &'p Policy>,
    ) -> Vec<Quantiles> {
        let mut known = self.quantiles.lock();
        if known.len() > MAX_KEPT {
            known.clear();
        }
        let mut of_unit = |policy: &Policy, unit: &Unit, reserve: &Reserve| {
            let Estimate::Quantile { percent, .. } = reserve.estimate else { return None };
            let new = || (percent, Arc::new(Mutex::new(Quantile::new(percent))));
            let kept = known.entry((policy.name.clone(), *unit)).or_insert_with(new);
            if kept.0 != percent {
                *kept = new();
            }
            Some((*unit, Arc::clone(&kept.1)))
        };
        let of_policy = |policy: &Policy| {
            let reserves = policy.cost.reserves();
            reserves.filter_map(|(unit, reserve)| of_unit(policy, unit, reserve)).collect()
        };
        policies.map(of_policy).collect()
    }

    pub(crate) fn all(&self) -> Vec<(String, Arc<Counters>)> {
        self.counters
            .lock()
            .iter()
            .map(|(name, counts)| (name.clone(), Arc::clone(counts)))
            .collect()
    }
}
