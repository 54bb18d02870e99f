//! Counts how many slots are open, beside the engine that decides it.

use std::collections::{BTreeMap, HashMap};

use tollgate::HoldId;

use crate::experiment::results::CaseResult;
use tollgate_logs::decide::{Per, PerLimits};

/// The open slots of each limit that has slots. Times are those of the store.
pub(super) struct Slots {
    limits: Vec<SlotLimit>,
    /// The holds that are open, by their ends.
    open: BTreeMap<(u64, HoldId), u32>,
}

/// The open slots of one limit.
struct SlotLimit {
    /// Its place among all limits of the case.
    place: usize,
    per: Per,
    /// The open slots of each client, or of all clients as client 0.
    open: HashMap<u32, u64>,
    most: u64,
}

impl SlotLimit {
    fn of(&mut self, client: u32) -> &mut u64 {
        let counted = if self.per == Per::Resource { 0 } else { client };
        self.open.entry(counted).or_default()
    }
}

impl Slots {
    pub(super) fn new(parts: &[PerLimits]) -> Self {
        let limits = parts.iter().flat_map(|part| {
            part.limits.limits().iter().map(|limit| (part.per, limit.needs_hold()))
        });
        let slots = limits.enumerate().filter(|(_, (_, needs_hold))| *needs_hold);
        let limits =
            slots.map(|(place, (per, _))| SlotLimit { place, per, open: HashMap::new(), most: 0 });
        Self { limits: limits.collect(), open: BTreeMap::new() }
    }

    /// Whether the case has slots.
    pub(super) fn has_some(&self) -> bool {
        !self.limits.is_empty()
    }

    /// A hold of a client was placed.
    pub(super) fn place(&mut self, end_us: u64, id: HoldId, client: u32) {
        self.open.insert((end_us, id), client);
        for limit in &mut self.limits {
            let open = limit.of(client);
            *open += 1;
            let open = *open;
            limit.most = limit.most.max(open);
        }
    }

    /// Closes the holds that have ended by now.
    pub(super) fn end(&mut self, now_us: u64) {
        while let Some(first) = self.open.first_entry().filter(|first| first.key().0 <= now_us) {
            let client = first.remove();
            self.close(client);
        }
    }

    /// A hold was released, if it has not ended before.
    pub(super) fn release(&mut self, end_us: u64, id: HoldId) {
        if let Some(client) = self.open.remove(&(end_us, id)) {
            self.close(client);
        }
    }

    fn close(&mut self, client: u32) {
        for limit in &mut self.limits {
            let open = limit.of(client);
            *open = open.saturating_sub(1);
        }
    }

    /// Reports the most slots in place of the most admitted in a window.
    pub(super) fn report(&self, result: &mut CaseResult) {
        for slots in &self.limits {
            if let Some(limit) = result.limits.get_mut(slots.place) {
                limit.peak = slots.most;
                limit.holds = slots.most <= limit.promise;
            }
        }
    }
}
