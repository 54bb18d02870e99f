//! The names that callers give their holds.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::error::ParseError;

/// The fewest and the most bytes of a caller's name for a hold.
pub const MIN_NAME_BYTES: usize = 16;
/// The most bytes of a caller's name for a hold.
pub const MAX_NAME_BYTES: usize = 256;

/// A caller's name for its hold: 16 to 256 printable characters of ASCII without blanks, such as
/// the id of a request. It counts for the counts of one ask alone.
///
/// Anybody who knows it and the ask can settle the hold. Only a hash of it is kept, 15 bytes of
/// SHA-256, so that no message, log or store shows it.
///
/// ```
/// use tollgate::{Ask, HoldName, Limiter};
///
/// let limiter = Limiter::memory("1 at once".parse()?);
/// let name: HoldName = "2f1b7c0e9a4d4f62".parse()?;
/// let ask = || Ask::new("backend").named(name).acquire();
/// let first = limiter.hold(ask()).now()?.hold.expect("a slot");
/// // The answer was lost, so the caller asks again: it is the same hold.
/// let again = limiter.hold(ask()).now()?.hold.expect("the slot");
/// assert_eq!((first.id, first.fence), (again.id, again.fence));
/// // It can be released by its name, whether an answer came or not.
/// let hold = ask().named_hold(limiter.limits())?;
/// limiter.release(&hold).now()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldName(pub(super) [u8; 15]);

impl HoldName {
    /// A new name, for a caller that asks for its hold again itself and tells nobody.
    #[must_use]
    pub fn random() -> Self {
        let [_, name @ ..] = random_bytes();
        Self(name)
    }

    /// The name under which a store that decides about each count by itself keeps a hold over all
    /// of these counts, in whatever order. So no hold over other counts has it.
    #[must_use]
    pub fn over<'k>(self, counts: impl IntoIterator<Item = &'k str>) -> Self {
        let mut counts: Vec<&str> = counts.into_iter().collect();
        counts.sort_unstable();
        let mut hasher = Sha256::new_with_prefix(self.0);
        for count in counts {
            // The length before each tells where the next one begins.
            hasher.update(count.len().to_be_bytes());
            hasher.update(count);
        }
        Self::of_digest(hasher.finalize())
    }

    fn of_digest(digest: impl IntoIterator<Item = u8>) -> Self {
        let mut bytes = [0; 15];
        bytes.iter_mut().zip(digest).for_each(|(byte, of)| *byte = of);
        Self(bytes)
    }
}

/// Bytes that nobody can guess: a keyed hash of a counter, whose key the system chose at random.
pub(super) fn random_bytes() -> [u8; 16] {
    static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let keys = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = [keys[0].hash_one(number), keys[1].hash_one(number)];
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

impl fmt::Debug for HoldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldName(..)")
    }
}

impl FromStr for HoldName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // The text is a secret, so no message repeats it.
        let wrong = |what: String| {
            let remedy = format!(
                "give {MIN_NAME_BYTES} to {MAX_NAME_BYTES} printable characters of ASCII without \
                 blanks, such as a random id of the request"
            );
            Err(ParseError::whole("", what, remedy))
        };
        if !(MIN_NAME_BYTES..=MAX_NAME_BYTES).contains(&text.len()) {
            return wrong(format!("the id of a hold has {} bytes", text.len()));
        }
        if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return wrong(format!("byte {} of the id of a hold is not allowed", at + 1));
        }
        Ok(Self::of_digest(Sha256::digest(text.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_16_to_256_printable_bytes_are_read_and_no_message_repeats_them() {
        for length in [16, 17, 255, 256] {
            assert!("x".repeat(length).parse::<HoldName>().is_ok(), "{length}");
        }
        for length in [0, 15, 257] {
            let error = "x".repeat(length).parse::<HoldName>().unwrap_err().to_string();
            assert!(error.contains(&format!("has {length} bytes")), "{error}");
            assert!(error.contains("16 to 256"), "{error}");
        }
        for text in
            ["0123456789 abcdef", "0123456789\tabcdef", "0123456789abcdefé", "0\x01123456789abcdef"]
        {
            let error = text.parse::<HoldName>().unwrap_err().to_string();
            assert!(error.contains("is not allowed") && !error.contains("abcdef"), "{error}");
        }
        let [one, two]: [HoldName; 2] =
            ["0123456789abcdef", "0123456789abcdeg"].map(|text| text.parse().unwrap());
        assert_ne!(one, two);
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert_ne!(HoldName::random(), HoldName::random());
    }

    #[test]
    fn a_name_over_counts_is_that_of_these_counts_alone_in_any_order() {
        let name: HoldName = "0123456789abcdef".parse().unwrap();
        let other: HoldName = "0123456789abcdeg".parse().unwrap();
        let both = name.over(["tg1:{a}:x", "tg1:{b}:x"]);
        assert_eq!(both, name.over(["tg1:{b}:x", "tg1:{a}:x"]));
        for apart in [
            name,
            name.over(["tg1:{a}:x"]),
            name.over(["tg1:{a}:xtg1:{b}:x"]),
            name.over(["tg1:{a}:x", "tg1:{c}:x"]),
            other.over(["tg1:{a}:x", "tg1:{b}:x"]),
        ] {
            assert_ne!(both, apart);
        }
    }
}
