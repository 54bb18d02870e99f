//! Counters of the counts sent to time series, for `/metrics`.

use core::sync::atomic::{AtomicU64, Ordering};

/// The number of counts by outcome. A count is the increase of one series in one second.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    queued: AtomicU64,
    taken: AtomicU64,
    lost: [AtomicU64; Lost::ALL.len()],
}

/// Why a count is not in its series, or may not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// The queue was full.
    Full,
    /// The server refused it.
    Refused,
    /// It was sent, but not acknowledged. A retry could count it twice.
    Unknown,
}

impl Lost {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Refused, Self::Unknown];

    /// The reason in lower case, for labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

impl Tally {
    pub(super) fn add_queued(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_taken(&self, number: usize) {
        self.taken.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub(super) fn add_lost(&self, why: Lost, number: usize) {
        if let Some(lost) = self.lost.get(why as usize) {
            lost.fetch_add(number as u64, Ordering::Relaxed);
        }
    }

    /// The counts that the server acknowledged.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self, why: Lost) -> u64 {
        self.lost.get(why as usize).map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    /// The counts that are queued or in flight.
    pub(crate) fn waiting(&self) -> u64 {
        // A count may be finished before its increment of the queued ones is visible.
        let done = self.taken() + self.lost(Lost::Refused) + self.lost(Lost::Unknown);
        self.queued.load(Ordering::Relaxed).saturating_sub(done)
    }
}
