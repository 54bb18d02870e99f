//! Units that a node has charged ahead.

use smallvec::SmallVec;
use tollgate::engine::Outcome;
use tollgate::{Lease, LimitSet, PAID_BY_CREDITS, Strategy, Time};

use crate::clock::surely_within;
use crate::denial::Asked;

/// The units of one charge, some of them spent.
///
/// Each use of units has a separate receipt. Its number is one of those that the store has set
/// aside for this charge, so a refund at the store counts once, whichever node asks for it.
#[derive(Clone, Debug)]
pub struct Lot {
    /// The number of the charge, and of the first receipt.
    first: u64,
    /// The step from one receipt's number to the next.
    step: u64,
    /// How many receipts were made, and can be made.
    made: u64,
    receipts: u64,
    left: u64,
    /// When the question was sent, and until when units can be spent, by the node's clock.
    sent_us: u64,
    until_us: u64,
    /// The store's time of the charge, and when each limit recorded it.
    now: Time,
    charged_at_us: SmallVec<[u64; 2]>,
}

/// The numbers to set aside for a charge of this many units: units that are given back are spent
/// again, each time under another number.
pub fn receipts_of(units: u64) -> u64 {
    units.saturating_mul(2)
}

/// Whether credits paid a part of a charge.
pub fn is_paid_by_credits(outcome: &Outcome) -> bool {
    outcome.granted > 0
        && outcome.fields.iter().any(|fields| fields.charged_at_us == PAID_BY_CREDITS)
}

impl Lot {
    /// The units that the store has granted. They end with the lease, and with the window of each
    /// `fixed_window`, both counted from before the question was sent.
    pub fn new(
        outcome: &Outcome,
        (limits, lease): (&LimitSet, &Lease),
        asked: Asked,
        (receipts, step): (u64, u64),
    ) -> Self {
        let windows = limits.limits().iter().zip(&outcome.fields);
        let windows = windows.filter(|(limit, _)| limit.strategy() == Strategy::FixedWindow);
        let ends = windows.map(|(_, fields)| fields.reset_after_us);
        // What credits paid is not lent: it goes back at once.
        let lent_us = if is_paid_by_credits(outcome) { 0 } else { lease.ttl().as_micros() };
        let us = ends.chain([lent_us]).min().unwrap_or(0);
        Self {
            first: outcome.receipt,
            step,
            made: 0,
            receipts,
            left: outcome.granted,
            sent_us: asked.sent_us,
            until_us: asked.sent_us.saturating_add(surely_within(us)),
            now: outcome.now,
            charged_at_us: outcome.fields.iter().map(|fields| fields.charged_at_us).collect(),
        }
    }

    /// The units that can be spent.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether it has ended.
    #[inline]
    pub fn is_over(&self, now_us: u64) -> bool {
        now_us >= self.until_us
    }

    /// Whether this many units can be spent.
    #[inline]
    pub fn has(&self, units: u64) -> bool {
        units <= self.left && self.made < self.receipts
    }

    /// Spends units; returns the number of their receipt. `None` if there are too few.
    #[inline]
    pub fn spend(&mut self, units: u64) -> Option<u64> {
        if !self.has(units) {
            return None;
        }
        self.left -= units;
        self.made += 1;
        Some(self.number(self.made - 1))
    }

    /// Takes units back that were spent under a receipt of this lot.
    pub fn take_back(&mut self, units: u64) {
        self.left = self.left.saturating_add(units);
    }

    /// Whether a receipt of this number was made of this lot.
    pub fn made(&self, number: u64) -> bool {
        let above = number.checked_sub(self.first);
        above.is_some_and(|above| above % self.step == 0 && above / self.step < self.made)
    }

    /// The number of the `nth` receipt.
    fn number(&self, nth: u64) -> u64 {
        self.first.saturating_add(nth.saturating_mul(self.step))
    }

    /// Takes what is unspent out of it: the number of a receipt for that, and the units. `None` if
    /// there is nothing.
    pub fn take_rest(&mut self) -> Option<(u64, u64)> {
        let units = self.left;
        if units == 0 {
            return None;
        }
        // Without a number that is left, nothing can be given back.
        self.spend(units).map(|number| (number, units))
    }

    /// The store's time of the charge, and when each limit recorded it, in microseconds.
    pub fn charged_at(&self) -> (Time, &[u64]) {
        (self.now, &self.charged_at_us)
    }

    /// The store's time now, as far as this node can tell.
    pub fn store_now_us(&self, now_us: u64) -> u64 {
        self.now.as_micros().saturating_add(now_us.saturating_sub(self.sent_us))
    }
}
