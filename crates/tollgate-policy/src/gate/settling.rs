//! The settlement of open holds: they are committed, released or renewed.

use core::sync::atomic::Ordering;
use core::time::Duration;

use tollgate::{Ask, Cost, Error, Hold, HoldKind, Settled, Store, Unit};

use super::live::Live;
use super::open_holds::Priced;
use super::shared::Inner;
use super::{Gate, Prepared};

/// The pauses between attempts to give a hold back. Each is twice as long as the one before, up to
/// the longest; together they are 61 s. A store that is overloaded may be late for many seconds.
const PAUSES: u32 = 23;
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(3_200);

/// How often the store says that there is no such hold until that is believed.
const BELIEVED_AFTER: u32 = 4;

/// The calls on holds that are open: [`Gate::holds`].
#[derive(Debug)]
pub struct Holds<'g, S> {
    gate: &'g Gate<S>,
}

impl<S: Store> Gate<S> {
    /// The calls on holds that are open: commit, release, renew.
    #[must_use]
    pub const fn holds(&self) -> Holds<'_, S> {
        Holds { gate: self }
    }
}

impl<S: Store> Holds<'_, S> {
    /// Settles a hold: takes it away and charges what was used, as [`tollgate::Limiter::commit`]
    /// does. With 0, nothing was used. At most the `max` of its policy is charged.
    ///
    /// # Errors
    /// As [`tollgate::Limiter::commit`].
    pub async fn commit(self, hold: &Hold, actual: impl Into<Cost>) -> Result<Settled, Error> {
        let actual = actual.into();
        let is_used = !actual.amounts().is_zero();
        let priced = self.gate.0.holds.open.priced(hold);
        let charged = self.gate.0.live.load().charged((hold, &priced), &actual);
        let settled = self.gate.0.limiter.commit(hold, charged.clone()).await;
        match &settled {
            Ok(settled) => {
                self.gate.0.holds.settle(hold, settled);
                let is_units =
                    hold.kind() != HoldKind::Acquire && (is_used || !hold.id.is_of_any_kind());
                if !settled.already {
                    if is_units {
                        self.gate.0.live.load().learn((hold, &priced), &settled.actual);
                    }
                    self.gate.0.holds.cut(&actual, &charged);
                    self.gate.0.cross_by_commit(hold, settled);
                }
            }
            Err(Error::NotOpen(_)) => {
                self.gate.0.holds.open.over(hold);
                self.gate.0.holds.not_open.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        settled
    }

    /// The hold of a prepared request with a name ([`Prepared::named`]), as far as its caller can
    /// know it without an answer. `None` where no policy with limits applies, so that nothing is
    /// held.
    ///
    /// # Errors
    /// As [`tollgate::Ask::named_hold`].
    pub fn named(self, prepared: &Prepared) -> Result<Option<Hold>, Error> {
        let Prepared { live, plan, name: Some(name), .. } = prepared else {
            return Err(Error::Ask("give the id that the hold was asked for under".to_owned()));
        };
        let ask = plan.question(live).map(|ask| ask.named(*name));
        ask.map(|ask| ask.named_hold(self.gate.0.limiter.limits())).transpose()
    }

    /// As [`Holds::named`], under inline limits.
    ///
    /// # Errors
    /// As [`tollgate::Ask::named_hold`].
    pub fn named_under(self, ask: Ask<'_>) -> Result<Hold, Error> {
        ask.named_hold(self.gate.0.limiter.limits())
    }

    /// Gives the slots of a hold back. True when it was open until now.
    ///
    /// # Errors
    /// As [`tollgate::Limiter::release`].
    pub async fn release(self, hold: &Hold) -> Result<bool, Error> {
        let was_open = self.gate.0.limiter.release(hold).await?;
        self.gate.0.holds.released(hold, was_open);
        Ok(was_open)
    }

    /// [`Holds::release`], tried again while the store fails, for about a minute. `pause` sleeps
    /// between two attempts. True when the hold was open; `None` when the store did not answer in
    /// that time.
    pub async fn release_persistently<P: Future<Output = ()>>(
        self,
        hold: &Hold,
        pause: impl Fn(Duration) -> P,
    ) -> Option<bool> {
        let was_open = self.gate.0.give_back(hold, &pause).await?;
        self.gate.0.holds.released(hold, was_open);
        Some(was_open)
    }

    /// Gives a hold back that the store may have placed
    /// ([`Admission::in_doubt`](super::Admission::in_doubt)), as [`Holds::release_persistently`].
    /// True when it had been placed.
    pub async fn release_in_doubt<P: Future<Output = ()>>(
        self,
        hold: &Hold,
        pause: impl Fn(Duration) -> P,
    ) -> Option<bool> {
        // The ask for it may still be on its way, over another connection.
        for pauses in 0..BELIEVED_AFTER {
            pause(PAUSE.saturating_mul(1 << pauses)).await;
            if self.gate.0.give_back(hold, &pause).await? {
                self.gate.0.holds.of(hold.kind()).fetch_add(1, Ordering::Relaxed);
                self.gate.0.holds.released(hold, true);
                return Some(true);
            }
        }
        Some(false)
    }

    /// Renews a hold. False when it is not open any more: others may have what it kept.
    ///
    /// # Errors
    /// As [`tollgate::Limiter::renew`].
    pub async fn renew(self, hold: &mut Hold, ttl: Option<Duration>) -> Result<bool, Error> {
        let is_open = self.gate.0.limiter.renew(hold, ttl).await?;
        let holds = &self.gate.0.holds;
        let count = match is_open {
            true => {
                holds.open.renewed(hold);
                &holds.renewed
            }
            false => {
                holds.open.over(hold);
                &holds.not_open
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(is_open)
    }
}

impl Live {
    /// The part of used units that is charged: of each unit at most the `max` of its policy. What
    /// is held and no estimate is charged, too, unless it is named.
    fn charged(&self, (hold, priced): (&Hold, &Priced), actual: &Cost) -> Cost {
        let most = |unit: &Unit| {
            let mut policies = self.policies_of(hold, priced);
            policies.find_map(|place| Some(self.reserve(place, unit)?.max)).unwrap_or(u64::MAX)
        };
        let named = actual.amounts();
        let cut = named.iter().map(|(unit, amount)| (*unit, amount.min(most(unit))));
        let is_constant = |unit: &Unit| {
            let mut policies = self.policies_of(hold, priced);
            policies.any(|place| {
                self.policies.policy(place).is_some_and(|policy| {
                    policy.cost.of(unit).is_some_and(|amount| amount.reserve().is_none())
                })
            })
        };
        // A plain 0 gives back everything.
        let others = hold.cost.amounts().iter().filter(|(unit, _)| {
            actual.plain() != Some(0) && named.named(unit).is_none() && is_constant(unit)
        });
        // An override may not count a unit that its policy prices.
        let is_priced = |unit: &Unit| {
            let mut policies = self.policies_of(hold, priced);
            policies.any(|place| {
                let policy = self.policies.policy(place);
                policy.is_some_and(|policy| policy.cost.of(unit).is_some())
            })
        };
        let counts = |unit: &Unit| {
            let mut limits = hold.counts.iter().flat_map(|(_, limits)| limits.limits());
            limits.any(|limit| limit.has_capacity() && limit.unit().name() == unit.name())
        };
        let all = cut.chain(others.map(|(unit, amount)| (*unit, amount)));
        match actual.plain() {
            Some(_) => all.collect(),
            None => all.filter(|(unit, _)| counts(unit) || !is_priced(unit)).collect(),
        }
    }
}

impl<S: Store> Inner<S> {
    /// Releases a hold, and tries again while the store fails. `None` if it failed throughout.
    async fn give_back<P: Future<Output = ()>>(
        &self,
        hold: &Hold,
        pause: impl Fn(Duration) -> P,
    ) -> Option<bool> {
        let mut is_unsure = false;
        for pauses in 0..=PAUSES {
            match self.limiter.release(hold).await {
                // An attempt whose answer was lost has done it.
                Ok(was_open) => return Some(was_open || is_unsure),
                Err(error) => {
                    is_unsure |= matches!(error, Error::Store(it) if it.is_ambiguous());
                }
            }
            pause(PAUSE.saturating_mul(1 << pauses.min(31)).min(LONGEST_PAUSE)).await;
        }
        None
    }
}
