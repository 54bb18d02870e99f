//! The limiter: limits and the store that counts them.

use self::pending::Call as _;
use crate::ask::Ask;
use crate::decision::{Decision, ReceiptPart};
use crate::error::Error;
use crate::store::Store;

mod admin;
pub mod call;
mod decide;
mod holding;
mod kept;
#[cfg(feature = "tokio")]
mod line;
mod pace;
mod pending;
mod waiting;

pub use admin::Admin;
pub use decide::Limiter;
pub use holding::Guard;
#[cfg(feature = "tokio")]
pub use line::{Line, Turn};
pub use pace::Pace;
pub use pending::Pending;
pub use waiting::Waiting;

impl<S: Store> Limiter<S> {
    /// Checks every limit, and charges the cost if all admit. A denial is a decision, not an error.
    /// A [peek](Ask::peek) charges nothing.
    ///
    /// Await it; with a store in memory, [`Pending::now`] has the answer without async.
    ///
    /// # Errors
    /// An invalid subject, a cost of 0 or over 2^40, or the same count twice in one ask; or a store
    /// failure.
    #[inline(always)]
    pub fn check<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
    ) -> Pending<'l, call::Check<'l, S>, impl Future<Output = Result<Decision<'l>, Error>> + Send>
    {
        Pending::new(call::Check(self, ask.into()), call::Check::wait)
    }

    /// Refunds what still counts of a charge, once. A refund never raises `remaining` above the
    /// capacity, never affects a later window, and never removes a newer event in place of the
    /// charged one.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("1/h".parse()?);
    /// let receipt = limiter.check("bob").await?.receipt().expect("admitted");
    /// assert_eq!(limiter.refund(&receipt).await?.given, [1]);
    /// assert!(limiter.refund(&receipt).await?.already);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A [part](crate::Receipt::part) of a charge can be refunded as well: this number of units, or
    /// the rest of it if that is less. All refunds of a receipt together never exceed the charge.
    /// Units that recovered by themselves in the meantime are taken from the units that are
    /// refunded last. A retry after a lost answer refunds another part; [`Refund::left`] shows how
    /// much is left.
    ///
    /// ```
    /// use tollgate::{Ask, Limiter};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("1000/h".parse()?);
    /// // A request that may take 800 tokens, and took 300.
    /// let receipt = limiter.check(Ask::new("bob").cost(800)).await?.receipt().expect("admitted");
    /// let refund = limiter.refund(receipt.part(500)).await?;
    /// assert_eq!((refund.given, refund.left), (vec![500], 300.into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Zero units, or more than were charged; a receipt of another store; or a store failure.
    ///
    /// [`Refund::left`]: crate::Refund::left
    pub fn refund<'l>(
        &'l self,
        receipt: impl Into<ReceiptPart<'l>>,
    ) -> Pending<'l, call::Refund<'l, S>> {
        Pending::boxed(call::Refund(self, receipt.into()))
    }

    /// The corrections and looks of an administrator.
    #[must_use]
    pub fn admin(&self) -> Admin<'_, S> {
        Admin(self)
    }

    /// Charges the cost to every limit of the subjects without a check, also beyond the limits: for
    /// work that is done, and whose cost became known afterwards. Until the debt has come back,
    /// nothing is admitted.
    ///
    /// A limit has at most its [debt](crate::Limit::debt), by default as much as its capacity. The
    /// excess is cut. Each limit is charged by itself, the subjects one after the other. There is
    /// no receipt: to give units back, use [`Admin::adjust`]. Section 8 of `docs/definitions.md`
    /// defines it.
    ///
    /// Returns what was done to each limit.
    ///
    /// ```
    /// use tollgate::{Ask, Limiter};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::memory("10/s debt 5 via gcra".parse()?);
    /// let charged = limiter.charge(Ask::new("bob").cost(12)).await?[0];
    /// assert_eq!((charged.fits, charged.cut, charged.remaining), (false, 0, 0));
    /// assert!(!limiter.check("bob").await?.is_allowed());
    /// // 12 of at most 15 units are used: three more can be owed.
    /// assert_eq!(limiter.charge(Ask::new("bob").cost(7)).await?[0].cut, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::check`]. Subjects before one whose store failed stay charged.
    pub fn charge<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Pending<'l, call::Charge<'l, S>> {
        Pending::boxed(call::Charge(self, ask.into()))
    }
}
