//! Decisions by the limit that binds: a bounded table of counters, read without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_policy::{Authority, Counters, Outcome};

use super::front::OTHER;

/// The label for all inline limits.
const INLINE: &str = "inline";

/// The most pairs of a policy and a limit with separate counters. A file has up to 20,000 policies,
/// each with overrides; pairs beyond this maximum share one counter.
pub(crate) const MAX_PAIRS: usize = 1_000;

/// The counters of one policy, by the identity of the limit.
type OfPolicy = HashMap<String, Arc<Counters>, foldhash::fast::RandomState>;

/// The pairs with counters, as decisions read them.
#[derive(Clone, Debug, Default)]
struct Table {
    policies: HashMap<String, OfPolicy, foldhash::fast::RandomState>,
    pairs: usize,
}

impl Table {
    #[inline]
    fn get(&self, policy: &str, limit: &str) -> Option<&Arc<Counters>> {
        self.policies.get(policy)?.get(limit)
    }
}

/// The counters of decisions by limit.
#[derive(Debug, Default)]
pub(super) struct ByLimit {
    /// Replaced as a whole for a new pair, at most [`MAX_PAIRS`] times per process. With a
    /// reader-writer lock, every decision of every thread would write to the lock.
    table: ArcSwap<Table>,
    /// Held while the table is replaced.
    adding: Mutex<()>,
    /// The pairs beyond the maximum.
    other: Counters,
    /// All inline limits together, since callers can invent any number of them.
    inline: Counters,
}

impl ByLimit {
    /// Counts a decision in which this limit binds; without a policy it is an inline limit.
    #[inline]
    pub(super) fn add(
        &self,
        policy: Option<&str>,
        limit: &str,
        (outcome, authority, answers): (Outcome, Authority, u64),
    ) {
        let Some(policy) = policy else { return self.inline.add_many(outcome, authority, answers) };
        let table = self.table.load();
        match table.get(policy, limit) {
            Some(counters) => counters.add_many(outcome, authority, answers),
            None if table.pairs >= MAX_PAIRS => self.other.add_many(outcome, authority, answers),
            None => match self.begin(policy, limit) {
                Some(counters) => counters.add_many(outcome, authority, answers),
                None => self.other.add_many(outcome, authority, answers),
            },
        }
    }

    /// Creates counters for a new pair; `None` when the table is full.
    #[cold]
    fn begin(&self, policy: &str, limit: &str) -> Option<Arc<Counters>> {
        let _adding = self.adding.lock();
        let mut table = Table::clone(&self.table.load());
        // Another thread may have added the pair meanwhile.
        if let Some(counters) = table.get(policy, limit) {
            return Some(Arc::clone(counters));
        }
        if table.pairs >= MAX_PAIRS {
            return None;
        }
        let counters = Arc::<Counters>::default();
        let limits = table.policies.entry(policy.to_owned()).or_default();
        limits.insert(limit.to_owned(), Arc::clone(&counters));
        table.pairs += 1;
        self.table.store(Arc::new(table));
        Some(counters)
    }

    /// Calls `tell` for each pair, with the policy, the limit and the counters.
    pub(super) fn each<E>(
        &self,
        mut tell: impl FnMut(&str, &str, &Counters) -> Result<(), E>,
    ) -> Result<(), E> {
        let table = self.table.load();
        let mut pairs: Vec<(&str, &str, &Counters)> = table
            .policies
            .iter()
            .flat_map(|(policy, limits)| {
                limits.iter().map(move |(limit, counters)| (&**policy, &**limit, &**counters))
            })
            .collect();
        // A stable order compresses well, and is easier to read.
        pairs.sort_unstable_by_key(|(policy, limit, _)| (*policy, *limit));
        for (policy, limit, counters) in pairs {
            tell(policy, limit, counters)?;
        }
        tell(OTHER, OTHER, &self.other)?;
        tell("", INLINE, &self.inline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: (Outcome, Authority, u64) = (Outcome::Denied, Authority::Store, 1);

    fn listed(counts: &ByLimit) -> Vec<(String, String, u64)> {
        let mut told = Vec::new();
        let _ = counts.each(|policy, limit, counters| {
            told.push((policy.to_owned(), limit.to_owned(), counters.get(DENIED.0, DENIED.1)));
            Ok::<(), ()>(())
        });
        told
    }

    #[test]
    fn pairs_beyond_the_bound_are_one() {
        let counts = ByLimit::default();
        for round in 0..2 {
            for number in 0..MAX_PAIRS + 500 {
                let (policy, limit) = (format!("p{}", number / 3), format!("l{}", number % 3));
                counts.add(Some(&policy), &limit, DENIED);
                counts.add(None, &format!("{round}-{number}"), DENIED);
            }
        }
        let told = listed(&counts);
        assert_eq!(told.len(), MAX_PAIRS + 2);
        let [.., other, inline] = &told[..] else { panic!("{told:?}") };
        assert_eq!(*other, (OTHER.to_owned(), OTHER.to_owned(), 1_000));
        assert_eq!(*inline, (String::new(), INLINE.to_owned(), 3_000));
        assert!(told[..MAX_PAIRS].iter().all(|(.., number)| *number == 2));
        assert!(told[..MAX_PAIRS].is_sorted());
    }

    #[test]
    fn threads_that_begin_a_pair_at_once_lose_nothing() {
        let counts = ByLimit::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..2_000 {
                        counts.add(Some("p"), &format!("l{}", number % 100), DENIED);
                    }
                });
            }
        });
        assert_eq!(listed(&counts).iter().map(|(.., number)| number).sum::<u64>(), 8_000);
    }
}
