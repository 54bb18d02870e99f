//! Units that go back: to a live lease, or to the store.

use tollgate::{
    Amounts, Charges, Cost, Lease, Receipt, Refund, Store, StoreError, Unit, engine, operation,
};

use crate::leased::{Leased, NodeCount, add};
use crate::lot::Lot;

impl<S: Store> Leased<S> {
    /// Returns to the store what leases that have ended did not spend, as far as it still counts.
    /// Returns the number of units that were given back. Call it now and then, as every second.
    pub async fn give_back_ended(&self) -> u64 {
        self.give_back_lots(false).await
    }

    /// Returns to the store all that this node has not spent, as far as it still counts, and holds
    /// nothing any more. Returns the number of units that were given back. For the end of a
    /// process.
    pub async fn give_back(&self) -> u64 {
        self.give_back_lots(true).await
    }

    async fn give_back_lots(&self, all: bool) -> u64 {
        let now_us = self.now_us();
        let mut receipts = Vec::new();
        self.0.held.each(|shard| {
            for held in shard.iter_mut() {
                for mut lot in held.holding.take_ended(now_us, all) {
                    if let Some((number, units)) = lot.take_rest() {
                        let receipt = self.receipt_of(held, &lot, number, units);
                        receipts.push((receipt, lot.store_now_us(now_us)));
                    }
                }
            }
        });
        let mut returned = 0;
        for (receipt, store_now_us) in receipts {
            let counts = engine::receipt_until_us(&receipt) > store_now_us;
            let given = match counts {
                true => self.refund_at_store(&receipt, receipt.cost.amounts()).await.ok(),
                false => None,
            };
            let units = given.and_then(|refund| refund.given.into_iter().min()).unwrap_or(0);
            returned += units;
            add(&self.0.counts.returned, units);
            add(&self.0.counts.wasted, receipt.units().saturating_sub(units));
        }
        returned
    }

    async fn refund_at_store(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
    ) -> Result<Refund, StoreError> {
        self.0.store.perform(&operation::Refund::new(receipt, units)).await
    }

    fn receipt_of(&self, held: &NodeCount, lot: &Lot, number: u64, units: u64) -> Receipt {
        let (at, at_us) = lot.charged_at();
        let at_us = at_us.iter().copied();
        let charges = Charges::new(held.subject.clone(), held.limits.clone(), at_us);
        let unit = held.limits.lease().map_or(&Unit::REQUESTS, Lease::unit);
        let cost = Cost::of_unit(*unit, units);
        let mut receipt = Receipt::new(self.identity(), number, at, cost, [charges]);
        receipt.shard = held.shard.as_deref().map(str::to_owned);
        receipt
    }

    /// Refunds units of a receipt: into the lease that they were spent of, while that lasts, else
    /// at the store.
    pub(crate) async fn refund_units(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
    ) -> Result<Refund, StoreError> {
        let charged = receipt.cost.amounts();
        let unit = charged.first_unit();
        let some = |amount| if amount == 0 { 0.into() } else { Cost::of_unit(*unit, amount) };
        let before = self.0.marks.given_back(receipt.number);
        let mut part = Cost::from(units);
        // A lease has units of one kind.
        if charged.is_of_one_unit() {
            let limits = receipt.charges.iter().map(|charges| charges.limits.limits().len()).sum();
            let left = charged.first().saturating_sub(before);
            if left == 0 {
                return Ok(Refund::already(limits, 0));
            }
            let units = units.of(unit).min(left);
            if self.take_back(receipt, units) {
                return Ok(Refund::new(vec![units; limits], some(left - units)));
            }
            part = Cost::of_unit(*unit, units);
        }
        let mut refund = self.refund_at_store(receipt, part.amounts()).await?;
        if before > 0 {
            // The store does not know of units that were given back here.
            refund.left = some(refund.left.amounts().of(unit).saturating_sub(before));
        }
        for charges in &receipt.charges {
            self.forget_denials(&charges.subject, &charges.limits);
        }
        Ok(refund)
    }

    /// Puts units back into the lease that they were spent of, if it lasts.
    fn take_back(&self, receipt: &Receipt, units: u64) -> bool {
        let [charges] = &receipt.charges[..] else { return false };
        let Some(lease) = charges.limits.lease() else { return false };
        let (hash, now_us) = (self.hash(&charges.subject), self.now_us());
        let until_us = engine::receipt_until_us(receipt).saturating_sub(receipt.at.as_micros());
        let until_us = now_us.saturating_add(until_us);
        // Marked first: a marked unit that is not taken back is only lost.
        if !self.0.marks.add(receipt.number, units, until_us, now_us) {
            return false;
        }
        let mut shard = self.0.held.lock(hash);
        let held = shard.find(hash, |held| held.counts(&charges.subject, &charges.limits));
        let is_taken =
            held.is_some_and(|held| held.holding.take_back(lease, (receipt.number, units), now_us));
        drop(shard);
        if !is_taken {
            self.0.marks.remove(receipt.number, units);
        }
        is_taken
    }
}
