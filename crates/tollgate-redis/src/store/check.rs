//! A check: one call of the script for its limits, or comparing and swapping.

use redis::Value;
use tollgate::engine::{Mode, Outcome};
use tollgate::strategy::Shape;
use tollgate::{Counted, Limit, LimitSet, Question, StoreError, Subject};

use super::holds::is_held;
use super::plan::{Plan, asked};
use super::redis_store::RedisStore;
use super::reply::{StoredValue, read_outcome, read_request, read_states};
use super::swap;
use crate::key::Keys;
use crate::node::{Call, Deadline};

impl RedisStore {
    /// Composes and loads the scripts of a check with one subject per set of limits, in this order:
    /// the script of one check, and that of a batch. Without it the first checks load the scripts,
    /// which takes two more round trips, and they are not batched until then.
    ///
    /// # Errors
    /// As [`Operations::check`](tollgate::operation::Operations::check); nothing is charged.
    pub async fn prepare(&self, limits: &[&LimitSet]) -> Result<(), StoreError> {
        // Any subjects will do, since they share a script. Two calls show whether the server allows
        // different keys in one call.
        let subjects: Result<Vec<Subject>, _> =
            (0..2 * limits.len()).map(|n| Subject::new("key", n.to_string())).collect();
        let subjects = subjects.map_err(|error| StoreError::permanent(error.to_string()))?;
        let parts = subjects.iter().zip(limits.iter().chain(limits));
        let parts: Vec<_> = parts.map(|(it, limits)| Counted::new(it, limits)).collect();
        let (one, _) = parts.split_at(limits.len());
        let plan = self.0.plans.get(&Question::new(one, 1, Mode::Whole), || self.server_time())?;
        self.0.client.load(&plan.script, self.0.deadline).await?;
        let Some(batch) = &plan.batch else { return Ok(()) };
        let for_check =
            |part: &Counted<'_>| Keys::for_check(&self.0.keys.for_count(*part), part.limits);
        let keys: Vec<String> = parts.iter().flat_map(for_check).collect();
        self.0.client.load_batch(batch, &keys, self.0.deadline).await
    }

    /// The rare case is boxed, here and in the called functions: the futures around a check hold
    /// its future and move it, and most would copy kilobytes that they never use.
    pub(super) async fn answer(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        // The slots move into the box: otherwise each check would keep room for them.
        let across = self
            .slots_of_question(question)
            .map(|slots| Box::pin(async move { self.check_across(question, &slots).await }));
        match across {
            Some(across) => across.await,
            None => {
                let by = Deadline::within(question.deadline.unwrap_or(self.0.deadline));
                self.check_in_slot(question, self.next_nonces(question.receipts), by).await
            }
        }
    }

    /// Answers a question whose keys lie in one slot, or on one server.
    pub(super) async fn check_in_slot(
        &self,
        question: &Question<'_>,
        nonce: u64,
        by: Deadline,
    ) -> Result<Outcome, StoreError> {
        if question.is_about_holds() {
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        let logs = |limit: &Limit| limit.shape() == Shape::Log;
        if self.0.swapping
            && question.request.is_none()
            && !question.parts.iter().any(|part| part.limits.limits().iter().any(logs))
        {
            return Box::pin(self.check_by_swapping(question, nonce, by)).await;
        }
        let mut plan = self.0.plans.get(question, || self.server_time())?;
        if plan.held.is_recent() {
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        let mut answer = self.send(self.check_call(&plan, question, nonce), by).await?;
        if self.has_other_windows(&answer) {
            plan = self.0.plans.get(question, || self.server_time())?;
            answer = Box::pin(self.send(self.check_call(&plan, question, nonce), by)).await?;
        }
        if is_held(&answer) {
            plan.held.note();
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        if question.request.is_none() {
            return read_outcome(&answer, question, plan.limits, (nonce, false));
        }
        let (number, forgotten, answer) = read_request(&answer)?;
        let is_repeated = number != nonce;
        let mut outcome = read_outcome(answer, question, plan.limits, (number, is_repeated))?;
        outcome.repeated = is_repeated;
        outcome.overused = forgotten.count(&self.0.forgotten_requests);
        Ok(outcome)
    }

    /// The call of the script of a check.
    fn check_call<'p>(&self, plan: &'p Plan, question: &Question<'_>, nonce: u64) -> Call<'p> {
        let keys = plan.keys() + usize::from(question.request.is_some());
        let mut call = Call::new(&plan.script, nonce, keys).with_others(plan.batch.as_ref());
        let mut key = String::new();
        for (part, suffixes) in question.parts.iter().zip(&plan.suffixes) {
            key.clear();
            self.0.keys.write(&mut key, *part);
            let state = key.len();
            for suffix in suffixes {
                key.truncate(state);
                key.push_str(suffix);
                call.word(key.as_str());
            }
        }
        if let (Some(_), Some(first)) = (question.request, question.parts.first()) {
            call.word(Keys::requests(&self.0.keys.for_count(*first)));
        }
        call.word(question.cost.first()).word(nonce);
        if let Some(id) = question.request {
            call.word(asked(id, question)).word(id.time().as_micros().to_string());
        }
        for (_, amount) in question.cost.iter().skip(1) {
            call.word(amount);
        }
        for word in &plan.number_args {
            call.word(word.as_str());
        }
        call
    }

    async fn check_by_swapping(
        &self,
        question: &Question<'_>,
        number: u64,
        by: Deadline,
    ) -> Result<Outcome, StoreError> {
        let keys: Vec<String> =
            question.parts.iter().map(|part| self.0.keys.for_count(*part)).collect();
        loop {
            let nonce = self.next_nonce();
            let args = vec![nonce.to_string()];
            let answer = self.call(&self.0.rare.inspect, &keys, args, nonce, by).await?;
            let (now, states) = read_states(answer, keys.len())?;
            if states.iter().any(StoredValue::is_held) {
                return self.check_among_holds(question, number, by).await;
            }
            let (mut outcome, writes) = swap::decide(question, &states, now)?;
            let Some(writes) = writes else { return Ok(outcome) };
            let nonce = self.next_nonce();
            let mut args = vec![nonce.to_string().into_bytes()];
            args.extend(writes);
            let mut call = Call::new(&self.0.rare.swap, nonce, keys.len());
            call.word(&keys).word(args);
            // The script writes times that were decided before, so it takes none.
            let answer = self.0.client.call(call, by).await?;
            if matches!(answer[..], [Value::Int(1)]) {
                if outcome.granted > 0 && !question.mode.is_peek() {
                    outcome.receipt = number;
                }
                return Ok(outcome);
            }
            if by.is_over() {
                return Err(StoreError::transient(
                    "others kept changing this count until the deadline: nothing was charged",
                ));
            }
        }
    }
}
