//! Traffic that is made up: integers only, and the same on every machine.

use crate::question::{Ask, How, MAX_ASKS, Pattern, Traffic};

/// The clients that ask.
pub(crate) const CLIENTS: [&str; 2] = ["a", "b"];

/// How many bursts there are.
const BURSTS: u64 = 4;

/// The longest span: 10 years.
const MAX_SPAN_US: u64 = 3_650 * 86_400_000_000;

/// The requests, in order of time.
///
/// # Errors
///
/// A number out of range, with the range.
pub(crate) fn asks(traffic: &Traffic) -> Result<Vec<Ask>, String> {
    let Traffic { pattern, requests, span_us, seed } = *traffic;
    if !(1..=MAX_ASKS as u64).contains(&requests) {
        return Err(format!("{requests} requests are out of range: 1 to {MAX_ASKS}"));
    }
    if !(1..=MAX_SPAN_US).contains(&span_us) {
        return Err(format!("a span of {span_us} us is out of range: 1 to {MAX_SPAN_US}"));
    }
    let mut random = Random(seed);
    let mut made: Vec<(u64, &str)> = match pattern {
        Pattern::Steady => evenly(requests, span_us).map(|at_us| (at_us, "a")).collect(),
        Pattern::Random => (0..requests).map(|_| (random.below(span_us), "a")).collect(),
        Pattern::Bursts => {
            let burst = |n: u64| part(n * BURSTS / requests, BURSTS, span_us);
            (0..requests).map(|n| (burst(n), "a")).collect()
        }
        Pattern::TwoClients => {
            let others = requests / 4;
            let one = evenly(requests - others, span_us).map(|at_us| (at_us, "a"));
            one.chain((0..others).map(|_| (random.below(span_us), "b"))).collect()
        }
    };
    made.sort_unstable();
    let ask = |(at_us, subject): (u64, &str)| Ask {
        at_us,
        cost: 1,
        how: How::Check,
        subject: subject.to_owned(),
    };
    Ok(made.into_iter().map(ask).collect())
}

fn evenly(count: u64, span_us: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |n| part(n, count, span_us))
}

/// The start of the `n`th of `count` equal parts of a span. The product fits: at most 5,000 times
/// 10 years.
fn part(n: u64, count: u64, span_us: u64) -> u64 {
    n * span_us / count
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    /// A number from 0 to `end - 1`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pattern: Pattern, requests: u64, seed: u64) -> Vec<(u64, String)> {
        let traffic = Traffic { pattern, requests, span_us: 1_000, seed };
        asks(&traffic).unwrap().into_iter().map(|ask| (ask.at_us, ask.subject)).collect()
    }

    #[test]
    fn patterns_are_what_they_are_called() {
        let only = |list: &[u64]| list.iter().map(|at| (*at, "a".to_owned())).collect::<Vec<_>>();
        assert_eq!(times(Pattern::Steady, 4, 1), only(&[0, 250, 500, 750]));
        assert_eq!(times(Pattern::Bursts, 6, 1), only(&[0, 0, 250, 500, 500, 750]));
        let two = times(Pattern::TwoClients, 400, 1);
        assert_eq!(two.iter().filter(|(_, who)| who == "b").count(), 100);
        assert!(two.is_sorted() && two.len() == 400);
    }

    #[test]
    fn a_seed_gives_the_same_traffic_and_another_seed_another() {
        for pattern in [Pattern::Random, Pattern::TwoClients] {
            assert_eq!(times(pattern, 50, 7), times(pattern, 50, 7));
            assert_ne!(times(pattern, 50, 7), times(pattern, 50, 8));
        }
        let random = times(Pattern::Random, 4_000, 1);
        let early = random.iter().filter(|(at, _)| *at < 250).count();
        assert!((900..1_100).contains(&early), "{early} of 4000 in the first quarter");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let made = |requests, span_us| {
            asks(&Traffic { pattern: Pattern::Bursts, requests, span_us, seed: 0 })
        };
        assert_eq!(made(0, 1).unwrap_err(), "0 requests are out of range: 1 to 5000");
        assert!(
            made(5_001, 1).is_err() && made(1, 0).is_err() && made(1, MAX_SPAN_US + 1).is_err()
        );
        assert_eq!(made(5_000, MAX_SPAN_US).unwrap().len(), 5_000);
    }
}
