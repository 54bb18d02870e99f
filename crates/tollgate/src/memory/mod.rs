//! The memory store: sharded, bounded in bytes, without a background thread.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::decision::{Charges, Receipt, Refund};
use crate::engine::{self, Charged, Outcome, Portion};
use crate::error::StoreError;
use crate::hold::{Hold, Settled};
use crate::limit::LimitSet;
use crate::notice::{Board, Notice, Notices};
use crate::operation::{Operation, OperationsNow};
use crate::store::{Counted, Facts, Inspection, MAX_SHOWN_HOLDS, Question, Store};
use crate::subject::Subject;
use crate::time::Time;

mod builder;
mod check;
mod hash;
mod holding;
mod marks;
mod requests;
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

/// The number of shards. A power of two, because some bits of a subject's hash select the shard.
const SHARDS: usize = 256;

/// The number of other shards that are searched for expired entries when a new subject finds no
/// room.
const RECLAIMED_SHARDS: usize = 8;

/// The default bound of a store: 256 MiB.
pub const DEFAULT_BYTES: usize = 256 << 20;

const _: () = assert!(size_of::<Padded>() == 64, "lock and shard fit into one cache line");

/// A shard on its own cache line.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

/// Counts in this process. Clones are cheap and share the counts.
///
/// The store is bounded in bytes (256 MiB by default), measured by what it allocates: counts, and
/// the limit sets that they are written under. When it is full, it first removes expired entries.
/// Then new subjects share one state per shard and identity of limits until there is room. New
/// subjects under limits without room even for a shared state are denied. A subject that finds room
/// while its shared state still counts starts with a copy of it.
///
/// An entry that still counts is never evicted: flooding the store with subjects does not reset any
/// count. A log without room for another event moves its newest event to now instead. That event
/// then counts longer than necessary, never shorter.
/// No thread is needed: every new subject examines a few other entries. [`MemoryStore::sweep`]
/// frees memory at a time of your choice.
///
/// ```
/// use tollgate::{Limiter, MemoryStore};
/// let store = MemoryStore::builder().max_bytes(64 << 20).build();
/// let limiter = Limiter::new("100/s via gcra".parse()?, store.clone());
/// limiter.check("user:42").now()?;
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
    /// The number of checks with a subject on a shared state, and of checks denied for lack of even
    /// that.
    shared: AtomicU64,
    refused: AtomicU64,
    forgotten_requests: AtomicU64,
    identity: u64,
    /// The saved stores whose counts were restored into this one, the oldest first.
    ancestors: Vec<Ancestor>,
    sweep_next: AtomicUsize,
    board: Mutex<Board>,
}

/// A store that was saved and restored into this one.
#[derive(Clone, Copy, Debug)]
struct Ancestor {
    identity: u64,
    /// Its charges up to this number are counted here; later charges were made after the snapshot.
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

    /// A builder for a store with other options.
    #[must_use]
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }

    /// The bytes in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.budget.used()
    }

    /// The most bytes that it may use.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.0.budget.bound()
    }

    /// The number of limit sets in use by stored states.
    #[must_use]
    pub fn limit_sets(&self) -> usize {
        self.0.sets.len()
    }

    /// The number of checks so far over a subject on a shared state. While it grows, the store is
    /// full.
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.0.shared.load(Ordering::Relaxed)
    }

    /// The number of checks so far that were denied for lack of room even for a shared state, under
    /// limits new to a full store. While it grows, the store is full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// The number of subjects with an entry of their own. Locks every shard in turn.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Removes expired entries and frees memory. Returns the number of entries removed. Each shard
    /// is locked while it is swept.
    pub fn sweep(&self) -> usize {
        (0..SHARDS).map(|index| self.sweep_shard(index)).sum()
    }

    /// Sweeps one of the 256 shards, the next one on each call, for callers that spread the work.
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

    /// The store's current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    #[inline]
    fn hash(&self, subject: &[u8], limits: &LimitSet) -> u64 {
        self.0.hash.hash(subject, limits)
    }

    /// The shard of a hash, from bits that the shard's table does not use.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // eight bits
    fn shard_of(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.0.shards[index].0.lock()
    }

    /// A receipt's number, made of the shard's charge number and the shard.
    fn number(charge: u64, shard: usize) -> u64 {
        charge * SHARDS as u64 + shard as u64
    }

    /// The charge number within its shard, and the shard, of a receipt's number.
    #[allow(clippy::cast_possible_truncation)] // a remainder below 256
    fn charge_of(number: u64) -> (u64, usize) {
        (number / SHARDS as u64, (number % SHARDS as u64) as usize)
    }

    /// The bytes of a subject with their hash, which is computed once per count.
    #[inline]
    fn key<'k>(&self, subject: &'k Subject, limits: &LimitSet) -> Key<'k> {
        let bytes = subject.as_str().as_bytes();
        Key::new(bytes, self.hash(bytes, limits))
    }

    /// Refunds one subject's part of a charge, under the limits that its state is written under
    /// now.
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
                // Another shard counted this charge, so only times can be compared.
                at_us.iter().any(|at_us| *at_us <= reset.at_us)
            }
        });
        let nothing = || SmallVec::from_elem(0, at_us.len());
        if before_reset {
            return nothing();
        }
        let given = shard.visit(&key, limits, now, |written_under, state, _| {
            let held = holding::end_holds(written_under, state, &engine::Carries::new(), now);
            engine::refund(written_under, state, &held, limits, at_us, portion, now)
        });
        given.unwrap_or_else(nothing)
    }

    pub(crate) fn refund_now(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        let (charge, index) = Self::charge_of(receipt.number);
        let portion = {
            let mut shard = self.lock(index);
            let now = self.0.clock.now();
            let (marks, budget) = shard.marks();
            // Marked even if it no longer counts: it might count again after the clock steps back.
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
        let adjust = |state: &mut state::State, carried: &engine::Carries, now, _| {
            let held = holding::end_holds(counted.limits, state, carried, now);
            engine::adjust(counted.limits, state, &held, delta, now).into_vec()
        };
        self.with_state(counted, adjust).unwrap_or_else(|| vec![0; counted.limits.limits().len()])
    }

    pub(crate) fn charge_now(
        &self,
        counted: Counted<'_>,
        cost: u64,
    ) -> Result<Vec<Charged>, StoreError> {
        let charge = |state: &mut state::State, carried: &engine::Carries, now, shared: bool| {
            let among_holds = holding::charge_holding(counted.limits, state, carried, cost, now);
            among_holds.unwrap_or_else(|| {
                engine::charge(counted.limits, state, cost, !shared, now).into_vec()
            })
        };
        self.with_state(counted, charge).ok_or_else(|| {
            StoreError::transient("the store is full and has no room for this count: not charged")
        })
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
            let fresh_at = Time::from_micros(state.fresh_at_us(written_under));
            let (words, logs) = (state.words().to_vec(), state.logs());
            let open = state.holds().map(|holds| engine::open_holds(holds, now, MAX_SHOWN_HOLDS));
            let text = written_under.full_text().to_owned();
            let held = Inspection::new(text, words, logs, fresh_at, shared);
            held.holding(open.unwrap_or_default())
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

    #[inline]
    fn facts(&self) -> Facts {
        let forgotten = self.0.forgotten_requests.load(Ordering::Relaxed);
        Facts::new(None, forgotten).with_receipt_step(SHARDS as u64).answering_at_once(true)
    }

    fn will_wait(&self, _: Duration) {}

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit_now(self).unwrap_or_else(|| unreachable!("memory never waits"))
    }

    #[inline]
    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        operation.visit_now(self)
    }
}

impl OperationsNow for MemoryStore {
    #[inline]
    fn check(&self, question: &Question<'_>) -> Option<Result<Outcome, StoreError>> {
        self.answer(question)
    }

    fn refund(&self, receipt: &Receipt, units: u64) -> Option<Result<Refund, StoreError>> {
        Some(self.refund_now(receipt, units))
    }

    fn adjust(&self, counted: Counted<'_>, delta: i64) -> Option<Result<Vec<i64>, StoreError>> {
        Some(Ok(self.adjust_now(counted, delta)))
    }

    fn charge(&self, counted: Counted<'_>, cost: u64) -> Option<Result<Vec<Charged>, StoreError>> {
        Some(self.charge_now(counted, cost))
    }

    fn settle(&self, hold: &Hold, actual: u64) -> Option<Result<Option<Settled>, StoreError>> {
        Some(self.settle_now(hold, actual))
    }

    fn renew(&self, hold: &Hold, ttl_us: u64) -> Option<Result<Option<Time>, StoreError>> {
        Some(Ok(self.renew_now(hold, ttl_us)))
    }

    fn reset(&self, counted: Counted<'_>) -> Option<Result<bool, StoreError>> {
        Some(Ok(self.reset_now(counted)))
    }

    fn inspect(&self, counted: Counted<'_>) -> Option<Result<Option<Inspection>, StoreError>> {
        Some(Ok(self.inspect_now(counted.subject, counted.limits)))
    }

    fn notices(&self, seen: Option<u64>) -> Option<Result<Option<Notices>, StoreError>> {
        Some(Ok(self.0.board.lock().all(seen, self.now())))
    }

    fn post(&self, notice: &Notice) -> Option<Result<(), StoreError>> {
        Some(self.0.board.lock().post(notice, self.now()))
    }

    fn withdraw(&self, name: &str) -> Option<Result<bool, StoreError>> {
        Some(Ok(self.0.board.lock().withdraw(name, self.now())))
    }
}
