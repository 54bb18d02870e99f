//! The slot of a key on a cluster.

use crate::slots::SLOTS;

/// The polynomial of CRC-16/XMODEM, by which Redis Cluster hashes keys.
const POLYNOMIAL: u16 = 0x1021;

/// The slot of a key: its CRC-16, or that of its hash tag, modulo 16384. The tag is the text
/// between the first `{` and the next `}`, unless that is empty.
///
/// Source: the Redis Cluster specification, "Hash tags" and "Keys distribution model".
pub(crate) fn key_slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let begin = key.iter().position(|byte| *byte == b'{')? + 1;
    let rest = key.get(begin..)?;
    let end = rest.iter().position(|byte| *byte == b'}')?;
    rest.get(..end).filter(|tag| !tag.is_empty())
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let place = usize::from((crc >> 8) ^ u16::from(*byte));
        #[expect(clippy::indexing_slicing, reason = "the high byte of 16 bits is below 256")]
        let step = TABLE[place & 0xff];
        (crc << 8) ^ step
    })
}

/// The addition for each high byte.
static TABLE: [u16; 256] = table();

#[expect(clippy::indexing_slicing, reason = "computed when this is compiled")]
const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    let mut high = 0_u16;
    while byte < 256 {
        let mut crc = high;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
        high = high.wrapping_add(0x100);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12_182), ("bar", 5_061), ("", 0), ("a{foo}b", 12_182)] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn the_tag_is_between_the_first_brace_and_the_next() {
        for (key, same_as) in [
            ("tg1:{user:42}:gcra/1s", "user:42"),
            ("tg1:{12}{tenant:12,user:7}:x", "12"),
            ("{}{a}", "{}{a}"),
            ("{a", "{a"),
            ("{{a}}", "{a"),
        ] {
            assert_eq!(key_slot(key.as_bytes()), crc16(same_as.as_bytes()) % SLOTS, "{key}");
        }
    }
}
