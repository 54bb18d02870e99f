//! What was charged, and what was given back of it.

use smallvec::SmallVec;

use crate::limit::LimitSet;
use crate::subject::Subject;
use crate::time::Time;

/// What was charged: a number unique in the store, the store's time, the cost, the limits and
/// their subjects. [`crate::Limiter::refund`] takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// Which store charged; a refund elsewhere is an error.
    pub store: u64,
    /// The charge's number in that store.
    pub number: u64,
    /// The units charged.
    pub cost: u64,
    /// The store's time of the charge.
    pub at: Time,
    /// What was charged to whom.
    pub charges: SmallVec<[Charges; 1]>,
    /// The shard that it was asked with ([`crate::Ask::shard`]): where a divided store charged.
    pub shard: Option<String>,
}

/// One subject's part of a [`Receipt`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Charges {
    /// Whose count.
    pub subject: Subject,
    /// Under which limits.
    pub limits: LimitSet,
    /// When each of them recorded the charge, in microseconds since the epoch.
    pub at_us: SmallVec<[u64; 2]>,
}

/// What a refund did.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refund {
    /// True when all of the charge had been refunded before: nothing was given.
    pub already: bool,
    /// By how many units `remaining` rose, per limit in the order of the receipt.
    pub given: Vec<u64>,
    /// How many units of the charge were never refunded, and can still be.
    pub left: u64,
}

impl Refund {
    /// What a store answers that gave something back.
    #[must_use]
    pub fn new(given: Vec<u64>, left: u64) -> Self {
        Self { already: false, given, left }
    }

    /// What a store answers when nothing was left to give back, for so many limits.
    #[must_use]
    pub fn already(limits: usize) -> Self {
        Self { already: true, given: vec![0; limits], left: 0 }
    }
}
