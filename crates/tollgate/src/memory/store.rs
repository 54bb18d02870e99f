//! The store itself: its shards, its clock, its bounds.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::hash::{KeyHash, SHARDS};
use super::sets::Sets;
use super::shard::Shard;
use super::slot::Key;
use super::state::Budget;
use crate::clock::{Clock, MonotonicClock};
use crate::limit::LimitSet;
use crate::notice::Board;
use crate::subject::Subject;
use crate::time::Time;

/// The number of other shards that are searched for expired entries when a new subject finds no
/// room.
pub(super) const RECLAIMED_SHARDS: usize = 8;

/// The default bound of a store: 256 MiB.
pub const DEFAULT_BYTES: usize = 256 << 20;

const _: () = assert!(size_of::<Padded>() == 64, "lock and shard fit into one cache line");

/// A shard on its own cache line.
#[repr(align(64))]
pub(super) struct Padded(pub(super) Mutex<Shard>);

/// Counts in this process. Clones are cheap and share the counts.
///
/// The store is bounded in bytes (256 MiB by default), measured by its allocations: counts, and the
/// limit sets that they are written under. When it is full, it first removes expired entries. Then
/// new subjects share one state per shard and identity of limits until there is room. New subjects
/// under limits without room even for a shared state are denied. A subject that finds room while
/// its shared state still counts starts with a copy of it.
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
pub struct MemoryStore(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) shards: Box<[Padded]>,
    pub(super) hash: KeyHash,
    pub(super) clock: StoreClock,
    pub(super) budget: Arc<Budget>,
    pub(super) sets: Arc<Sets>,
    /// The number of checks with a subject on a shared state, and of checks denied for lack of even
    /// that.
    pub(super) shared: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) forgotten_requests: AtomicU64,
    pub(super) identity: u64,
    /// The saved stores whose counts were restored into this one, the oldest first.
    pub(super) ancestors: Vec<Ancestor>,
    pub(super) sweep_next: AtomicUsize,
    pub(super) board: Mutex<Board>,
}

/// A store that was saved and restored into this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ancestor {
    pub(super) identity: u64,
    /// Its charges up to this number are counted here; later charges were made after the snapshot.
    pub(super) charges: u64,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl MemoryStore {
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

    /// The number of subjects with a separate entry. Locks every shard in turn.
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
    pub(super) fn hash(&self, subject: &[u8], limits: &LimitSet) -> u64 {
        self.0.hash.hash(subject, limits)
    }

    pub(super) fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.0.shards[index].0.lock()
    }

    /// A receipt's number, made of the shard's charge number and the shard.
    pub(super) fn number(charge: u64, shard: usize) -> u64 {
        charge * SHARDS as u64 + shard as u64
    }

    /// The charge number within its shard, and the shard, of a receipt's number.
    #[allow(clippy::cast_possible_truncation)] // a remainder below 256
    pub(super) fn charge_of(number: u64) -> (u64, usize) {
        (number / SHARDS as u64, (number % SHARDS as u64) as usize)
    }

    /// The bytes of a subject with their hash, which is computed once per count.
    #[inline]
    pub(super) fn key<'k>(&self, subject: &'k Subject, limits: &LimitSet) -> Key<'k> {
        let bytes = subject.as_str().as_bytes();
        Key::new(bytes, self.hash(bytes, limits))
    }
}

/// The store's clock. The usual clock is called directly, without dynamic dispatch.
#[derive(Clone, Debug)]
pub(super) enum StoreClock {
    Monotonic(MonotonicClock),
    Given(Arc<dyn Clock>),
}

impl StoreClock {
    #[inline]
    pub(super) fn now(&self) -> Time {
        match self {
            Self::Monotonic(clock) => clock.now(),
            Self::Given(clock) => clock.now(),
        }
    }
}
