//! Checks: one question, the same with its numbers given, and several in one call.

use tollgate::engine::{Mode, Outcome};
use tollgate::{Carried, Cost, LimitSet, Time, Unit};
use tollgate_redis::Keys;
use tollgate_redis::compose::{self, Clock};

use super::pair::{Difference, Pair};
use super::scripts::units_of;
use super::{Question, first};
use crate::lua::fake::{Reply, Snapshot};
use crate::lua::model::reply;

impl Pair {
    pub(crate) fn check(
        &mut self,
        asked: &[(String, LimitSet)],
        cost: impl Into<Cost>,
        mode: Mode,
        now_us: u64,
    ) -> Result<Outcome, Difference> {
        let cost = &cost.into();
        self.nonce += 1;
        self.seen.cases += 1;
        let (keys, args) = self.words(asked, cost, self.nonce, now_us);
        let sets: Vec<&LimitSet> = asked.iter().map(|(_, limits)| limits).collect();
        let script = self.scripts.check_of(&sets, (mode, false, units_of(cost)));
        let start = self.fake.snapshot();
        let answer = self.fake.call(&script, &keys, &args);
        let asked_of = (mode, units_of(cost));
        self.given_does_the_same(&sets, asked_of, start.clone(), (&keys, &args), &answer)?;
        let outcome = self.model.check(asked, cost, mode, Time::from_micros(now_us));
        let capacities = asked.iter().flat_map(|(_, limits)| limits.limits());
        let charged = if mode.is_peek() { 0 } else { outcome.granted };
        let fresh: Vec<bool> = capacities
            .zip(&outcome.fields)
            .map(|(limit, fields)| {
                let amounts = cost.amounts();
                let is_first = Some(limit.unit()) == amounts.iter().next().map(|(unit, _)| unit);
                let taken = if is_first { charged } else { amounts.of(limit.unit()) };
                let taken = if charged == 0 { 0 } else { taken };
                fields.remaining + taken == limit.capacity()
            })
            .collect();
        let Reply::List(list) = &answer else {
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        };
        self.record(|| format!("{asked:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        self.answer = Some(answer.clone());
        let whole = list.iter().skip(1).all(|reply| matches!(reply, Reply::Int(_)));
        if !whole || list[0] != Reply::Text(self.nonce.to_string().into_bytes()) {
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        }
        let mut expected = reply(&outcome);
        let mut integers = answer.integers();
        let usual = 2 + 3 * fresh.len();
        let more = integers.get(usual..).unwrap_or_default();
        let says = more.chunks(2).any(|pair| pair != [integers[1], 0]);
        if says != (integers.len() > usual) {
            return Err(format!("{sets:?} {mode:?}: says more than there is: {integers:?}"));
        }
        if integers.len() == usual {
            for _ in &fresh {
                integers.extend([integers[1], 0]);
            }
        }
        for (i, fresh) in fresh.iter().enumerate() {
            // The fate of a state that counts nothing is unknown: it may be forgotten.
            let carried = usual + 2 * i + 1;
            if *fresh && integers.len() == expected.len() && integers[carried] <= 2 {
                (integers[carried], expected[carried]) = (0, 0);
            }
        }
        if integers != expected {
            return Err(format!(
                "{sets:?} {mode:?} {cost} at {now_us}:\n  lua  {integers:?}\n  rust {expected:?}\n  \
                 differ at {:?}",
                (0..integers.len().min(expected.len()))
                    .filter(|i| integers[*i] != expected[*i])
                    .collect::<Vec<_>>()
            ));
        }
        if mode.is_peek() && start != self.fake.snapshot() {
            return Err(format!("{sets:?}: a peek wrote"));
        }
        let mut resets = outcome.fields.iter().map(|fields| fields.reset_after_us);
        for (subject, limits) in asked {
            let resets: Vec<u64> = resets.by_ref().take(limits.limits().len()).collect();
            self.lifetimes(&self.keys_of(subject, limits).0, limits, &resets, false)?;
        }
        // A count that was carried over as zero may be written or not, and the others with it.
        if says && self.fake.wrote() && !outcome.changed {
            self.model.carry_over(asked, Time::from_micros(now_us));
        }
        for (subject, limits) in asked {
            self.states(subject, limits)?;
        }
        if self.fake.wrote() != outcome.changed && !(says && self.fake.wrote()) {
            let changed = outcome.changed;
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: writes, not: {changed}"));
        }
        self.note(&outcome, mode, cost);
        Ok(outcome)
    }

    /// The keys and the arguments of a question.
    fn words(
        &self,
        asked: &[(String, LimitSet)],
        cost: &Cost,
        nonce: u64,
        now_us: u64,
    ) -> (Vec<String>, Vec<String>) {
        let mut keys = Vec::new();
        for (subject, limits) in asked {
            let (state, _) = self.keys_of(subject, limits);
            keys.extend(Keys::for_check(&state, limits));
        }
        let mut amounts = cost.amounts().iter().map(|(_, amount)| amount.to_string());
        let mut args = vec![amounts.next().unwrap(), nonce.to_string()];
        args.extend(amounts);
        self.clock(now_us, &mut args);
        (keys, args)
    }

    /// Goes back and asks the script that takes its numbers: the answer and the state must be the
    /// same.
    fn given_does_the_same(
        &mut self,
        sets: &[&LimitSet],
        (mode, units): (Mode, Vec<Unit>),
        start: Snapshot,
        (keys, args): (&[String], &[String]),
        answer: &Reply,
    ) -> Result<(), Difference> {
        let script = self.scripts.given(sets, mode, units);
        let held = self.fake.snapshot();
        self.fake.restore(start);
        let mut args = args.to_vec();
        // Before the clock.
        let at = args.len() - usize::from(self.scripts.clock != Clock::Server);
        args.splice(at..at, compose::number_args(sets));
        let given = self.fake.call(&script, keys, &args);
        if given != *answer || held != self.fake.snapshot() {
            return Err(format!("{sets:?} {mode:?}: {answer:?}, with its numbers given {given:?}"));
        }
        Ok(())
    }

    /// Asks several questions in one call, goes back, and asks them one by one: the answers and the
    /// state must be the same. Whether they are right the single ones say. By a given clock each
    /// question has a separate time.
    pub(crate) fn check_many(
        &mut self,
        questions: &[Question],
        mode: Mode,
    ) -> Result<Vec<Outcome>, Difference> {
        let Some(first) = questions.first() else { return Ok(Vec::new()) };
        let sets: Vec<&LimitSet> = first.asked.iter().map(|(_, limits)| limits).collect();
        let script = self.scripts.check_of(&sets, (mode, true, units_of(&first.cost)));
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for (question, nonce) in questions.iter().zip(self.nonce + 1..) {
            let Question { asked, cost, now_us } = question;
            let (own_keys, own_args) = self.words(asked, cost, nonce, *now_us);
            keys.extend(own_keys);
            args.extend(own_args);
        }
        let before = self.fake.snapshot();
        let together = self.fake.call(&script, &keys, &args).unpack_reply();
        let held = self.fake.snapshot();
        self.fake.restore(before);
        self.record(|| format!("{questions:?} {mode:?} at once: {together:?}"));
        let (mut outcomes, mut alone) = (Vec::new(), Vec::new());
        for Question { asked, cost, now_us } in questions {
            outcomes.push(self.check(asked, cost.clone(), mode, *now_us)?);
            alone.extend(self.answer.take());
        }
        if together != Reply::List(alone.clone()) {
            return Err(format!(
                "{questions:?} {mode:?}:\n  at once {together:?}\n  alone   {alone:?}"
            ));
        }
        if held != self.fake.snapshot() {
            return Err(format!("{questions:?} {mode:?}: another state is left"));
        }
        Ok(outcomes)
    }

    fn note(&mut self, outcome: &Outcome, mode: Mode, cost: &Cost) {
        let cost = first(cost);
        let fields = &outcome.fields;
        if mode.is_peek() {
            self.seen.saw("peek");
        }
        if outcome.granted > 0 {
            self.seen.saw("allow");
            if outcome.granted < cost {
                self.seen.saw("partial less");
            }
        } else if fields.iter().any(|f| f.retry_after_us.is_none()) {
            self.seen.saw("never");
        } else {
            self.seen.saw("not yet");
        }
        if fields.iter().any(|f| f.remaining == 0) {
            self.seen.saw("full");
        }
        if fields.iter().all(|f| f.reset_after_us == 0) || outcome.granted == cost {
            self.seen.saw("fresh");
        }
        if fields.iter().any(|f| f.carried != Carried::Same) {
            self.seen.saw("numbers changed");
        }
    }
}
