//! The slot of a key, as the specification of Redis Cluster has it.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: CRC16 of the key, or of its hash tag, modulo [`SLOTS`].
///
/// The tag is the text between the first `{` and the first `}` after it, unless that is empty. It
/// is written bit by bit and shares no table with the code under test.
///
/// ```
/// use tollgate_testbed::key_slot;
///
/// assert_eq!(key_slot(b"foo"), 12182);
/// assert_eq!(key_slot(b"a{foo}b"), key_slot(b"foo"));
/// ```
#[must_use]
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = key.get(open + 1..)?;
    let close = rest.iter().position(|&byte| byte == b'}')?;
    rest.get(..close).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM: the polynomial 0x1021, from 0, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn tags() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{bar}{zap}", "bar"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{x}", "x"),
        ] {
            assert_eq!(key_slot(key.as_bytes()), crc16(tag.as_bytes()) % SLOTS, "{key}");
        }
    }
}
