//! When to wait in place for an answer: for a question that is alone, on a server that is near.
//!
//! To sleep until a socket can be read, and to be woken, takes longer than a near server takes to
//! answer. So the loop's thread looks for a short time whether the answer is there. That costs
//! processor time, and whatever else the loop has to do waits; so all of it is bounded.

use core::time::Duration;

/// The longest wait in place.
pub(crate) const LONGEST: Duration = Duration::from_micros(100);

/// So many answers may come in place one after the other. Then the loop has its turn.
const IN_A_ROW: u32 = 8;

/// After two questions in flight together, this many must have been alone before one is waited for
/// in place: those two go out together.
const ALONE: u32 = 32;

/// The maximum number of questions that are not waited for in place after a wait without success.
const MOST_SKIPPED: u32 = 1024;

/// The history of the questions until now.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    in_a_row: u32,
    not_alone: u32,
    skip: u32,
    /// How many are skipped after the next wait without success.
    next_skip: u32,
    /// How many answers came in place, and how many did not.
    pub(crate) total: (u64, u64),
}

impl Spin {
    /// Whether to wait in place for a question; `is_only` where no other is under way.
    pub(crate) fn may_wait(&mut self, is_only: bool) -> bool {
        if !is_only {
            self.not_alone = ALONE;
            return false;
        }
        if self.not_alone > 0 || self.skip > 0 {
            self.not_alone = self.not_alone.saturating_sub(1);
            self.skip = self.skip.saturating_sub(1);
            return false;
        }
        self.in_a_row < IN_A_ROW
    }

    /// The answer came in place.
    pub(crate) fn came(&mut self) {
        self.in_a_row += 1;
        self.next_skip = 0;
        self.total.0 += 1;
    }

    /// It did not. The longer the server was far, the longer nobody tries.
    pub(crate) fn in_vain(&mut self) {
        self.next_skip = (self.next_skip * 2).clamp(1, MOST_SKIPPED);
        self.skip = self.next_skip;
        self.total.1 += 1;
    }

    /// The loop has had its turn.
    pub(crate) fn loop_ran(&mut self) {
        self.in_a_row = 0;
    }
}
