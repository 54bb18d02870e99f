//! The checksum of a snapshot: CRC-64/XZ, which detects every error burst of up to 64 bits.

/// The polynomial of ECMA-182, bit-reversed.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// `TABLES[k][b]` is the checksum of byte `b` followed by `k` zero bytes. One step takes eight
/// bytes, so the checksum takes a small part of the time of a snapshot.
const TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The checksum of the bytes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crc(u64);

impl Crc {
    pub(super) const fn new() -> Self {
        Self(u64::MAX)
    }

    pub(super) const fn value(self) -> u64 {
        !self.0
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let mixed = (self.0 ^ u64::from_le_bytes(*eight)).to_le_bytes();
            self.0 = (0..8).fold(0, |crc, i| crc ^ TABLES[7 - i][usize::from(mixed[i])]);
        }
        for byte in rest {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = self.0 >> 8 ^ TABLES[0][usize::from(low ^ byte)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc(bytes: &[u8]) -> u64 {
        let mut crc = Crc::new();
        crc.add(bytes);
        crc.value()
    }

    /// The check value of the catalogue of CRCs.
    #[test]
    fn it_is_crc_64_xz() {
        assert_eq!(crc(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn pieces_of_any_length_make_the_same_sum() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for cut in 0..40 {
            let mut pieces = Crc::new();
            bytes.chunks(cut + 1).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.value(), crc(&bytes), "{cut}");
        }
    }
}
