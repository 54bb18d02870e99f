//! The least N of a client under `token_bucket` and `gcra`, in one pass.
//!
//! Under N units each D with a burst of N, a stretch of requests from one at `t` to one at `u` that
//! costs W in all is admitted when `W <= N + N * (u - t) / D`. So the minimum N is the maximum of
//! `W * D / (D + u - t)` over all stretches, rounded up. With the total before `t` as `y` and the
//! total with `u` as `s`, that is the steepest line from a point `(t, y)` to `(u + D, s)`.
//!
//! Of two points the earlier one can only win while the line between them is steeper than the
//! steepest line so far. Others are dropped, so few are left: those of a demand that grows.

/// The most points of a client that are held. When there are more, the two oldest are made one that
/// is below both and as late as the later, so that lines from it are steeper than any from either.
const MAX_POINTS: usize = 64;

/// A start of stretches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    at_us: u64,
    /// The demand before.
    total: u64,
}

/// The starts that still matter, and the least N so far.
#[derive(Debug, Default)]
pub(super) struct Ramp {
    points: Vec<Point>,
    least: u64,
}

/// A request: its time, its cost and the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) at_us: u64,
    pub(super) cost: u64,
    /// The demand of the client before.
    pub(super) total: u64,
    pub(super) period_us: u64,
}

impl Ramp {
    /// Counts the next request of the client.
    pub(super) fn count(&mut self, asked: Asked) {
        let Asked { at_us, cost, total, period_us } = asked;
        let new = Point { at_us, total };
        // Of requests at one time the first has the lowest point.
        if self.points.last().is_none_or(|last| last.at_us < at_us) {
            self.add(new);
        }
        let total = total.saturating_add(cost);
        for point in &self.points {
            let rise = u128::from(total.saturating_sub(point.total)) * u128::from(period_us);
            let run = u128::from(period_us) + u128::from(at_us - point.at_us);
            let least = u64::try_from(rise.div_ceil(run)).unwrap_or(u64::MAX);
            self.least = self.least.max(least);
        }
        let flat = |pair: &[Point]| match pair {
            [earlier, later, ..] => {
                let rise = u128::from(later.total - earlier.total) * u128::from(period_us);
                rise <= u128::from(self.least) * u128::from(later.at_us - earlier.at_us)
            }
            _ => false,
        };
        let mut dropped = 0;
        while self.points.get(dropped..).is_some_and(flat) {
            dropped += 1;
        }
        self.points.drain(..dropped);
    }

    /// The least N so far.
    pub(super) fn least(&self) -> u64 {
        self.least
    }

    fn add(&mut self, new: Point) {
        // A point on or above the line between its neighbours is never the best.
        while let [.., before, last] = self.points.as_slice() {
            let steep = |from: &Point, to: &Point| {
                (u128::from(to.total - from.total), u128::from(to.at_us - from.at_us))
            };
            let (first, then) = (steep(before, last), steep(last, &new));
            if first.0 * then.1 < then.0 * first.1 {
                break;
            }
            self.points.pop();
        }
        self.points.push(new);
        if self.points.len() > MAX_POINTS
            && let [oldest, second, ..] = self.points.as_mut_slice()
        {
            second.total = oldest.total;
            self.points.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_US: u64 = 86_400_000_000;

    fn ramp(events: &[(u64, u64)], period_us: u64) -> Ramp {
        let mut ramp = Ramp::default();
        let mut total = 0;
        for &(at_us, cost) in events {
            ramp.count(Asked { at_us, cost, total, period_us });
            total += cost;
        }
        ramp
    }

    /// From the definition: all stretches.
    fn naive(events: &[(u64, u64)], period_us: u64) -> u64 {
        let mut most = 0;
        for (from, &(start, _)) in events.iter().enumerate() {
            let mut cost = 0;
            for &(at, one) in &events[from..] {
                cost += one;
                most = most.max((cost * period_us).div_ceil(period_us + at - start));
            }
        }
        most
    }

    #[test]
    fn a_burst_needs_its_size_and_a_steady_client_its_rate() {
        assert_eq!(ramp(&[(5, 1); 7], 10).least(), 7);
        // One each 10 us, for 100 in all: 1 to begin with and one each 10 us are enough.
        let steady: Vec<(u64, u64)> = (0..100).map(|n| (n * 10, 1)).collect();
        assert_eq!(ramp(&steady, 10).least(), 1);
        // In a window of 100 us they need ten in the long run.
        assert_eq!(ramp(&steady, 100).least(), naive(&steady, 100));
        assert_eq!(ramp(&[], 10).least(), 0);
    }

    #[test]
    fn too_many_points_round_up_and_never_down() {
        // Ever faster: every request is a point of the hull.
        let mut at = 0;
        let faster: Vec<(u64, u64)> = (0..400_u64)
            .map(|n| {
                at += 1_000_000_000 / (n + 1);
                (at, 1)
            })
            .collect();
        let found = ramp(&faster, DAY_US);
        assert!(found.points.len() <= MAX_POINTS);
        let exact = naive(&faster, DAY_US);
        assert!((exact..=exact + exact / 10 + 1).contains(&found.least()), "{exact}");
    }

    proptest! {
        #[test]
        fn it_is_the_most_over_all_stretches(
            gaps in proptest::collection::vec((prop_oneof![0..3_u64, 0..60_u64], 1..6_u64), 0..80),
            period_us in 1..300_u64,
        ) {
            let mut at = 0;
            let events: Vec<(u64, u64)> = gaps.iter().map(|&(gap, cost)| {
                at += gap;
                (at, cost)
            }).collect();
            let found = ramp(&events, period_us);
            prop_assert!(found.points.len() < MAX_POINTS, "the bound is not reached");
            prop_assert_eq!(found.least(), naive(&events, period_us));
        }
    }
}
