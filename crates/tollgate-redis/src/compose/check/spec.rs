//! What the script of a check does, and what it answers.

use tollgate::engine::Mode;

use crate::compose::Clock;

/// What a script answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplyFormat {
    /// The nonce, the units granted, the time, then `remaining`, `retry_after` (-1 for never) and
    /// `reset_after` of each limit; times in microseconds. Where a charge was recorded at another
    /// time than now, or a count was carried over from other numbers: two more for each limit,
    /// when it was recorded and 0 (same numbers), 1 (carried over) or 2 (started fresh).
    Verbose,
    /// 1 for allow, 0 for deny.
    Boolean,
    /// As `Verbose`, with the number of the charge after the nonce, and remembered under a request
    /// id: a repeat is answered as the first was, another question under the id with the nonce
    /// and -1.
    Remembered,
}

/// Describes the script of a check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Check {
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// Whose clock counts.
    pub clock: Clock,
    /// What it answers.
    pub reply: ReplyFormat,
}

impl Check {
    /// A check by the server's clock, with the verbose answer.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, clock: Clock::Server, reply: ReplyFormat::Verbose }
    }

    /// How many arguments the script takes.
    #[must_use]
    pub fn arguments(&self) -> usize {
        let answer = match self.reply {
            ReplyFormat::Boolean => 1,
            ReplyFormat::Verbose => 2,
            ReplyFormat::Remembered => 4,
        };
        answer + usize::from(self.clock != Clock::Server)
    }
}
