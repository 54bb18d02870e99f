//! The memory store: sharded, bounded in bytes, and without a thread of its own.

use core::fmt;
use core::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Charges, Receipt, Refund};
use crate::engine::{self, Mode, Outcome, Part, Portion, Single, decide, decide_pair};
use crate::error::StoreError;
use crate::limit::LimitSet;
use crate::notice::{Board, Notice, Notices};
use crate::store::{Counted, Inspection, Question, Store};
use crate::strategy::Step;
use crate::subject::Subject;
use crate::time::Time;

mod hash;
mod marks;
mod sets;
mod shard;
mod slabs;
mod slot;
mod snapshot;
mod state;

pub use snapshot::{Restored, Saved, SnapshotError, SnapshotFault};

use hash::KeyHash;
use sets::Sets;
use shard::{Room, Shard, Taken};
use slot::Key;
use state::Budget;

/// How many shards a store has. A power of two: a shard is some bits of a subject's hash.
const SHARDS: usize = 256;

/// How many other shards a newcomer that finds no room looks into for expired entries.
const RECLAIMED_SHARDS: usize = 8;

/// What a store holds when nothing else is said: 256 MiB.
pub const DEFAULT_BYTES: usize = 256 << 20;

const _: () = assert!(size_of::<Padded>() == 64, "lock and shard fit into one cache line");

/// A clock that costs no indirection when it is the usual one.
#[derive(Clone, Debug)]
enum StoreClock {
    Monotonic(MonotonicClock),
    Given(Arc<dyn Clock>),
}

impl StoreClock {
    #[inline]
    fn now(&self) -> Time {
        match self {
            Self::Monotonic(clock) => clock.now(),
            Self::Given(clock) => clock.now(),
        }
    }
}

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

/// What a [`MemoryStore`] is made of.
#[derive(Clone, Debug)]
pub struct MemoryStoreBuilder {
    max_bytes: usize,
    clock: StoreClock,
    sip: bool,
    seeds: Option<[u64; 2]>,
}

impl MemoryStoreBuilder {
    /// The bytes the store may hold, counted as they are allocated.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }

    /// Takes the time from `clock` instead of the monotonic one: for tests and simulations.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: StoreClock::Given(Arc::new(clock)), ..self }
    }

    /// Hashes subjects with SipHash: slower, for subjects that an attacker may choose freely and
    /// probe for collisions. The usual hash is seeded per store, which makes that hard already.
    #[must_use]
    pub fn sip_hash(self) -> Self {
        Self { sip: true, ..self }
    }

    /// Hashes subjects with these seeds instead of random ones: for measurements, where the same
    /// questions are to take the same bytes each time. Whoever knows the seeds can choose subjects
    /// that collide, so never before clients.
    #[must_use]
    pub fn hash_seeds(self, seeds: [u64; 2]) -> Self {
        Self { seeds: Some(seeds), ..self }
    }

    /// The store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        let hash = match self.seeds {
            Some(seeds) => KeyHash::seeded(self.sip, seeds),
            None => KeyHash::random(self.sip),
        };
        self.build_with(hash, 0, Vec::new())
    }

    /// A store whose charges are numbered after `charges`.
    fn build_with(self, hash: KeyHash, charges: u64, ancestors: Vec<Ancestor>) -> MemoryStore {
        let budget = Arc::new(Budget::new(self.max_bytes));
        let sets = Arc::new(Sets::new(&budget));
        let shard = || Padded(Mutex::new(Shard::new(&sets, &budget, charges)));
        MemoryStore(Arc::new(Inner {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hash,
            clock: self.clock,
            budget,
            sets,
            shared: AtomicU64::new(0),
            refused: AtomicU64::new(0),
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
        MemoryStoreBuilder {
            max_bytes: DEFAULT_BYTES,
            clock: StoreClock::Monotonic(MonotonicClock::new()),
            sip: false,
            seeds: None,
        }
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
        self.0.hash.of(subject, limits)
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

    /// Answers for a subject that has an entry under exactly these limits, of two words; nothing
    /// for any other. `text` is what nobody has looked at yet: only entries are found that it
    /// certainly means.
    #[inline]
    pub(crate) fn answer_pair(
        &self,
        text: &str,
        limits: &LimitSet,
        step: &impl Step,
        cost: u64,
        peek: bool,
    ) -> Option<Single> {
        let key = Key::new(text.as_bytes(), self.hash(text.as_bytes(), limits));
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let mut single = shard.with_pair(&key, limits, |words| {
            let single = decide_pair(step, words, now, cost, peek);
            (single, single.changed)
        })?;
        if single.granted > 0 && !peek {
            single.receipt = Self::number(shard.next_charge(), index);
        }
        Some(single)
    }

    /// The bytes of a subject with their hash, which is worked out once for each count.
    #[inline]
    fn key<'k>(&self, subject: &'k Subject, limits: &LimitSet) -> Key<'k> {
        let bytes = subject.as_str().as_bytes();
        Key::new(bytes, self.hash(bytes, limits))
    }

    /// Answers for a subject that has an entry under exactly these limits; nothing for any other.
    #[inline]
    fn answer_known(&self, part: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        let key = self.key(part.subject, part.limits);
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        Self::decide_known((index, &mut shard), &key, part.limits, now, cost, mode)
    }

    #[inline]
    fn decide_known(
        (index, shard): (usize, &mut Shard),
        key: &Key<'_>,
        limits: &LimitSet,
        now: Time,
        cost: u64,
        mode: Mode,
    ) -> Option<Outcome> {
        let mut outcome = shard.decide(key, limits, now, cost, mode)?;
        if outcome.granted > 0 && !mode.is_peek() {
            outcome.receipt = Self::number(shard.next_charge(), index);
        }
        Some(outcome)
    }

    /// Answers a question, at once.
    pub(crate) fn answer(&self, question: &Question<'_>) -> Outcome {
        let [part] = question.parts[..] else { return self.answer_several(question) };
        let key = self.key(part.subject, part.limits);
        let index = Self::shard_of(key.hash);
        let mut shard = self.lock(index);
        let now = self.0.clock.now();
        let (cost, mode) = (question.cost, question.mode);
        let known = Self::decide_known((index, &mut shard), &key, part.limits, now, cost, mode);
        known.unwrap_or_else(|| self.answer_general(question, &[key], now, &mut [(index, shard)]))
    }

    fn answer_several(&self, question: &Question<'_>) -> Outcome {
        let parts = question.parts.iter();
        let keys: SmallVec<[Key<'_>; 2]> =
            parts.map(|part| self.key(part.subject, part.limits)).collect();
        let mut indices: SmallVec<[usize; 4]> =
            keys.iter().map(|key| Self::shard_of(key.hash)).collect();
        // Always in the same order, so that two checks never wait for each other.
        indices.sort_unstable();
        indices.dedup();
        let mut shards: SmallVec<[(usize, MutexGuard<'_, Shard>); 2]> =
            indices.iter().map(|index| (*index, self.lock(*index))).collect();
        let now = self.0.clock.now();
        self.answer_general(question, &keys, now, &mut shards)
    }

    /// Removes what has expired in a part of the next few shards that nobody is using.
    fn reclaim(&self, now: Time) {
        for _ in 0..RECLAIMED_SHARDS {
            let next = self.0.sweep_next.fetch_add(1, Ordering::Relaxed) % SHARDS;
            // Never waited for: this check holds locks already.
            if let Some(mut shard) = self.0.shards[next].0.try_lock() {
                shard.reclaim(now);
            }
        }
    }

    #[inline(never)]
    fn answer_general(
        &self,
        question: &Question<'_>,
        keys: &[Key<'_>],
        now: Time,
        shards: &mut [(usize, MutexGuard<'_, Shard>)],
    ) -> Outcome {
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let looking = question.mode.is_peek();
        // Room first, while nothing is taken out: making it may move entries.
        let rooms = self.rooms(question, keys, now, shards, looking);
        let mut taken: SmallVec<[Taken; 2]> = SmallVec::new();
        for ((part, key), room) in question.parts.iter().zip(keys).zip(&rooms) {
            let shard = guard(shards, Self::shard_of(key.hash));
            taken.push(shard.take(key, part.limits, now, *room));
        }
        let mut outcome = {
            let mut parts: SmallVec<[Part<'_>; 2]> = question
                .parts
                .iter()
                .zip(&mut taken)
                .map(|(part, taken)| {
                    let carried = taken.carried.clone();
                    Part::new(part.limits, &mut taken.state).carrying(carried)
                })
                .collect();
            decide(&mut parts, now, question.cost, question.mode)
        };
        let charged = outcome.granted > 0 && !looking;
        outcome.shared = taken.iter().any(|taken| taken.is_shared(charged));
        if outcome.shared && !looking {
            self.count(&rooms);
        }
        // New entries last: until then every state goes back to where it was found.
        let mut newcomers: SmallVec<[_; 2]> = SmallVec::new();
        for ((part, key), taken) in question.parts.iter().zip(keys).zip(taken) {
            if taken.is_new() {
                newcomers.push((part, key, taken));
                continue;
            }
            let shard = guard(shards, Self::shard_of(key.hash));
            shard.put(key, part.limits, taken, outcome.changed, charged, &rehash);
        }
        for (part, key, taken) in newcomers {
            let shard = guard(shards, Self::shard_of(key.hash));
            shard.put(key, part.limits, taken, outcome.changed, charged, &rehash);
        }
        if charged && let Some((index, shard)) = shards.first_mut() {
            outcome.receipt = Self::number(shard.next_charge(), *index);
        }
        outcome
    }

    /// What each part of a question finds: an entry or room for one, a share, or nothing.
    fn rooms(
        &self,
        question: &Question<'_>,
        keys: &[Key<'_>],
        now: Time,
        shards: &mut [(usize, MutexGuard<'_, Shard>)],
        looking: bool,
    ) -> SmallVec<[Room; 2]> {
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let parts = || question.parts.iter().map(|part| part.limits).zip(keys);
        if looking {
            let look = |(limits, key): (&LimitSet, &Key<'_>)| {
                guard(shards, Self::shard_of(key.hash)).look(key, limits)
            };
            return parts().map(look).collect();
        }
        let mut found: SmallVec<[Option<Room>; 2]> = SmallVec::new();
        for (before, (limits, key)) in parts().enumerate() {
            let shard = guard(shards, Self::shard_of(key.hash));
            let far = shard.looks_far(now);
            let mut room = shard.prepare(key, limits, now, before, far, &rehash);
            if room.is_none() && far {
                // The room of one shard is every shard's: what has expired elsewhere goes first.
                self.reclaim(now);
                let shard = guard(shards, Self::shard_of(key.hash));
                room = shard.prepare(key, limits, now, before, far, &rehash);
                if room.is_none() {
                    shard.found_nothing(now);
                }
            }
            found.push(room);
        }
        // Shares last: what is shared and fresh still is what others would drop as expired.
        let mut rooms: SmallVec<[Room; 2]> = SmallVec::new();
        for (at, ((limits, key), found)) in parts().zip(found).enumerate() {
            let room = found.unwrap_or_else(|| {
                let index = Self::shard_of(key.hash);
                let alike = parts().take(at).zip(&rooms).filter(|((other, key), room)| {
                    matches!(room, Room::Shared { .. })
                        && Self::shard_of(key.hash) == index
                        && other.identity() == limits.identity()
                });
                let nth = alike.count();
                guard(shards, index).share(limits, nth, now)
            });
            rooms.push(room);
        }
        rooms
    }

    /// Counts a check that found no room.
    fn count(&self, rooms: &[Room]) {
        if rooms.contains(&Room::None) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        } else if rooms.iter().any(|room| matches!(room, Room::Shared { .. })) {
            self.0.shared.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs `work` on a subject's state and keeps the result. Nothing when there is no room for
    /// one, and none to share.
    fn with_state<T>(
        &self,
        counted: Counted<'_>,
        work: impl FnOnce(&mut state::State, Time) -> T,
    ) -> Option<T> {
        let rehash = |bytes: &[u8], limits: &LimitSet| self.hash(bytes, limits);
        let key = self.key(counted.subject, counted.limits);
        let mut shard = self.lock(Self::shard_of(key.hash));
        let now = self.0.clock.now();
        let room = shard.prepare(&key, counted.limits, now, 0, true, &rehash);
        let room = room.unwrap_or_else(|| shard.share(counted.limits, 0, now));
        if room == Room::None {
            return None;
        }
        let mut taken = shard.take(&key, counted.limits, now, room);
        let answer = work(&mut taken.state, now);
        let fresh = engine::fresh_at_us(counted.limits, &mut taken.state) <= now.as_micros();
        // The state may tell less of what was charged, and that could be given back all the same.
        shard.marks().0.outlive(engine::refundable_until_us(counted.limits, now));
        shard.put(&key, counted.limits, taken, true, !fresh, &rehash);
        Some(answer)
    }

    /// Gives back one subject's part of a charge, under the limits its state is written under now.
    fn give_back(
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
            engine::give_back(written_under, state, limits, at_us, portion, now)
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
            given.extend(self.give_back(charges, receipt, portion));
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

/// The locked shard of an index; every index of a question was locked.
fn guard<'g>(shards: &'g mut [(usize, MutexGuard<'_, Shard>)], index: usize) -> &'g mut Shard {
    let found = shards.iter_mut().find(|(held, _)| *held == index);
    found.map_or_else(|| unreachable!("every shard of a question is locked"), |(_, shard)| shard)
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
        self.answer_known(counted, cost, mode)
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
