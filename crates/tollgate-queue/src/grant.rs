//! How many jobs the limits of a queue let through.

use core::time::Duration;

use crate::error::Error;

/// How many a rate lets through, and after how long one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) jobs: usize,
    pub(crate) next: Option<Duration>,
}

impl Grant {
    /// What a rate lets through of `there`, when `ask` says of so many how many it admits and after
    /// how long one more.
    pub(crate) fn from_rate(
        there: usize,
        mut ask: impl FnMut(u64) -> Result<(u64, Option<Duration>), Error>,
    ) -> Result<Self, Error> {
        let all = u64::try_from(there).unwrap_or(u64::MAX);
        let (mut granted, _) = ask(all)?;
        let mut next = None;
        if granted < all {
            // What is left is nothing, so this says when one more may go; unless it goes now.
            let one = ask(1)?;
            granted += one.0;
            next = one.1;
        }
        Ok(Self { jobs: usize::try_from(granted).unwrap_or(there), next })
    }
}
