//! Restores a memory store from a snapshot: all of it, or an error and no store.

use core::time::Duration;
use std::io::Read;

use super::chunks::ChunkReader;
use super::cost::read_cost;
use super::error::{SnapshotError, SnapshotFault};
use super::tag;
use crate::limit::LimitSet;
use crate::memory::builder::MemoryStoreBuilder;
use crate::memory::hash::{HashText, KeyHash, SHARDS, shard_of};
use crate::memory::marks::{Reset, Spent};
use crate::memory::shard::{Kept, Sizes};
use crate::memory::slot::{Key, MAX_SETS};
use crate::memory::store::{Ancestor, MemoryStore};
use crate::notice::{MAX_NOTICE_BYTES, MAX_NOTICE_NAME_BYTES, MAX_NOTICES};
use crate::strategy::MAX_EXACT;
use crate::subject::{self, MAX_SUBJECT_BYTES, Subject};
use crate::time::{SKEW_US, Time};

/// The longest text of a set, in bytes: 32 limits with every option take less.
const MAX_SET_BYTES: u32 = 1 << 14;

/// The most charges that a snapshot may claim, so that the numbers of receipts never wrap.
const MAX_CHARGES: u64 = 1 << 54;

/// The most restarts that a receipt can be refunded after. A restart without a charge since the
/// previous one does not count. An older receipt is rejected as one of another store.
const MAX_ANCESTORS: usize = 1 << 10;

/// How far a small store may have exceeded its bound, in bytes: older versions did not count limit
/// sets, and kept them and shared states beyond the bound.
const OVER_BYTES: usize = 1 << 20;

/// The result of a restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Restored {
    /// The time of the saved store at the snapshot.
    pub saved_at: Time,
    /// How far this store's clock is behind that time; zero if time has moved on. Up to one second
    /// is skew, more is a step back. `docs/definitions.md`, section 3, defines the effect of both.
    pub behind: Duration,
    /// The number of subjects with a separate entry.
    pub subjects: u64,
    /// The number of subjects left out because their charges no longer count.
    pub expired: u64,
    /// The number of states that new subjects share for lack of room.
    pub shared: u64,
    /// True when receipts from before the restart can be refunded. False when the saved store used
    /// another hash ([`MemoryStoreBuilder::sip_hash`], or a build with another version of the
    /// hash). Such receipts are rejected as those of another store.
    pub receipts: bool,
    /// The number of bytes of the snapshot.
    pub bytes: u64,
}

impl MemoryStoreBuilder {
    /// A store with the counts of a snapshot that [`MemoryStore::save`] wrote. It answers as the
    /// saved store would at the time of this store's clock. All of it is restored, or nothing.
    ///
    /// It fits every store with at least the byte bound of the saved one. A store with a smaller
    /// bound accepts the snapshot if it fits, and rejects it otherwise: counts are not dropped for
    /// lack of room. Limits may have changed: counts are carried over as usual.
    ///
    /// Restore a snapshot once. Two stores from one snapshot count separately, and both admit what
    /// was left. After a crash, an old snapshot lacks the charges made since. No charge is refunded
    /// twice in either case: receipts of charges that the snapshot does not contain are rejected.
    ///
    /// ```
    /// use std::fs::File;
    /// use std::io;
    /// use tollgate::{MemoryStore, SnapshotError};
    ///
    /// fn start(path: &str) -> Result<MemoryStore, Box<dyn std::error::Error>> {
    ///     let builder = MemoryStore::builder().max_bytes(64 << 20);
    ///     match File::open(path) {
    ///         Ok(file) => {
    ///             let (store, restored) = builder.restore(file)?;
    ///             println!("{} subjects since {:?}", restored.subjects, restored.saved_at);
    ///             // What is charged from now on, this snapshot does not hold.
    ///             std::fs::remove_file(path)?;
    ///             Ok(store)
    ///         }
    ///         Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(builder.build()),
    ///         Err(error) => Err(error.into()),
    ///     }
    /// }
    /// # let path = std::env::temp_dir().join(format!("tollgate-doc-{}", std::process::id()));
    /// # MemoryStore::new().save(File::create(&path)?)?;
    /// # let path = path.to_str().expect("a path");
    /// # start(path)?;
    /// # start(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The problem, its byte, and the remedy: `from` could not be read; it is not a snapshot, has
    /// another version, is truncated or damaged; or it does not fit. In rare cases, the snapshot
    /// was saved by a full store with another hash.
    pub fn restore(self, from: impl Read) -> Result<(MemoryStore, Restored), SnapshotError> {
        let mut from = ChunkReader::begin(from)?;
        let file = StoreText::read(&mut from)?;
        let mut ancestors = Vec::new();
        let mut part = from.byte()?;
        while part == tag::ANCESTOR {
            let (identity, charges) = (from.u64()?, from.u64()?);
            if ancestors.len() >= MAX_ANCESTORS || charges > file.charges {
                return Err(SnapshotError::damaged(from.at(), "an ancestor that cannot be"));
            }
            ancestors.push(Ancestor { identity, charges });
            part = from.byte()?;
        }
        if ancestors.last().map_or(0, |last: &Ancestor| last.charges) < file.charges {
            ancestors.push(Ancestor { identity: file.identity, charges: file.charges });
        }
        let hash = KeyHash::from_text(file.hash, self.sip).filter(|_| file.shards == SHARDS as u64);
        let same_hash = hash.is_some();
        if !same_hash {
            // The marks of refunds and resets belong to shards too. Without them, no receipt from
            // before the restart may be refunded.
            ancestors.clear();
        }
        ancestors.drain(..ancestors.len().saturating_sub(MAX_ANCESTORS));
        let hash = hash.unwrap_or_else(|| KeyHash::random(self.sip));
        let bound = self.max_bytes;
        let store = self.build_with(hash, file.charges, ancestors);
        let now = store.now();
        let restored = Restored {
            saved_at: file.saved_at,
            behind: Duration::from_micros(
                file.saved_at.as_micros().saturating_sub(now.as_micros()),
            ),
            subjects: 0,
            expired: 0,
            shared: 0,
            receipts: same_hash,
            bytes: 0,
        };
        let mut restoring = Restoring {
            allowed: if same_hash { allowed(bound, &file) } else { bound },
            store,
            file,
            now,
            sets: Vec::new(),
            shard: None,
            notices: 0,
            entries: 0,
            restored,
            text: Vec::new(),
        };
        while part != tag::END {
            restoring.part(part, &mut from)?;
            part = from.byte()?;
        }
        restoring.end(from)
    }
}

/// The most bytes that a store with this bound may use for a snapshot. A store exceeds its bound
/// slightly at times, so a store with an equal bound must accept that; but not whatever a snapshot
/// claims.
fn allowed(bound: usize, file: &StoreText) -> usize {
    if (bound as u64) < file.bound {
        return bound;
    }
    let used = usize::try_from(file.used).unwrap_or(usize::MAX);
    // Includes what older versions did not count.
    let now = used.max(bound).saturating_add(bound / 8).saturating_add(OVER_BYTES);
    now.min(bound.saturating_mul(2).saturating_add(OVER_BYTES))
}

/// The record of the saved store.
#[derive(Clone, Copy, Debug)]
struct StoreText {
    saved_at: Time,
    bound: u64,
    used: u64,
    identity: u64,
    charges: u64,
    shards: u64,
    hash: HashText,
}

impl StoreText {
    fn read<R: Read>(from: &mut ChunkReader<R>) -> Result<Self, SnapshotError> {
        let at = from.at();
        if from.byte()? != tag::STORE {
            return Err(SnapshotError::damaged(at, "it does not begin with what the store was"));
        }
        let saved_at = Time::from_micros(from.u64()?);
        let (bound, used) = (from.u64()?, from.u64()?);
        let (identity, charges) = (from.u64()?, from.u64()?);
        let (shards, kind) = (from.u64()?, from.u64()?);
        let seeds = [from.u64()?, from.u64()?];
        // An unknown kind is treated as another hash.
        let hash =
            HashText { kind: u8::try_from(kind).unwrap_or(u8::MAX), seeds, probe: from.u64()? };
        if charges > MAX_CHARGES {
            return Err(SnapshotError::damaged(at, "more charges than can have been made"));
        }
        Ok(Self { saved_at, bound, used, identity, charges, shards, hash })
    }
}

/// A store during its restore.
struct Restoring {
    store: MemoryStore,
    file: StoreText,
    now: Time,
    /// The most bytes that it may use.
    allowed: usize,
    sets: Vec<LimitSet>,
    /// The shard that is being read.
    shard: Option<usize>,
    notices: usize,
    entries: u64,
    restored: Restored,
    /// A buffer for texts, reused.
    text: Vec<u8>,
}

impl Restoring {
    fn part<R: Read>(&mut self, part: u8, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        match part {
            tag::NOTICES => self.notices(from),
            tag::NOTICE => self.notice(from),
            tag::SET => self.set(from),
            tag::SHARD => self.shard(from),
            tag::SPENT | tag::SPENT_PART | tag::SPENT_UNITS => self.spent(from, part),
            tag::RESET => self.reset(from),
            tag::SHARED => self.shared(from),
            tag::ENTRY | tag::HELD | tag::RENEWED | tag::UNITS | tag::CREDITS => {
                self.entry(part, from)
            }
            _ => Err(SnapshotError::damaged(from.at() - 1, "an unknown part")),
        }
    }

    fn notices<R: Read>(&self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        self.store.0.board.lock().restore_version(from.u64()?);
        Ok(())
    }

    fn notice<R: Read>(&mut self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        let at = from.at();
        let name = self.text(from, most(MAX_NOTICE_NAME_BYTES))?.to_owned();
        let text = self.text(from, most(MAX_NOTICE_BYTES))?.to_owned();
        let until_us = from.u64()?;
        self.notices += 1;
        if self.notices > MAX_NOTICES || until_us > MAX_EXACT {
            return Err(SnapshotError::damaged(at, "a notice that cannot be"));
        }
        if until_us > self.now.as_micros() {
            self.store.0.board.lock().restore(name, text, Time::from_micros(until_us));
        }
        Ok(())
    }

    fn set<R: Read>(&mut self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        let at = from.at();
        let identity = self.text(from, MAX_SET_BYTES)?.to_owned();
        let text = self.text(from, MAX_SET_BYTES)?;
        let read = text.parse::<LimitSet>().and_then(|set| match identity.split_once('>') {
            Some((policy, _)) => set.in_policy(policy),
            None => Ok(set),
        });
        let set = read.map_err(|error| {
            SnapshotError::damaged(at, format!("limits that cannot be read ({})", error.what()))
        })?;
        if set.identity() != identity || set.full_text() != text || self.sets.len() >= MAX_SETS {
            return Err(SnapshotError::damaged(at, "limits that are not as they are written"));
        }
        self.sets.push(set);
        Ok(())
    }

    fn text<R: Read>(
        &mut self,
        from: &mut ChunkReader<R>,
        most: u32,
    ) -> Result<&str, SnapshotError> {
        let at = from.at();
        let length = from.u32()?;
        if length > most {
            let what = format!("a text of {length} bytes, where {most} are the most");
            return Err(SnapshotError::damaged(at, what));
        }
        self.text.resize(length as usize, 0);
        from.fill(&mut self.text)?;
        core::str::from_utf8(&self.text).map_err(|_| SnapshotError::damaged(at, "an invalid text"))
    }

    fn shard<R: Read>(&mut self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        let at = from.at();
        let index = from.u32()? as usize;
        let forgotten = from.u64()?;
        let sizes = Sizes { entries: from.u32()?, long_keys: from.u32()?, large: from.u32()? };
        self.close_shard(at)?;
        let shards = usize::try_from(self.file.shards).unwrap_or(usize::MAX);
        if index >= shards || self.shard.is_some_and(|before| index <= before) {
            return Err(SnapshotError::damaged(at, "the shards are not in order"));
        }
        if forgotten > self.file.charges {
            return Err(SnapshotError::damaged(at, "a charge that was never made"));
        }
        self.shard = Some(index);
        if self.restored.receipts {
            let store = &self.store;
            let mut shard = store.lock(index);
            shard.marks().0.restore_forgotten(forgotten);
            shard.foresee(sizes, &|bytes, limits| store.hash(bytes, limits));
            drop(shard);
            self.check(at, 0)?;
        }
        Ok(())
    }

    /// Frees the unused room of the last shard; then the store must fit.
    fn close_shard(&self, at: u64) -> Result<(), SnapshotError> {
        if let (Some(index), true) = (self.shard, self.restored.receipts) {
            self.store.lock(index).trim();
        }
        self.check(at, 0)
    }

    /// The shard that is being read, for the records of that shard. `None` when subjects are in
    /// other shards now.
    fn home<R: Read>(&self, from: &ChunkReader<R>) -> Result<Option<usize>, SnapshotError> {
        let Some(index) = self.shard else {
            return Err(SnapshotError::damaged(from.at() - 1, "a part before the first shard"));
        };
        Ok(self.restored.receipts.then_some(index))
    }

    /// Whether a mark that must be kept until `until_us` is still needed.
    fn matters(&self, until_us: u64) -> bool {
        until_us + SKEW_US > self.now.as_micros()
    }

    fn spent<R: Read>(&mut self, from: &mut ChunkReader<R>, part: u8) -> Result<(), SnapshotError> {
        let home = self.home(from)?;
        let at = from.at();
        let (charge, until_us) = (from.u64()?, from.u64()?);
        let units = match part {
            tag::SPENT => Some(Spent::WHOLE.into()),
            _ => read_cost(part, from)?,
        };
        let Some(units) = units else {
            return Err(SnapshotError::damaged(at, "a refund of units that no cost has"));
        };
        if charge > self.file.charges || until_us > MAX_EXACT {
            return Err(SnapshotError::damaged(at, "a refund of what was never charged"));
        }
        if let (Some(index), true) = (home, self.matters(until_us)) {
            let mut shard = self.store.lock(index);
            shard.marks().0.restore_spent(charge, Spent { units, until_us });
            shard.settle();
        }
        self.check(at, 0)
    }

    fn reset<R: Read>(&mut self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        let home = self.home(from)?;
        let at = from.at();
        let key_hash = from.u64()?;
        let (charges, at_us, until_us) = (from.u64()?, from.u64()?, from.u64()?);
        if charges > self.file.charges || at_us > MAX_EXACT || until_us > MAX_EXACT {
            return Err(SnapshotError::damaged(at, "a reset that cannot have been"));
        }
        if let (Some(index), true) = (home, self.matters(until_us)) {
            let mut shard = self.store.lock(index);
            if (key_hash, charges, at_us) == (0, 0, 0) {
                shard.marks().0.outlive(until_us);
            } else {
                shard.marks().0.restore_reset(key_hash, Reset { charges, at_us, until_us });
            }
            shard.settle();
        }
        self.check(at, 0)
    }

    fn shared<R: Read>(&mut self, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        let home = self.home(from)?;
        let at = from.at() - 1;
        let limits = self.limits(from)?;
        let before = self.store.bytes();
        let kept = Kept::read(from, &limits, &self.store.0.budget, |_| Ok(()))?;
        if kept.is_expired(self.now) {
            return Ok(());
        }
        let Some(index) = home else {
            return Err(SnapshotError::new(
                SnapshotFault::Shared,
                at,
                "the store that was saved was full, and hashed subjects in another way than this \
                 one, which cannot tell who shared what with whom",
                "build this store as that one was (`sip_hash`, the same version of Tollgate), or \
                 start with an empty store",
            ));
        };
        // Every store keeps shared states beyond its bound.
        self.allowed = self.allowed.saturating_add(self.store.bytes() - before);
        if !self.store.lock(index).restore_shared(kept) {
            return Err(SnapshotError::damaged(at, "more shared states than one check can have"));
        }
        self.restored.shared += 1;
        Ok(())
    }

    fn limits<R: Read>(&self, from: &mut ChunkReader<R>) -> Result<LimitSet, SnapshotError> {
        let at = from.at();
        let set = self.sets.get(from.u32()? as usize).cloned();
        set.ok_or_else(|| SnapshotError::damaged(at, "limits that were not written"))
    }

    fn entry<R: Read>(&mut self, part: u8, from: &mut ChunkReader<R>) -> Result<(), SnapshotError> {
        self.home(from)?;
        let at = from.at() - 1;
        let limits = self.limits(from)?;
        if !is_written_form(self.text(from, most(MAX_SUBJECT_BYTES))?) {
            return Err(SnapshotError::damaged(at, "a subject that is not as one is written"));
        }
        let hash = self.store.hash(&self.text, &limits);
        let mut shard = self.store.lock(shard_of(hash));
        let spare = shard.spare();
        let budget = &self.store.0.budget;
        let mut kept = Kept::read(from, &limits, budget, |at| self.check(at, spare))?;
        if part != tag::ENTRY {
            kept = kept.read_holds(part, from, budget, |at| self.check(at, spare))?;
        }
        self.entries += 1;
        if kept.is_expired(self.now) {
            self.restored.expired += 1;
            return Ok(());
        }
        let rehash = |bytes: &[u8], limits: &LimitSet| self.store.hash(bytes, limits);
        if !shard.restore(&Key::new(&self.text, hash), kept, &rehash) {
            return Err(SnapshotError::damaged(at, "a subject that has an entry already"));
        }
        let spare = shard.spare();
        drop(shard);
        self.restored.subjects += 1;
        self.check(at, spare)
    }

    /// Whether the store fits so far: nothing is left out for lack of room. `spare` bytes will be
    /// freed.
    fn check(&self, at: u64, spare: usize) -> Result<(), SnapshotError> {
        let held = self.store.bytes();
        if held.saturating_sub(spare) <= self.allowed {
            return Ok(());
        }
        let StoreText { bound, used, .. } = self.file;
        let own = self.store.0.budget.bound();
        let what = format!("the snapshot does not fit into the {own} bytes of this store");
        let (times, why) = match self.restored.receipts {
            true => (1, ""),
            false => (2, ", and with another hash it may take up to twice that"),
        };
        let enough = bound.max(used).saturating_mul(times);
        let remedy = format!(
            "the store that was saved held {used}{why}: give this one as many, by \
             `max_bytes({enough})` or `serve --memory {enough}`"
        );
        Err(SnapshotError::new(SnapshotFault::TooLarge, at, what, remedy))
    }

    fn end<R: Read>(
        self,
        mut from: ChunkReader<R>,
    ) -> Result<(MemoryStore, Restored), SnapshotError> {
        let at = from.at();
        self.close_shard(at)?;
        if from.u64()? != self.entries {
            return Err(SnapshotError::damaged(at, "there are not as many entries as it says"));
        }
        let bytes = from.end()?;
        Ok((self.store, Restored { bytes, ..self.restored }))
    }
}

/// A bound on the bytes of a text, far below 4 GiB.
fn most(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// True for the written form of a subject: the only form that is saved and can be looked up.
fn is_written_form(text: &str) -> bool {
    subject::is_plain(text) || Subject::parse(text).is_ok_and(|subject| subject.as_str() == text)
}
