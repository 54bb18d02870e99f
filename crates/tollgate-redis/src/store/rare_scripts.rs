//! The scripts that are independent of the limits, composed once for a store.

use crate::compose::{self, Clock, Parts};
use crate::notices;
use crate::script::Script;

/// The scripts that are independent of the limits.
pub(super) struct RareScripts {
    pub(super) refund: Script,
    pub(super) adjust: Script,
    pub(super) charge: Script,
    pub(super) reset: Script,
    pub(super) inspect: Script,
    pub(super) open_holds: Script,
    pub(super) swap: Script,
    pub(super) notices: notices::Scripts,
}

impl RareScripts {
    pub(super) fn new(clock: Clock, parts: &Parts) -> Self {
        Self {
            refund: compose::refund(clock, parts),
            adjust: compose::adjust(clock, parts),
            charge: compose::charge(clock, parts),
            reset: compose::reset(clock, parts),
            inspect: compose::inspect(clock, parts),
            open_holds: compose::open_holds(clock, parts),
            swap: compose::swap(parts),
            notices: notices::Scripts::new(clock, parts),
        }
    }
}
