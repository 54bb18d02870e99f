//! A table of many keys, each with a number, whose texts lie in one block of memory.

use core::fmt;
use core::hash::BuildHasher as _;

type Hash = foldhash::fast::RandomState;

/// How many keys a bucket has on average.
const PER_BUCKET: usize = 4;

/// Into how many parts keys are sorted first, so that the buckets of one part fit into a cache.
const PARTS: usize = 256;

/// The bytes before the text of a key: its hash, its length and its number.
const HEAD: usize = 8;

/// Keys and their numbers, in buckets that lie one behind the other. A look-up reads one place of
/// the block: in a hash map of texts it would read three, each of which is in no cache when there
/// are a million. A key takes its bytes and 9 more.
#[derive(Clone)]
pub(crate) struct KeyTable {
    /// Where each bucket begins in the block, and where the last one ends.
    starts: Vec<u32>,
    block: Vec<u8>,
    len: usize,
    hash: Hash,
}

/// Keys in the order in which they were added.
#[derive(Default)]
pub(crate) struct Keys {
    block: Vec<u8>,
    len: usize,
    hash: Hash,
}

impl Keys {
    /// No keys yet, and room for so many bytes of them.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { block: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Adds a key of 1 to 65,535 bytes.
    pub(crate) fn push(&mut self, key: &str, number: u16) {
        let key = key.as_bytes();
        let hash = short(&self.hash, key);
        self.block.extend_from_slice(&Entry { hash, key, number }.head());
        self.block.extend_from_slice(key);
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The table of these keys. Of equal ones the first counts.
    pub(crate) fn into_table(self) -> KeyTable {
        let buckets = (self.len / PER_BUCKET).max(1).next_power_of_two();
        let each = buckets / buckets.min(PARTS);
        // Placed at once, each key would wait for a part of the memory of its own.
        let part = |entry: &Entry<'_>| entry.place(buckets) / each;
        let (_, parted, _) = scatter(&self.block, buckets / each, part, false);
        drop(self.block);
        let (starts, block, len) = scatter(&parted, buckets, |entry| entry.place(buckets), true);
        KeyTable { starts, block, len, hash: self.hash }
    }
}

impl KeyTable {
    /// The number of a key.
    #[inline]
    pub(crate) fn get(&self, key: &str) -> Option<u16> {
        let key = key.as_bytes();
        let wanted = Entry { hash: short(&self.hash, key), key, number: 0 };
        let bucket = wanted.place(self.starts.len() - 1);
        let (start, end) = (*self.starts.get(bucket)?, *self.starts.get(bucket + 1)?);
        let bytes = self.block.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        Entries(bytes).find(|entry| entry.is(&wanted)).map(|entry| entry.number)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The better mixed half of a hash.
#[inline]
fn short(hash: &Hash, key: &[u8]) -> u32 {
    u32::try_from(hash.hash_one(key) >> 32).unwrap_or(0)
}

/// Sorts keys into buckets: where each begins in the block, the block, and how many keys it has.
/// With `once` a key that its bucket has already is left out, and zeros end the bucket.
fn scatter(
    keys: &[u8],
    buckets: usize,
    bucket_of: impl Fn(&Entry<'_>) -> usize,
    once: bool,
) -> (Vec<u32>, Vec<u8>, usize) {
    let at = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
    let mut starts = vec![0_u32; buckets + 1];
    for entry in Entries(keys) {
        if let Some(end) = starts.get_mut(bucket_of(&entry) + 1) {
            *end = end.saturating_add(entry.bytes());
        }
    }
    let mut sum = 0_u32;
    for start in &mut starts {
        sum = sum.saturating_add(*start);
        *start = sum;
    }
    let mut block = vec![0; at(sum)];
    let mut ends = starts.clone();
    let mut len = 0;
    for entry in Entries(keys) {
        let bucket = bucket_of(&entry);
        let (Some(start), Some(end)) = (starts.get(bucket), ends.get_mut(bucket)) else { continue };
        let is_there = |bytes| Entries(bytes).any(|other| other.is(&entry));
        if once && block.get(at(*start)..at(*end)).is_some_and(is_there) {
            continue;
        }
        let until = end.saturating_add(entry.bytes());
        if let Some(room) = block.get_mut(at(*end)..at(until)) {
            let (head, text) = room.split_at_mut(HEAD);
            head.copy_from_slice(&entry.head());
            text.copy_from_slice(entry.key);
            *end = until;
            len += 1;
        }
    }
    (starts, block, len)
}

/// A key in a block.
#[derive(Clone, Copy)]
struct Entry<'b> {
    hash: u32,
    key: &'b [u8],
    number: u16,
}

impl Entry<'_> {
    /// The bytes before its text.
    #[inline]
    fn head(&self) -> [u8; HEAD] {
        let len = u64::try_from(self.key.len()).unwrap_or(0) & u64::from(u16::MAX);
        (u64::from(self.hash) | len << 32 | u64::from(self.number) << 48).to_le_bytes()
    }

    /// The bytes that it takes.
    #[inline]
    fn bytes(&self) -> u32 {
        u32::try_from(HEAD + self.key.len()).unwrap_or(u32::MAX)
    }

    /// Its bucket among so many, a power of two.
    #[inline]
    fn place(&self, buckets: usize) -> usize {
        usize::try_from(self.hash).unwrap_or(0) & (buckets - 1)
    }

    #[inline]
    fn is(&self, other: &Entry<'_>) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

/// The entries of a block or of a bucket. A length of zero ends them.
struct Entries<'b>(&'b [u8]);

impl<'b> Iterator for Entries<'b> {
    type Item = Entry<'b>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<HEAD>()?;
        let [a, b, c, d, e, f, g, h] = *head;
        let len = usize::from(u16::from_le_bytes([e, f]));
        let (key, rest) = rest.split_at_checked(len).filter(|_| len > 0)?;
        self.0 = rest;
        let (hash, number) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([g, h]));
        Some(Entry { hash, key, number })
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_with_its_number_and_no_other_is() {
        for count in [0, 1, 3, 5_000] {
            let (mut keys, number) = (Keys::with_room(0), |n: u32| u16::try_from(n % 700).unwrap());
            (0..count).for_each(|n| keys.push(&format!("key-{n}"), number(n)));
            // Each a second time, with another number.
            (0..count).for_each(|n| keys.push(&format!("key-{n}"), 9_999));
            let (added, table) = (keys.len(), keys.into_table());
            assert_eq!(table.len() * 2, added);
            for n in 0..count {
                assert_eq!(table.get(&format!("key-{n}")), Some(number(n)), "{n}");
            }
            for none in ["", "key-", "key-5000", "key-0key-1", "ey-1", "\0"] {
                assert_eq!(table.get(none), None, "{none}");
            }
        }
    }
}
