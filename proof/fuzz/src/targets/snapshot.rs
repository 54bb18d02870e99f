//! Snapshots: refused, or restored within the bound and saved again as the same counts.

use tollgate::{ManualClock, MemoryStore, Restored};

/// The first bytes of a snapshot, before its version.
const MAGIC: &[u8] = b"\x89TGS\r\n\x1a\n";
const VERSION: u32 = 2;

/// The most bytes of a chunk.
const CHUNK_BYTES: usize = 1 << 16;

/// The bound of the store, and how far a restored one may be over it.
const BOUND: usize = 1 << 20;
const OVER: usize = BOUND + (1 << 20);

const NOW_US: u64 = 1_000_000_000;

/// The contents of chunks. It is cut into chunks with checksums that fit, since hardly any other
/// bytes get past those; and it is read as it is.
pub(crate) fn file(data: &[u8]) {
    restore(data);
    restore(&sealed(data));
}

fn restore(file: &[u8]) {
    let Some((store, restored)) = restored(file) else { return };
    assert_eq!(restored.bytes, file.len() as u64);
    assert!(store.bytes() <= BOUND + OVER, "{} bytes", store.bytes());
    let mut saved = Vec::new();
    let said = store.save(&mut saved).expect("memory can be written to");
    assert_eq!((said.subjects, said.bytes), (restored.subjects, saved.len() as u64));
    let (second, again) = self::restored(&saved).expect("what was saved is restored");
    assert_eq!((again.subjects, again.expired), (restored.subjects, 0));
    assert!(again.receipts, "the same build hashes in the same way");
    // Receipts of a store that hashed in another way are forgotten at first, not afterwards.
    if restored.receipts {
        let mut saved_again = Vec::new();
        second.save(&mut saved_again).expect("memory can be written to");
        assert_eq!(saved_again.len(), saved.len(), "the same counts take the same bytes");
    }
}

fn restored(file: &[u8]) -> Option<(MemoryStore, Restored)> {
    let clock = ManualClock::at_micros(NOW_US);
    match MemoryStore::builder().clock(clock).max_bytes(BOUND).restore(file) {
        Ok(restored) => Some(restored),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// These bytes as a whole snapshot.
pub(crate) fn sealed(data: &[u8]) -> Vec<u8> {
    let mut file = [MAGIC, &VERSION.to_le_bytes()].concat();
    let mut crc = crc(u64::MAX, &file);
    for chunk in data.chunks(CHUNK_BYTES).chain([&[][..]]) {
        let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        let bytes = [&length.to_le_bytes(), chunk].concat();
        crc = self::crc(crc, &bytes);
        file.extend_from_slice(&bytes);
        file.extend_from_slice(&(!crc).to_le_bytes());
    }
    file
}

/// CRC-64/XZ, bit by bit.
fn crc(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 }
        })
    })
}

/// The bytes within the chunks of a snapshot that a store wrote.
#[cfg(test)]
fn opened(file: &[u8]) -> Vec<u8> {
    let mut rest = &file[MAGIC.len() + 4..];
    let mut data = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (chunk, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        data.extend_from_slice(chunk);
        rest = &after[8..];
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Limiter;

    /// Without this the target would look at nothing but checksums that do not fit.
    #[test]
    fn what_is_sealed_is_what_a_store_writes() {
        let store = MemoryStore::builder().clock(ManualClock::at_micros(NOW_US)).build();
        let limiter = Limiter::new("5/h, 9/d via sliding_log".parse().unwrap(), store);
        for subject in 0..9 {
            let subject = format!("user:{subject}");
            let decision = limiter.check(&*subject).now().unwrap();
            assert!(decision.is_allowed());
        }
        let mut file = Vec::new();
        limiter.store().save(&mut file).unwrap();
        assert_eq!(sealed(&opened(&file)), file);
        assert_eq!(restored(&file).unwrap().1.subjects, 9);
    }
}
