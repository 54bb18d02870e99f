//! The store around a store.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use tollgate::engine::{Mode, Outcome};
use tollgate::operation::Check;
use tollgate::{Amounts, Clock, Counted, Lease, LimitSet, Question, Store, StoreError, Subject};

use crate::BootClock;
use crate::denial::Asked;
use crate::deny_cache::{DenyCache, denied_cost};
use crate::holding::Holding;
use crate::marks::Marks;
use crate::recent::Recent;
use crate::table::Table;

/// The most subjects that a node holds units of, unless it is set.
const USUAL_SUBJECTS: usize = 16_384;

/// The longest time that a denial under a lease holds, unless it is set.
const USUAL_LONGEST: Duration = Duration::from_secs(1);

/// A store whose units a node charges ahead, and whose denials it remembers.
///
/// Clones share what they hold. Dropping it loses units that nobody spent; [`Leased::give_back`]
/// returns them before.
///
/// A store that answers immediately is asked each time: nothing is saved there.
#[derive(Clone)]
pub struct Leased<S>(pub(crate) Arc<Inner<S>>);

pub(crate) struct Inner<S> {
    pub(crate) store: S,
    pub(crate) clock: Box<dyn Clock>,
    hash: SeedableRandomState,
    /// True for a store that answers immediately.
    pub(crate) passes: bool,
    pub(crate) held: Table<NodeCount>,
    pub(crate) recent: Recent,
    pub(crate) denied: Option<DenyCache>,
    pub(crate) longest_us: u64,
    pub(crate) marks: Marks,
    pub(crate) counts: Counts,
}

/// One count that a node knows of.
pub(crate) struct NodeCount {
    pub(crate) subject: Subject,
    pub(crate) shard: Option<Box<str>>,
    pub(crate) limits: LimitSet,
    pub(crate) holding: Holding,
}

impl NodeCount {
    #[inline]
    pub(crate) fn is(&self, counted: &Counted<'_>) -> bool {
        self.limits.serial() == counted.limits.serial()
            && self.subject == *counted.subject
            && self.shard.as_deref() == counted.shard
    }

    /// True for the count of a subject whose limits were read from a text.
    pub(crate) fn counts(&self, subject: &Subject, limits: &LimitSet) -> bool {
        self.subject == *subject && self.limits.counts_as(limits)
    }
}

/// Counters of the answers that a node gave in place of its store, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LeasedCounters {
    /// Questions about checks that the store was asked, charges ahead among them.
    pub asked: u64,
    /// Charges made ahead.
    pub renewals: u64,
    /// Units of these charges.
    pub charged: u64,
    /// Checks that were admitted from them.
    pub admitted: u64,
    /// Checks that were denied without a question.
    pub denied: u64,
    /// Units that ended unspent and were returned to the store.
    pub returned: u64,
    /// Units that ended unspent and counted no more, or whose return failed.
    pub wasted: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) asked: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) charged: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) wasted: AtomicU64,
}

/// Options of a [`Leased`].
pub struct LeasedBuilder<S> {
    store: S,
    clock: Box<dyn Clock>,
    subjects: usize,
    deny_cache: usize,
    longest: Duration,
    hash: SeedableRandomState,
}

impl<S: Store> LeasedBuilder<S> {
    /// Sets the most subjects that units are held of. The default is 16,384.
    #[must_use]
    pub fn subjects(self, subjects: usize) -> Self {
        Self { subjects, ..self }
    }

    /// Remembers the denials of all limits, at most about this many. The default is 0: only those
    /// of leased limits. A refund, a reset or a raised limit elsewhere is noticed when the denial
    /// ends, after [`LeasedBuilder::longest_denial`] at the latest.
    #[must_use]
    pub fn deny_cache(self, entries: usize) -> Self {
        Self { deny_cache: entries, ..self }
    }

    /// Sets the longest time for which a denial holds. The default is one second.
    #[must_use]
    pub fn longest_denial(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Sets the clock of the node; only differences matter. The default is [`BootClock`].
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// Hashes subjects with this seed instead of a random one, for simulations that have to be
    /// repeatable. Never use it for untrusted clients: with the seed known, they can choose
    /// subjects that collide.
    #[must_use]
    pub fn hash_seed(self, seed: u64) -> Self {
        let hash = SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
        Self { hash, ..self }
    }

    /// The store.
    #[must_use]
    pub fn build(self) -> Leased<S> {
        let Self { store, clock, subjects, deny_cache, longest, hash } = self;
        let longest_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Leased(Arc::new(Inner {
            passes: store.facts().answers_at_once,
            store,
            clock,
            hash,
            held: Table::new(subjects),
            recent: Recent::new(),
            denied: (deny_cache > 0).then(|| DenyCache::new(deny_cache, longest_us)),
            longest_us,
            marks: Marks::default(),
            counts: Counts::default(),
        }))
    }
}

impl<S> fmt::Debug for LeasedBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedBuilder").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Leased<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("store", &self.0.store).finish_non_exhaustive()
    }
}

impl<S: Store> Leased<S> {
    /// Leases over `store`, with the usual options: only limits that have a lease are affected.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Options for leases over `store`.
    #[must_use]
    pub fn builder(store: S) -> LeasedBuilder<S> {
        LeasedBuilder {
            store,
            clock: Box::new(BootClock),
            subjects: USUAL_SUBJECTS,
            deny_cache: 0,
            longest: USUAL_LONGEST,
            hash: SeedableRandomState::random(),
        }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The counters of the answers in place of the store.
    #[must_use]
    pub fn counters(&self) -> LeasedCounters {
        let Counts { asked, renewals, charged, admitted, denied, returned, wasted } =
            &self.0.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LeasedCounters {
            asked: of(asked),
            renewals: of(renewals),
            charged: of(charged),
            admitted: of(admitted),
            denied: of(denied),
            returned: of(returned),
            wasted: of(wasted),
        }
    }

    /// How many denials are remembered of limits without a lease.
    #[must_use]
    pub fn denials(&self) -> usize {
        self.0.denied.as_ref().map_or(0, DenyCache::len)
    }

    /// The units that this node holds, over all subjects.
    #[must_use]
    pub fn held(&self) -> u64 {
        let (mut units, now_us) = (0, self.now_us());
        self.0.held.each(|shard| {
            units += shard.iter_mut().map(|held| held.holding.held_at(now_us)).sum::<u64>();
        });
        units
    }

    #[inline]
    pub(crate) fn now_us(&self) -> u64 {
        self.0.clock.now().as_micros()
    }

    #[inline]
    pub(crate) fn hash(&self, subject: &Subject) -> u64 {
        self.0.hash.hash_one(subject.as_str())
    }

    pub(crate) fn hashes<'q>(&'q self, parts: &'q [Counted<'_>]) -> impl Iterator<Item = u64> + 'q {
        parts.iter().map(|part| self.hash(part.subject))
    }

    pub(crate) fn hash_of_all(&self, parts: &[Counted<'_>]) -> u64 {
        self.hashes(parts).fold(0, |all, hash| all.rotate_left(5) ^ hash)
    }

    /// The denial of a question that needs not be asked.
    #[inline]
    pub(crate) fn denial(
        &self,
        parts: &[Counted<'_>],
        cost: Amounts<'_>,
        mode: Mode,
    ) -> Option<Outcome> {
        let cache = self.0.denied.as_ref().filter(|_| !mode.is_peek())?;
        let (hash, cost) = (self.hash_of_all(parts), denied_cost(cost, mode));
        let denied = cache.get(hash, parts, cost, self.now_us(), self.hashes(parts))?;
        add(&self.0.counts.denied, 1);
        Some(denied)
    }

    /// Asks the store, unless it has denied the same just now.
    pub(crate) async fn ask(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let Question { mode, cost, .. } = *question;
        if let Some(denied) = self.denial(question.parts, cost, mode) {
            return Ok(denied);
        }
        add(&self.0.counts.asked, 1);
        let Some(cache) = self.0.denied.as_ref().filter(|_| !mode.is_peek()) else {
            return self.0.store.perform(&Check::new(question)).await;
        };
        let parts = question.parts;
        let (changes, sent_us) = (cache.changes(self.hashes(parts)), self.now_us());
        let outcome = self.0.store.perform(&Check::new(question)).await?;
        let asked = Asked { sent_us, answered_us: self.now_us() };
        let answer = (&outcome, denied_cost(cost, mode));
        cache.put(self.hash_of_all(parts), parts, answer, asked, changes);
        Ok(outcome)
    }

    /// Forgets the denials of a count: something of it was given back, or it was changed.
    pub(crate) fn forget_denials(&self, subject: &Subject, limits: &LimitSet) {
        self.change(subject, limits, Holding::forget_denial);
    }

    /// Forgets the denials of a count, and changes what is held of it.
    pub(crate) fn change(
        &self,
        subject: &Subject,
        limits: &LimitSet,
        change: impl Fn(&mut Holding),
    ) {
        let hash = self.hash(subject);
        if let Some(cache) = &self.0.denied {
            cache.changed(hash);
        }
        for held in self.0.held.lock(hash).iter_mut() {
            if held.counts(subject, limits) {
                change(&mut held.holding);
            }
        }
    }

    /// Runs `work` on what is held of a count, if it is known.
    pub(crate) fn with_holding<T>(
        &self,
        hash: u64,
        part: &Counted<'_>,
        work: impl FnOnce(&mut Holding) -> T,
    ) -> Option<T> {
        let mut shard = self.0.held.lock(hash);
        shard.find(hash, |held| held.is(part)).map(|held| work(&mut held.holding))
    }

    /// [`Leased::know`], now.
    #[inline]
    pub(crate) fn knows(&self, part: &Counted<'_>) -> bool {
        self.know(self.hash(part.subject), part, self.now_us())
    }

    /// Adds a count to those that are known, if it was asked about just now and there is room.
    /// False if it is not known then.
    pub(crate) fn know(&self, hash: u64, part: &Counted<'_>, now_us: u64) -> bool {
        let Some(lease) = part.limits.lease() else { return false };
        if !self.0.recent.note(hash, now_us, lease.ttl().as_micros()) {
            return false;
        }
        let mut shard = self.0.held.lock(hash);
        if shard.find(hash, |held| held.is(part)).is_some() {
            return true;
        }
        let held = NodeCount {
            subject: part.subject.clone(),
            shard: part.shard.map(Into::into),
            limits: part.limits.clone(),
            holding: Holding::default(),
        };
        let worth = |held: &NodeCount| held.holding.worth(&held.limits, now_us);
        shard.add(hash, held, worth).is_some()
    }
}

/// The lease of a count, and the amount of its unit in a cost. `None` without a lease, and for an
/// amount of 0: the store knows if such a check is admitted.
#[inline]
pub(crate) fn leased_of<'l>(part: &Counted<'l>, cost: Amounts<'_>) -> Option<(&'l Lease, u64)> {
    let lease = part.limits.lease()?;
    let amount = cost.of(lease.unit());
    (amount > 0).then_some((lease, amount))
}

/// Adds to a counter.
#[inline]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
