//! How many jobs the rate limits of a queue admit.

use core::time::Duration;

use crate::error::Error;

/// How many jobs a rate admits, and the time until it admits one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // whoever takes builds it
pub struct Grant {
    /// How many jobs.
    pub jobs: usize,
    /// The time until one more is admitted.
    pub next: Option<Duration>,
}

impl Grant {
    /// How many of `there` jobs a rate admits. `ask` returns, for a number of jobs, how many are
    /// admitted and the time until one more is.
    pub(crate) fn from_rate(
        there: usize,
        mut ask: impl FnMut(u64) -> Result<(u64, Option<Duration>), Error>,
    ) -> Result<Self, Error> {
        let all = u64::try_from(there).unwrap_or(u64::MAX);
        let (mut granted, _) = ask(all)?;
        let mut next = None;
        if granted < all {
            // The rest was not admitted, so this call returns the wait for one more, unless one is
            // admitted now.
            let one = ask(1)?;
            granted += one.0;
            next = one.1;
        }
        Ok(Self { jobs: usize::try_from(granted).unwrap_or(there), next })
    }
}
