//! The id of a job.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::Error;

/// The id of a job: the time of its acceptance in milliseconds since the Unix epoch, and its number
/// within that millisecond. The ids of a queue increase, as those of a Redis stream do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JobId {
    ms: u64,
    number: u64,
}

impl JobId {
    /// The id with this millisecond and number.
    #[must_use]
    pub fn new(ms: u64, number: u64) -> Self {
        Self { ms, number }
    }

    /// When the job was accepted, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.ms
    }

    /// The time since then; zero when the clock was set back, or for an id without a time.
    pub(crate) fn age(self, now_us: u64) -> Duration {
        let since_us = if self.ms == 0 { now_us } else { self.ms.saturating_mul(1_000) };
        Duration::from_micros(now_us.saturating_sub(since_us))
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// The next id in the same millisecond or, if `ms` is later, the first of `ms`.
    pub(crate) fn next(self, ms: u64) -> Self {
        if ms > self.ms { Self { ms, number: 0 } } else { Self { number: self.number + 1, ..self } }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('-').and_then(|(ms, number)| {
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            (digits(ms) && digits(number)).then_some(())?;
            Some(Self { ms: ms.parse().ok()?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| {
            Error::invalid(format!("`{text}` is not the id of a job, e.g. 1700000000000-0"))
        })
    }
}
