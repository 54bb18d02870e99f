//! A charge that reached a threshold.

use core::time::Duration;

use tollgate::{Anchor, Limit, LimitSet, ParseError, Quota, Share, Strategy};

/// A charge that reached a threshold of a limit ([`crate::Entry::notify`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Crossing {
    /// The name of the policy.
    pub policy: String,
    /// The written form of the subject, which is personal data.
    pub subject: String,
    /// The limit.
    pub limit: Limit,
    /// The part of its capacity that is used now, or more.
    pub threshold: Share,
    /// The units that charges and open holds take.
    pub used: u64,
    /// The wait until all of the limit is free, if nothing else is charged.
    pub reset_after: Duration,
}

impl Crossing {
    /// A limit that admits one report in each window of the limit that was crossed.
    pub(super) fn once(&self) -> Result<LimitSet, ParseError> {
        let of = self.limit.quota();
        let mut quota = Quota::new(1, of.period);
        (quota.calendar, quota.anchor) = (of.calendar.clone(), of.anchor);
        if self.limit.strategy() != Strategy::FixedWindow {
            quota.anchor = Some(Anchor::FirstHit);
        }
        let (part, whole) = self.threshold.fraction();
        let name = format!("notify-{part}-{whole}-{}", self.limit.identity());
        let name = name.replace('/', "-").chars().take(MAX_NAME).collect::<String>();
        let limit = Limit::new(quota, Strategy::FixedWindow)?.named(&name)?;
        LimitSet::from(limit).in_policy(&self.policy)
    }
}

/// The longest name of a limit.
const MAX_NAME: usize = 64;
