//! Refunds: of a receipt, and of the charge that a check over several slots has just made.

use futures_util::future::join_all;
use redis::Value;
use tollgate::engine::{self, Portion};
use tollgate::{Amounts, Cost, Counted, Receipt, Refund, StoreError};

use super::places::{Slots, in_order};
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
        units: Amounts<'_>,
    ) -> Result<Refund, StoreError> {
        let (answer, places) =
            self.call_refund(receipt, units, true, self.usual_deadline()).await?;
        let (left, units) = match &answer[..] {
            [Value::Int(1)] => return Ok(Refund::already(places.len(), 0)),
            [Value::Int(1), sum] => return Ok(Refund::already(places.len(), left(receipt, sum)?)),
            [Value::Int(0), sum, units @ ..] => (left(receipt, sum)?, units),
            _ => return Err(unexpected_reply()),
        };
        if units.len() != places.len() {
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

    /// Refunds a receipt of a check over several slots, in each slot once.
    pub(super) async fn refund_across(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
        slots: &Slots,
    ) -> Result<Refund, StoreError> {
        let receipts: Vec<Receipt> = slots
            .iter()
            .map(|places| {
                let charges = places.iter().filter_map(|place| receipt.charges.get(*place));
                let mut of_slot = receipt.clone();
                of_slot.charges = charges.cloned().collect();
                of_slot
            })
            .collect();
        let refunds = join_all(receipts.iter().map(|it| self.refund_in_slot(it, units))).await;
        let mut refunds: Vec<Refund> = refunds.into_iter().collect::<Result<_, _>>()?;
        let is_done = refunds.iter().all(|refund| refund.already);
        // The most that is left of each unit in a slot; none has a cost of nothing.
        let left = receipt.cost.amounts().iter().map(|(unit, _)| {
            let left = refunds.iter().map(|refund| refund.left.amounts().of(unit));
            (unit.name(), left.max().unwrap_or(0))
        });
        let left = Cost::new(left).unwrap_or_else(|_| 0.into());
        let limits: Vec<usize> =
            receipt.charges.iter().map(|charges| charges.limits.limits().len()).collect();
        let each = refunds.iter_mut().map(|refund| core::mem::take(&mut refund.given));
        let given = in_order(slots, &limits, each);
        Ok(match is_done {
            true => Refund::already(given.len(), left),
            false => Refund::new(given, left),
        })
    }

    /// Gives back units of a charge that this store has just made, and of which nobody else knows.
    /// It is sent once and leaves no mark. Returns what each limit is left with, in declared order.
    pub(super) async fn give_back(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
        by: Deadline,
    ) -> Result<Vec<Left>, StoreError> {
        let (answer, places) = self.call_refund(receipt, units, false, by).await?;
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
        units: Amounts<'_>,
        is_marked: bool,
        by: Deadline,
    ) -> Result<(Vec<Value>, Vec<usize>), StoreError> {
        let nonce = self.next_nonce();
        let Written { keys, args, places } = self.write_refund(receipt, units, nonce, is_marked);
        let mut answer = self.call(&self.0.rare.refund, &keys, args, nonce, by).await?;
        if self.has_other_windows(&answer) {
            let Written { keys, args, .. } = self.write_refund(receipt, units, nonce, is_marked);
            answer = self.call(&self.0.rare.refund, &keys, args, nonce, by).await?;
        }
        Ok((answer, places))
    }

    fn write_refund(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
        nonce: u64,
        is_marked: bool,
    ) -> Written {
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
                let until = engine::spent_until_us(limit, receipt.counted_us(at_us), amount);
                // Nothing comes back to a limit that counted nothing.
                let code = if limit.is_uncounted() { 'x' } else { limit.strategy().code() };
                let most = most_of(limit);
                let edges = refund_edges(limit, self.server_time());
                args.push(format!("{code}{at_us}:{until}:{most}{edges}"));
                places.push(first + declared);
            }
        }
        let mut all = vec![
            nonce.to_string(),
            receipt.cost.to_string(),
            receipt.at.as_micros().to_string(),
            engine::receipt_until_us(receipt).to_string(),
            receipt.number.to_string(),
            units.to_string(),
        ];
        all.append(&mut args);
        Written { keys, args: all, places }
    }
}

/// The rest of a charge, by the reply: the requests that are left, or of a charge by unit what
/// was given back of each.
fn left(receipt: &Receipt, reply: &Value) -> Result<Cost, StoreError> {
    let charged = receipt.cost.amounts();
    if let Some(charged) = charged.plain() {
        let left = parse_unsigned(reply)?;
        return if left > charged { Err(unexpected_reply()) } else { Ok(left.into()) };
    }
    let Value::BulkString(sum) = reply else { return Err(unexpected_reply()) };
    let sum = core::str::from_utf8(sum).ok().and_then(|sum| Cost::parse_used(sum).ok());
    let sum = sum.ok_or_else(unexpected_reply)?;
    Ok(Portion::part(charged, sum.amounts(), 0.into()).left_after())
}
