//! Receipts of charges, and the results of refunds.

use smallvec::SmallVec;

use crate::cost::Cost;
use crate::limit::LimitSet;
use crate::strategy::MAX_EXACT;
use crate::subject::Subject;
use crate::time::Time;

/// In place of a time: credits paid a part of the charge, which no limit recorded. It is later than
/// any time.
pub const PAID_BY_CREDITS: u64 = MAX_EXACT - 1;

/// A charge: a number unique in the store, the store's time, the cost, the limits and their
/// subjects. [`crate::Limiter::refund`] takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// The identity of the store that charged. A refund in another store is an error.
    pub store: u64,
    /// The charge's number in that store.
    pub number: u64,
    /// The cost that was charged.
    pub cost: Cost,
    /// The store's time of the charge.
    pub at: Time,
    /// The subjects that were charged, each with its limits.
    pub charges: SmallVec<[Charges; 1]>,
    /// The shard of the ask ([`crate::Ask::shard`]): where a sharded store charged.
    pub shard: Option<String>,
}

/// One subject's part of a [`Receipt`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Charges {
    /// The subject.
    pub subject: Subject,
    /// The limits that it was charged under.
    pub limits: LimitSet,
    /// When each limit recorded the charge, in microseconds since the Unix epoch;
    /// [`PAID_BY_CREDITS`] where those paid a part of it.
    pub at_us: SmallVec<[u64; 2]>,
}

impl Receipt {
    /// A receipt for a store that refunds its own charge.
    #[must_use]
    pub fn new(
        store: u64,
        number: u64,
        at: Time,
        cost: impl Into<Cost>,
        charges: impl IntoIterator<Item = Charges>,
    ) -> Self {
        let (cost, charges) = (cost.into(), charges.into_iter().collect());
        Self { store, number, cost, at, charges, shard: None }
    }

    /// The requests charged. For a cost without requests, it is the amount of its first unit.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.cost.amounts().first()
    }

    /// From when a charge counts that a limit recorded at this time: from that of the receipt where
    /// credits paid, which no limit recorded.
    #[must_use]
    pub const fn counted_us(&self, at_us: u64) -> u64 {
        if at_us == PAID_BY_CREDITS { self.at.as_micros() } else { at_us }
    }

    /// So many units of the charge, to [refund](crate::Limiter::refund): of each unit at most the
    /// charged amount, and not nothing of all. A plain number is requests.
    #[must_use]
    pub fn part(&self, units: impl Into<Cost>) -> ReceiptPart<'_> {
        ReceiptPart { receipt: self, units: units.into() }
    }
}

/// Units of a charge, to [refund](crate::Limiter::refund): [`Receipt::part`], or a receipt for all
/// of them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReceiptPart<'r> {
    /// The receipt of the charge.
    pub receipt: &'r Receipt,
    /// The units.
    pub units: Cost,
}

impl ReceiptPart<'_> {
    /// Whether it can be refunded: of each unit at most the charged amount, and not nothing of all.
    #[must_use]
    pub fn is_charged(&self) -> bool {
        let (units, charged) = (self.units.amounts(), self.receipt.cost.amounts());
        !units.is_zero() && units.iter().all(|(unit, units)| units <= charged.of(unit))
    }
}

impl<'r> From<&'r Receipt> for ReceiptPart<'r> {
    fn from(receipt: &'r Receipt) -> Self {
        receipt.part(receipt.cost.clone())
    }
}

impl Charges {
    /// One subject's part; `at_us` has a time for each of the limits.
    #[must_use]
    pub fn new(subject: Subject, limits: LimitSet, at_us: impl IntoIterator<Item = u64>) -> Self {
        Self { subject, limits, at_us: at_us.into_iter().collect() }
    }
}

/// The result of a refund.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refund {
    /// True when nothing was left of the units to refund: nothing was refunded now.
    pub already: bool,
    /// By how many units `remaining` rose, per limit in the order of the receipt.
    pub given: Vec<u64>,
    /// The units of the charge that were not refunded yet and still can be. A unit of which nothing
    /// is left is not named.
    pub left: Cost,
}

impl Refund {
    /// The result of a refund that returned units.
    #[must_use]
    pub fn new(given: Vec<u64>, left: impl Into<Cost>) -> Self {
        Self { already: false, given, left: left.into() }
    }

    /// The result of a refund of units of which nothing is left, for this number of limits. Other
    /// units of the charge may be left.
    #[must_use]
    pub fn already(limits: usize, left: impl Into<Cost>) -> Self {
        Self { already: true, given: vec![0; limits], left: left.into() }
    }
}
