//! The amount of a question, a hold or a charge for each kind of limit.

use super::holds::{HoldSums, OpenHold};
use crate::hold::HoldKind;
use crate::limit::{Limit, LimitKind};

/// An amount to take: units of rates, and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Amount {
    pub(super) units: u64,
    pub(super) slots: u64,
}

/// The claim of an amount on one limit.
pub(super) struct Claim {
    /// The units that have to remain for it.
    pub(super) wanted: u64,
    /// The units that no longer remain with it.
    pub(super) taken: u64,
}

impl Amount {
    /// The amount of a hold of this cost and, if it acquires, its charge. Without a hold it is the
    /// amount of a check, or of a peek.
    pub(super) fn of_cost(cost: u64, kind: Option<HoldKind>) -> Self {
        Self { units: cost, slots: kind.map_or(cost, |kind| kind.slots(cost)) }
    }

    /// The amount of a charge, which takes no slot.
    pub(super) const fn of_charge(units: u64) -> Self {
        Self { units, slots: 0 }
    }

    /// The claim on this limit: the one place of the engine where the kinds of limits differ.
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

/// The units of a limit that the open holds of a count keep.
pub(super) fn kept_of(limit: &Limit, sums: &HoldSums) -> u64 {
    Amount { units: sums.units, slots: sums.slots }.on(limit).taken
}

/// The units that one hold keeps.
impl From<&OpenHold> for Amount {
    fn from(hold: &OpenHold) -> Self {
        Self { units: hold.units(), slots: hold.slots() }
    }
}
