//! What a question, a hold or a charge is to each kind of limit.

use super::holds::{HoldSums, OpenHold};
use crate::hold::HoldKind;
use crate::limit::{Limit, LimitKind};

/// An amount of what can be taken: units of rates, and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Amount {
    pub(super) units: u64,
    pub(super) slots: u64,
}

/// What an amount is to one limit.
pub(super) struct Claim {
    /// What has to remain for it.
    pub(super) wanted: u64,
    /// What no longer remains with it.
    pub(super) taken: u64,
}

impl Amount {
    /// What a hold of this cost takes and, if it acquires, charges. Without a hold it is what a
    /// check takes, or a peek shows.
    pub(super) fn of_cost(cost: u64, kind: Option<HoldKind>) -> Self {
        Self { units: cost, slots: kind.map_or(cost, |kind| kind.slots(cost)) }
    }

    /// What a charge takes, which is no slot.
    pub(super) const fn of_charge(units: u64) -> Self {
        Self { units, slots: 0 }
    }

    /// What it is to this limit: the one place of the engine where the kinds of limits differ.
    #[inline]
    pub(super) fn on(self, limit: &Limit) -> Claim {
        let Self { units, slots } = self;
        match limit.kind() {
            LimitKind::Rate => Claim { wanted: units, taken: units },
            LimitKind::Slots => Claim { wanted: slots, taken: slots },
            // It admits any cost or none.
            LimitKind::Ban => Claim { wanted: units, taken: 0 },
        }
    }
}

/// What the open holds of a count keep from a limit.
pub(super) fn kept_of(limit: &Limit, sums: &HoldSums) -> u64 {
    Amount { units: sums.units, slots: sums.slots }.on(limit).taken
}

/// What one hold keeps.
impl From<&OpenHold> for Amount {
    fn from(hold: &OpenHold) -> Self {
        Self { units: hold.units(), slots: hold.slots() }
    }
}
