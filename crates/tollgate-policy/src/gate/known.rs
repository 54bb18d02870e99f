//! The store's last answers about counts, for when it is away. The memory is bounded: the oldest
//! notes go first.

use core::mem::swap;

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use tollgate::Time;

/// The number of parts, each under its own lock.
const SHARDS: usize = 64;

/// The most notes of one generation of a part. A table of 4,096 buckets takes so many.
const GENERATION: usize = 3_584;

/// The units that remained of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// In units.
    pub(super) remaining: u64,
    /// When the count is fresh, if nothing more is charged.
    pub(super) until: Time,
}

/// The notes: at most 13 MiB, the newest 3,584 of each of 64 parts, and as many older ones.
#[derive(Debug)]
pub(super) struct RecentCounts(Box<[Mutex<Notes>]>);

/// The notes of one part. Notes that were taken stay in place as outdated ones: a table with
/// removed entries would grow.
#[derive(Debug, Default)]
pub(super) struct Notes {
    young: Table,
    old: Table,
}

type Table = HashMap<u64, Note, foldhash::fast::RandomState>;

/// Older than every time of a store.
const TAKEN: Note = Note { remaining: 0, until: Time::from_micros(0) };

impl RecentCounts {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// The notes of the part that this key belongs to.
    pub(super) fn lock(&self, key: u64) -> MutexGuard<'_, Notes> {
        #[allow(clippy::cast_possible_truncation)] // below 64
        let shard = (key >> 32) as usize % SHARDS;
        self.0[shard].lock()
    }
}

impl Notes {
    /// Notes something newer about a count.
    pub(super) fn put(&mut self, key: u64, note: Note) {
        if let Some(known) = self.young.get_mut(&key) {
            *known = note;
            return;
        }
        if self.young.len() == GENERATION {
            swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key, note);
    }

    /// The knowledge of a count, unless that is outdated or was taken.
    pub(super) fn take(&mut self, key: u64, now: Time) -> Option<Note> {
        let old = self.old.get_mut(&key).map(|note| core::mem::replace(note, TAKEN));
        let young = self.young.get_mut(&key).map(|note| core::mem::replace(note, TAKEN));
        young.or(old).filter(|note| note.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(remaining: u64, until: u64) -> Note {
        Note { remaining, until: Time::from_micros(until) }
    }

    #[test]
    fn the_newest_note_is_taken_once_and_until_its_time() {
        let mut notes = Notes::default();
        let now = Time::from_micros(10);
        notes.put(1, note(5, 20));
        notes.put(1, note(4, 30));
        assert_eq!(notes.take(1, now), Some(note(4, 30)));
        assert_eq!(notes.take(1, now), None);
        notes.put(1, note(3, 11));
        assert_eq!(notes.take(1, Time::from_micros(11)), None, "it is as fresh");
        assert_eq!(notes.take(2, now), None);
    }

    #[test]
    fn the_oldest_notes_go_and_the_tables_do_not_grow() {
        let mut notes = Notes::default();
        let now = Time::from_micros(10);
        for round in 0..20_u64 {
            for key in 0..GENERATION as u64 {
                notes.put(round * 10_000 + key, note(round, 20));
                let _ = notes.take(round * 10_000 + key / 2, now);
            }
        }
        assert!(notes.young.capacity() == GENERATION && notes.old.capacity() == GENERATION);
        let last = GENERATION as u64 - 1;
        assert_eq!(notes.take(19 * 10_000 + last, now), Some(note(19, 20)));
        assert_eq!(notes.take(18 * 10_000 + last, now), Some(note(18, 20)));
        assert_eq!(notes.take(17 * 10_000 + last, now), None);
        // A newer note hides one of an older generation.
        notes.put(18 * 10_000 + last - 1, note(7, 20));
        assert_eq!(notes.take(18 * 10_000 + last - 1, now), Some(note(7, 20)));
        assert_eq!(notes.take(18 * 10_000 + last - 1, now), None);
        let bucket = size_of::<(u64, Note)>() + 1;
        assert!(SHARDS * 2 * 4_096 * bucket <= 13 << 20);
    }
}
