//! Checks: from the node's own units, or by the store.

use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::engine::{Mode, Outcome};
use tollgate::operation::Check;
use tollgate::{Authority, Cost, Counted, Lease, Question, Store, StoreError};

use crate::denial::{Asked, Denial};
use crate::holding::{Flight, Renewal, Step, Turn};
use crate::leased::{Counts, Leased, add, leased_of};
use crate::lot::{Lot, is_paid_by_credits, receipts_of};

/// The answer of a lease to a check.
enum LeaseAnswer {
    Answer(Outcome),
    /// The store has to be asked. True if time has passed in a wait.
    Ask(bool),
}

/// Ends a renewal, also where its check was dropped.
struct Renewing<'r, S: Store> {
    leased: &'r Leased<S>,
    part: Counted<'r>,
    hash: u64,
    is_answered: bool,
}

impl<S: Store> Drop for Renewing<'_, S> {
    fn drop(&mut self) {
        let mut shard = self.leased.0.held.lock(self.hash);
        if let Some(held) = shard.find(self.hash, |held| held.is(&self.part)) {
            held.holding.end_renewal(self.is_answered);
        }
    }
}

impl<S: Store> Leased<S> {
    /// The answer of a lease for `cost` units of one count: units, a denial, or nothing.
    async fn lease(
        &self,
        part: Counted<'_>,
        lease: &Lease,
        cost: u64,
        (deadline, started_us): (Option<Duration>, u64),
    ) -> Result<LeaseAnswer, StoreError> {
        let hash = self.hash(part.subject);
        if !self.know(hash, &part, started_us) {
            return Ok(LeaseAnswer::Ask(false));
        }
        let mut turn = Turn::First;
        let mut now_us = started_us;
        loop {
            let left = left_of(deadline, started_us, now_us);
            let step =
                self.with_holding(hash, &part, |holding| holding.step(lease, cost, turn, now_us));
            match step {
                Some(Step::Answer(outcome)) => return Ok(LeaseAnswer::Answer(outcome)),
                Some(Step::Renew(renewal)) => {
                    return self.renew((part, hash), lease, renewal, left).await;
                }
                Some(Step::Wait(flight)) => {
                    self.wait(hash, &part, &flight, left).await?;
                    turn = match flight.is_answered() {
                        true => Turn::AfterRenewal,
                        false => Turn::AfterFailure,
                    };
                    now_us = self.now_us();
                }
                Some(Step::Ask) | None => return Ok(LeaseAnswer::Ask(turn != Turn::First)),
            }
        }
    }

    /// Waits for the end of a renewal, unless it has ended.
    async fn wait(
        &self,
        hash: u64,
        part: &Counted<'_>,
        flight: &Arc<Flight>,
        deadline: Option<Duration>,
    ) -> Result<(), StoreError> {
        let mut ended = core::pin::pin!(flight.ended.notified());
        ended.as_mut().enable();
        let is_under_way = {
            let mut shard = self.0.held.lock(hash);
            let held = shard.find(hash, |held| held.is(part));
            held.is_some_and(|held| held.holding.is_renewed_by(flight))
        };
        if !is_under_way {
            return Ok(());
        }
        // A question without a deadline ends by the store's own, and the renewal with it.
        let deadline = deadline.or_else(|| self.0.store.facts().deadline);
        let Some(deadline) = deadline.filter(|_| tokio::runtime::Handle::try_current().is_ok())
        else {
            ended.await;
            return Ok(());
        };
        tokio::time::timeout(deadline, ended).await.map_err(|_| {
            StoreError::transient(
                "the deadline was over before a charge ahead was answered: nothing was charged for \
                 this check",
            )
        })
    }

    /// Charges units ahead, and answers the check that does so.
    async fn renew(
        &self,
        (part, hash): (Counted<'_>, u64),
        lease: &Lease,
        mut renewal: Renewal,
        deadline: Option<Duration>,
    ) -> Result<LeaseAnswer, StoreError> {
        let mut renewing = Renewing { leased: self, part, hash, is_answered: false };
        let units = renewal.asked();
        let receipts = receipts_of(units);
        // As many as there are will do, where this check needs no more than one.
        let mode = if renewal.need <= 1 { Mode::Partial } else { Mode::Whole };
        let (counts, cost) = ([part], Cost::of_unit(*lease.unit(), units));
        let mut question = Question::new(&counts, &cost, mode).with_receipts(receipts);
        question.deadline = deadline;
        let sent_us = self.now_us();
        add(&self.0.counts.asked, 1);
        let answer = self.0.store.perform(&Check::new(&question)).await;
        let now_us = self.now_us();
        let asked = Asked { sent_us, answered_us: now_us };
        let outcome = match (answer, renewal.spent.take()) {
            // This check has its units: the next one learns of the failure.
            (Err(_), Some(spent)) => return Ok(LeaseAnswer::Answer(spent)),
            (Err(error), None) => return Err(error),
            (Ok(outcome), spent) => {
                renewal.spent = spent;
                outcome
            }
        };
        renewing.is_answered = true;
        let is_denied = outcome.granted == 0;
        let got = self.with_holding(hash, &part, |holding| {
            if is_denied {
                let cost = if mode == Mode::Partial { 1 } else { units };
                if let Some(denial) = Denial::new(&outcome, cost, asked, self.0.longest_us) {
                    holding.denied(denial, asked, (lease, self.0.longest_us));
                }
                return None;
            }
            let numbers = (receipts, self.0.store.facts().receipt_step);
            let lot = Lot::new(&outcome, (part.limits, lease), asked, numbers);
            holding.renewed((&outcome, lot), &renewal, asked, (lease, self.0.longest_us))
        });
        drop(renewing);
        if is_paid_by_credits(&outcome) {
            Box::pin(self.give_back_ended()).await;
        }
        add(&self.0.counts.renewals, 1);
        add(&self.0.counts.charged, outcome.granted);
        if let Some(spent) = renewal.spent {
            return Ok(LeaseAnswer::Answer(spent));
        }
        Ok(match got.flatten() {
            Some(answer) => LeaseAnswer::Answer(answer),
            // The one unit that this check needs was denied.
            None if is_denied && mode == Mode::Partial => LeaseAnswer::Answer(outcome),
            None => LeaseAnswer::Ask(true),
        })
    }

    /// Counts an answer that needed no question.
    pub(crate) fn counted(&self, outcome: Outcome) -> Outcome {
        let Counts { admitted, denied, .. } = &self.0.counts;
        match outcome.authority {
            Authority::Lease => add(admitted, 1),
            Authority::DenyCache => add(denied, 1),
            _ => {}
        }
        outcome
    }

    /// Answers a question about one count under a lease.
    pub(crate) async fn check_one(
        &self,
        question: &Question<'_>,
        part: Counted<'_>,
    ) -> Result<Outcome, StoreError> {
        let Question { mode, deadline, .. } = *question;
        let Some((lease, cost)) = leased_of(&part, question.cost) else {
            return self.ask(question).await;
        };
        // A part of a larger cost is granted by the store, which knows all that remains.
        if mode.is_partial() && cost > 1 {
            add(&self.0.counts.asked, 1);
            return self.0.store.perform(&Check::new(question)).await;
        }
        let started_us = self.now_us();
        let has_waited = match self.lease(part, lease, cost, (deadline, started_us)).await? {
            LeaseAnswer::Answer(outcome) => return Ok(self.counted(outcome)),
            LeaseAnswer::Ask(has_waited) => has_waited,
        };
        add(&self.0.counts.asked, 1);
        let sent_us = if has_waited { self.now_us() } else { started_us };
        let outcome = if has_waited {
            let mut question = *question;
            question.deadline = left_of(deadline, started_us, sent_us);
            self.0.store.perform(&Check::new(&question)).await?
        } else {
            self.0.store.perform(&Check::new(question)).await?
        };
        let asked = Asked { sent_us, answered_us: self.now_us() };
        self.with_holding(self.hash(part.subject), &part, |holding| {
            holding.answered(&outcome, asked);
            if let Some(denial) = Denial::new(&outcome, cost, asked, self.0.longest_us) {
                holding.denied(denial, asked, (lease, self.0.longest_us));
            }
        });
        Ok(outcome)
    }

    /// Answers a question about several counts, some of them leased. The leased units are set
    /// aside, the store is asked about the rest, and a denial puts them back.
    pub(crate) async fn check_several(
        &self,
        question: &Question<'_>,
    ) -> Result<Outcome, StoreError> {
        let Question { deadline, cost, .. } = *question;
        let mut aside = SetAside { leased: self, spent: SmallVec::new() };
        let mut rest: SmallVec<[Counted<'_>; 1]> = SmallVec::new();
        for (place, part) in question.parts.iter().enumerate() {
            let got = match leased_of(part, cost) {
                Some((lease, units)) => {
                    self.lease(*part, lease, units, (deadline, self.now_us())).await?
                }
                None => LeaseAnswer::Ask(false),
            };
            match got {
                LeaseAnswer::Answer(outcome) if outcome.granted > 0 => {
                    aside.spent.push((place, *part, outcome));
                }
                _ => rest.push(*part),
            }
        }
        if aside.spent.is_empty() {
            return self.ask(question).await;
        }
        let mut outcome = match rest.is_empty() {
            true => aside.outcome(cost.first()),
            false => {
                let mut rest_of = *question;
                rest_of.parts = &rest;
                self.ask(&rest_of).await?
            }
        };
        aside.complete(&mut outcome, question);
        Ok(self.counted(outcome))
    }
}

/// The rest of a deadline.
fn left_of(deadline: Option<Duration>, started_us: u64, now_us: u64) -> Option<Duration> {
    let passed = Duration::from_micros(now_us.saturating_sub(started_us));
    deadline.map(|deadline| deadline.saturating_sub(passed))
}

/// Units that are set aside until the store has answered about the rest. They are put back when
/// this is dropped, unless the check was admitted.
struct SetAside<'a, S: Store> {
    leased: &'a Leased<S>,
    /// With the places of the counts in the question.
    spent: SmallVec<[(usize, Counted<'a>, Outcome); 1]>,
}

impl<S: Store> SetAside<'_, S> {
    /// The answer where nothing else is asked about.
    fn outcome(&self, granted: u64) -> Outcome {
        let first = self.spent.first().map(|(_, _, outcome)| (outcome.receipt, outcome.now));
        let (receipt, now) = first.unwrap_or_default();
        Outcome::new(granted, SmallVec::new(), receipt, now)
    }

    /// Adds the fields of the units that were set aside to the answer about the rest, in the order
    /// of the question.
    fn complete(mut self, outcome: &mut Outcome, question: &Question<'_>) {
        let mut rest = core::mem::take(&mut outcome.fields).into_iter();
        for (place, part) in question.parts.iter().enumerate() {
            match self.spent.iter().find(|(aside, ..)| *aside == place) {
                None => outcome.fields.extend(rest.by_ref().take(part.limits.limits().len())),
                Some((_, _, spent)) => outcome.fields.extend(spent.fields.iter().map(|fields| {
                    let mut fields = *fields;
                    if outcome.granted == 0 {
                        // It is put back.
                        fields.remaining = fields.remaining.saturating_add(spent.granted);
                    }
                    fields
                })),
            }
        }
        if outcome.granted > 0 {
            outcome.authority = Authority::Lease;
            self.spent.clear();
        }
    }
}

impl<S: Store> Drop for SetAside<'_, S> {
    fn drop(&mut self) {
        for (_, part, outcome) in self.spent.drain(..) {
            let (hash, now_us) = (self.leased.hash(part.subject), self.leased.now_us());
            self.leased.with_holding(hash, &part, |holding| {
                holding.put_back(outcome.receipt, outcome.granted, now_us);
            });
        }
    }
}
