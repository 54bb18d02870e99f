//! Checks over subjects that lie in several slots of a cluster.
//!
//! Each slot is charged by one call, atomically, all concurrently. If a slot denies or fails, the
//! others give back what they charged. So a check is all or nothing as on one server, but not at
//! one time: others may be denied because of a charge that is about to be given back.
//!
//! A give-back is sent once, and leaves no mark and no key. One that is lost leaves its charge, as
//! does a caller that dies between the two calls: too little is admitted then, never too much.
//!
//! A named hold is one in each slot, under a name that no other counts have. To ask again places it
//! where it is missing. A denial takes back only what this question has placed, unless another
//! question under the name was answered with it since.
//!
//! A caller that is denied over and over would withhold from the others what it charges in the
//! meantime. So the slot that denied a subject for the longest time is asked first and alone, until
//! its `retry_after` has passed; the other slots are only peeked at. One of these that denies as
//! well is asked, too, where a ban counts denials: a peek counts none.

use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::engine::{Charged, Fields, Mode, Outcome, Placed};
use tollgate::{
    Amounts, Charges, Cost, Counted, Hold, HoldId, HoldKind, HoldTerms, Patience, Question,
    Receipt, Settled, Store as _, StoreError, Time,
};

use super::places::{Slots, in_order};
use super::redis_store::RedisStore;
use super::refund::Left;
use crate::client::key_slot;
use crate::node::Deadline;

/// The answer of a slot.
type Answer = Result<Outcome, StoreError>;

impl RedisStore {
    /// The parts of a question by their slots, if those are several.
    pub(super) fn slots_of_question(&self, question: &Question<'_>) -> Option<Slots> {
        let [_, _, ..] = question.parts else { return None };
        if !self.0.client.is_cluster() || question.shard().is_some() || self.0.keys.is_sharded() {
            return None;
        }
        several(question.parts.iter().map(|part| self.0.keys.for_count(*part)))
    }

    /// The charges of a receipt by their slots, if those are several.
    pub(super) fn slots_of_receipt(&self, receipt: &Receipt) -> Option<Slots> {
        let [_, _, ..] = &receipt.charges[..] else { return None };
        if !self.0.client.is_cluster() || receipt.shard.is_some() || self.0.keys.is_sharded() {
            return None;
        }
        let keys = receipt.charges.iter();
        several(keys.map(|charges| self.0.keys.state(&charges.subject, &charges.limits)))
    }

    /// The counts of a hold by their slots, if those are several.
    pub(super) fn slots_of_hold(&self, hold: &Hold) -> Option<Slots> {
        let [_, _, ..] = &hold.counts[..] else { return None };
        if !self.0.client.is_cluster() || hold.shard.is_some() || self.0.keys.is_sharded() {
            return None;
        }
        several(hold.counts.iter().map(|(subject, limits)| self.0.keys.state(subject, limits)))
    }

    /// Answers a question over several slots.
    pub(super) async fn check_across(&self, question: &Question<'_>, slots: &Slots) -> Answer {
        // The id of a proxy that knows nothing of slots is not used: each question is charged.
        if question.request.is_some_and(|id| !id.is_of_each_question()) {
            return Err(StoreError::misuse(
                "a request id cannot be remembered in several slots of a cluster at once: keep the \
                 subjects in one slot with a `shard`, or ask without an id",
            ));
        }
        let mut terms = question.hold.copied();
        if terms.is_some_and(|terms| terms.patience == Patience::InLine) {
            return Err(StoreError::misuse(
                "no line is kept in several slots of a cluster at once: keep the subjects in one \
                 slot with a `shard`, or wait without a line",
            ));
        }
        if let Some(terms) = &mut terms {
            let keys = question.parts.iter().map(|part| self.0.keys.for_count(*part));
            terms.id = over(terms.id, keys);
        }
        let by = Deadline::within(question.deadline.unwrap_or(self.0.deadline));
        let part = |place: &usize| question.parts.get(*place).copied();
        let of_each = slots.iter().map(|places| places.iter().filter_map(part).collect());
        let of_each: Vec<Vec<Counted<'_>>> = of_each.collect();
        let groups = of_each.iter().map(|parts| {
            let mut group = Question::new(parts, question.cost, question.mode);
            (group.deadline, group.receipts) = (question.deadline, question.receipts);
            group.hold = terms.as_ref();
            group
        });
        let groups: Vec<Question<'_>> = groups.collect();
        // One number for all, so that the receipt of the check has one.
        let number = self.next_nonces(question.receipts);
        let all = 0..groups.len();
        let mut answers: Vec<Option<Answer>> = all.clone().map(|_| None).collect();
        let first = if question.mode.is_peek() { None } else { self.longest_denied(&groups) };
        if let Some(first) = first {
            let denied: Vec<bool> = all.clone().map(|place| place == first).collect();
            let asked = join_all(groups.iter().zip(&denied).map(|(group, first)| async move {
                match first {
                    true => self.check_in_slot(group, number, by).await,
                    false => self.peek(group, by).await,
                }
            }));
            let asked = asked.await;
            let is_refused = |(answer, first): (&Answer, &bool)| {
                *first && !answer.as_ref().is_ok_and(|outcome| outcome.granted > 0)
            };
            if asked.iter().zip(&denied).any(is_refused) {
                let (asked, charged) = self.count_denials(&groups, asked, denied, number, by).await;
                let charged = all.filter(|place| charged.get(*place) == Some(&true));
                return self.conclude(question, slots, &groups, asked, charged).await;
            }
            for ((slot, answer), first) in answers.iter_mut().zip(asked).zip(&denied) {
                *slot = first.then_some(answer);
            }
        }
        let asked = join_all(groups.iter().zip(answers).map(|(group, known)| async move {
            match known {
                Some(answer) => answer,
                // The charges of the first are given back where the deadline has passed.
                None => self.check_in_slot(group, number, by).await,
            }
        }));
        let asked = asked.await;
        self.conclude(question, slots, &groups, asked, 0..groups.len()).await
    }

    /// Asks the slots again that were only peeked at, and deny by themselves what another slot has
    /// denied, where a ban counts denials. Returns the answers, and which slots were asked.
    async fn count_denials(
        &self,
        groups: &[Question<'_>],
        answers: Vec<Answer>,
        mut asked: Vec<bool>,
        number: u64,
        by: Deadline,
    ) -> (Vec<Answer>, Vec<bool>) {
        let counts = |group: &Question<'_>, answer: &Answer| {
            let is_denied = answer.as_ref().is_ok_and(|outcome| outcome.granted == 0);
            is_denied
                && !group.mode.waits()
                && group.parts.iter().any(|part| part.limits.hears_denials())
        };
        let each = groups.iter().zip(answers).zip(&mut asked).map(|((group, answer), asked)| {
            let is_again = !*asked && counts(group, &answer);
            *asked |= is_again;
            async move {
                match is_again {
                    // One that admits by now gives back what it has charged.
                    true => self.check_in_slot(group, number, by).await,
                    false => answer,
                }
            }
        });
        let answers = join_all(each).await;
        (answers, asked)
    }

    async fn peek(&self, question: &Question<'_>, by: Deadline) -> Answer {
        let mode = if question.mode.is_partial() { Mode::PeekPartial } else { Mode::Peek };
        let mut question = *question;
        question.mode = mode;
        self.check_in_slot(&question, self.next_nonce(), by).await
    }

    /// Makes one answer of those of all slots. Of the slots at `charged`, those that charged more
    /// than the check admits give it back.
    async fn conclude(
        &self,
        question: &Question<'_>,
        slots: &Slots,
        groups: &[Question<'_>],
        answers: Vec<Answer>,
        charged: impl Iterator<Item = usize>,
    ) -> Answer {
        let granted = answers.iter().map(|answer| answer.as_ref().map_or(0, |it| it.granted)).min();
        let granted = granted.unwrap_or(0);
        let mut outcomes = Vec::new();
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(outcome) => outcomes.push(Some(outcome)),
                Err(error) => {
                    outcomes.push(None);
                    // An error after a possible charge is the most informative.
                    if failed.as_ref().is_none_or(|_| error.is_ambiguous()) {
                        failed = Some(error);
                    }
                }
            }
        }
        if !question.mode.is_peek() {
            let given_back = join_all(charged.map(|place| {
                let (group, outcome) = (groups.get(place), outcomes.get(place));
                async move {
                    let (group, outcome) = (group?, outcome?.as_ref()?);
                    let left = self.give_back_of(group, outcome, granted).await?;
                    Some((place, left))
                }
            }));
            for (place, left) in given_back.await.into_iter().flatten() {
                if let Some(Some(outcome)) = outcomes.get_mut(place) {
                    put_back(outcome, granted, left);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        if granted == 0 {
            groups.iter().zip(&outcomes).for_each(|(group, outcome)| self.remember(group, outcome));
        }
        Ok(join(question, slots, &outcomes, granted))
    }

    /// Gives back what a slot charged beyond `granted`. `None` if that is nothing.
    async fn give_back_of(
        &self,
        group: &Question<'_>,
        outcome: &Outcome,
        granted: u64,
    ) -> Option<Result<Vec<Left>, StoreError>> {
        let units = outcome.granted.checked_sub(granted).filter(|units| *units > 0)?;
        if outcome.hold.as_ref().is_some_and(|placed| placed.answer > 1) {
            return None;
        }
        if let Some(terms) = group.hold {
            return Some(Box::pin(self.take_back(group, *terms, outcome)).await);
        }
        let mut times = outcome.fields.iter().map(|fields| fields.charged_at_us);
        let charges: Vec<Charges> = group
            .parts
            .iter()
            .map(|part| {
                let limits = part.limits.limits().len();
                let at_us: Vec<u64> = times.by_ref().take(limits).collect();
                Charges::new(part.subject.clone(), part.limits.clone(), at_us)
            })
            .collect();
        let (number, at) = (outcome.receipt, outcome.now);
        // A smaller part of the first unit leaves the other amounts as they are.
        let (cost, part) = match granted {
            0 => {
                let all = Cost::from(group.cost.with_first(outcome.granted));
                (all.clone(), all)
            }
            _ => (group.cost.first_alone(outcome.granted), group.cost.first_alone(units)),
        };
        let receipt = Receipt::new(self.identity(), number, at, cost, charges);
        // A caller that stops waiting here must not keep the charge from being given back.
        let (store, by) = (self.clone(), self.usual_deadline());
        let giving =
            tokio::spawn(async move { store.give_back(&receipt, part.amounts(), by).await });
        Some(match giving.await {
            Ok(left) => left,
            Err(error) => Err(StoreError::ambiguous(error.to_string())),
        })
    }

    /// Takes back a hold that a slot has placed and another refused, and the charge beside it.
    async fn take_back(
        &self,
        group: &Question<'_>,
        terms: HoldTerms,
        outcome: &Outcome,
    ) -> Result<Vec<Left>, StoreError> {
        let counts = group.parts.iter();
        let placed = outcome.hold.as_deref().copied();
        let nothing = Placed { fence: 0, end: outcome.now, answer: 0 };
        let Placed { fence, end, answer } = placed.unwrap_or(nothing);
        let hold = Hold::new(
            terms.id,
            fence,
            group.cost,
            end,
            counts.map(|part| (part.subject.clone(), part.limits.clone())),
        );
        let mut hold = hold.undelivered();
        hold.answer = answer;
        let (store, by) = (self.clone(), self.usual_deadline());
        // A caller that stops waiting here must not keep the hold from being taken back.
        let taking = tokio::spawn(async move { store.settle_in_slot(&hold, 0.into(), by).await });
        let settled = match taking.await {
            Ok(settled) => settled?,
            Err(error) => return Err(StoreError::ambiguous(error.to_string())),
        };
        // Somebody else was answered with it, or has settled it: the charge is for them.
        let is_kept = terms.id.name().is_some() && settled.as_ref().is_some_and(|it| it.already);
        if terms.id.kind() == HoldKind::Acquire && !is_kept {
            let mut charge = *group;
            charge.hold = None;
            if let Some(left) = Box::pin(self.give_back_of(&charge, outcome, 0)).await {
                return left;
            }
        }
        let charged = settled.map(|settled| settled.charged).unwrap_or_default();
        let left = |charged: Charged| Left {
            remaining: charged.remaining,
            reset_after_us: charged.reset_after_us,
        };
        Ok(charged.into_iter().map(left).collect())
    }

    /// The slot that denies its subjects for the longest time, of those that would deny them now.
    fn longest_denied(&self, groups: &[Question<'_>]) -> Option<usize> {
        let until = |group: &Question<'_>| {
            let keys = group.parts.iter().map(|part| self.0.keys.for_count(*part));
            keys.filter_map(|key| self.0.denials.until(&key)).max()
        };
        let denied = groups.iter().enumerate();
        let denied = denied.filter_map(|(place, group)| Some((until(group)?, place)));
        denied.max().map(|(_, place)| place)
    }

    /// Remembers what a slot has denied.
    fn remember(&self, group: &Question<'_>, outcome: &Outcome) {
        let mut fields = outcome.fields.iter();
        for part in group.parts {
            let limits = part.limits.limits().len();
            let waits = fields.by_ref().take(limits).filter_map(|fields| fields.retry_after_us);
            if let Some(wait) = waits.max().filter(|wait| *wait > 0) {
                let key = self.0.keys.for_count(*part);
                self.0.denials.remember(&key, Duration::from_micros(wait));
            }
        }
    }

    /// The parts of a hold that lie in each slot.
    fn holds_in(&self, hold: &Hold, slots: &Slots) -> Vec<Hold> {
        let keys = hold.counts.iter().map(|(subject, limits)| self.0.keys.state(subject, limits));
        let id = over(hold.id, keys);
        let in_slot = |places: &SmallVec<[usize; 2]>| {
            let counts = places.iter().filter_map(|place| hold.counts.get(*place)).cloned();
            let mut part = hold.clone();
            (part.id, part.counts) = (id, counts.collect());
            part
        };
        slots.iter().map(in_slot).collect()
    }

    /// Settles a hold in each slot, once. A slot that fails leaves its part open; to settle the
    /// hold again settles that part alone.
    pub(super) async fn settle_across(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
        slots: &Slots,
    ) -> Result<Option<Settled>, StoreError> {
        let holds = self.holds_in(hold, slots);
        let by = self.usual_deadline();
        let all = holds.iter().map(|part| self.settle_in_slot(part, actual, by));
        let all: Vec<Option<Settled>> =
            join_all(all).await.into_iter().collect::<Result<_, _>>()?;
        let known = || all.iter().flatten();
        let Some(first) = known().find(|it| !it.is_early).or_else(|| known().next()) else {
            return Ok(None);
        };
        let Some(now) = known().find(|settled| !settled.already) else {
            return Ok(Some(first.clone()));
        };
        // A slot in which a count was reset does not report it.
        let mut counts: Vec<(usize, Vec<Charged>)> = Vec::new();
        for (places, settled) in slots.iter().zip(all.iter()) {
            let Some(settled) = settled else { continue };
            let mut charged = settled.charged.iter().copied();
            for place in settled.open_on.iter().filter_map(|place| places.get(*place)) {
                let limits = hold.counts.get(*place).map_or(0, |(_, set)| set.limits().len());
                counts.push((*place, charged.by_ref().take(limits).collect()));
            }
        }
        counts.sort_by_key(|(place, _)| *place);
        let (open_on, charged): (SmallVec<[usize; 2]>, Vec<Vec<Charged>>) =
            counts.into_iter().unzip();
        Ok(Some(Settled::now(now.actual.clone(), charged.concat(), open_on)))
    }

    /// Renews a hold in each slot. The hold is as open as its least part: where one has ended, its
    /// holder has to stop.
    pub(super) async fn renew_across(
        &self,
        hold: &Hold,
        ttl_us: u64,
        slots: &Slots,
    ) -> Result<Option<Time>, StoreError> {
        let holds = self.holds_in(hold, slots);
        let all = join_all(holds.iter().map(|part| self.renew_in_slot(part, ttl_us))).await;
        let ends: Vec<Option<Time>> = all.into_iter().collect::<Result<_, _>>()?;
        Ok(ends.into_iter().min().flatten())
    }
}

/// The places of keys by their slots, if those are several.
fn several(keys: impl Iterator<Item = String>) -> Option<Slots> {
    let mut slots: SmallVec<[(u16, SmallVec<[usize; 2]>); 2]> = SmallVec::new();
    for (place, key) in keys.enumerate() {
        let slot = key_slot(key.as_bytes());
        match slots.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, places)) => places.push(place),
            None => slots.push((slot, SmallVec::from_slice(&[place]))),
        }
    }
    (slots.len() > 1).then(|| slots.into_iter().map(|(_, places)| places).collect())
}

/// The fields of a slot that gave back all or some of its charge. If that failed, they are as after
/// the charge, which still counts.
fn put_back(outcome: &mut Outcome, granted: u64, left: Result<Vec<Left>, StoreError>) {
    if let Ok(left) = left {
        for (fields, left) in outcome.fields.iter_mut().zip(left) {
            fields.remaining = left.remaining;
            fields.reset_after_us = left.reset_after_us;
        }
    }
    outcome.granted = granted;
}

/// The id under which each slot keeps a hold over counts with these keys.
fn over(id: HoldId, keys: impl Iterator<Item = String>) -> HoldId {
    let keys: Vec<String> = keys.collect();
    id.over(keys.iter().map(String::as_str))
}

/// One outcome of those of all slots.
fn join(question: &Question<'_>, slots: &Slots, outcomes: &[Outcome], granted: u64) -> Outcome {
    let limits: Vec<usize> = question.parts.iter().map(|part| part.limits.limits().len()).collect();
    let each = outcomes.iter().map(|outcome| outcome.fields.to_vec());
    let fields: SmallVec<[Fields; 2]> = in_order(slots, &limits, each).into();
    let now = outcomes.iter().map(|outcome| outcome.now).max().unwrap_or(Time::default());
    let placed = outcomes.iter().filter_map(|outcome| outcome.hold.as_deref());
    // An earlier charge of a slot has a separate receipt, if anybody got that.
    let is_new = placed.clone().all(|placed| placed.answer <= 1);
    let is_charged = granted > 0 && question.charges() && is_new;
    let number = outcomes.first().map_or(0, |outcome| outcome.receipt);
    let mut outcome = Outcome::new(granted, fields, if is_charged { number } else { 0 }, now);
    // Each slot has separate numbers, so the largest is one that rises in none of them alone.
    let fence = placed.clone().map(|placed| placed.fence).max();
    let end = placed.clone().map(|placed| placed.end).min();
    // The least number takes back no part that was answered again since.
    let answer = placed.map(|placed| placed.answer).min().unwrap_or(0);
    let all = fence.zip(end).filter(|_| granted > 0);
    outcome.hold = all.map(|(fence, end)| Box::new(Placed { fence, end, answer }));
    outcome.isolated = false;
    outcome
}
