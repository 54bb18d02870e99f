//! What a shard remembers of refunds and resets, so that no charge is given back twice.

use std::collections::HashMap;

use super::state::Budget;
use crate::engine::Portion;
use crate::time::{SKEW_US, Time};

/// What a mark of a refund takes.
const SPENT_BYTES: usize = size_of::<(u64, Spent)>() + 1;

/// What a mark of a reset takes.
const RESET_BYTES: usize = size_of::<(u64, Reset)>() + 1;

/// What was given back of a charge: how much, and until when that must be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// [`Spent::WHOLE`] when nothing is left.
    pub(super) units: u64,
    pub(super) until_us: u64,
}

/// That a subject was forgotten: after which charge of its shard, when, and until when that
/// matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    pub(super) charges: u64,
    pub(super) at_us: u64,
    pub(super) until_us: u64,
}

impl Spent {
    /// All of a charge, whatever it was.
    pub(super) const WHOLE: u64 = u64::MAX;

    fn matters(self, now: Time) -> bool {
        self.until_us + SKEW_US > now.as_micros()
    }
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Charges that were given back, or a part of them.
    spent: HashMap<u64, Spent>,
    /// Charges up to this number give nothing: their marks had to make room.
    forgotten: u64,
    /// Subjects that were reset, by their hash.
    resets: HashMap<u64, Reset>,
    /// Until when charges could be given back that no state tells of any more: it was carried over
    /// to other numbers since, or all of it was given back by hand. A reset is remembered until
    /// then. One time for the whole shard, not one for each subject: those would have no bound.
    outlived_us: u64,
}

impl Marks {
    /// Marks `units` more of a charge of `cost` as given back. Nothing of it is left where it was
    /// already, or when it is older than the marks that there is room for.
    pub(super) fn spend(
        &mut self,
        charge: u64,
        cost: u64,
        units: u64,
        until_us: u64,
        now: Time,
        budget: &Budget,
    ) -> Portion {
        let Self { spent, forgotten, .. } = self;
        if spent.len() == spent.capacity() {
            let before = spent.len();
            spent.retain(|_, spent| spent.matters(now));
            let more = (spent.capacity() + 4) * SPENT_BYTES;
            if before > 0 && spent.len() > before / 2 && !budget.has(more) {
                // No room for more: the older half is forgotten, and gives nothing from now on.
                let mut numbers: Vec<u64> = spent.keys().copied().collect();
                numbers.sort_unstable();
                *forgotten = numbers[numbers.len() / 2];
                spent.retain(|number, _| number > forgotten);
            }
            if spent.len() <= before / 2 {
                // Written anew: removed marks leave traces that would make the map grow.
                spent.shrink_to_fit();
            }
        }
        if charge <= *forgotten {
            return Portion::part(cost, cost, units);
        }
        let spent = spent.entry(charge).or_insert(Spent { units: 0, until_us });
        let portion = Portion::part(cost, spent.units, units);
        let units = if portion.left_after() == 0 { Spent::WHOLE } else { portion.sum() };
        *spent = Spent { units, until_us };
        portion
    }

    /// Notes that a subject was forgotten. `reset` says until when what its state was charged
    /// under could be given back; what was charged before that state may take longer.
    pub(super) fn reset(&mut self, key_hash: u64, reset: Reset, now: Time) {
        self.resets.retain(|_, reset| reset.until_us + SKEW_US > now.as_micros());
        let before_us = self.resets.get(&key_hash).map_or(0, |before| before.until_us);
        let until_us = reset.until_us.max(before_us).max(self.outlived_us);
        self.resets.insert(key_hash, Reset { until_us, ..reset });
    }

    /// Notes that charges could be given back until then which no state tells of any more.
    pub(super) fn outlive(&mut self, until_us: u64) {
        self.outlived_us = self.outlived_us.max(until_us);
    }

    /// Until when charges could be given back that no state tells of; none when there are none.
    pub(super) fn outlived_us(&self) -> Option<u64> {
        (self.outlived_us > 0).then_some(self.outlived_us)
    }

    /// The last time that a subject was forgotten, while charges before that could be given back.
    pub(super) fn last_reset(&self, key_hash: u64) -> Option<Reset> {
        self.resets.get(&key_hash).copied()
    }

    /// True when there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        self.spent.is_empty()
            && self.resets.is_empty()
            && self.forgotten == 0
            && self.outlived_us == 0
    }

    /// Charges up to this number give nothing.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Every charge of which something was given back.
    pub(super) fn spent(&self) -> impl Iterator<Item = (u64, Spent)> {
        self.spent.iter().map(|(charge, spent)| (*charge, *spent))
    }

    /// Every subject that was reset, by its hash.
    pub(super) fn resets(&self) -> impl Iterator<Item = (u64, Reset)> {
        self.resets.iter().map(|(key_hash, reset)| (*key_hash, *reset))
    }

    /// Takes over what a saved store had forgotten, and what it remembered.
    pub(super) fn restore_forgotten(&mut self, forgotten: u64) {
        self.forgotten = forgotten;
    }

    /// Takes over what was given back of a charge, past the bound of bytes if need be.
    pub(super) fn restore_spent(&mut self, charge: u64, spent: Spent) {
        self.spent.insert(charge, spent);
    }

    /// Takes over that a subject was reset.
    pub(super) fn restore_reset(&mut self, key_hash: u64, reset: Reset) {
        self.resets.insert(key_hash, reset);
    }

    pub(super) fn sweep(&mut self, now: Time) {
        if self.outlived_us + SKEW_US <= now.as_micros() {
            self.outlived_us = 0;
        }
        self.spent.retain(|_, spent| spent.matters(now));
        self.resets.retain(|_, reset| reset.until_us + SKEW_US > now.as_micros());
    }

    pub(super) fn shrink(&mut self) {
        self.spent.shrink_to_fit();
        self.resets.shrink_to_fit();
    }

    pub(super) fn bytes(&self) -> usize {
        self.spent.capacity() * SPENT_BYTES + self.resets.capacity() * RESET_BYTES
    }
}
