//! The fast path: throttle commands that a client pipelined, where the store answers immediately,
//! as memory does. They are decided without a future, with one reading of the service's clock, and
//! enter the counters together.

use tollgate_policy::CheckBatch;

use super::codec::Words;
use super::command::Run;
use super::commands::TABLE;
use super::reply::Replies;
use super::session::{Session, Shared};
use super::throttle;

/// The calls that were answered and are not in the counters.
#[derive(Debug, Default)]
pub(super) struct Batch {
    together: Option<CheckBatch>,
    /// The place of the command in the table, and how many calls of it were answered.
    place: usize,
    answers: u64,
}

impl Batch {
    /// Answers a call; false for all else, which must take the usual path after [`Batch::end`].
    #[inline]
    pub(super) fn answer(
        &mut self,
        session: &mut Session,
        words: &Words<'_>,
        replies: &mut Replies,
    ) -> bool {
        let Ok((place, command)) = TABLE.find(words) else { return false };
        let Run::Throttle(dialect) = command.run else { return false };
        let queues = session.transaction.is_some();
        if queues || session.user.is_none() || self.answers > 0 && self.place != place {
            return false;
        }
        let Session { shared, last, .. } = session;
        let Shared { service, metrics, .. } = &**shared;
        if self.together.is_none() {
            // Each call has its own span in a trace.
            self.together = service.gate.inline().batch().filter(|_| metrics.traces().is_none());
        }
        let Some(together) = &mut self.together else { return false };
        let answered = throttle::answer_at_once(dialect, words, (service, together), last, replies);
        self.answers += u64::from(answered);
        self.place = place;
        answered
    }

    /// Enters the answers into the counters.
    pub(super) fn end(&mut self, shared: &Shared) {
        if let Some(together) = self.together.take() {
            shared.service.gate.inline().report(together);
            shared.count(Some(self.place), false, self.answers);
            self.answers = 0;
        }
    }
}
