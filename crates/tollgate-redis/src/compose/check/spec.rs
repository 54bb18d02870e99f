//! The parts of a check's script, and the format of its reply.

use tollgate::Unit;
use tollgate::engine::Mode;

use crate::compose::clock::Clock;

/// The format of a script's reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplyFormat {
    /// The nonce, the granted units, the time, then `remaining`, `retry_after` (-1 for never) and
    /// `reset_after` of each limit; times in microseconds. Two more numbers follow per limit if a
    /// charge was recorded at another time than now, or a count was carried over from other
    /// numbers. They are the time of the record, and 0 (same numbers), 1 (carried over) or 2
    /// (started fresh).
    Verbose,
    /// 1 for allow, 0 for deny.
    Boolean,
    /// A text. `OK` for allow; of a partial check `OK: 3`, the granted units. For deny the label of
    /// the limit with the longest wait ([`Check::labels`]), and how much of it is used: `CONSUMER
    /// OVERLIMIT: 3`. `CONSUMER NEVER: 3` is a cost above its capacity of 3, and `CONSUMER BANNED`
    /// a ban.
    Words,
    /// As `Verbose`, remembered under a request id. After the nonce come the number of the charge,
    /// which is another nonce for a repeated answer, and how many ids were forgotten for this one
    /// before their time, or -1 for an id that was repeated too often. Another question under the
    /// same id gets the nonce and -1.
    ///
    /// The last key is that of the ids. The third argument is 16 bytes of the id and 8 of the
    /// question, the fourth for how many microseconds it is remembered.
    Remembered,
}

/// Describes the script of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// The clock.
    pub clock: Clock,
    /// The format of the reply.
    pub reply: ReplyFormat,
    /// The units of the cost, each with an argument for its amount: the first argument, and one for
    /// each other behind the others. A limit of another unit has the amount 0.
    pub units: Vec<Unit>,
    /// The labels of the limits in the order of a reply, for [`ReplyFormat::Words`]. One that is
    /// absent is the number of its limit, from 1.
    pub labels: Vec<String>,
}

impl Check {
    /// A check by the server's clock, with the verbose reply.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let units = vec![Unit::REQUESTS];
        let (clock, reply, labels) = (Clock::Server, ReplyFormat::Verbose, Vec::new());
        Self { mode, clock, reply, units, labels }
    }

    /// The number of the argument with the amount of each unit but the first.
    pub(super) fn amount_arguments(&self) -> impl Iterator<Item = usize> {
        let first = self.arguments_of_answer();
        (1..self.units.len()).map(move |place| first + place)
    }

    fn arguments_of_answer(&self) -> usize {
        match self.reply {
            ReplyFormat::Boolean | ReplyFormat::Words => 1,
            ReplyFormat::Verbose => 2,
            ReplyFormat::Remembered => 4,
        }
    }

    /// The number of arguments of the script.
    #[must_use]
    pub fn arguments(&self) -> usize {
        let answer = self.arguments_of_answer();
        answer + self.units.len() - 1 + usize::from(self.clock != Clock::Server)
    }
}
