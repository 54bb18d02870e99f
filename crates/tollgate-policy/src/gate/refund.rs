//! Refunds of an answer's charges, and charges beyond them.

use tollgate::{Ask, Cost, Decision, Error, LimitSet, Receipt, Refund, Store};

use super::{Answer, Gate};

impl<S: Store> Gate<S> {
    /// Refunds the charges of an answer, including those of shadow policies. `None` if nothing was
    /// charged.
    ///
    /// # Errors
    /// A store failure. Failures of shadow refunds are ignored: shadow charges have no effect.
    pub async fn refund(&self, answer: &Answer<'_>) -> Result<Option<Refund>, Error> {
        let refund = match answer.decision().and_then(Decision::receipt) {
            Some(receipt) => Some(self.inline().refund(&receipt).await?),
            None => None,
        };
        for receipt in answer.shadow_receipts() {
            let _ = self.inline().refund(&receipt).await;
        }
        Ok(refund)
    }

    /// Charges `units` more for an admitted request whose cost is known only afterwards. It charges
    /// as much of them as remains, since the request can no longer be denied: of several units one
    /// after the other, each on its own. The decision contains the granted amount of the last one.
    /// `None` if nothing had been charged, or `units` is 0.
    ///
    /// # Errors
    /// More than 2^40 units; or a store failure. Shadow policies as in [`Gate::refund`].
    pub async fn charge_extra(
        &self,
        answer: &Answer<'_>,
        units: impl Into<Cost>,
    ) -> Result<Option<Decision<'static>>, Error> {
        let units = units.into();
        let amounts = units.amounts().iter().filter(|(_, amount)| *amount > 0);
        let mut last = None;
        for alone in amounts.map(|(unit, amount)| Cost::from_iter([(*unit, amount)])) {
            if let Some(receipt) = answer.decision().and_then(Decision::receipt) {
                last = Some(self.charge(&receipt, alone.clone(), answer).await?);
            }
            for receipt in answer.shadow_receipts() {
                let _ = self.charge(&receipt, alone.clone(), answer).await;
            }
        }
        Ok(last)
    }

    async fn charge(
        &self,
        receipt: &Receipt,
        units: Cost,
        answer: &Answer<'_>,
    ) -> Result<Decision<'static>, Error> {
        let parts: Vec<(&tollgate::Subject, &LimitSet)> =
            receipt.charges.iter().map(|part| (&part.subject, &part.limits)).collect();
        let mut ask = Ask::from(parts).cost(units).partial();
        if let Some(shard) = &receipt.shard {
            ask = ask.shard(shard.as_str());
        }
        if let Some(local) = self.0.local_limiter(receipt) {
            return Ok(local.check(ask).now()?.into_owned());
        }
        let own = answer.policy().and_then(|policy| policy.deadline);
        let deadline = own.unwrap_or_else(|| self.current().deadline());
        Ok(self.0.limiter.check(ask.within(deadline)).await?.into_owned())
    }
}
