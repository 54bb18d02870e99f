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
        // With the units, so that a limit which is raised at run time reports again.
        let name =
            format!("notify-{part}-{whole}-{}-{:016x}", of.units, fnv(self.limit.identity()));
        let limit = Limit::new(quota, Strategy::FixedWindow)?.named(&name)?;
        LimitSet::from(limit).in_policy(&self.policy)
    }
}

/// FNV-1a: an identity may be as long as a name, which leaves no room for more.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
