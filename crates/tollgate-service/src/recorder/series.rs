//! Counts in buckets of three lengths: seconds for an hour, minutes for a day, hours for thirty
//! days.

/// The length of a bucket in seconds, and the number of buckets.
const TIERS: [(u64, usize); 3] = [(1, 3_600), (60, 1_440), (3_600, 720)];

/// The counts of one series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    tiers: [Tier; TIERS.len()],
}

/// A ring of buckets of one length; the newest overwrites the oldest.
#[derive(Clone, Debug)]
struct Tier {
    step_s: u64,
    counts: Box<[u32]>,
    /// The number of the newest bucket since the Unix epoch.
    newest: u64,
}

impl Series {
    pub(super) fn new() -> Self {
        Self {
            tiers: TIERS.map(|(step_s, buckets)| Tier {
                step_s,
                counts: vec![0; buckets].into(),
                newest: 0,
            }),
        }
    }

    /// Adds `number` to this second.
    pub(super) fn add(&mut self, at_s: u64, number: u64) {
        for tier in &mut self.tiers {
            tier.add(at_s / tier.step_s, number);
        }
    }

    /// The counts of `buckets` buckets of `step_s` seconds, from bucket number `first` on.
    pub(super) fn counts(&self, step_s: u64, first: u64, buckets: usize) -> Vec<u32> {
        let tier = self.tiers.iter().find(|tier| tier.step_s == step_s);
        let counts = (first..).take(buckets);
        counts.map(|bucket| tier.map_or(0, |tier| tier.at(bucket))).collect()
    }
}

/// The length in seconds of the finest buckets that reach back `last_s` seconds.
pub(super) fn step_of(last_s: u64) -> u64 {
    let reaches = |(step_s, buckets): &&(u64, usize)| step_s * *buckets as u64 >= last_s;
    TIERS.iter().find(reaches).unwrap_or(&TIERS[TIERS.len() - 1]).0
}

/// How far back the oldest bucket reaches, in seconds.
pub(super) fn reach_s() -> u64 {
    TIERS.iter().map(|(step_s, buckets)| step_s * *buckets as u64).max().unwrap_or(0)
}

impl Tier {
    fn add(&mut self, bucket: u64, number: u64) {
        let buckets = self.counts.len() as u64;
        if bucket > self.newest {
            // The buckets between had no counts; zeros overwrite the oldest buckets.
            let silent = (bucket - self.newest).min(buckets);
            for passed in 0..silent {
                self.put(bucket - passed, 0);
            }
            self.newest = bucket;
        }
        // The clock was set back by more than the whole ring: the buckets ahead are invalid.
        if bucket.saturating_add(buckets) <= self.newest {
            self.counts.fill(0);
            self.newest = bucket;
        }
        let count = u64::from(self.at(bucket)).saturating_add(number);
        self.put(bucket, u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn place(&self, bucket: u64) -> usize {
        usize::try_from(bucket % self.counts.len() as u64).unwrap_or(0)
    }

    fn put(&mut self, bucket: u64, count: u32) {
        let place = self.place(bucket);
        if let Some(held) = self.counts.get_mut(place) {
            *held = count;
        }
    }

    fn at(&self, bucket: u64) -> u32 {
        let is_held = bucket <= self.newest && bucket + self.counts.len() as u64 > self.newest;
        if is_held { self.counts.get(self.place(bucket)).copied().unwrap_or(0) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_fine_and_what_is_old_is_coarse() {
        let mut series = Series::new();
        let start = 1_700_006_400;
        for second in 0..7_200 {
            series.add(start + second, 2);
        }
        let last = start + 7_199;
        assert_eq!(series.counts(1, last - 3_599, 3_600), vec![2; 3_600]);
        assert_eq!(series.counts(1, last - 3_600, 1), [0], "older than an hour");
        assert_eq!(series.counts(60, start / 60, 121), [vec![120; 120], vec![0]].concat());
        assert_eq!(series.counts(3_600, start / 3_600, 3), [7_200, 7_200, 0]);
        assert_eq!(series.counts(7, start / 7, 2), [0, 0], "no such buckets");
        for (last_s, step_s) in [(0, 1), (3_600, 1), (3_601, 60), (86_400, 60), (86_401, 3_600)] {
            assert_eq!(step_of(last_s), step_s);
        }
        assert_eq!((step_of(u64::MAX), reach_s()), (3_600, 30 * 86_400));
    }

    #[test]
    fn silence_and_clocks_that_go_back_leave_no_old_counts() {
        let mut series = Series::new();
        series.add(10_000, 5);
        series.add(10_002, 1);
        series.add(10_001, 1);
        assert_eq!(series.counts(1, 9_999, 5), [0, 5, 1, 1, 0]);
        // Once around the ring: the buckets of old seconds now hold zeros.
        series.add(13_601, 1);
        assert_eq!(series.counts(1, 10_000, 4), [0, 0, 1, 0]);
        series.add(20_000, 7);
        assert_eq!(series.counts(1, 16_401, 3_600).iter().sum::<u32>(), 7);
        series.add(10_000, 9);
        assert_eq!(series.counts(1, 6_401, 3_600).iter().sum::<u32>(), 9, "what was ahead is gone");
        assert_eq!(series.counts(3_600, 2, 4), [16, 1, 0, 7], "hours have room for both");
    }

    #[test]
    fn a_count_stays_at_the_most_that_it_holds() {
        let mut series = Series::new();
        series.add(5, u64::MAX);
        series.add(5, 1);
        assert_eq!(series.counts(1, 5, 1), [u32::MAX]);
    }
}
