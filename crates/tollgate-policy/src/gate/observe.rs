//! What a gate tells of its answers: counters of its own, and an observer of yours.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate::{Error, Limit};

use crate::outcome::{Authority, Outcome};

/// One policy's part in one answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'e> {
    /// The policy; none when none applied.
    pub policy: Option<&'e str>,
    /// The limit that binds, when it is this policy's.
    pub limit: Option<&'e Limit>,
    /// Whose count it is, with the limit. It is personal data: for a log that hashes it. In a
    /// metric a label for each would have no bound.
    pub subject: Option<&'e str>,
    /// What became of it.
    pub outcome: Outcome,
    /// Who says so.
    pub authority: Authority,
    /// Why the store could not answer, where a failure rule answered for it.
    pub error: Option<&'e Error>,
    /// How long the whole answer took.
    pub duration: Duration,
    /// True for exactly one event of each answer: for counting answers, where several policies
    /// have a part in one. Never true of a policy in shadow.
    pub decides: bool,
}

/// Told of every answer, on the path of the request: it must be fast and must not wait.
pub trait Observer: Send + Sync {
    /// One policy's part in one answer.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

const OUTCOMES: usize = Outcome::ALL.len();
const CELLS: usize = OUTCOMES * Authority::ALL.len();

/// How often each outcome was, by who said so.
pub struct Counters([AtomicU64; CELLS]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; CELLS])
    }
}

impl Counters {
    /// One more of these: for observers that count by something else than a gate does.
    #[inline]
    pub fn add(&self, outcome: Outcome, authority: Authority) {
        if let Some(cell) = self.0.get(cell(outcome, authority)) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As many more as others counted: for sums over several.
    pub fn add_all(&self, others: &Self) {
        for (sum, other) in self.0.iter().zip(&others.0) {
            sum.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// How often this outcome was, by this authority.
    #[must_use]
    pub fn get(&self, outcome: Outcome, authority: Authority) -> u64 {
        self.0.get(cell(outcome, authority)).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// How often this outcome was, by whomever.
    #[must_use]
    pub fn total(&self, outcome: Outcome) -> u64 {
        Authority::ALL.iter().map(|authority| self.get(outcome, *authority)).sum()
    }

    /// All that is not 0.
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

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The counters by policy. They outlive the policies of one file: a reload loses no number.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<BTreeMap<String, Arc<Counters>>>);

/// The most names that are kept; the policies that are gone are forgotten beyond that.
const MAX_KEPT: usize = 2 * crate::read::MAX_POLICIES;

impl Registry {
    /// The counters of these policies, in their order.
    pub(crate) fn counters<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Vec<Arc<Counters>> {
        let mut known = self.0.lock();
        if known.len() > MAX_KEPT {
            let live: std::collections::BTreeSet<&str> = names.clone().collect();
            known.retain(|name, _| live.contains(name.as_str()));
        }
        names.map(|name| Arc::clone(known.entry(name.to_owned()).or_default())).collect()
    }

    pub(crate) fn all(&self) -> Vec<(String, Arc<Counters>)> {
        self.0.lock().iter().map(|(name, counts)| (name.clone(), Arc::clone(counts))).collect()
    }
}
