//! The order in which a store decided what was asked at the same time.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::measure::{Attempt, AttemptOutcome};

/// Sorts attempts in the order in which the store decided them.
///
/// A question sent after an answer has arrived is decided after that answer. So the decisions are
/// complete up to the newest answer that had arrived when the oldest open question was sent. Only
/// times of the store's clock are compared, which must not be set back.
#[derive(Default)]
pub(super) struct DecisionOrder {
    /// The latest decision time of all answers.
    newest: u64,
    /// The number of the first of `waiting`.
    first: u64,
    /// For each question since the oldest open one: the latest decision time when it was sent;
    /// `None` when it is done.
    waiting: VecDeque<Option<u64>>,
    /// The answers that were decided before others that had arrived when they were sent: the
    /// store's clock was set back.
    steps: u64,
    /// By decision time, and by the number of the question.
    ready: BinaryHeap<Reverse<(u64, u64, Attempt, AttemptOutcome)>>,
}

impl DecisionOrder {
    /// Records that a question is sent; returns its number.
    pub(super) fn send(&mut self) -> u64 {
        self.waiting.push_back(Some(self.newest));
        self.first + self.waiting.len() as u64 - 1
    }

    /// Records the outcome of a question, or that it will have none.
    pub(super) fn done(&mut self, number: u64, what: Option<(Attempt, AttemptOutcome)>) {
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let known = self.waiting.get_mut(place).and_then(Option::take);
        if let (Some(known), Some((_, outcome))) = (known, &what) {
            self.steps += u64::from(outcome.decided_us < known);
        }
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        if let Some((attempt, outcome)) = what {
            self.newest = self.newest.max(outcome.decided_us);
            self.ready.push(Reverse((outcome.decided_us, number, attempt, outcome)));
        }
    }

    /// The next attempt before which nothing can be missing.
    pub(super) fn next(&mut self) -> Option<(Attempt, AttemptOutcome)> {
        let complete = self.waiting.front().copied().flatten();
        let Reverse((decided_us, ..)) = self.ready.peek()?;
        if complete.is_some_and(|complete| *decided_us > complete) {
            return None;
        }
        self.ready.pop().map(|Reverse((.., attempt, outcome))| (attempt, outcome))
    }

    /// Takes the questions that are still open for ones without an answer.
    pub(super) fn close(&mut self) {
        self.waiting.clear();
    }

    /// The answers that show that the store's clock was set back.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(decided_us: u64) -> Option<(Attempt, AttemptOutcome)> {
        let attempt = Attempt {
            at_us: 0,
            first_us: 0,
            client: 0,
            cost: 1,
            workload: 0,
            tries: 0,
            request: 0,
        };
        Some((
            attempt,
            AttemptOutcome {
                decided_us,
                waited_us: 0,
                is_admitted: true,
                retry_after_us: None,
                is_last: true,
                is_counted: true,
            },
        ))
    }

    fn flush(order: &mut DecisionOrder) -> Vec<u64> {
        core::iter::from_fn(|| order.next()).map(|(_, outcome)| outcome.decided_us).collect()
    }

    #[test]
    fn answers_that_overtake_each_other_are_put_in_order() {
        let mut order = DecisionOrder::default();
        let sent: Vec<u64> = (0..4).map(|_| order.send()).collect();
        assert_eq!(sent, [0, 1, 2, 3]);
        order.done(1, outcome(20));
        order.done(3, outcome(10));
        assert!(flush(&mut order).is_empty(), "0 and 2 may have been decided before");
        let late = order.send();
        order.done(0, outcome(5));
        assert!(flush(&mut order).is_empty(), "2 may have been decided before 5");
        order.done(2, None);
        // The open question was sent when the answer decided at 20 was known.
        assert_eq!(flush(&mut order), [5, 10, 20]);
        order.done(late, outcome(21));
        assert_eq!(flush(&mut order), [21]);
        assert_eq!((order.waiting.len(), order.first, order.steps), (0, 5, 0));
        let back = order.send();
        order.done(back, outcome(20));
        assert_eq!((flush(&mut order), order.steps), (vec![20], 1));
    }
}
