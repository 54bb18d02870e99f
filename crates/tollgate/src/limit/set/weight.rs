//! The memory that limit sets take.

use super::{Inner, LimitSet, Place};
use crate::limit::Limit;

/// The bytes that an allocator uses for a block of this size: 8 for itself, in multiples of 16, at
/// least 32. This is the rule of glibc; other allocators round little more. A set is many small
/// blocks, so the overhead is a large part.
const fn block(bytes: usize) -> usize {
    let taken = (bytes + 8).next_multiple_of(16);
    match (bytes, taken < 32) {
        (0, _) => 0,
        (_, true) => 32,
        (_, false) => taken,
    }
}

impl LimitSet {
    /// The bytes that the set and its clones take together, including the allocator's overhead: 608
    /// for `10/s via gcra`, and 12 KiB for 32 limits with short names.
    ///
    /// ```
    /// use tollgate::LimitSet;
    /// let one: LimitSet = "10/s via gcra".parse()?;
    /// let two: LimitSet = "10/s via gcra, 100/m via gcra".parse()?;
    /// assert!((500..1_000).contains(&one.bytes()));
    /// assert!(two.bytes() > one.bytes() + 300);
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Inner { limits, places, identity, full_text, .. } = &*self.0;
        // The two counters of an `Arc` are allocated together with its value.
        block(2 * size_of::<usize>() + size_of::<Inner>())
            + block(size_of_val(&limits[..]))
            + limits.iter().map(Limit::texts).sum::<usize>()
            + block(places.len() * size_of::<Place>())
            + block(identity.len())
            + block(full_text.len())
    }
}

impl Limit {
    fn texts(&self) -> usize {
        let name = self.name.as_ref().map_or(0, String::len);
        block(name) + block(self.identity.len()) + block(self.full_text.len())
    }
}
