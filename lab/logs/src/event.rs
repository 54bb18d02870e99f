//! An event (time, client, cost and line) in 24 bytes, and the table that assigns each client a
//! small number.

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

/// One request of the log: its time, its client, its cost and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// Microseconds since the Unix epoch, below [`crate::time::END_US`].
    pub at_us: u64,
    /// The client of the request, by the `--by` field.
    pub client: ClientId,
    /// The cost in units: at least 1, and 1 unless a field of the log has the costs.
    pub cost: u32,
    /// The number of its line, from 1; 0 for an event of no log, `u32::MAX` for that line and all
    /// after it.
    pub line: u32,
}

impl Event {
    /// An event of `client` at `at_us` microseconds since the Unix epoch: of cost 1 and of no log.
    #[must_use]
    pub const fn new(at_us: u64, client: ClientId) -> Self {
        Self { at_us, client, cost: 1, line: 0 }
    }

    /// The same event with this cost; 0 becomes 1, since nothing is free.
    #[must_use]
    pub const fn with_cost(mut self, cost: u32) -> Self {
        self.cost = if cost == 0 { 1 } else { cost };
        self
    }

    /// The same event on the line with this number.
    #[must_use]
    pub const fn on_line(mut self, line: u32) -> Self {
        self.line = line;
        self
    }

    /// The same event at another time.
    #[must_use]
    pub const fn at(mut self, at_us: u64) -> Self {
        self.at_us = at_us;
        self
    }
}

/// The position of a client's name in the arena, and its hash (stored, so that growing the table
/// reads no names).
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    hash: u64,
    /// A hash that is the same in every process, by which clients are sampled.
    sample: u32,
}

/// All distinct clients of a log. Names are stored once, end to end. A client takes its name plus
/// about 35 bytes, so memory grows with the number of clients and not with the log.
#[derive(Default)]
pub struct Clients {
    hasher: RandomState,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    /// Of every `1 << halvings` clients one is in the sample: those whose sample hash ends in that
    /// many zeros.
    halvings: u32,
    /// The clients in the sample.
    sampled: usize,
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
        match self.find(name, hash) {
            Some(id) => Ok(id),
            None => self.insert(name, hash, sample_hash(name)),
        }
    }

    /// The number of this client if it is in a sample of at most `max` clients. Once there are
    /// more, the sample is halved: those left keep their numbers, and were seen from their first
    /// event on. The sample depends on the names alone, not on the order of the events.
    ///
    /// # Errors
    /// As [`Self::intern`].
    pub(crate) fn intern_sampled(
        &mut self,
        name: &[u8],
        max: usize,
    ) -> Result<Option<ClientId>, Error> {
        let hash = self.hasher.hash_one(name);
        if let Some(id) = self.find(name, hash) {
            return Ok(Some(id).filter(|id| self.is_sampled(*id)));
        }
        let sample = sample_hash(name);
        if !is_in(sample, self.halvings) {
            return Ok(None);
        }
        let id = self.insert(name, hash, sample)?;
        while self.sampled > max && self.halvings < u32::BITS {
            self.halvings += 1;
            let halvings = self.halvings;
            self.sampled = self.entries.iter().filter(|it| is_in(it.sample, halvings)).count();
        }
        Ok(Some(id).filter(|id| self.is_sampled(*id)))
    }

    /// Whether this client is in the sample, as all are without one.
    pub(crate) fn is_sampled(&self, id: ClientId) -> bool {
        self.entries.get(id.0 as usize).is_some_and(|it| is_in(it.sample, self.halvings))
    }

    /// The number of clients for each one in the sample: 1 without one, else a power of two.
    #[must_use]
    pub const fn one_in(&self) -> u64 {
        1 << self.halvings
    }

    fn find(&self, name: &[u8], hash: u64) -> Option<ClientId> {
        let (entries, arena) = (&self.entries, &self.arena);
        let same = |&id: &u32| {
            entries[id as usize].hash == hash && slice(entries, arena, id as usize) == name
        };
        self.table.find(hash, same).map(|&id| ClientId(id))
    }

    fn insert(&mut self, name: &[u8], hash: u64, sample: u32) -> Result<ClientId, Error> {
        let id = u32::try_from(self.entries.len())
            .ok()
            .filter(|&id| u64::from(id) < Self::MAX)
            .ok_or(Error::TooManyClients { max: Self::MAX })?;
        self.entries.push(Entry { start: self.arena.len(), hash, sample });
        self.sampled += 1;
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

    /// The numbers of all clients.
    pub fn ids(&self) -> impl Iterator<Item = ClientId> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(ClientId)
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

/// FNV-1a with a last mix, since its low bits are those that decide.
fn sample_hash(name: &[u8]) -> u32 {
    let fnv = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u32::try_from(mixed >> 32).unwrap_or(0)
}

fn is_in(sample: u32, halvings: u32) -> bool {
    sample.trailing_zeros() >= halvings
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
    fn an_event_takes_24_bytes() {
        assert_eq!(size_of::<Event>(), 24);
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
        assert_eq!(clients.one_in(), 1);
    }

    #[test]
    fn a_sample_is_the_same_whatever_the_order_and_about_as_large_as_it_may_be() {
        let names: Vec<Vec<u8>> = (0..9_000_u32).map(|n| n.to_string().into_bytes()).collect();
        let sample = |names: &mut dyn Iterator<Item = &Vec<u8>>| {
            let mut clients = Clients::new();
            for name in names {
                clients.intern_sampled(name, 1_000).unwrap();
            }
            let ids = (0..clients.len()).map(|id| ClientId::new(u32::try_from(id).unwrap()));
            let kept = ids.filter(|id| clients.is_sampled(*id));
            let mut kept: Vec<_> = kept.map(|id| clients.name(id).unwrap().to_vec()).collect();
            kept.sort_unstable();
            (kept, clients.one_in(), clients.len())
        };
        let (kept, one_in, held) = sample(&mut names.iter());
        assert_eq!(one_in, 16, "a sixteenth of 9,000 is the first below 1,000");
        assert!((450..680).contains(&kept.len()), "{}", kept.len());
        assert!(held < 4_000, "those outside of the sample are not held: {held}");
        let (reversed, ..) = sample(&mut names.iter().rev().chain(&names));
        assert_eq!(kept, reversed);
        let (all, one_in, _) = sample(&mut names[..1_000].iter());
        assert_eq!((all.len(), one_in), (1_000, 1));
    }
}
