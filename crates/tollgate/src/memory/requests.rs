//! The answers that counts remember under request ids.

use hashbrown::HashTable;

use super::state::Budget;
use crate::engine::{MAX_REPEATS, MAX_REQUESTS, Recalled, Remembered};
use crate::error::StoreError;
use crate::question::Question;

/// The most ids of one half.
const HALF: usize = MAX_REQUESTS / 2;

/// Up to so many ids stay until they are in the way, although they have expired.
const FEW: usize = 64;

/// A request id with its question, as one store's hash tells them apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The hash of the id below its last bytes, so that no two ids agree by chance.
    pub(super) id: u128,
    pub(super) until_us: u64,
    pub(super) question: [u8; 7],
    /// How often the answer was repeated.
    pub(super) repeats: u8,
}

/// The record under one id: 96 bytes for one limit.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) asked: Asked,
    pub(super) answer: Remembered,
}

/// One half of a count's ids.
#[derive(Debug, Default)]
struct Half {
    entries: HashTable<Entry>,
    /// The bytes that its answers over several limits allocate.
    beside: usize,
    /// When its last id expires.
    until_us: u64,
}

/// The ids of one count. They are in two halves by age, so that none is searched for the oldest:
/// when the younger half is full, the older one goes as a whole.
#[derive(Debug)]
struct Table {
    /// The hash of the count.
    count: u64,
    young: Half,
    old: Half,
}

/// The records of the counts of one shard.
#[derive(Debug, Default)]
pub(super) struct Requests {
    tables: HashTable<Box<Table>>,
    /// The bytes of all tables.
    bytes: usize,
}

#[allow(clippy::cast_possible_truncation)] // its lower half is the hash
fn hash_of(id: u128) -> u64 {
    id as u64
}

impl Half {
    fn find(&mut self, id: u128) -> Option<&mut Entry> {
        self.entries.find_mut(hash_of(id), |entry| entry.asked.id == id)
    }

    /// The answer under an id; `None` if it is unknown or has expired.
    fn recall(&mut self, asked: &Asked, now_us: u64) -> Result<Option<Recalled>, StoreError> {
        let Some(known) = self.find(asked.id).filter(|it| it.asked.until_us > now_us) else {
            return Ok(None);
        };
        if known.asked.question != asked.question {
            return Err(Question::of_other_question());
        }
        if u64::from(known.asked.repeats) < MAX_REPEATS {
            known.asked.repeats += 1;
            return Ok(Some(Recalled::Repeated(known.answer.outcome())));
        }
        known.asked.until_us = known.asked.until_us.max(asked.until_us);
        self.until_us = self.until_us.max(asked.until_us);
        Ok(Some(Recalled::Overused))
    }

    /// Whether another entry makes it allocate more.
    fn is_full(&self) -> bool {
        self.entries.len() == self.entries.capacity()
    }

    fn add(&mut self, entry: Entry) {
        self.until_us = self.until_us.max(entry.asked.until_us);
        self.beside += entry.answer.bytes_beside();
        let id = entry.asked.id;
        if let Some(known) = self.entries.find_mut(hash_of(id), |entry| entry.asked.id == id) {
            self.beside -= known.answer.bytes_beside();
            *known = entry;
            return;
        }
        self.entries.insert_unique(hash_of(id), entry, |entry| hash_of(entry.asked.id));
    }

    /// Forgets all, and keeps the memory. Returns the number of ids that go before their time.
    fn clear(&mut self, now_us: u64) -> u64 {
        let gone = self.unexpired(now_us);
        self.entries.clear();
        (self.beside, self.until_us) = (0, 0);
        gone
    }

    fn unexpired(&self, now_us: u64) -> u64 {
        if self.until_us <= now_us {
            return 0;
        }
        self.entries.iter().filter(|entry| entry.asked.until_us > now_us).count() as u64
    }

    fn bytes(&self) -> usize {
        self.entries.allocation_size() + self.beside
    }
}

impl Table {
    /// Makes the younger half the older one. Returns the number of ids that go before their time.
    fn turn(&mut self, now_us: u64) -> u64 {
        let gone = core::mem::replace(&mut self.old, core::mem::take(&mut self.young));
        gone.unexpired(now_us)
    }

    /// The same without more memory: the younger half takes that of the older one, or its own again
    /// where that has none.
    fn turn_in_place(&mut self, now_us: u64) -> u64 {
        if self.old.entries.capacity() > 0 {
            core::mem::swap(&mut self.young, &mut self.old);
        }
        self.young.clear(now_us)
    }

    fn until_us(&self) -> u64 {
        self.young.until_us.max(self.old.until_us)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.young.bytes() + self.old.bytes()
    }
}

impl Requests {
    /// The record under an id.
    pub(super) fn recall(
        &mut self,
        count: u64,
        asked: &Asked,
        now_us: u64,
    ) -> Result<Recalled, StoreError> {
        let Some(table) = self.tables.find_mut(count, |table| table.count == count) else {
            return Ok(Recalled::Unknown);
        };
        // An id that has expired in the younger half was remembered later than in the older one.
        let half =
            if table.young.find(asked.id).is_some() { &mut table.young } else { &mut table.old };
        Ok(half.recall(asked, now_us)?.unwrap_or(Recalled::Unknown))
    }

    /// Remembers an answer. Returns the number of ids that are forgotten before their time, itself
    /// included.
    pub(super) fn remember(
        &mut self,
        count: u64,
        entry: Entry,
        now_us: u64,
        budget: &Budget,
    ) -> u64 {
        let place = self.tables.find_entry(count, |table| table.count == count);
        let Ok(mut table) = place else {
            if self.tables.len() == self.tables.capacity() {
                self.sweep(now_us);
            }
            let grown = (self.tables.capacity() + 4) * size_of::<Box<Table>>();
            if !budget.has(size_of::<Table>() + 4 * size_of::<Entry>() + grown) {
                return 1;
            }
            let mut table = Box::new(Table { count, young: Half::default(), old: Half::default() });
            table.young.add(entry);
            self.bytes += table.bytes();
            self.tables.insert_unique(count, table, |table| table.count);
            return 0;
        };
        let table = table.get_mut();
        let before = table.bytes();
        let mut forgotten = 0;
        let young = table.young.entries.len();
        if young >= HALF || young >= FEW && table.old.until_us <= now_us {
            forgotten += table.turn(now_us);
        }
        // A store without room keeps only as many as it has memory for.
        let more = (table.young.entries.capacity() * 2).max(4) * size_of::<Entry>();
        if table.young.is_full() && !budget.has(more) {
            forgotten += table.turn_in_place(now_us);
        }
        table.young.add(entry);
        self.bytes = self.bytes + table.bytes() - before;
        forgotten
    }

    /// Forgets a count.
    pub(super) fn forget(&mut self, count: u64) {
        if let Ok(entry) = self.tables.find_entry(count, |table| table.count == count) {
            let (table, _) = entry.remove();
            self.bytes -= table.bytes();
        }
    }

    /// Drops the counts of which all ids have expired.
    pub(super) fn sweep(&mut self, now_us: u64) {
        let Self { tables, bytes } = self;
        tables.retain(|table| {
            let stays = table.until_us() > now_us;
            if !stays {
                *bytes -= table.bytes();
            }
            stays
        });
    }

    pub(super) fn shrink(&mut self) {
        self.tables.shrink_to_fit(|table| table.count);
    }

    pub(super) fn bytes(&self) -> usize {
        self.tables.allocation_size() + self.bytes
    }
}
