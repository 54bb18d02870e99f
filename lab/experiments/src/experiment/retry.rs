//! The behaviour of clients after a denial.

use tollgate_logs::split_mix::SplitMix64;

/// The behaviour of a client after a denied request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Retry {
    /// It gives up.
    #[default]
    Never,
    /// It retries immediately, after the duration of an answer.
    AtOnce {
        /// Microseconds from one attempt to the next.
        pause_us: u64,
        /// The most retries.
        times: u32,
    },
    /// It retries exactly after the denial's `retry_after`; after a permanent denial it gives up.
    Obey {
        /// The most retries.
        times: u32,
    },
    /// It waits a random time before each retry, whose maximum doubles (exponential back-off).
    BackOff {
        /// The longest first pause, in microseconds.
        base_us: u64,
        /// The longest pause, in microseconds.
        most_us: u64,
        /// The most retries.
        times: u32,
    },
}

impl Retry {
    /// The microseconds until the next retry of a request that was denied `tries` times before,
    /// where `retry_after_us` is from the denial. `None`: it gives up.
    pub(super) fn after(
        self,
        seed: u64,
        request: u64,
        tries: u32,
        retry_after_us: Option<u64>,
    ) -> Option<u64> {
        match self {
            Self::AtOnce { pause_us, times } if tries < times => Some(pause_us),
            Self::Obey { times } if tries < times => retry_after_us,
            Self::BackOff { base_us, most_us, times } if tries < times => {
                let longest = base_us.saturating_mul(1 << tries.min(32)).min(most_us);
                // Seed by request, not by the order of denials, so that pauses are the same under
                // every strategy.
                let mut rng = SplitMix64::new(seed ^ request.rotate_left(20) ^ u64::from(tries));
                Some(1 + rng.below(longest))
            }
            _ => None,
        }
    }

    /// The most retries of a request that is denied each time, with `left_us` to the end and this
    /// many requests in total. A client that backs off is assumed to wait half of the longest
    /// pause.
    pub(super) fn most(self, left_us: u64, requests: u64) -> u64 {
        match self {
            Self::Never => 0,
            // The last retry is before the end.
            Self::AtOnce { pause_us, times } => {
                u64::from(times).min(left_us.saturating_sub(1) / pause_us.max(1))
            }
            // A client that obeys `retry_after` is denied again only if another request was
            // admitted instead.
            Self::Obey { times } => u64::from(times).min(requests),
            Self::BackOff { base_us, most_us, times } => {
                let (mut left_us, mut tries) = (left_us, 0);
                let mut longest_us = base_us.clamp(1, most_us.max(1));
                while longest_us < most_us && longest_us / 2 < left_us && tries < u64::from(times) {
                    left_us -= longest_us / 2;
                    tries += 1;
                    longest_us = longest_us.saturating_mul(2).min(most_us);
                }
                let more = left_us / (longest_us / 2).max(1);
                u64::from(times).min(tries.saturating_add(more))
            }
        }
    }

    /// Whether no client ever retries.
    pub(super) fn is_never(self) -> bool {
        matches!(
            self,
            Self::Never
                | Self::AtOnce { times: 0, .. }
                | Self::Obey { times: 0 }
                | Self::BackOff { times: 0, .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_up_when() {
        let never = |retry: Retry| retry.after(1, 2, 0, Some(5)).is_none();
        assert!(never(Retry::Never) && never(Retry::Obey { times: 0 }));
        assert_eq!(Retry::Obey { times: 1 }.after(1, 2, 0, Some(5)), Some(5));
        assert_eq!(Retry::Obey { times: 1 }.after(1, 2, 0, None), None, "never is never");
        assert_eq!(Retry::Obey { times: 1 }.after(1, 2, 1, Some(5)), None, "it was the last");
        let at_once = Retry::AtOnce { pause_us: 7, times: 3 };
        assert_eq!(at_once.after(1, 2, 2, Some(5)), Some(7));
    }

    #[test]
    fn who_backs_off_waits_up_to_twice_as_long() {
        let retry = Retry::BackOff { base_us: 100, most_us: 1_000, times: 60 };
        for tries in 0..60 {
            let longest = (100 << tries.min(10)).min(1_000);
            let pauses: Vec<u64> =
                (0..200).filter_map(|request| retry.after(9, request, tries, None)).collect();
            assert_eq!(pauses.len(), 200);
            assert!(pauses.iter().all(|pause| (1..=longest).contains(pause)), "{tries}");
            assert!(pauses.iter().any(|pause| *pause > longest / 2), "{tries}");
            assert_eq!(retry.after(9, 3, tries, None), Some(pauses[3]), "the same again");
        }
    }
}
