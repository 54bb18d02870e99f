//! An event (client and time) in 16 bytes, and the table that assigns each client a small number.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::Error;
use crate::text;

/// The number of a client in its [`Clients`] table, assigned in the order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u32);

impl ClientId {
    /// The id with this index. Only the table that assigned it knows its name.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index, from 0 without gaps, for a `Vec` with one entry per client.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// One request of the log: its time and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// Microseconds since the Unix epoch, below [`crate::time::END_US`].
    pub at_us: u64,
    /// The client of the request, by the `--by` field.
    pub client: ClientId,
}

impl Event {
    /// An event of `client` at `at_us` microseconds since the Unix epoch.
    #[must_use]
    pub const fn new(at_us: u64, client: ClientId) -> Self {
        Self { at_us, client }
    }
}

/// The position of a client's name in the arena, and its hash (stored, so that growing the table
/// reads no names).
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    hash: u64,
}

/// All distinct clients of a log. Names are stored once, end to end. A client takes its name plus
/// about 25 bytes, so memory grows with the number of clients and not with the log.
#[derive(Default)]
pub struct Clients {
    hasher: RandomState,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
}

impl Clients {
    /// The most clients in a table.
    pub const MAX: u64 = u32::MAX as u64;

    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of this client; a new client gets the next number.
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

    /// The name as in the log, byte for byte; `None` for an id of another table.
    #[must_use]
    pub fn name(&self, id: ClientId) -> Option<&[u8]> {
        let index = id.0 as usize;
        (index < self.entries.len()).then(|| slice(&self.entries, &self.arena, index))
    }

    /// The name in printable form, on one line: bytes that are not printable text become `\xNN`.
    #[must_use]
    pub fn printable(&self, id: ClientId) -> Option<String> {
        self.name(id).map(|name| text::printable(name, usize::MAX))
    }

    /// The number of distinct clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table has no client.
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

/// Names of clients are personal data: the debug form shows their number, not the names.
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
