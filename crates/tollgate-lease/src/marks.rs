//! Which receipts were given back into a live lease.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The most receipts that are remembered. Beyond, units are given back at the store.
const MOST: usize = 1 << 16;

/// The refunded units of receipts, by number, as long as they could be refunded at the store.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<u64, Mark>>);

#[derive(Clone, Copy, Debug)]
struct Mark {
    units: u64,
    until_us: u64,
}

impl Marks {
    /// The units of a receipt that were given back here.
    pub(crate) fn given_back(&self, number: u64) -> u64 {
        self.0.lock().get(&number).map_or(0, |mark| mark.units)
    }

    /// Adds units of a receipt, to be remembered until then. False if there is no room; nothing is
    /// added then.
    pub(crate) fn add(&self, number: u64, units: u64, until_us: u64, now_us: u64) -> bool {
        let mut marks = self.0.lock();
        if marks.len() >= MOST && !marks.contains_key(&number) {
            marks.retain(|_, mark| mark.until_us > now_us);
            if marks.len() >= MOST {
                return false;
            }
        }
        let mark = marks.entry(number).or_insert(Mark { units: 0, until_us });
        mark.units = mark.units.saturating_add(units);
        true
    }

    /// Takes back what [`Marks::add`] has added.
    pub(crate) fn remove(&self, number: u64, units: u64) {
        let mut marks = self.0.lock();
        if let Some(mark) = marks.get_mut(&number) {
            mark.units = mark.units.saturating_sub(units);
        }
    }
}
