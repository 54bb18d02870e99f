//! A subject's entry in a shard's table, and the key that finds it.

/// The longest subject that a slot holds itself, in bytes.
const SHORT_KEY_BYTES: usize = 16;

/// A subject's entry: 36 bytes, so that a table at the worst point of its growth (16/7 buckets an
/// entry, one control byte each) takes 85 bytes for a subject, its key within.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The subject's bytes, or for a longer one 8 bytes of its hash and its place in `long_keys`.
    pub(super) key: [u8; SHORT_KEY_BYTES],
    /// Two words, or the place of the state in `large`.
    pub(super) state: [u32; 4],
    /// Bits 0-4: the length of the key, or `LONG`; bit 5: the state is in `large`; bit 6: the key
    /// has no `,` and no `%`; above: the set.
    pub(super) meta: u32,
}

pub(super) const KEY_BITS: u32 = 31;
pub(super) const LONG: u32 = 31;
pub(super) const LARGE: u32 = 1 << 5;
/// The key means the same as literal text and as a written form: text that equals it needs no
/// look of its own.
pub(super) const PLAIN: u32 = 1 << 6;
pub(super) const SET_SHIFT: u32 = 7;

/// The most sets in one shard: what the bits above `SET_SHIFT` hold.
pub(super) const SET_BITS: u32 = 25;
pub(super) const MAX_SETS: usize = 1 << SET_BITS;

impl Slot {
    pub(super) fn set(&self) -> usize {
        (self.meta >> SET_SHIFT) as usize
    }

    pub(super) fn is_large(&self) -> bool {
        self.meta & LARGE != 0
    }

    pub(super) fn index(&self) -> usize {
        self.state[0] as usize
    }

    pub(super) fn long_key(&self) -> usize {
        let [.., a, b, c, d] = self.key;
        // A shard never holds 2^32 keys: they would not fit into memory.
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

/// The bytes of a subject, as a slot compares them.
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
        let (short, length) = match short(bytes) {
            Some(short) => (short, u32::try_from(bytes.len()).unwrap_or(LONG)),
            None => {
                let mut short = [0; SHORT_KEY_BYTES];
                short[..8].copy_from_slice(&hash.to_le_bytes());
                (short, LONG)
            }
        };
        Self { bytes, short, length, hash }
    }
}

/// Up to 16 bytes, with zeros behind them; none for more. Put together in registers: a copy of a
/// length that only the run knows is a call, and reading as a whole what it wrote in pieces stalls
/// the processor.
#[inline]
fn short(bytes: &[u8]) -> Option<[u8; SHORT_KEY_BYTES]> {
    let length = u32::try_from(bytes.len()).ok()?;
    // The first and the last bytes overlap, and agree where they do.
    let room = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let past = length - u64::BITS / 8;
        if past > 8 {
            return None;
        }
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (8 * past)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let past = length - u32::BITS / 8;
        u128::from(u32::from_le_bytes(*first)) | u128::from(u32::from_le_bytes(*last)) << (8 * past)
    } else {
        bytes.iter().rev().fold(0, |room, byte| room << 8 | u128::from(*byte))
    };
    Some(room.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_their_bytes_with_zeros_behind() {
        let text: Vec<u8> = (1..=20).map(|byte| byte | 0xe0).collect();
        for length in 0..=text.len() {
            let bytes = text.get(..length).unwrap();
            let mut padded = bytes.to_vec();
            padded.resize(SHORT_KEY_BYTES.max(length), 0);
            assert_eq!(short(bytes).map(Vec::from), (length <= 16).then_some(padded), "{length}");
            let key = Key::new(bytes, 0x0807_0605_0403_0201);
            if length <= 16 {
                assert_eq!((key.length as usize, Some(key.short)), (length, short(bytes)));
            } else {
                assert_eq!((key.length, key.short[..8].to_vec()), (LONG, (1..=8).collect()));
            }
        }
    }
}
