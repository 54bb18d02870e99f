//! A gate's counters of holds.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::{Cost, Hold, HoldKind, Settled, Unit};

use super::open_holds::OpenHolds;

/// The number of holds that a gate has placed and settled.
#[derive(Debug, Default)]
pub struct HoldCounters {
    pub(super) acquired: AtomicU64,
    pub(super) reserved: AtomicU64,
    pub(super) settled: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) renewed: AtomicU64,
    pub(super) not_open: AtomicU64,
    pub(super) over: AtomicU64,
    pub(super) named: AtomicU64,
    pub(super) answered_again: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) marks: AtomicU64,
    debt: UnitCounts,
    cut: UnitCounts,
    pub(super) open: OpenHolds,
}

impl HoldCounters {
    /// Holds that [`Gate::hold`](super::Gate::hold) and
    /// [`Inline::hold`](super::Inline::hold) placed, of this kind: slots with
    /// [`HoldKind::Acquire`], else units.
    #[must_use]
    pub fn placed(&self, kind: HoldKind) -> u64 {
        self.of(kind).load(Ordering::Relaxed)
    }

    /// Holds that this gate has placed, that were not settled here and whose end has not come: at
    /// most 65,536. One that somebody else settled counts until its end.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.count(Instant::now()) as u64
    }

    /// Counts the release of a hold.
    pub(super) fn released(&self, hold: &Hold, was_open: bool) {
        // One whose answer reached nobody may have been answered again, and is open then.
        if was_open || !hold.is_undelivered {
            self.open.over(hold);
        }
        let count = if was_open { &self.settled } else { &self.not_open };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Holds that were settled: committed, cancelled or released.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Repeated commits, which changed nothing.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Renewals.
    #[must_use]
    pub fn renewed(&self) -> u64 {
        self.renewed.load(Ordering::Relaxed)
    }

    /// Commits, releases and renewals that found no open hold: it had ended by itself, was reset,
    /// or was released before.
    #[must_use]
    pub fn not_open(&self) -> u64 {
        self.not_open.load(Ordering::Relaxed)
    }

    /// Holds that were placed under names of their callers, which [`HoldCounters::placed`] counts
    /// too.
    #[must_use]
    pub fn named(&self) -> u64 {
        self.named.load(Ordering::Relaxed)
    }

    /// Asks that were answered with the open hold of their name.
    #[must_use]
    pub fn answered_again(&self) -> u64 {
        self.answered_again.load(Ordering::Relaxed)
    }

    /// Asks that were refused because of their name: it was settled or released before, was
    /// answered too often, or is that of another hold.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Releases by a name that no hold had, each of which left a mark.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.marks.load(Ordering::Relaxed)
    }

    /// Commits of more units than were reserved.
    #[must_use]
    pub fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }

    /// The amounts of those commits beyond their reservations, by unit: the bound of their debt.
    #[must_use]
    pub fn units_over(&self) -> BTreeMap<Unit, u64> {
        self.debt.0.lock().clone()
    }

    /// The amounts that commits had beyond the `max` of their policies, by unit, which nobody was
    /// charged for.
    #[must_use]
    pub fn units_cut(&self) -> BTreeMap<Unit, u64> {
        self.cut.0.lock().clone()
    }

    /// Counts the amounts that were not charged.
    pub(super) fn cut(&self, actual: &Cost, charged: &Cost) {
        self.cut.add_beyond(actual, charged);
    }

    pub(super) fn of(&self, kind: HoldKind) -> &AtomicU64 {
        if kind == HoldKind::Acquire { &self.acquired } else { &self.reserved }
    }

    pub(super) fn settle(&self, hold: &Hold, settled: &Settled) {
        self.open.over(hold);
        if settled.already {
            let count = if settled.is_early { &self.marks } else { &self.repeated };
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.settled.fetch_add(1, Ordering::Relaxed);
        if hold.id.is_of_any_kind() {
            // The kind and the cost of the hold are unknown here.
            return;
        }
        if self.debt.add_beyond(&settled.actual, &hold.cost) {
            self.over.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Amounts by unit, of at most [`MAX_UNITS`] units. Those of further units are not counted.
#[derive(Debug, Default)]
struct UnitCounts(Mutex<BTreeMap<Unit, u64>>);

/// The most units that are counted apart: callers can name any under inline limits.
const MAX_UNITS: usize = 64;

impl UnitCounts {
    /// Adds the part of each actual amount that exceeds the cost. Returns whether any does.
    fn add_beyond(&self, actual: &Cost, cost: &Cost) -> bool {
        let cost = cost.amounts();
        let beyond = |(unit, amount): (&Unit, u64)| (*unit, amount.saturating_sub(cost.of(unit)));
        let mut is_beyond = false;
        for (unit, beyond) in actual.amounts().iter().map(beyond).filter(|(_, it)| *it > 0) {
            is_beyond = true;
            let mut counts = self.0.lock();
            if counts.len() < MAX_UNITS || counts.contains_key(&unit) {
                let count = counts.entry(unit).or_default();
                *count = count.saturating_add(beyond);
            }
        }
        is_beyond
    }
}
