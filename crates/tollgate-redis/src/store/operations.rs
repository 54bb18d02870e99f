//! The operations of a store, each as the call of a script.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value;
use tollgate::engine::{self, Outcome};
use tollgate::operation::{Operation, Operations};
use tollgate::{
    Adjustment, Amounts, Charged, Counted, Facts, Hold, Inspection, Keeps, Limit, LimitKind,
    Notice, Notices, Question, Receipt, Refund, Settled, Store, StoreError, Time,
};

use super::redis_store::RedisStore;
use super::reply::{StoredValue, damaged, most_left, read_states, unexpected_reply};
use crate::compose::in_state_order;
use crate::key::Keys;
use crate::node::Call;
use crate::script::Script;
use crate::{notices, state};

impl RedisStore {
    /// Calls a script that changes the limits of a subject, each by itself. `read` makes a result
    /// of a limit's numbers.
    async fn change<T, const N: usize>(
        &self,
        script: &Script,
        counted: Counted<'_>,
        change: String,
        read: impl Fn(&Limit, [i64; N]) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let limits = counted.limits;
        let nonce = self.next_nonce();
        let by = self.usual_deadline();
        let call = || {
            let mut call = Call::new(script, nonce, 1);
            call.word(self.0.keys.for_count(counted))
                .word(nonce)
                .word(&change)
                .word(&self.0.plans.count_args(limits, || self.server_time()).args);
            call
        };
        let mut answer = self.send(call(), by).await?;
        if self.has_other_windows(&answer) {
            answer = self.send(call(), by).await?;
        }
        let number = |value: &Value| match value {
            Value::Int(number) => Ok(*number),
            _ => Err(unexpected_reply()),
        };
        let numbers: Vec<i64> = answer.iter().map(number).collect::<Result<_, _>>()?;
        let (each, rest) = numbers.as_chunks::<N>();
        let order = in_state_order(limits);
        if each.len() != order.len() || !rest.is_empty() {
            return Err(unexpected_reply());
        }
        let each = order.into_iter().zip(each);
        let results =
            each.map(|((declared, limit), numbers)| Ok((declared, read(limit, *numbers)?)));
        let mut results: Vec<(usize, T)> = results.collect::<Result<_, StoreError>>()?;
        results.sort_by_key(|(declared, _)| *declared);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }
}

impl Store for RedisStore {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.0.identity
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.0.identity
    }

    fn facts(&self) -> Facts {
        let forgotten = self.0.forgotten_requests.load(Ordering::Relaxed);
        Facts::new(Some(self.0.deadline), forgotten)
    }

    fn will_wait(&self, longest: Duration) {
        self.0.client.will_wait(longest);
    }

    fn perform<O: Operation>(
        &self,
        operation: &O,
    ) -> impl Future<Output = Result<O::Answer, StoreError>> + Send {
        operation.visit(self)
    }

    fn perform_now<O: Operation>(&self, _: &O) -> Option<Result<O::Answer, StoreError>> {
        None
    }
}

impl Operations for RedisStore {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        self.answer(question).await
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        if let Some(groups) = self.slots_of_receipt(receipt) {
            return self.refund_across(receipt, units, &groups).await;
        }
        self.refund_in_slot(receipt, units).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        let script = &self.0.rare.adjust;
        self.change(script, counted, by.to_string(), |_, [change]| Ok(change)).await
    }

    async fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        let charged = |limit: &Limit, numbers: [i64; 5]| {
            let [fits, cut, left, wait, reset] = numbers;
            let unsigned = |number: i64| u64::try_from(number).map_err(|_| unexpected_reply());
            let (cut, left, reset) = (unsigned(cut)?, unsigned(left)?, unsigned(reset)?);
            let wait = if wait == -1 { None } else { Some(unsigned(wait)?) };
            let units = match (cost.plain(), limit.kind()) {
                (Some(cost), _) if counted.limits.is_plain() => cost,
                (_, LimitKind::Rate) => cost.of(limit.unit()),
                (_, LimitKind::Slots) => 0,
                _ => cost.first(),
            };
            if cut > units || left > most_left(limit) || wait.is_none() && units <= limit.capacity()
            {
                return Err(unexpected_reply());
            }
            Ok(Charged::new(fits == 1, cut, left, wait, reset))
        };
        self.change(&self.0.rare.charge, counted, cost.to_string(), charged).await
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        match self.slots_of_hold(hold) {
            Some(slots) => self.settle_across(hold, actual, &slots).await,
            None => self.settle_in_slot(hold, actual, self.usual_deadline()).await,
        }
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        match self.slots_of_hold(hold) {
            Some(slots) => self.renew_across(hold, ttl_us, &slots).await,
            None => self.renew_in_slot(hold, ttl_us).await,
        }
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let limits = counted.limits;
        let nonce = self.next_nonce();
        let (state, logs) = self.all_keys(counted);
        let mut keys = vec![state.clone(), Keys::reset(&state)];
        keys.extend(logs);
        let longest_us = engine::refundable_until_us(limits, Time::default());
        let args = vec![nonce.to_string(), longest_us.to_string()];
        let answer =
            self.call(&self.0.rare.reset, &keys, args, nonce, self.usual_deadline()).await?;
        match answer[..] {
            [Value::Int(found)] => Ok(found == 1),
            _ => Err(unexpected_reply()),
        }
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        let limits = counted.limits;
        let nonce = self.next_nonce();
        let (state, logs) = self.all_keys(counted);
        let single = limits.limits().len() == 1;
        let open = self.open_holds(state.clone()).await?;
        let mut keys = vec![state];
        if !single {
            keys.extend(logs);
        }
        let args = vec![nonce.to_string()];
        let answer =
            self.call(&self.0.rare.inspect, &keys, args, nonce, self.usual_deadline()).await?;
        let (_, found) = read_states(answer, keys.len())?;
        let mut state = None;
        let mut logs = vec![Vec::new(); limits.limits().len()];
        for (i, found) in found.into_iter().enumerate() {
            match found {
                StoredValue::Nothing => {}
                StoredValue::State(bytes) if i == 0 => state = Some(bytes),
                StoredValue::Log(rows) if single || i > 0 => logs[i.saturating_sub(1)] = rows,
                _ => return Err(damaged("it is of another kind")),
            }
        }
        if state.is_none() && logs.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let (was, mut held) = state::decode(limits, state.as_deref(), &logs).map_err(damaged)?;
        let fresh_at = Time::from_micros(engine::fresh_at_us(&was, &mut held));
        let events = held.logs.iter().map(|log| {
            use tollgate::strategy::Log as _;
            let mut before = 0;
            let each = (0..log.len()).map(|i| log.entry(i));
            each.map(|entry| {
                let cost = entry.total - before;
                before = entry.total;
                (entry.at_us, cost)
            })
            .collect()
        });
        let logs = events.collect();
        let text = was.full_text().to_owned();
        Ok(Some(Inspection::new(text, held.words, logs, fresh_at, false).holding(open)))
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        let script = &self.0.rare.notices.read;
        notices::read(&self.call_notices(script, [notices::read_args(seen)]).await?)
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        let script = &self.0.rare.notices.post;
        match self.call_notices(script, notices::post_args(notice)).await?[..] {
            [Value::Int(1)] => Ok(()),
            [Value::Int(0)] => Err(Notices::too_many()),
            _ => Err(unexpected_reply()),
        }
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        let script = &self.0.rare.notices.withdraw;
        match self.call_notices(script, [name.to_owned()]).await?[..] {
            [Value::Int(was_there)] => Ok(was_there == 1),
            _ => Err(unexpected_reply()),
        }
    }
}
