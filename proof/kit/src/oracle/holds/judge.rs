//! The history checker's questions about a count with holds: one question at a time, and no waits.

use super::{HeldLimit, HoldOracle, Kind, Open, REMEMBERED_US};
use crate::oracle::whole;

/// The remainder of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) remaining: u64,
    pub(crate) limit: u64,
    pub(crate) is_slots: bool,
}

impl Left {
    /// The units that a hold of this kind takes of it; without one, a charge.
    pub(crate) const fn wanted(self, kind: Option<Kind>, cost: u64) -> u64 {
        match kind {
            Some(Kind::Reserve | Kind::Charging) if self.is_slots => 1,
            _ => cost,
        }
    }
}

impl HoldOracle {
    /// The remainder of each limit, once all due holds have ended.
    pub(crate) fn look(&mut self, now_us: u64) -> Vec<Left> {
        self.end_due(now_us);
        self.repair(now_us);
        let each = self.limits.iter().map(|limit| {
            let (free, is_slots) = match limit {
                HeldLimit::Rate(oracle) => (oracle.left(now_us), false),
                HeldLimit::Slots(slots) => (*slots, true),
                HeldLimit::Ban(ban) => (ban.fields(i128::from(now_us)).remaining, false),
            };
            let remaining = free.saturating_sub(self.kept(limit));
            Left { remaining, limit: Self::limit_of(limit), is_slots }
        });
        each.collect()
    }

    /// Places a hold that was admitted, or charges where there is none. Returns its end.
    pub(crate) fn place(&mut self, now_us: u64, cost: u64, hold: Option<(u64, Kind, u64)>) -> u64 {
        let Some((name, kind, ttl_us)) = hold else {
            self.charge_all(now_us, cost);
            return now_us;
        };
        let (units, slots) = match kind {
            Kind::Acquire => (0, cost),
            Kind::Reserve | Kind::Charging => (cost, 1),
        };
        if kind == Kind::Acquire {
            self.charge_all(now_us, cost);
        }
        let (placed, charging) = (self.seen, kind == Kind::Charging);
        let end = placed + i128::from(ttl_us);
        self.open.push(Open { name, placed, end, units, slots, charging });
        whole(end)
    }

    /// Charges every rate up to its debt.
    pub(crate) fn charge_all(&mut self, now_us: u64, units: u64) {
        for limit in &mut self.limits {
            if let HeldLimit::Rate(oracle) = limit
                && units > 0
            {
                oracle.owe(now_us, units);
            }
        }
    }

    /// The ends of all open holds.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|hold| whole(hold.end))
    }

    /// The names of all open holds.
    pub(crate) fn names(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|hold| hold.name)
    }

    /// Takes an open hold away and charges for it. Whether it was open.
    pub(crate) fn take_away(&mut self, now_us: u64, name: u64, actual: u64) -> bool {
        let Some(place) = self.open.iter().position(|hold| hold.name == name) else {
            return false;
        };
        if self.open.remove(place).units > 0 {
            self.settled.push((name, actual, self.seen + REMEMBERED_US));
        }
        self.repair(now_us);
        self.charge_all(now_us, actual);
        true
    }

    /// Numbers that are equal for two counts of the same limits exactly when no question from
    /// `now_us` on can tell them apart, beside what was settled.
    pub(crate) fn fingerprint(&self, now_us: u64) -> Vec<Vec<i128>> {
        let rates = self.limits.iter().filter_map(|limit| match limit {
            HeldLimit::Rate(oracle) => Some(oracle.fingerprint(now_us)),
            HeldLimit::Slots(_) => None,
            HeldLimit::Ban(ban) => Some(vec![ban.until()]),
        });
        let mut open: Vec<[i128; 2]> =
            self.open.iter().map(|hold| [hold.name.into(), hold.end]).collect();
        open.sort_unstable();
        rates.chain([open.concat()]).collect()
    }
}
