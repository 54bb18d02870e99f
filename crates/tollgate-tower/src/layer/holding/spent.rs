//! A service's report: how much a request has used.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The units that a request has used, for a policy that reserves (`docs/holds.md`).
///
/// A service attaches one to its response, or uses the one that a [`super::HoldingLayer`] has
/// attached to the request. Clones are one number, so a stream can go on counting while it is sent.
/// Where the client hangs up, the number at that time is charged.
///
/// ```
/// use tollgate_tower::Spent;
/// let spent = Spent::default();
/// assert_eq!(spent.units(), None);
/// spent.clone().add(3);
/// spent.add(4);
/// assert_eq!(spent.units(), Some(7));
/// spent.set(5);
/// assert_eq!(spent.units(), Some(5));
/// ```
#[derive(Clone)]
pub struct Spent(Arc<AtomicU64>);

/// Nobody has reported a number. A charge never reaches it.
const UNSAID: u64 = u64::MAX;

impl Spent {
    /// So many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        let spent = Self::default();
        spent.set(units);
        spent
    }

    /// Sets the units that were used in all.
    pub fn set(&self, units: u64) {
        self.0.store(units.min(UNSAID - 1), Ordering::Relaxed);
    }

    /// Adds units to those that were used so far.
    pub fn add(&self, units: u64) {
        let add = |known: u64| {
            let known = if known == UNSAID { 0 } else { known };
            Some(known.saturating_add(units).min(UNSAID - 1))
        };
        // It always has a new value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The units so far; `None` if nobody has said anything.
    #[must_use]
    pub fn units(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|units| *units != UNSAID)
    }
}

impl Default for Spent {
    /// Nothing is reported yet.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(UNSAID)))
    }
}

impl fmt::Debug for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spent").field(&self.units()).finish()
    }
}
