//! The denials of a store, for as long as they apply.

use core::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;
use tollgate::engine::{Mode, Outcome, counts_denial};
use tollgate::{Amounts, Counted, LimitSet, Subject};

use crate::denial::{Asked, Denial};
use crate::table::Table;

/// How many counters tell that a subject's count was changed otherwise than by checks. Subjects
/// that share one forget their denials together.
const CHANGES: usize = 4_096;

/// Denials by the counts and the cost of the question.
#[derive(Debug)]
pub struct DenyCache {
    denied: Table<Denied>,
    longest_us: u64,
    /// How often counts were changed here by a refund, a reset or an adjustment.
    changes: Box<[AtomicU32]>,
}

/// One count of a denied question.
#[derive(Debug)]
struct DeniedCount {
    subject: Subject,
    shard: Option<Box<str>>,
    limits: LimitSet,
}

/// A denied question.
#[derive(Debug)]
struct Denied {
    parts: SmallVec<[DeniedCount; 1]>,
    denial: Denial,
    changes: u32,
}

impl Denied {
    fn is(&self, parts: &[Counted<'_>]) -> bool {
        self.parts.len() == parts.len()
            && self.parts.iter().zip(parts).all(|(own, part)| {
                own.limits.serial() == part.limits.serial()
                    && own.subject == *part.subject
                    && own.shard.as_deref() == part.shard
            })
    }
}

/// The cost that a denial is about. A partial check is denied where one of its first unit is.
pub fn denied_cost<'c>(cost: impl Into<Amounts<'c>>, mode: Mode) -> Amounts<'c> {
    let cost = cost.into();
    if mode.is_partial() { cost.with_first(1) } else { cost }
}

/// Whether the store has to see the denial again, since a ban that does not run counts it.
fn has_to_count(parts: &[Counted<'_>], outcome: &Outcome) -> bool {
    let mut fields = &outcome.fields[..];
    parts.iter().any(|part| {
        let (own, others) = fields.split_at(part.limits.limits().len());
        fields = others;
        counts_denial(part.limits, own)
    })
}

impl DenyCache {
    /// A cache of at most about this many denials; each applies for at most `longest_us`.
    pub fn new(entries: usize, longest_us: u64) -> Self {
        let changes = (0..CHANGES).map(|_| AtomicU32::new(0)).collect();
        Self { denied: Table::new(entries), longest_us, changes }
    }

    /// The denial of a question, if it still holds. `hash` is that of its subjects.
    #[inline]
    pub fn get(
        &self,
        hash: u64,
        parts: &[Counted<'_>],
        cost: Amounts<'_>,
        now_us: u64,
        hashes: impl Iterator<Item = u64>,
    ) -> Option<Outcome> {
        let mut shard = self.denied.lock(hash);
        let denied = shard.find(hash, |denied| denied.is(parts))?;
        let holds = denied.denial.denies(cost, now_us) && denied.changes == self.changes(hashes);
        holds.then(|| denied.denial.outcome(now_us))
    }

    /// Keeps the answer to a question if it is a denial. `changes` is from before it was sent.
    pub fn put(
        &self,
        hash: u64,
        parts: &[Counted<'_>],
        (outcome, cost): (&Outcome, Amounts<'_>),
        asked: Asked,
        changes: u32,
    ) {
        if has_to_count(parts, outcome) {
            return;
        }
        let Some(denial) = Denial::new(outcome, cost, asked, self.longest_us) else { return };
        if denial.is_over(asked.answered_us) {
            return;
        }
        let denial = denial.by_unit(parts.iter().flat_map(|part| part.limits.limits()));
        let mut shard = self.denied.lock(hash);
        if let Some(denied) = shard.find(hash, |denied| denied.is(parts)) {
            (denied.denial, denied.changes) = (denial, changes);
            return;
        }
        let parts = parts.iter().map(|part| DeniedCount {
            subject: part.subject.clone(),
            shard: part.shard.map(Into::into),
            limits: part.limits.clone(),
        });
        let denied = Denied { parts: parts.collect(), denial, changes };
        // The denial that ends first is worth least.
        shard.add(hash, denied, |denied| Some(denied.denial.until_us()));
    }

    /// The changes of these counts so far.
    pub fn changes(&self, hashes: impl Iterator<Item = u64>) -> u32 {
        let each = hashes.map(|hash| self.counter(hash).load(Ordering::Acquire));
        each.fold(0, u32::wrapping_add)
    }

    /// Forgets the denials of a subject: its count was changed.
    pub fn changed(&self, hash: u64) {
        self.counter(hash).fetch_add(1, Ordering::Release);
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits
    fn counter(&self, hash: u64) -> &AtomicU32 {
        &self.changes[hash as usize % CHANGES]
    }

    /// How many denials there are, whether they hold or not.
    pub(crate) fn len(&self) -> usize {
        let mut len = 0;
        self.denied.each(|shard| len += shard.len());
        len
    }
}
