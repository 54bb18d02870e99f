//! Which subjects were asked about just now.

use core::sync::atomic::{AtomicU64, Ordering};

/// How many sets of places there are, of 64 bytes each.
const SETS: usize = 1 << 12;

/// The places of a set: those of one line of the processor's cache.
const PLACES: usize = 8;

/// The low bits of a place: the time of the last check, in units of its window.
const TIME_BITS: u32 = 24;

/// The largest time.
const TIME: u64 = (1 << TIME_BITS) - 1;

/// Whether a subject was asked about in this window of time or the one before. Most subjects of a
/// service are not, and nothing else is kept of them. More than eight subjects of a set forget each
/// other, the one that was seen least lately first.
#[derive(Debug)]
pub(crate) struct Recent(Box<[Set]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; PLACES]);

impl Recent {
    pub(crate) fn new() -> Self {
        Self((0..SETS).map(|_| Set::default()).collect())
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low bits
    fn set(&self, hash: u64) -> &Set {
        &self.0[hash as usize % SETS]
    }

    /// Whether this subject is among those of its set. If not, nothing is held of it, or many
    /// others of its set were asked about meanwhile.
    #[inline]
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.set(hash).0.iter().any(|place| is_of(place.load(Ordering::Relaxed), hash))
    }

    /// Notes a check; true if there was one in this window or the one before.
    #[inline]
    pub(crate) fn note(&self, hash: u64, now_us: u64, window_us: u64) -> bool {
        let time = (now_us / window_us.max(1) + 2) & TIME;
        let (mut oldest, mut oldest_age) = (None, 0);
        for place in &self.set(hash).0 {
            let before = place.load(Ordering::Relaxed);
            let age = time.wrapping_sub(before) & TIME;
            if is_of(before, hash) {
                if age != 0 {
                    place.store((hash & !TIME) | time, Ordering::Relaxed);
                }
                return age <= 1;
            }
            // One that was never used is older than all.
            let age = if before == 0 { TIME + 1 } else { age };
            if oldest.is_none() || age > oldest_age {
                (oldest, oldest_age) = (Some(place), age);
            }
        }
        if let Some(place) = oldest {
            place.store((hash & !TIME) | time, Ordering::Relaxed);
        }
        false
    }
}

/// Whether a place has this subject.
#[inline]
fn is_of(place: u64, hash: u64) -> bool {
    (place ^ hash) >> TIME_BITS == 0 && place != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of a subject of one set.
    fn subject(number: u64) -> u64 {
        (number << 40) | 7
    }

    #[test]
    fn a_subject_is_known_for_a_window() {
        let recent = Recent::new();
        let one = subject(1);
        assert!(!recent.has(one) && !recent.note(one, 1_000, 100) && recent.has(one));
        assert!(recent.note(one, 1_050, 100));
        assert!(recent.note(one, 1_199, 100));
        assert!(!recent.note(one, 1_300, 100), "a window without a check lay between");
        assert!(recent.note(one, 1_330, 100));
    }

    #[test]
    fn eight_subjects_of_a_set_are_known_side_by_side() {
        let recent = Recent::new();
        for round in 0..10 {
            for number in 1..=8 {
                let is_known = recent.note(subject(number), 1_000 + round, 100);
                assert_eq!(is_known, round > 0, "{number}");
            }
        }
        // A ninth takes the place of one that was not seen of late.
        (2..=8).for_each(|number| assert!(recent.note(subject(number), 1_100, 100)));
        assert!(!recent.note(subject(9), 1_110, 100));
        assert!(!recent.has(subject(1)) && (2..=9).all(|number| recent.has(subject(number))));
    }
}
