//! IPv4 addresses as text, a part of most subjects.
//!
//! `Display` is not used: it pads through a separate buffer. Here a text is assembled in registers,
//! without a branch on a digit that the processor would mispredict, and written once.

use std::net::Ipv4Addr;

use compact_str::CompactString;

/// The start of a text: at most 8 ASCII bytes, the first one in the lowest byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Start {
    text: u64,
    bits: u32,
}

impl Start {
    /// `None` for a longer text, and for one that is not all ASCII.
    pub(crate) const fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut start = Self { text: 0, bits: 0 };
        while (start.bits as usize) < 8 * bytes.len() {
            let byte = bytes[start.bits as usize / 8];
            if start.bits == u64::BITS || !byte.is_ascii() {
                return None;
            }
            start.text |= (byte as u64) << start.bits;
            start.bits += 8;
        }
        Some(start)
    }

    /// This start followed by the address, such as `ip:192.0.2.7`.
    #[inline]
    pub(crate) fn with(self, address: Ipv4Addr) -> CompactString {
        let [a, b, c, d] = address.octets();
        let ((first, first_bits), (last, last_bits)) = (two(a, b), two(c, d));
        let text = u128::from(first) | u128::from(last) << first_bits;
        let mut room = [0; 24];
        let (low, high) = room.split_at_mut(16);
        low.copy_from_slice(&(u128::from(self.text) | text << self.bits).to_le_bytes());
        // In two shifts, since a shift by the full width is not defined.
        let rest = (text >> 64 >> (u64::BITS - self.bits)) as u64;
        high.copy_from_slice(&rest.to_le_bytes());
        // Without the last dot.
        let length = (self.bits + first_bits + last_bits) as usize / 8 - 1;
        // All bytes of the buffer are ASCII. Longer texts are checked a word at a time.
        let text = core::str::from_utf8(&room).ok().and_then(|room| room.get(..length));
        CompactString::new(text.unwrap_or_default())
    }
}

/// An address as text, for the crates of this project: it is on the path of every request.
#[doc(hidden)]
#[must_use]
#[inline]
pub fn ipv4_text(address: Ipv4Addr) -> CompactString {
    Start::default().with(address)
}

/// Two octets as text, each followed by a dot, and the length in bits.
#[inline]
fn two(first: u8, second: u8) -> (u64, u32) {
    let (first, second) = (&OCTETS[usize::from(first)], &OCTETS[usize::from(second)]);
    (u64::from(first.0) | u64::from(second.0) << first.1, first.1 + second.1)
}

/// Each octet as text followed by a dot, and the length in bits.
static OCTETS: [(u32, u32); 256] = {
    let mut octets = [(0, 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let (mut text, mut bits, mut place) = (0, 0, 100);
        while place > 0 {
            if octet >= place || place == 1 {
                text |= (b'0' as u32 + octet / place % 10) << bits;
                bits += 8;
            }
            place /= 10;
        }
        octets[octet as usize] = (text | (b'.' as u32) << bits, bits + 8);
        octet += 1;
    }
    octets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_the_standard_library_does() {
        // A step that changes all octets, and such as have halves of different lengths.
        let odd = [[1, 2, 100, 200], [100, 200, 1, 2], [0, 0, 255, 255], [10, 0, 0, 1]];
        let odd = odd.map(Ipv4Addr::from).into_iter().chain([Ipv4Addr::BROADCAST]);
        for address in (0..=u32::MAX).step_by(64_969).map(Ipv4Addr::from).chain(odd) {
            assert_eq!(ipv4_text(address).as_str(), address.to_string());
            for start in ["i", "ip:", "client:", "12345678"] {
                let text = Start::new(start).unwrap().with(address);
                assert_eq!(text.as_str(), format!("{start}{address}"));
            }
        }
        assert!(Start::new("123456789").is_none() && Start::new("\u{e9}").is_none());
    }
}
