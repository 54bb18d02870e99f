//! Seeded random numbers, the same on every machine and in every version.

/// A generator of numbers (SplitMix64). Not from a crate: a seed must reproduce a failure for
/// years, and the kit should not choose its users' version of `rand`.
///
/// ```
/// let mut random = tollgate_proof::Random::new(1_234_567);
/// assert_eq!(random.draw(), 6_457_827_717_110_365_317);
/// assert!(random.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end - 1`; 0 for an `end` of 0. Slightly biased for a huge `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    /// An index into a list of this length; 0 for an empty one.
    pub fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    /// An element of a list.
    ///
    /// # Panics
    /// The list is empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.place(of.len())]
    }
}
