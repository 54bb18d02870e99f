//! Refunds: of a receipt, and of the charge that a check over several slots has just made.

use redis::Value;
use tollgate::engine;
use tollgate::{Counted, Receipt, Refund, StoreError};

use super::redis_store::RedisStore;
use super::reply::{parse_unsigned, unexpected_reply};
use crate::compose::{in_state_order, most_of, refund_edges};
use crate::key::Keys;
use crate::node::Deadline;

/// The keys and arguments of the refund script.
struct Written {
    keys: Vec<String>,
    args: Vec<String>,
    /// For each limit of the reply its place in declared order.
    places: Vec<usize>,
}

/// The rest of one limit after a give-back.
pub(super) struct Left {
    pub(super) remaining: u64,
    pub(super) reset_after_us: u64,
}

impl RedisStore {
    /// Refunds a receipt whose subjects lie in one slot.
    pub(super) async fn refund_in_slot(
        &self,
        receipt: &Receipt,
        part: u64,
    ) -> Result<Refund, StoreError> {
        let (answer, places) = self.call_refund(receipt, part, true, self.usual_deadline()).await?;
        let (left, units) = match &answer[..] {
            [Value::Int(1), ..] => return Ok(Refund::already(places.len())),
            [Value::Int(0), left, units @ ..] => (parse_unsigned(left)?, units),
            _ => return Err(unexpected_reply()),
        };
        if units.len() != places.len() || left > receipt.units() {
            return Err(unexpected_reply());
        }
        let amounts = receipt.cost.amounts().iter().map(|(_, amount)| amount);
        let largest = amounts.max().unwrap_or(0);
        let mut given = vec![0; places.len()];
        for (place, units) in places.iter().zip(units) {
            given[*place] = parse_unsigned(units)?;
            if given[*place] > largest {
                return Err(unexpected_reply());
            }
        }
        Ok(Refund::new(given, left))
    }

    /// Gives back units of a charge that this store has just made, and of which nobody else knows.
    /// It is sent once and leaves no mark. Returns what each limit is left with, in declared order.
    pub(super) async fn give_back(
        &self,
        receipt: &Receipt,
        part: u64,
        by: Deadline,
    ) -> Result<Vec<Left>, StoreError> {
        let (answer, places) = self.call_refund(receipt, part, false, by).await?;
        let [Value::Int(0), _, rows @ ..] = &answer[..] else { return Err(unexpected_reply()) };
        if rows.len() != 3 * places.len() {
            return Err(unexpected_reply());
        }
        let limits = receipt.charges.iter().flat_map(|charges| charges.limits.limits());
        let mut left: Vec<Left> =
            limits.map(|limit| Left { remaining: limit.capacity(), reset_after_us: 0 }).collect();
        for (place, row) in places.iter().zip(rows.chunks_exact(3)) {
            let [_, remaining, reset] = row else { return Err(unexpected_reply()) };
            if *remaining != Value::Int(-1) {
                let (remaining, reset_after_us) =
                    (parse_unsigned(remaining)?, parse_unsigned(reset)?);
                left[*place] = Left { remaining, reset_after_us };
            }
        }
        Ok(left)
    }

    /// Calls the script. Also returns for each limit of the reply its place in declared order.
    async fn call_refund(
        &self,
        receipt: &Receipt,
        part: u64,
        is_marked: bool,
        by: Deadline,
    ) -> Result<(Vec<Value>, Vec<usize>), StoreError> {
        let nonce = self.next_nonce();
        let Written { keys, args, places } = self.write_refund(receipt, part, nonce, is_marked);
        let mut answer = self.call(&self.0.rare.refund, &keys, args, nonce, by).await?;
        if self.has_other_windows(&answer) {
            let Written { keys, args, .. } = self.write_refund(receipt, part, nonce, is_marked);
            answer = self.call(&self.0.rare.refund, &keys, args, nonce, by).await?;
        }
        Ok((answer, places))
    }

    fn write_refund(&self, receipt: &Receipt, part: u64, nonce: u64, is_marked: bool) -> Written {
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        for charges in &receipt.charges {
            let counted = Counted::new(&charges.subject, &charges.limits);
            let counted = counted.in_shard(receipt.shard.as_deref());
            let (state, logs) = self.all_keys(counted);
            if keys.is_empty() {
                let marked = is_marked.then(|| Keys::mark(&state, receipt.number));
                keys.push(marked.unwrap_or_else(|| state.clone()));
            }
            keys.extend([state.clone(), Keys::reset(&state)]);
            keys.extend(logs);
            args.push(charges.limits.limits().len().to_string());
            args.push(engine::longest_count_us(&charges.limits).to_string());
            let first = places.len();
            for (declared, limit) in in_state_order(&charges.limits) {
                let at_us = charges.at_us.get(declared).copied().unwrap_or_default();
                let amount = receipt.cost.amounts().of(limit.unit());
                let until = engine::spent_until_us(limit, at_us, amount);
                let (code, most) = (limit.strategy().code(), most_of(limit));
                let is_first = amount > 0 || limit.needs_hold();
                let own = match receipt.cost.amounts().is_of_one_unit() && is_first {
                    true => String::new(),
                    false => format!(":{amount}"),
                };
                let edges = refund_edges(limit, self.server_time());
                args.push(format!("{code}{at_us}:{until}:{most}{own}{edges}"));
                places.push(first + declared);
            }
        }
        let mut all = vec![
            nonce.to_string(),
            receipt.units().to_string(),
            receipt.at.as_micros().to_string(),
            engine::receipt_until_us(receipt).to_string(),
            receipt.number.to_string(),
            part.to_string(),
        ];
        all.append(&mut args);
        Written { keys, args: all, places }
    }
}
