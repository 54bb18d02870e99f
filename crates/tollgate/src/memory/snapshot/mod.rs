//! Snapshots of a memory store: saved before the process ends, restored by the next one.
//!
//! `docs/memory.md` specifies the format. [`chunks`] frames it in checked pieces, and
//! `shard/saved.rs` writes and reads the contents of a shard. The rest is here and in [`restore`].

use std::collections::HashMap;
use std::io::Write;

use parking_lot::MutexGuard;

use super::hash::SHARDS;
use super::shard::Shard;
use super::store::MemoryStore;
use crate::notice::Board;
use crate::time::Time;

mod chunks;
mod cost;
mod crc;
mod error;
mod restore;
pub(super) mod tag;
#[cfg(test)]
mod tests;

pub(super) use chunks::{ChunkReader, ChunkWriter};
pub(super) use cost::{read_cost, write_cost};
pub use error::{SnapshotError, SnapshotFault};
pub use restore::Restored;

/// The contents of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The store's time of the snapshot.
    pub at: Time,
    /// The number of subjects with a separate entry.
    pub subjects: u64,
    /// The number of states that new subjects share for lack of room.
    pub shared: u64,
    /// The number of bytes written.
    pub bytes: u64,
}

impl MemoryStore {
    /// Writes every count that still matters to `to`, for [`MemoryStoreBuilder::restore`]. A
    /// restart then does not reset any limit. Expired entries are removed first.
    ///
    /// All shards are locked during the write, and checks wait. The snapshot shows the store at one
    /// moment: it contains a check over several subjects in full or not at all. (A refund in
    /// progress may be recorded before it has returned anything.) So save after the last check was
    /// answered, or when a wait does no harm. Saving takes 64 KiB of memory and a list of the limit
    /// sets in use.
    ///
    /// A snapshot contains the subjects in clear text: set the file's permissions accordingly.
    /// Write to a new file, then rename it. An incomplete snapshot is rejected.
    ///
    /// ```
    /// use tollgate::{Limiter, MemoryStore};
    ///
    /// let limiter = Limiter::new("1/h".parse()?, MemoryStore::new());
    /// assert!(limiter.check("user:42").now()?.is_allowed());
    /// let mut file = Vec::new();
    /// let saved = limiter.store().save(&mut file)?;
    /// assert_eq!((saved.subjects, saved.bytes), (1, file.len() as u64));
    ///
    /// // After the restart:
    /// let (store, restored) = MemoryStore::builder().restore(&file[..])?;
    /// assert_eq!(restored.subjects, 1);
    /// let limiter = Limiter::new("1/h".parse()?, store);
    /// assert!(!limiter.check("user:42").now()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`MemoryStoreBuilder::restore`]: crate::MemoryStoreBuilder::restore
    ///
    /// # Errors
    /// `to` could not be written. The counts are unchanged.
    pub fn save(&self, to: impl Write) -> Result<Saved, SnapshotError> {
        // Locked in the same order as a check locks several shards.
        let mut shards: Vec<MutexGuard<'_, Shard>> = (0..SHARDS).map(|i| self.lock(i)).collect();
        let at = self.0.clock.now();
        let charges = shards.iter().map(|shard| shard.charges()).max().unwrap_or(0);
        for shard in &mut shards {
            // One number then separates later charges, in every shard.
            shard.number_after(charges);
        }
        let mut out = ChunkWriter::begin(to)?;
        self.write_store(at, charges, &mut out)?;
        write_notices(&self.0.board.lock(), at, &mut out)?;
        let numbers = write_sets(&shards, &mut out)?;
        let (mut subjects, mut shared) = (0, 0);
        for (index, shard) in (0..).zip(&mut shards) {
            // Swept just before it is written, while the shard is in the processor's cache.
            // Sweeping all shards first took longer than the rest of the snapshot.
            shard.sweep(at);
            shard.write(index, &numbers, &mut out)?;
            subjects += shard.len() as u64;
            shared += shard.shared() as u64;
        }
        out.put(&[tag::END])?;
        out.put(&subjects.to_le_bytes())?;
        Ok(Saved { at, subjects, shared, bytes: out.end()? })
    }

    fn write_store<W: Write>(
        &self,
        at: Time,
        charges: u64,
        out: &mut ChunkWriter<W>,
    ) -> Result<(), SnapshotError> {
        let budget = &self.0.budget;
        let hash = self.0.hash.text();
        out.put(&[tag::STORE])?;
        for number in [
            at.as_micros(),
            budget.bound() as u64,
            budget.used() as u64,
            self.0.identity,
            charges,
            SHARDS as u64,
            u64::from(hash.kind),
            hash.seeds[0],
            hash.seeds[1],
            hash.probe,
        ] {
            out.put(&number.to_le_bytes())?;
        }
        for ancestor in &self.0.ancestors {
            out.put(&[tag::ANCESTOR])?;
            out.put(&ancestor.identity.to_le_bytes())?;
            out.put(&ancestor.charges.to_le_bytes())?;
        }
        Ok(())
    }
}

fn write_notices<W: Write>(
    board: &Board,
    at: Time,
    out: &mut ChunkWriter<W>,
) -> Result<(), SnapshotError> {
    if board.version() == 0 {
        return Ok(());
    }
    out.put(&[tag::NOTICES])?;
    out.put(&board.version().to_le_bytes())?;
    for (name, text, until) in board.lasting(at) {
        out.put(&[tag::NOTICE])?;
        put_text(out, name)?;
        put_text(out, text)?;
        out.put(&until.as_micros().to_le_bytes())?;
    }
    Ok(())
}

/// Writes each limit set once. Returns their numbers by serial.
fn write_sets<W: Write>(
    shards: &[MutexGuard<'_, Shard>],
    out: &mut ChunkWriter<W>,
) -> Result<HashMap<u64, u32>, SnapshotError> {
    let mut numbers = HashMap::new();
    // Sets parsed again count the same under another serial.
    let mut same: HashMap<(&str, &str), u32> = HashMap::new();
    for limits in shards.iter().flat_map(|shard| shard.sets()) {
        if numbers.contains_key(&limits.serial()) {
            continue;
        }
        let texts = (limits.identity(), limits.full_text());
        // Cannot overflow: there are at most 2^25 sets.
        let next = u32::try_from(same.len()).unwrap_or(u32::MAX);
        let number = *same.entry(texts).or_insert(next);
        numbers.insert(limits.serial(), number);
        if number < next {
            continue;
        }
        out.put(&[tag::SET])?;
        put_text(out, texts.0)?;
        put_text(out, texts.1)?;
    }
    Ok(numbers)
}

fn put_text<W: Write>(out: &mut ChunkWriter<W>, text: &str) -> Result<(), SnapshotError> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.put(&length.to_le_bytes())?;
    out.put(text.as_bytes())
}
