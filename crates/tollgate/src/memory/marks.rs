//! A shard's memory of refunds and resets, so that no charge is refunded twice.

use std::collections::HashMap;

use super::state::Budget;
use crate::cost::{Amounts, Cost};
use crate::engine::Portion;
use crate::time::{SKEW_US, Time};

/// The bytes of one refund mark.
const SPENT_BYTES: usize = size_of::<(u64, Spent)>() + 1;

/// The bytes of one reset mark.
const RESET_BYTES: usize = size_of::<(u64, Reset)>() + 1;

/// The refunded units of a charge, and until when they must be remembered.
#[derive(Clone, Debug)]
pub(super) struct Spent {
    /// [`Spent::WHOLE`] when nothing is left to refund.
    pub(super) units: Cost,
    pub(super) until_us: u64,
}

/// The reset of a subject: the last charge of its shard before it, its time, and until when it must
/// be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    pub(super) charges: u64,
    pub(super) at_us: u64,
    pub(super) until_us: u64,
}

impl Spent {
    /// All of a charge, whatever its cost.
    pub(super) const WHOLE: u64 = u64::MAX;

    fn matters(&self, now: Time) -> bool {
        self.until_us + SKEW_US > now.as_micros()
    }
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Charges that were refunded, in full or in part, by their numbers.
    spent: HashMap<u64, Spent>,
    /// The bytes that those of several units allocate beside the map.
    beside: usize,
    /// Charges up to this number can no longer be refunded: their marks were dropped for lack of
    /// room.
    forgotten: u64,
    /// Resets of subjects, by the subject's hash.
    resets: HashMap<u64, Reset>,
    /// Until when charges can be refunded that no state contains any more: the state was carried
    /// over to other numbers, or returned in full by an adjustment. A reset is remembered until
    /// then. One time serves the whole shard: one per subject would have no bound.
    outlived_us: u64,
}

impl Marks {
    /// Marks `units` more of a charge of `cost` as refunded. Nothing is left of a charge that was
    /// refunded in full, or that is older than the marks that fit.
    pub(super) fn spend(
        &mut self,
        charge: u64,
        (cost, units): (Amounts<'_>, Amounts<'_>),
        until_us: u64,
        now: Time,
        budget: &Budget,
    ) -> Portion {
        let Self { spent, beside, forgotten, .. } = self;
        if spent.len() == spent.capacity() {
            let before = spent.len();
            keep(spent, beside, |_, spent| spent.matters(now));
            let more = (spent.capacity() + 4) * SPENT_BYTES;
            if before > 0 && spent.len() > before / 2 && !budget.has(more) {
                // No room for more: the older half of the marks is dropped, and those charges can
                // no longer be refunded.
                let mut numbers: Vec<u64> = spent.keys().copied().collect();
                numbers.sort_unstable();
                *forgotten = numbers[numbers.len() / 2];
                keep(spent, beside, |number, _| number > *forgotten);
            }
            if spent.len() <= before / 2 {
                // Rebuilt: removed marks leave tombstones that would make the map grow.
                spent.shrink_to_fit();
            }
        }
        if charge <= *forgotten {
            return Portion::part(cost, Spent::WHOLE.into(), units);
        }
        let spent = spent.entry(charge).or_insert(Spent { units: 0.into(), until_us });
        let portion = Portion::part(cost, spent.units.amounts(), units);
        let units = if portion.left_after() == 0 { Spent::WHOLE.into() } else { portion.sum() };
        *beside = *beside + units.bytes_beside() - spent.units.bytes_beside();
        // A clock that is a little behind makes the mark no shorter.
        *spent = Spent { units, until_us: until_us.max(spent.until_us) };
        portion
    }

    /// Records the reset of a subject. `reset` contains until when the charges of its state can be
    /// refunded; charges before that state may be refundable for longer.
    pub(super) fn reset(&mut self, key_hash: u64, reset: Reset, now: Time) {
        self.resets.retain(|_, reset| reset.until_us + SKEW_US > now.as_micros());
        let before_us = self.resets.get(&key_hash).map_or(0, |before| before.until_us);
        let until_us = reset.until_us.max(before_us).max(self.outlived_us);
        if until_us + SKEW_US > now.as_micros() {
            self.resets.insert(key_hash, Reset { until_us, ..reset });
        }
    }

    /// Records that charges which no state contains any more can be refunded until then.
    pub(super) fn outlive(&mut self, until_us: u64) {
        self.outlived_us = self.outlived_us.max(until_us);
    }

    /// Until when charges can be refunded that no state contains; `None` if there are no such
    /// charges.
    pub(super) fn outlived_us(&self) -> Option<u64> {
        (self.outlived_us > 0).then_some(self.outlived_us)
    }

    /// The last reset of a subject, as long as charges before it can be refunded.
    pub(super) fn last_reset(&self, key_hash: u64) -> Option<Reset> {
        self.resets.get(&key_hash).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spent.is_empty()
            && self.resets.is_empty()
            && self.forgotten == 0
            && self.outlived_us == 0
    }

    /// Charges up to this number can no longer be refunded.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Every charge with a refund.
    pub(super) fn spent(&self) -> impl Iterator<Item = (u64, &Spent)> {
        self.spent.iter().map(|(charge, spent)| (*charge, spent))
    }

    /// Every reset, by the subject's hash.
    pub(super) fn resets(&self) -> impl Iterator<Item = (u64, Reset)> {
        self.resets.iter().map(|(key_hash, reset)| (*key_hash, *reset))
    }

    /// Restores from a snapshot up to which number charges can no longer be refunded.
    pub(super) fn restore_forgotten(&mut self, forgotten: u64) {
        self.forgotten = forgotten;
    }

    /// Restores a refund from a snapshot, beyond the byte bound if necessary.
    pub(super) fn restore_spent(&mut self, charge: u64, spent: Spent) {
        self.beside += spent.units.bytes_beside();
        self.spent.insert(charge, spent);
    }

    /// Restores a reset from a snapshot.
    pub(super) fn restore_reset(&mut self, key_hash: u64, reset: Reset) {
        self.resets.insert(key_hash, reset);
    }

    pub(super) fn sweep(&mut self, now: Time) {
        if self.outlived_us + SKEW_US <= now.as_micros() {
            self.outlived_us = 0;
        }
        keep(&mut self.spent, &mut self.beside, |_, spent| spent.matters(now));
        self.resets.retain(|_, reset| reset.until_us + SKEW_US > now.as_micros());
    }

    pub(super) fn shrink(&mut self) {
        self.spent.shrink_to_fit();
        self.resets.shrink_to_fit();
    }

    pub(super) fn bytes(&self) -> usize {
        self.spent.capacity() * SPENT_BYTES + self.beside + self.resets.capacity() * RESET_BYTES
    }
}

/// Drops all other marks of refunds.
fn keep(
    spent: &mut HashMap<u64, Spent>,
    beside: &mut usize,
    is_kept: impl Fn(u64, &Spent) -> bool,
) {
    spent.retain(|charge, spent| {
        let stays = is_kept(*charge, spent);
        *beside -= if stays { 0 } else { spent.units.bytes_beside() };
        stays
    });
}
