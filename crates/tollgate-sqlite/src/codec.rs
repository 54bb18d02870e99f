//! The encoding of a state in its row: a format byte, which also says whether holds of the count
//! may be open, then numbers in LEB128.
//!
//! The numbers are the number of logs, six numbers for each log, and the words up to the end. The
//! events of a log are separate rows.

use smallvec::SmallVec;

/// The first byte of a state.
const FORMAT: u8 = 1;

/// The same for a count with holds, whose rows are in separate tables. A version that knows no
/// holds refuses it.
const FORMAT_HELD: u8 = 2;

/// The words of a state; two for most strategies.
pub(crate) type Words = SmallVec<[u64; 4]>;

/// The rows of a log's events, and their totals. The default is a log without events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogHeader {
    /// The number of the log in its rows; 0 for none yet.
    pub(crate) log: u64,
    /// The first row that still exists. Rows before `first` were dropped and are deleted later.
    pub(crate) dead: u64,
    /// The oldest event of the log.
    pub(crate) first: u64,
    /// One past the newest event.
    pub(crate) end: u64,
    /// The total before the oldest event. Totals wrap around: only differences count.
    pub(crate) base: u64,
    /// The total of the newest event.
    pub(crate) top: u64,
}

/// A decoded state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DecodedState {
    pub(crate) words: Words,
    pub(crate) headers: SmallVec<[LogHeader; 1]>,
    /// Whether holds may be open.
    pub(crate) is_held: bool,
}

/// Encodes a state.
pub(crate) fn encode(
    words: &[u64],
    headers: impl ExactSizeIterator<Item = LogHeader>,
    is_held: bool,
) -> SmallVec<[u8; 64]> {
    let mut bytes = SmallVec::new();
    bytes.push(if is_held { FORMAT_HELD } else { FORMAT });
    put(&mut bytes, headers.len() as u64);
    for LogHeader { log, dead, first, end, base, top } in headers {
        for number in [log, dead, first, end, base, top] {
            put(&mut bytes, number);
        }
    }
    for word in words {
        put(&mut bytes, *word);
    }
    bytes
}

#[allow(clippy::cast_possible_truncation)] // seven bits at a time
fn put(bytes: &mut SmallVec<[u8; 64]>, mut number: u64) {
    while number >= 0x80 {
        // Seven bits, and a flag that more follow.
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Decodes a state, or reports what is wrong with it.
pub(crate) fn decode(bytes: &[u8]) -> Result<DecodedState, &'static str> {
    let Some((&format @ (FORMAT | FORMAT_HELD), mut rest)) = bytes.split_first() else {
        return Err("its first byte is not that of a known format");
    };
    let mut decoded = DecodedState { is_held: format == FORMAT_HELD, ..DecodedState::default() };
    let logs = take(&mut rest)?;
    for _ in 0..logs {
        let mut number = || take(&mut rest);
        let header = LogHeader {
            log: number()?,
            dead: number()?,
            first: number()?,
            end: number()?,
            base: number()?,
            top: number()?,
        };
        let ordered = header.dead <= header.first && header.first <= header.end;
        if !ordered || header.log > i64::MAX as u64 || header.end > i64::MAX as u64 {
            return Err("the bounds of a log are out of order");
        }
        decoded.headers.push(header);
    }
    while !rest.is_empty() {
        decoded.words.push(take(&mut rest)?);
    }
    Ok(decoded)
}

fn take(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, after)) = rest.split_first() else { return Err("it ends too early") };
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number is too long")
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_state_reads_back_and_no_prefix_of_it_passes_for_the_whole(
            words in proptest::collection::vec(any::<u64>(), 0..6),
            mut spans in proptest::collection::vec(any::<[u32; 6]>(), 0..3),
        ) {
            for span in &mut spans {
                span[1..4].sort_unstable();
            }
            let headers: Vec<LogHeader> = spans
                .iter()
                .map(|s| s.map(u64::from))
                .map(|[log, dead, first, end, base, top]| {
                    LogHeader { log, dead, first, end, base, top }
                })
                .collect();
            let is_held = words.len() % 2 == 1;
            let bytes = encode(&words, headers.iter().copied(), is_held);
            let decoded = decode(&bytes).expect("what was written");
            prop_assert_eq!(&decoded.words[..], &words[..]);
            prop_assert_eq!(&decoded.headers[..], &headers[..]);
            prop_assert_eq!(decoded.is_held, is_held);
            for end in 0..bytes.len() {
                let short = decode(&bytes[..end]);
                prop_assert!(short != Ok(decoded.clone()));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut bytes = bytes;
            let _ = decode(&bytes);
            bytes.insert(0, FORMAT);
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_gcra_state_takes_eleven_bytes() {
        let words = [1_700_000_000_000_000, 0];
        assert_eq!(encode(&words, std::iter::empty(), false).len(), 11);
        assert_eq!(decode(&[3, 0]), Err("its first byte is not that of a known format"));
        assert_eq!(decode(&[]), Err("its first byte is not that of a known format"));
        assert_eq!(decode(&[1, 0, 0x80]), Err("it ends too early"));
        assert_eq!(decode(&[[1, 0].as_slice(), &[0xff; 10]].concat()), Err("a number is too long"));
    }
}
