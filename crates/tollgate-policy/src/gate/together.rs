//! Checks of inline limits that a front decides together, such as the commands that one client
//! pipelined. They share two readings of the clock and one report for each outcome.

use core::time::Duration;
use std::time::Instant;

use smallvec::SmallVec;
use tollgate::{Ask, Counted, Decision, Error, Limit, Store, at_once};

use super::ask::no_answer;
use super::{Event, Inline};
use crate::outcome::{Authority, Outcome};

/// Answers that were given and not yet reported. [`Inline::report`] must receive them: a dropped
/// one is in no counter.
#[derive(Debug)]
#[must_use = "answers that are not reported are in no counter"]
pub struct CheckBatch {
    started: Option<Instant>,
    alike: SmallVec<[OutcomeCount; 2]>,
    /// Whether the observer receives the subjects of all answers.
    wants_further: bool,
}

/// The answers of one outcome.
#[derive(Debug)]
struct OutcomeCount {
    outcome: Outcome,
    answers: u64,
    /// The limit and the subject of the first one, for the observer.
    limit: Limit,
    subject: Box<str>,
}

impl<S: Store> Inline<'_, S> {
    /// Begins checks that are decided together; `None` unless the store answers immediately, as
    /// memory does.
    #[inline]
    pub fn batch(self) -> Option<CheckBatch> {
        let together = || CheckBatch {
            started: self.gate.started(),
            alike: SmallVec::new(),
            wants_further: self.gate.0.observer.as_ref().is_some_and(|it| it.wants_further()),
        };
        self.gate.store().facts().answers_at_once.then(together)
    }

    /// Checks one count under inline limits, and charges when all of them admit, as
    /// [`Inline::check`] does, without async. `view` reads the decision. The answer enters the
    /// counters with [`Inline::report`].
    ///
    /// # Errors
    /// An invalid ask, such as a cost of 0, or a store failure. Neither is part of the report.
    #[inline]
    pub fn check_in<T>(
        self,
        together: &mut CheckBatch,
        counted: Counted<'_>,
        cost: u64,
        view: impl FnOnce(&Decision<'_>) -> T,
    ) -> Result<T, Error> {
        let check = || self.gate.0.limiter.check(Ask::from(counted).cost(cost));
        // Read in place: the processor stalls on a move of data that was written just now.
        let checked = check().at_once();
        if let Some(Ok(decision)) = &checked {
            self.add(together, decision);
            return Ok(view(decision));
        }
        let decision = match checked {
            Some(answer) => answer?,
            None => at_once(check()).unwrap_or_else(|| Err(no_answer()))?,
        };
        self.add(together, &decision);
        Ok(view(&decision))
    }

    #[inline]
    fn add(self, together: &mut CheckBatch, decision: &Decision<'_>) {
        let outcome = Outcome::from(decision.verdict());
        if together.add(outcome, decision)
            && together.wants_further
            && let Some(observer) = &self.gate.0.observer
        {
            observer.observe_further(decision.binding().subject(), outcome);
        }
    }

    /// Counts these answers, and reports them to the observer: one event for each outcome, with the
    /// mean duration of all answers, and the subject and the limit of the first one.
    pub fn report(self, together: CheckBatch) {
        let CheckBatch { started, alike, .. } = together;
        let answers: u64 = alike.iter().map(|alike| alike.answers).sum();
        if answers == 0 {
            return;
        }
        self.gate.0.loss.answered();
        let mean = |whole: Duration| {
            let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
            Duration::from_nanos(nanos / answers)
        };
        let duration = started.map(|started| mean(started.elapsed()));
        for OutcomeCount { outcome, answers, limit, subject } in &alike {
            self.gate.0.inline.add_many(*outcome, Authority::Store, *answers);
            let Some((observer, duration)) = self.gate.0.observer.as_ref().zip(duration) else {
                continue;
            };
            observer.observe(&Event {
                policy: None,
                rule: None,
                limit: Some(limit),
                subject: Some(subject),
                outcome: *outcome,
                authority: Authority::Store,
                error: None,
                duration,
                decides: true,
                is_recorded: true,
                answers: *answers,
            });
        }
    }
}

impl CheckBatch {
    /// True if there was an answer with this outcome before.
    #[inline]
    fn add(&mut self, outcome: Outcome, decision: &Decision<'_>) -> bool {
        match self.alike.iter_mut().find(|alike| alike.outcome == outcome) {
            Some(alike) => {
                alike.answers += 1;
                true
            }
            None => {
                self.begin(outcome, decision);
                false
            }
        }
    }

    #[inline(never)]
    fn begin(&mut self, outcome: Outcome, decision: &Decision<'_>) {
        let binding = decision.binding();
        let (limit, subject) = (binding.limit().clone(), binding.subject().into());
        self.alike.push(OutcomeCount { outcome, answers: 1, limit, subject });
    }
}
