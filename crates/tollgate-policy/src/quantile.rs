//! A running quantile of used units: the P² algorithm of Jain and Chlamtac (1985). It keeps five
//! markers and no values.

/// So many values are seen before the estimate counts. The algorithm starts with the first five,
/// and one high value among few would be a poor guess.
const ENOUGH: u64 = 20;

/// The running quantile of a stream of values.
#[derive(Clone, Debug)]
pub(crate) struct Quantile {
    /// The part of the values that is at most the quantile, between 0 and 1.
    part: f64,
    seen: u64,
    /// The five markers: the least value, the quantile between, and the greatest. Until five values
    /// were seen, these are the values.
    heights: [f64; 5],
    /// How many values are at most each marker.
    at: [f64; 5],
}

impl Quantile {
    /// The quantile of `percent`: 90 for the value that 90 % of the values do not exceed.
    pub(crate) fn new(percent: u8) -> Self {
        let part = f64::from(percent.clamp(1, 99)) / 100.0;
        Self { part, seen: 0, heights: [0.0; 5], at: [1.0, 2.0, 3.0, 4.0, 5.0] }
    }

    /// The estimate, rounded up; `None` until [`ENOUGH`] values were seen.
    pub(crate) fn estimate(&self) -> Option<u64> {
        (self.seen >= ENOUGH).then(|| whole(self.heights[2].ceil()))
    }

    /// Takes a value of at most 2^40.
    pub(crate) fn add(&mut self, value: u64) {
        let value = exact(value);
        let before = self.seen;
        self.seen += 1;
        let Self { heights, at, .. } = &mut *self;
        if before < 5 {
            let place = usize::try_from(before).unwrap_or(0);
            heights[place] = value;
            heights[..=place].sort_by(f64::total_cmp);
            return;
        }
        heights[0] = heights[0].min(value);
        heights[4] = heights[4].max(value);
        // The markers above the value have one more value below them.
        let cell = heights[1..4].iter().filter(|height| value >= **height).count();
        for at in &mut at[cell + 1..] {
            *at += 1.0;
        }
        // Of those between the least value and the greatest.
        let steps = [self.part / 2.0, self.part, (1.0 + self.part) / 2.0];
        for (marker, step) in (1..).zip(steps) {
            self.adjust(marker, 1.0 + exact(before) * step);
        }
    }

    /// Moves a marker by one towards where it should be, by a parabola through its neighbours, or
    /// by a line where that would pass one of them.
    fn adjust(&mut self, marker: usize, wanted: f64) {
        let Self { heights, at, .. } = self;
        let off = wanted - at[marker];
        let (below, above) = (at[marker] - at[marker - 1], at[marker + 1] - at[marker]);
        let step = match off {
            off if off >= 1.0 && above > 1.0 => 1.0,
            off if off <= -1.0 && below > 1.0 => -1.0,
            _ => return,
        };
        let [low, height, high] = [heights[marker - 1], heights[marker], heights[marker + 1]];
        let (rise, fall) = ((high - height) / above, (height - low) / below);
        let parabola =
            height + step / (above + below) * ((below + step) * rise + (above - step) * fall);
        heights[marker] = if low < parabola && parabola < high {
            parabola
        } else if step > 0.0 {
            height + rise
        } else {
            height - fall
        };
        at[marker] += step;
    }
}

/// A number of at most 2^53 as a float, which is exact.
#[expect(clippy::cast_precision_loss, reason = "costs are at most 2^40")]
fn exact(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it lies between two costs, which are 0 to 2^40"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(percent: u8, values: impl IntoIterator<Item = u64>) -> Quantile {
        let mut quantile = Quantile::new(percent);
        values.into_iter().for_each(|value| quantile.add(value));
        quantile
    }

    /// The worked example of the paper (Table I): the median of 20 observations, times 100.
    #[test]
    fn it_is_that_of_the_paper() {
        let observed = [
            2, 15, 74, 339, 83, 2237, 1015, 1543, 3862, 1592, 3460, 1028, 147, 40, 5, 1139, 27, 42,
            9, 1137,
        ];
        // Its last row has 4.44 for the median; here it is rounded up.
        let median = after(50, observed);
        assert_eq!(median.estimate(), Some(445), "{median:?}");
    }

    /// A stream of a fixed generator, compared with the exact quantile of the same values.
    #[test]
    fn it_is_near_the_exact_quantile() {
        for (seed, skewed) in [(1_u64, false), (2, false), (3, true), (4, true)] {
            let mut state = seed;
            let values: Vec<u64> = (0..5_000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let value = (state >> 33) % 1_000;
                    if skewed { value * value / 100 } else { value }
                })
                .collect();
            for percent in [50, 90, 95, 99] {
                let estimate = after(percent, values.iter().copied()).estimate().unwrap();
                let mut sorted = values.clone();
                sorted.sort_unstable();
                // As a rank: within two parts of a hundred.
                let rank = sorted.partition_point(|value| *value <= estimate);
                let wanted = 5_000 * usize::from(percent) / 100;
                assert!(rank.abs_diff(wanted) <= 100, "p{percent} of {seed}: rank {rank}");
            }
        }
    }

    #[test]
    fn few_values_are_no_estimate_and_equal_ones_are_exact() {
        assert_eq!(after(90, (0..19).map(|_| 7)).estimate(), None);
        assert_eq!(after(90, (0..20).map(|_| 7)).estimate(), Some(7));
        assert_eq!(after(90, (0..900).map(|_| 0)).estimate(), Some(0));
        assert_eq!(after(99, (0..900).map(|_| 1 << 40)).estimate(), Some(1 << 40));
    }

    #[test]
    fn it_follows_a_change_and_stays_between_the_extremes() {
        let mut quantile = after(90, (0..100).map(|number| 10 + number % 3));
        assert!((10..=12).contains(&quantile.estimate().unwrap()));
        for _ in 0..2_000 {
            quantile.add(1_000);
            assert!((10..=1_000).contains(&quantile.estimate().unwrap()));
        }
        assert!(quantile.estimate().unwrap() > 900, "{quantile:?}");
    }
}
