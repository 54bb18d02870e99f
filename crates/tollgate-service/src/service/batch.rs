//! Batches of questions, bounded in limits and in time.

use core::time::Duration;
use std::time::Instant;

use tollgate_policy::Answer;

use super::{Act, Kind, Question, Refusal, Service};

/// The most limits in all questions of one batch: the answer reports each of them.
const MAX_LIMITS: usize = 1_024;

/// The longest time for one batch: its caller waits for all of it.
const MAX_TIME: Duration = Duration::from_secs(1);

/// After this many limits, some tens of microseconds, a batch yields to other tasks.
const TURN_LIMITS: usize = 64;

impl Service {
    /// Answers `count` questions one after the other; each sees the charges of those before it.
    /// `read` parses a question when its turn comes. `receipt` of an answer reports whether the
    /// question requested one.
    pub(crate) async fn answer_all<'q, E: From<Refusal> + Send>(
        &self,
        count: usize,
        act: Act,
        read: impl Fn(usize) -> Result<Question<'q>, E> + Send,
    ) -> Vec<Result<(Answer<'static>, bool), E>> {
        let mut answers = Vec::with_capacity(count);
        let (began, mut limits, mut turn) = (Instant::now(), 0, 0);
        for place in 0..count {
            let question = within_bounds(began, limits).map_err(E::from).and_then(|()| read(place));
            let answer = match question {
                Ok(question) => {
                    let receipt = question.receipt;
                    let answer = self.answer(question, act).await;
                    answer.map(|answer| (answer, receipt)).map_err(E::from)
                }
                Err(error) => Err(error),
            };
            let decision = answer.as_ref().ok().and_then(|(answer, _)| answer.decision());
            let asked = decision.map_or(0, |decision| decision.reports().count());
            answers.push(answer);
            (limits, turn) = (limits + asked, turn + asked.max(1));
            // The memory store never waits, so without a yield no other task of this thread would
            // run.
            if turn >= TURN_LIMITS {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        answers
    }
}

fn within_bounds(began: Instant, limits: usize) -> Result<(), Refusal> {
    if began.elapsed() > MAX_TIME {
        let detail = format!("the items before took {MAX_TIME:?}: this one was not asked");
        return Err(Refusal::new(Kind::Unavailable, detail));
    }
    if limits > MAX_LIMITS {
        let detail = format!("the items before have {MAX_LIMITS} limits: this one was not asked");
        return Err(Refusal::invalid(detail));
    }
    Ok(())
}
