//! Which subjects were asked about just now.

use core::sync::atomic::{AtomicU64, Ordering};

/// How many places there are, of 8 bytes each.
const PLACES: usize = 1 << 15;

/// The low bits of a place: the time of the last check, in units of its window.
const TIME_BITS: u32 = 24;

/// Whether a subject was asked about in this window of time or the one before. Most subjects of a
/// service are not, and nothing else is kept of them. Subjects that share a place forget each
/// other.
#[derive(Debug)]
pub(crate) struct Recent(Box<[AtomicU64]>);

impl Recent {
    pub(crate) fn new() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether this subject was the last of its place: if not, nothing is held of it, or others of
    /// its place were asked about meanwhile.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low bits
    pub(crate) fn has(&self, hash: u64) -> bool {
        let before = self.0[hash as usize % PLACES].load(Ordering::Relaxed);
        (before ^ hash) >> TIME_BITS == 0
    }

    /// Notes a check; true if there was one in this window or the one before.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low bits
    pub(crate) fn note(&self, hash: u64, now_us: u64, window_us: u64) -> bool {
        let place = &self.0[hash as usize % PLACES];
        let time = (now_us / window_us.max(1) + 2) & ((1 << TIME_BITS) - 1);
        let tag = hash & !((1 << TIME_BITS) - 1);
        let before = place.load(Ordering::Relaxed);
        if before != tag | time {
            place.store(tag | time, Ordering::Relaxed);
        }
        let is_same = before & !((1 << TIME_BITS) - 1) == tag;
        let passed = time.wrapping_sub(before) & ((1 << TIME_BITS) - 1);
        is_same && before != 0 && passed <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_known_for_a_window() {
        let recent = Recent::new();
        let (one, other) = (0xabcd_0000_0000_0007, 0x1234_0000_0000_0007);
        assert!(!recent.has(one) && !recent.note(one, 1_000, 100) && recent.has(one));
        assert!(recent.note(one, 1_050, 100));
        assert!(recent.note(one, 1_199, 100));
        assert!(!recent.note(one, 1_300, 100), "a window without a check lay between");
        assert!(!recent.note(other, 1_310, 100), "of the same place");
        assert!(recent.has(other) && !recent.has(one));
        assert!(!recent.note(one, 1_320, 100));
        assert!(recent.note(one, 1_330, 100));
    }
}
