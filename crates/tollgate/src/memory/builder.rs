//! The options of a memory store.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use super::hash::{KeyHash, SHARDS};
use super::sets::Sets;
use super::shard::Shard;
use super::state::Budget;
use super::store::{Ancestor, DEFAULT_BYTES, Inner, MemoryStore, Padded, StoreClock};
use crate::clock::{Clock, MonotonicClock};

/// The options of a [`MemoryStore`].
#[derive(Clone, Debug)]
pub struct MemoryStoreBuilder {
    pub(super) max_bytes: usize,
    /// `None` is the monotonic clock, which is created with the store: it calibrates itself, and
    /// not every system has one.
    clock: Option<Arc<dyn Clock>>,
    pub(super) sip: bool,
    seeds: Option<[u64; 2]>,
}

impl MemoryStoreBuilder {
    pub(super) fn new() -> Self {
        Self { max_bytes: DEFAULT_BYTES, clock: None, sip: false, seeds: None }
    }

    /// The maximum number of bytes that the store may use, measured by its allocations.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }

    /// Uses `clock` instead of the monotonic clock, for tests and simulations.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Some(Arc::new(clock)), ..self }
    }

    /// Hashes subjects with SipHash. It is slower, and meant for subjects that an attacker can
    /// choose freely and probe for collisions. The default hash has a random seed per store, which
    /// already makes that hard.
    #[must_use]
    pub fn sip_hash(self) -> Self {
        Self { sip: true, ..self }
    }

    /// Hashes subjects with these seeds instead of random ones. This is for measurements, where the
    /// same checks should take the same bytes each time. Never use it for untrusted clients: with
    /// the seeds known, they can choose subjects that collide.
    #[must_use]
    pub fn hash_seeds(self, seeds: [u64; 2]) -> Self {
        Self { seeds: Some(seeds), ..self }
    }

    /// Creates the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        let hash = match self.seeds {
            Some(seeds) => KeyHash::seeded(self.sip, seeds),
            None => KeyHash::random(self.sip),
        };
        self.build_with(hash, 0, Vec::new())
    }

    /// Creates a store that numbers its charges from `charges` + 1.
    pub(super) fn build_with(
        self,
        hash: KeyHash,
        charges: u64,
        ancestors: Vec<Ancestor>,
    ) -> MemoryStore {
        let clock = match self.clock {
            Some(clock) => StoreClock::Given(clock),
            None => StoreClock::Monotonic(MonotonicClock::new()),
        };
        let budget = Arc::new(Budget::new(self.max_bytes));
        let sets = Arc::new(Sets::new(&budget));
        let shard = || Padded(Mutex::new(Shard::new(&sets, &budget, charges)));
        MemoryStore(Arc::new(Inner {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hash,
            clock,
            budget,
            sets,
            shared: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            forgotten_requests: AtomicU64::new(0),
            identity: std::hash::RandomState::new().hash_one(0),
            ancestors,
            sweep_next: AtomicUsize::new(0),
            board: Mutex::default(),
        }))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::builder().build()
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
}
