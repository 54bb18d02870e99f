//! What became of the counts for time series, for `/metrics`.

use core::sync::atomic::{AtomicU64, Ordering};

/// How many counts, each of one series and second.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    queued: AtomicU64,
    taken: AtomicU64,
    lost: [AtomicU64; Lost::ALL.len()],
}

/// Why a count is not in its series, or may not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// Too many waited.
    Full,
    /// The server refused it.
    Refused,
    /// It was sent and not answered: it may be in. Sent again it could count twice.
    Unknown,
}

impl Lost {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Refused, Self::Unknown];

    /// In small letters, for labels.
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

    /// How many are in their series.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self, why: Lost) -> u64 {
        self.lost.get(why as usize).map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    /// How many wait or are under way.
    pub(crate) fn waiting(&self) -> u64 {
        // One that is done at once may not be among the queued yet.
        let done = self.taken() + self.lost(Lost::Refused) + self.lost(Lost::Unknown);
        self.queued.load(Ordering::Relaxed).saturating_sub(done)
    }
}
