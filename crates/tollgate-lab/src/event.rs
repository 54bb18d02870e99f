//! An event (who, when) in 16 bytes, and the table that gives every client a small number.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::Error;
use crate::text;

/// The number of a client in its [`Clients`] table, given in the order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u32);

impl ClientId {
    /// The id with this index. Only the table that counted so far knows its name.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index, from 0 without gaps: good for a `Vec` with one entry per client.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// One request of the log: when, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// Microseconds since the Unix epoch, below [`crate::time::END_US`].
    pub at_us: u64,
    /// Whose request it is, by the `--by` field.
    pub client: ClientId,
}

impl Event {
    /// An event of `client` at `at_us` microseconds since the Unix epoch.
    #[must_use]
    pub const fn new(at_us: u64, client: ClientId) -> Self {
        Self { at_us, client }
    }
}

/// Where a client's name lies in the arena, and its hash (kept, so that growing reads no names).
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    hash: u64,
}

/// Every distinct client of a log. Names are kept once, end to end: a client costs its name plus
/// about 25 bytes, so the memory grows with the number of clients and not with the log.
#[derive(Default)]
pub struct Clients {
    hasher: RandomState,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
}

impl Clients {
    /// The most clients a table holds.
    pub const MAX: u64 = u32::MAX as u64;

    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of this client, a new one if it was never seen.
    ///
    /// # Errors
    /// [`Error::TooManyClients`] beyond [`Clients::MAX`].
    pub fn intern(&mut self, name: &[u8]) -> Result<ClientId, Error> {
        let hash = self.hasher.hash_one(name);
        let (entries, arena) = (&self.entries, &self.arena);
        let same = |&id: &u32| {
            entries[id as usize].hash == hash && slice(entries, arena, id as usize) == name
        };
        if let Some(&id) = self.table.find(hash, same) {
            return Ok(ClientId(id));
        }
        let id = u32::try_from(self.entries.len())
            .ok()
            .filter(|&id| u64::from(id) < Self::MAX)
            .ok_or(Error::TooManyClients { max: Self::MAX })?;
        self.entries.push(Entry { start: self.arena.len(), hash });
        self.arena.extend_from_slice(name);
        let entries = &self.entries;
        self.table.insert_unique(hash, id, |&id| entries[id as usize].hash);
        Ok(ClientId(id))
    }

    /// The name as it stood in the log, byte for byte; none for an id of another table.
    #[must_use]
    pub fn name(&self, id: ClientId) -> Option<&[u8]> {
        let index = id.0 as usize;
        (index < self.entries.len()).then(|| slice(&self.entries, &self.arena, index))
    }

    /// The name made printable on one line: bytes that are not printable text become `\xNN`.
    #[must_use]
    pub fn printable(&self, id: ClientId) -> Option<String> {
        self.name(id).map(|name| text::printable(name, usize::MAX))
    }

    /// How many distinct clients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when no client was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The name of entry `index`: from its start to the start of the next one.
fn slice<'a>(entries: &[Entry], arena: &'a [u8], index: usize) -> &'a [u8] {
    let end = entries.get(index + 1).map_or(arena.len(), |next| next.start);
    &arena[entries[index].start..end]
}

/// Names of clients are personal data: a debug print says how many, not who.
impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_takes_16_bytes() {
        assert_eq!(size_of::<Event>(), 16);
    }

    #[test]
    fn the_same_name_gets_the_same_number_and_names_come_back() {
        let mut clients = Clients::new();
        let names: Vec<Vec<u8>> = (0..5_000_u32)
            .map(|n| n.to_string().into_bytes())
            .chain([vec![], vec![0xff]])
            .collect();
        let ids: Vec<ClientId> = names.iter().map(|n| clients.intern(n).unwrap()).collect();
        for (index, (name, id)) in names.iter().zip(&ids).enumerate() {
            assert_eq!(id.index() as usize, index);
            assert_eq!(clients.intern(name).unwrap(), *id);
            assert_eq!(clients.name(*id), Some(name.as_slice()));
        }
        assert_eq!(clients.len(), names.len());
        assert_eq!(clients.name(ClientId::new(5_002)), None);
        assert_eq!(clients.printable(ids[5_001]).unwrap(), "\\xff");
    }
}
