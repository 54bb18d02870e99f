//! The distribution of simulated durations: exact, in bounded memory.

use std::collections::BTreeMap;

use super::measure::rounded;
use super::results::Latency;

/// The most distinct durations that are counted exactly.
const DIFFERENT: usize = 65_536;

/// Durations, exactly while there are few distinct ones; then rounded up, by at most some ten
/// thousandths of the longest.
pub(super) struct Durations {
    step_us: u64,
    /// The number of durations for each number of steps.
    counts: BTreeMap<u64, u64>,
    number: u64,
    sum_us: u128,
    longest_us: u64,
}

impl Durations {
    pub(super) fn new() -> Self {
        Self { step_us: 1, counts: BTreeMap::new(), number: 0, sum_us: 0, longest_us: 0 }
    }

    pub(super) fn add(&mut self, us: u64) {
        *self.counts.entry(us.div_ceil(self.step_us)).or_default() += 1;
        self.number += 1;
        self.sum_us += u128::from(us);
        self.longest_us = self.longest_us.max(us);
        while self.counts.len() > DIFFERENT {
            self.step_us = self.step_us.saturating_mul(2);
            let mut coarser = BTreeMap::new();
            for (steps, count) in &self.counts {
                *coarser.entry(steps.div_ceil(2)).or_default() += count;
            }
            self.counts = coarser;
        }
    }

    /// The duration that `of_1000` of 1,000 durations did not exceed; 0 without any.
    pub(super) fn at(&self, of_1000: u64) -> u64 {
        let wanted = (u128::from(self.number) * u128::from(of_1000)).div_ceil(1_000);
        let mut below = 0_u128;
        let found = self.counts.iter().find(|(_, count)| {
            below += u128::from(**count);
            below >= wanted
        });
        let us = found.map_or(0, |(steps, _)| steps.saturating_mul(self.step_us));
        us.min(self.longest_us)
    }

    /// How many there are.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn read(&self) -> Option<Latency> {
        (self.number > 0).then(|| Latency {
            mean: rounded(self.sum_us as f64 / self.number as f64),
            p50: self.at(500),
            p90: self.at(900),
            p99: self.at(990),
            p99_9: self.at(999),
            max: self.longest_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_until_there_are_too_many_different_ones() {
        let mut durations = Durations::new();
        assert_eq!(durations.read(), None);
        (1..=1_000).for_each(|ms| durations.add(ms * 1_000));
        let read = durations.read().unwrap();
        assert_eq!((read.p50, read.p90, read.p99), (500_000, 900_000, 990_000));
        assert_eq!((read.p99_9, read.max), (999_000, 1_000_000));
        assert!((read.mean - 500_500.0).abs() < 1e-9, "{read:?}");
        let mut durations = Durations::new();
        (1..=999_999).for_each(|us| durations.add(us));
        assert!(durations.counts.len() <= DIFFERENT);
        let read = durations.read().unwrap();
        // Rounded up, and by no more than that.
        assert!((500_000..=500_032).contains(&read.p50), "{read:?}");
        assert!((990_000..=990_032).contains(&read.p99), "{read:?}");
        assert_eq!((read.max, durations.at(1_000)), (999_999, 999_999), "the longest is exact");
    }
}
