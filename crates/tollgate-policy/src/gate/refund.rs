//! Refunds of an answer's charges, and charges beyond them.

use tollgate::{Ask, Decision, Error, LimitSet, Receipt, Refund, Store};

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
    /// as much of them as remains, since the request can no longer be denied. The decision contains
    /// the granted units. `None` if nothing had been charged, or `units` is 0.
    ///
    /// # Errors
    /// More than 2^40 units; or a store failure. Shadow policies as in [`Gate::refund`].
    pub async fn charge_extra(
        &self,
        answer: &Answer<'_>,
        units: u64,
    ) -> Result<Option<Decision<'static>>, Error> {
        if units == 0 {
            return Ok(None);
        }
        let decision = match answer.decision().and_then(Decision::receipt) {
            Some(receipt) => Some(self.charge(&receipt, units, answer).await?),
            None => None,
        };
        for receipt in answer.shadow_receipts() {
            let _ = self.charge(&receipt, units, answer).await;
        }
        Ok(decision)
    }

    async fn charge(
        &self,
        receipt: &Receipt,
        units: u64,
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
