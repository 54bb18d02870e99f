//! The amount of a question, a hold or a charge for each kind of limit.

use super::holds::{HoldSums, OpenHold};
use crate::cost::Amounts;
use crate::hold::HoldKind;
use crate::limit::{Limit, LimitKind, Unit};

/// An amount to take: of the units of rates, and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Amount<'a> {
    pub(super) units: Amounts<'a>,
    pub(super) slots: u64,
}

/// The claim of an amount on one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// The units that have to remain for it. With 0, it is admitted unless more is used than the
    /// limit.
    pub(super) wanted: u64,
    /// The units that no longer remain with it.
    pub(super) taken: u64,
}

impl<'a> Amount<'a> {
    /// The amount of a hold of this cost and, if it acquires, its charge. Without a hold it is the
    /// amount of a check, or of a peek.
    #[inline]
    pub(super) fn of_cost(cost: impl Into<Amounts<'a>>, kind: Option<HoldKind>) -> Self {
        let units = cost.into();
        let slots = match (kind, units.plain()) {
            (Some(kind), _) => kind.slots(units),
            (None, Some(cost)) => cost,
            (None, None) => units.of(&Unit::SLOTS),
        };
        Self { units, slots }
    }

    /// The amount of a charge, which takes no slot.
    #[inline]
    pub(super) fn of_charge(units: impl Into<Amounts<'a>>) -> Self {
        Self { units: units.into(), slots: 0 }
    }

    /// The claim on this limit: the one place of the engine where the kinds of limits differ.
    #[inline]
    pub(super) fn on(self, limit: &Limit) -> Claim {
        let Self { units, slots } = self;
        match limit.kind() {
            LimitKind::Rate => {
                let units = units.counted_by(limit);
                Claim { wanted: units, taken: units }
            }
            LimitKind::Slots => Claim { wanted: slots, taken: slots },
            // It admits any cost or none.
            LimitKind::Ban => Claim { wanted: units.first(), taken: 0 },
        }
    }
}

/// The units of a limit that the open holds of a count keep.
#[inline]
pub(super) fn kept_of(limit: &Limit, sums: &HoldSums) -> u64 {
    match limit.kind() {
        LimitKind::Rate => sums.units.of(limit.unit()),
        LimitKind::Slots => sums.slots,
        LimitKind::Ban => 0,
    }
}

/// The units that the ends of the open holds of a count charge to a limit.
#[inline]
pub(super) fn charging_of(limit: &Limit, sums: &HoldSums) -> u64 {
    match limit.kind() {
        LimitKind::Rate => sums.charging.of(limit.unit()),
        LimitKind::Slots | LimitKind::Ban => 0,
    }
}

/// The amount that one hold keeps.
impl<'h> From<&'h OpenHold> for Amount<'h> {
    fn from(hold: &'h OpenHold) -> Self {
        Self { units: hold.units(), slots: hold.slots() }
    }
}
