//! An administrator's calls on a gate: corrections, a probe, and rulings (`rulings.rs`).

use core::time::Duration;

use tollgate::{Adjustment, Ask, Charged, Error, HoldKind, Holding, Inspection, LimitSet, Store};

use super::Gate;

/// The subject that [`Admin::probe`] charges.
const PROBE: &str = "tollgate:ready";

/// The limit of the probe. It admits more probes than there are instances to send them, and is
/// fresh, so its state is dropped, within a second.
const PROBE_LIMIT: &str = "1000/s via gcra";

/// The calls of an administrator: [`Gate::admin`].
#[derive(Debug)]
pub struct Admin<'g, S> {
    pub(super) gate: &'g Gate<S>,
}

impl<S> Clone for Admin<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Admin<'_, S> {}

impl<S: Store> Gate<S> {
    /// The calls of an administrator: corrections of counts, bans and exemptions.
    #[must_use]
    pub const fn admin(&self) -> Admin<'_, S> {
        Admin { gate: self }
    }
}

impl<'g, S: Store> Admin<'g, S> {
    /// Deletes a count. True when there was one.
    ///
    /// # Errors
    /// An invalid subject; or a store failure.
    pub async fn reset(self, ask: Ask<'_>) -> Result<bool, Error> {
        self.gate.0.limiter.admin().reset(ask).await
    }

    /// Returns units, or takes them when negative. The result is the change of `remaining` per
    /// limit.
    ///
    /// # Errors
    /// As [`tollgate::Admin::adjust`].
    pub async fn adjust(self, ask: Ask<'_>, by: impl Into<Adjustment>) -> Result<Vec<i64>, Error> {
        self.gate.0.limiter.admin().adjust(ask, by).await
    }

    /// Gives the cost of the ask to its one subject, once: a [credit](HoldKind::Credit) that lasts
    /// so long. To give it under the [name](Ask::named) of one that has not ended changes nothing.
    ///
    /// # Errors
    /// As [`tollgate::Limiter::hold`].
    pub async fn credit<'a>(self, ask: Ask<'a>, lasts: Duration) -> Result<Holding<'a>, Error>
    where
        'g: 'a,
    {
        self.gate.0.limiter.hold(ask.holding(HoldKind::Credit, Some(lasts))).await
    }

    /// Charges inline limits without a check, also beyond them.
    ///
    /// # Errors
    /// As `Limiter::charge`.
    pub async fn charge(self, ask: Ask<'_>) -> Result<Vec<Charged>, Error> {
        let charged = self.gate.0.limiter.charge(ask.clone()).await?;
        self.gate.0.cross_by_charge(&ask, &charged);
        Ok(charged)
    }

    /// The stored state of a count; `None` if there is none.
    ///
    /// # Errors
    /// As [`Admin::reset`].
    pub async fn inspect(self, ask: Ask<'_>) -> Result<Option<Inspection>, Error> {
        self.gate.0.limiter.admin().inspect(ask).await
    }

    /// Tests whether the store can count now. It charges a count of the gate's own, which the store
    /// drops within about a second. A peek would not do: a store that is full or read-only answers
    /// peeks, and rejects every charge. The probe does not affect policies, counters or the
    /// observer.
    ///
    /// # Errors
    /// Why the store cannot count, or that it did not answer within the deadline.
    pub async fn probe(self, deadline: Duration) -> Result<(), Error> {
        let limits: LimitSet = PROBE_LIMIT.parse()?;
        let ask = Ask::new(PROBE).under(&limits);
        self.gate.0.limiter.check(ask.within(deadline)).await.map(drop)
    }
}
