//! The memory store: sharded, bounded in bytes, and without a thread of its own.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::decision::{Charges, Receipt, Refund};
use crate::engine::{self, Mode, Outcome, Portion};
use crate::error::StoreError;
use crate::limit::LimitSet;
use crate::notice::{Board, Notice, Notices};
use crate::store::{Counted, Inspection, Question, Store};
use crate::subject::Subject;
use crate::time::Time;

mod builder;
mod check;
mod hash;
mod marks;
mod sets;
mod shard;
mod slabs;
mod slot;
mod snapshot;
mod state;

pub use builder::MemoryStoreBuilder;
pub use snapshot::{Restored, Saved, SnapshotError, SnapshotFault};

use builder::StoreClock;
use hash::KeyHash;
use sets::Sets;
use shard::Shard;
use slot::Key;
use state::Budget;

/// How many shards a store has. A power of two: a shard is some bits of a subject's hash.
const SHARDS: usize = 256;

/// How many other shards a newcomer that finds no room looks into for expired entries.
const RECLAIMED_SHARDS: usize = 8;

/// What a store holds when nothing else is said: 256 MiB.
pub const DEFAULT_BYTES: usize = 256 << 20;

const _: () = assert!(size_of::<Padded>() == 64, "lock and shard fit into one cache line");

/// A shard on a cache line of its own.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

/// Counts in this process. Cheap to clone: clones share the counts.
///
/// It holds at most a bound of bytes (256 MiB unless said otherwise), counted as they are
/// allocated: counts, and the sets of limits that they are written under. When it is full, expired
/// entries go first; then new subjects share one state per shard and identity of limits, until
/// there is room. Under limits for which there is no room either they are denied. A subject that
/// finds room while such a shared state still counts starts with a copy of it. An entry that still
/// counts is never dropped: nobody gets a free reset by flooding the store with subjects. A log
/// that finds no room for another event moves its newest one to now instead, which counts longer
/// than it must and never less.
///
/// No thread is needed: every new subject pays for looking at a few others. [`MemoryStore::sweep`]
/// gives memory back at a time of your choosing.
///
/// ```
/// use tollgate::{Limiter, MemoryStore};
/// let store = MemoryStore::builder().max_bytes(64 << 20).build();
/// let limiter = Limiter::new("100/s via gcra".parse()?, store.clone());
/// limiter.check_now("user:42")?;
/// assert_eq!(store.subjects(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Inner>);

struct Inner {
    shards: Box<[Padded]>,
    hash: KeyHash,
    clock: StoreClock,
    budget: Arc<Budget>,
    sets: Arc<Sets>,
    /// Checks so far with a subject that shared a state, and with one that could not even do that.
    shared: AtomicU64,
    refused: AtomicU64,
    identity: u64,
    /// The stores whose counts this one took over, the oldest first.
    ancestors: Vec<Ancestor>,
    sweep_next: AtomicUsize,
    board: Mutex<Board>,
}

/// A store that was saved, and from which this one was restored.
#[derive(Clone, Copy, Debug)]
struct Ancestor {
    identity: u64,
    /// Its charges up to this number are counted here; a later one was made after it was saved.
    charges: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// A store with the bound of [`DEFAULT_BYTES`] and the monotonic clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A store of your own making.
    #[must_use]
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }

    /// The bytes held now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.budget.used()
    }

    /// The bytes that it may hold.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.0.budget.bound()
    }

    /// How many sets of limits it keeps, because states are written under them.
    #[must_use]
    pub fn limit_sets(&self) -> usize {
        self.0.sets.len()
    }

    /// How many checks so far were over a subject that found no room and counted with others.
    /// While it grows, the store is full.
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.0.shared.load(Ordering::Relaxed)
    }

    /// How many checks so far were denied because there was no room even to count with others:
    /// under limits that were new to a full store. While it grows, the store is full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How many subjects have an entry of their own. Looks at every shard.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Removes what has expired and gives memory back. Answers how many entries went. Each shard
    /// is locked for as long as its own part takes.
    pub fn sweep(&self) -> usize {
        (0..SHARDS).map(|index| self.sweep_shard(index)).sum()
    }

    /// Sweeps one shard of 256, another each time: for those who spread the work themselves.
    pub fn sweep_some(&self) -> usize {
        self.sweep_shard(self.0.sweep_next.fetch_add(1, Ordering::Relaxed) % SHARDS)
    }

    fn sweep_shard(&self, index: usize) -> usize {
        let mut shard = self.0.shards[index].0.lock();
        let gone = shard.sweep(self.0.clock.now());
        shard.shrink(&|bytes, limits| self.hash(bytes, limits));
        drop(shard);
        self.0.sets.shrink();
        gone
    }

    /// The store's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    #[inline]
    fn hash(&self, subject: &[u8], limits: &LimitSet) -> u64 {
        self.0.hash.hash(subject, limits)
    }

    /// The shard of a hash: bits that the shard's table does not use itself.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // eight bits
    fn shard_of(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.0.shards[index].0.lock()
    }

    /// A receipt's number: the shard's own count, and which shard.
    fn number(charge: u64, shard: usize) -> u64 {
        charge * SHARDS as u64 + shard as u64
    }

    /// The shard's count of a receipt's charge, and the shard.
    #[allow(clippy::cast_possible_truncation)] // a remainder below 256
    fn charge_of(number: u64) -> (u64, usize) {
        (number / SHARDS as u64, (number % SHARDS as u64) as usize)
    }

    /// The bytes of a subject with their hash, which is worked out once for each count.
    #[inline]
    fn key<'k>(&self, subject: &'k Subject, limits: &LimitSet) -> Key<'k> {
        let bytes = subject.as_str().as_bytes();
        Key::new(bytes, self.hash(bytes, limits))
    }

    /// Gives back one subject's part of a charge, under the limits its state is written under now.
    fn refund_part_of(
        &self,
        charges: &Charges,
        receipt: &Receipt,
        portion: Portion,
    ) -> SmallVec<[u64; 2]> {
        let key = self.key(&charges.subject, &charges.limits);
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let (limits, at_us) = (&charges.limits, &charges.at_us);
        let (charge, numbered_by) = Self::charge_of(receipt.number);
        let before_reset = shard.marks().0.last_reset(key.hash).is_some_and(|reset| {
            if numbered_by == index {
                charge <= reset.charges
            } else {
                // Another shard counted this charge: only the times can be compared.
                at_us.iter().any(|at_us| *at_us <= reset.at_us)
            }
        });
        let nothing = || SmallVec::from_elem(0, at_us.len());
        if before_reset {
            return nothing();
        }
        let given = shard.visit(&key, limits, now, |written_under, state, _| {
            engine::refund(written_under, state, limits, at_us, portion, now)
        });
        given.unwrap_or_else(nothing)
    }

    pub(crate) fn refund_now(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        let (charge, index) = Self::charge_of(receipt.number);
        let portion = {
            let mut shard = self.lock(index);
            let now = self.0.clock.now();
            let (marks, budget) = shard.marks();
            // Also one that no longer counts: it might again after a clock that steps back.
            let until_us = engine::receipt_until_us(receipt).max(now.as_micros());
            let portion = marks.spend(charge, receipt.cost, units, until_us, now, budget);
            shard.settle();
            portion
        };
        let limits = receipt.charges.iter().map(|c| c.limits.limits().len()).sum();
        if portion.is_nothing() {
            return Ok(Refund::already(limits));
        }
        let mut given = Vec::with_capacity(limits);
        for charges in &receipt.charges {
            given.extend(self.refund_part_of(charges, receipt, portion));
        }
        Ok(Refund::new(given, portion.left_after()))
    }

    pub(crate) fn adjust_now(&self, counted: Counted<'_>, delta: i64) -> Vec<i64> {
        let adjust = |state: &mut state::State, now| {
            engine::adjust(counted.limits, state, delta, now).into_vec()
        };
        self.with_state(counted, adjust).unwrap_or_else(|| vec![0; counted.limits.limits().len()])
    }

    pub(crate) fn reset_now(&self, counted: Counted<'_>) -> bool {
        let key = self.key(counted.subject, counted.limits);
        let mut shard = self.lock(Self::shard_of(key.hash));
        let now = self.0.clock.now();
        shard.reset(&key, counted.limits, now)
    }

    pub(crate) fn inspect_now(&self, subject: &Subject, limits: &LimitSet) -> Option<Inspection> {
        let key = self.key(subject, limits);
        let mut shard = self.lock(Self::shard_of(key.hash));
        let now = self.0.clock.now();
        shard.visit(&key, limits, now, |written_under, state, shared| {
            let fresh_at = Time::from_micros(engine::fresh_at_us(written_under, state));
            let (words, logs) = (state.words().to_vec(), state.logs());
            Inspection::new(written_under.full_text().to_owned(), words, logs, fresh_at, shared)
        })
    }
}

impl Store for MemoryStore {
    fn identity(&self) -> u64 {
        self.0.identity
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        let (charge, _) = Self::charge_of(receipt.number);
        let inherited =
            |ancestor: &Ancestor| ancestor.identity == receipt.store && charge <= ancestor.charges;
        receipt.store == self.0.identity || self.0.ancestors.iter().any(inherited)
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        question.without_request()?;
        Ok(self.answer(question))
    }

    #[inline]
    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        self.answer_written(counted, cost, mode)
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        self.refund_now(receipt, units)
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        Ok(self.adjust_now(counted, delta))
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        Ok(self.reset_now(counted))
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        Ok(self.inspect_now(counted.subject, counted.limits))
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        Ok(self.0.board.lock().all(seen, self.now()))
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.0.board.lock().post(notice, self.now())
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.0.board.lock().withdraw(name, self.now()))
    }
}
