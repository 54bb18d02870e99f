//! The sets that a shard's states are written under, and how they are found.

use std::collections::HashMap;

use slab::Slab;

use crate::limit::LimitSet;

/// How many equal sets find their states by serial. Limits that are read anew, as when a
/// configuration is loaded again, are another set that counts the same; without this, whoever was
/// known before would take the long way from then on. Two: what was, and what is.
const SERIALS: usize = 2;

/// A set that states of this shard are written under.
#[derive(Debug)]
pub(super) struct SetUse {
    /// Those of `limits` and of sets that count the same, the newest first; 0 where there is none.
    serials: [u64; SERIALS],
    pub(super) limits: LimitSet,
    pub(super) slots: usize,
}

impl SetUse {
    /// A set that one state is written under.
    pub(super) fn new(limits: LimitSet) -> Self {
        Self { serials: [limits.serial(), 0], limits, slots: 1 }
    }

    #[inline]
    pub(super) fn is_known_as(&self, serial: u64) -> bool {
        self.serials.contains(&serial)
    }

    /// Is found no more.
    pub(super) fn forget(&self, by_serial: &mut HashMap<u64, usize>) {
        for serial in self.serials {
            by_serial.remove(&serial);
        }
    }
}

/// Lets a set be found by this serial too, in place of the one that was learnt first.
pub(super) fn know(
    sets: &mut Slab<SetUse>,
    by_serial: &mut HashMap<u64, usize>,
    index: usize,
    serial: u64,
) {
    let Some(held) = sets.get_mut(index) else { return };
    if held.is_known_as(serial) {
        return;
    }
    held.serials.rotate_right(1);
    let oldest = core::mem::replace(&mut held.serials[0], serial);
    by_serial.remove(&oldest);
    by_serial.insert(serial, index);
}
