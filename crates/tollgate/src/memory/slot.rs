//! A subject's entry in a shard's table, and the key that finds it.

/// The longest subject that a slot stores inline, in bytes.
const SHORT_KEY_BYTES: usize = 16;

/// A subject's entry: 36 bytes. A table at the worst point of its growth (16/7 buckets per entry,
/// one control byte each) takes 85 bytes per subject, including its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The subject's bytes. For a longer subject, 8 bytes of its hash and its index in `long_keys`.
    pub(super) key: [u8; SHORT_KEY_BYTES],
    /// Two words, or the index of the state in `large`.
    pub(super) state: [u32; 4],
    /// Bits 0-4: the length of the key, or `LONG`. Bit 5: the state is in `large`. Bit 6: the key
    /// contains no `,` and no `%`. Bit 7: the count may have open holds. The bits above: the index
    /// of the set.
    pub(super) meta: u32,
}

pub(super) const KEY_BITS: u32 = 31;
pub(super) const LONG: u32 = 31;
pub(super) const LARGE: u32 = 1 << 5;
/// The key means the same as literal text and as a written form, so text that equals it need not be
/// parsed.
pub(super) const PLAIN: u32 = 1 << 6;
/// The count may have open holds, which its large state keeps. The fast path knows none.
pub(super) const HELD: u32 = 1 << 7;
pub(super) const SET_SHIFT: u32 = 8;

/// The bits for the index of a set, above `SET_SHIFT`: they bound the sets of one shard.
pub(super) const SET_BITS: u32 = 24;
pub(super) const MAX_SETS: usize = 1 << SET_BITS;

impl Slot {
    pub(super) fn set(&self) -> usize {
        (self.meta >> SET_SHIFT) as usize
    }

    pub(super) fn is_large(&self) -> bool {
        self.meta & LARGE != 0
    }

    pub(super) fn set_held(&mut self, is_held: bool) {
        self.meta = if is_held { self.meta | HELD } else { self.meta & !HELD };
    }

    pub(super) fn index(&self) -> usize {
        self.state[0] as usize
    }

    pub(super) fn long_key(&self) -> usize {
        let [.., a, b, c, d] = self.key;
        // Cannot overflow: a shard with 2^32 keys would not fit into memory.
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    pub(super) fn set_long_key(&mut self, place: u32) {
        self.key[12..].copy_from_slice(&place.to_le_bytes());
    }

    #[inline]
    pub(super) fn pair(&self) -> [u64; 2] {
        let [a, b, c, d] = self.state;
        [u64::from(a) | u64::from(b) << 32, u64::from(c) | u64::from(d) << 32]
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the two halves of each word
    pub(super) fn set_pair(&mut self, words: [u64; 2]) {
        let [x, y] = words;
        self.state = [x as u32, (x >> 32) as u32, y as u32, (y >> 32) as u32];
    }
}

/// The bytes of a subject, in the form that a slot compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) short: [u8; SHORT_KEY_BYTES],
    pub(super) length: u32,
    pub(super) hash: u64,
}

impl<'a> Key<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], hash: u64) -> Self {
        // The first and the last bytes overlap, and agree where they do. This stays in registers: a
        // copy of variable length is a call, and a wide read of data that was written in pieces
        // stalls the processor.
        if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
            && let Ok(length @ ..=16) = u32::try_from(bytes.len())
        {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            let short = u128::from(first) | u128::from(last) << (8 * length - u64::BITS);
            return Self { bytes, short: short.to_le_bytes(), length, hash };
        }
        Self::odd(bytes, hash)
    }

    /// As above for fewer than 8 bytes, and for more than a slot stores inline.
    #[inline(never)]
    fn odd(bytes: &'a [u8], hash: u64) -> Self {
        let mut short = [0; SHORT_KEY_BYTES];
        let length = if let Some(part) = short.get_mut(..bytes.len()) {
            part.copy_from_slice(bytes);
            u32::try_from(bytes.len()).unwrap_or(LONG)
        } else {
            short[..8].copy_from_slice(&hash.to_le_bytes());
            LONG
        };
        Self { bytes, short, length, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_their_bytes_with_zeros_behind() {
        let text: Vec<u8> = (1..=20).map(|byte| byte | 0xe0).collect();
        for length in 0..=text.len() {
            let bytes = text.get(..length).unwrap();
            let key = Key::new(bytes, 0x0807_0605_0403_0201);
            let mut held = bytes.to_vec();
            if length > SHORT_KEY_BYTES {
                held = (1..=8).collect();
            }
            held.resize(SHORT_KEY_BYTES, 0);
            let expected = if length > SHORT_KEY_BYTES { LONG as usize } else { length };
            assert_eq!((key.length as usize, key.short.to_vec()), (expected, held));
        }
    }
}
