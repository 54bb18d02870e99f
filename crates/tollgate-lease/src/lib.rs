//! Fewer questions to the store of the rate limiter `tollgate`: a node charges units ahead and
//! spends them in memory, and a denial is not asked about again until it has passed.
//!
//! [`Leased`] wraps a store, and is one. Limits with a [lease](tollgate::Lease) are leased; all
//! others pass through it. A bound applies to the units that all nodes admit together, whatever
//! happens to them: a unit that is spent was charged at the store before
//! ([`tollgate::Lease::most_in`]).
//!
//! ```
//! use tollgate::{Authority, Limiter, LimitSet, MemoryStore};
//! use tollgate_lease::Leased;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate::Error> {
//! // In production the store is on Redis. One in memory is asked as it is.
//! let limits: LimitSet = "100000/s via gcra lease auto".parse()?;
//! let limiter = Limiter::new(limits, Leased::new(MemoryStore::new()));
//! let decision = limiter.check("route:/search").await?;
//! assert_eq!(decision.authority(), Authority::Store);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod check;
mod clock;
mod demand;
mod denial;
mod deny_cache;
mod holding;
mod known;
mod leased;
mod lot;
mod marks;
mod recent;
mod refund;
mod store;
mod table;

/// The rules of leases and of the deny cache, without a clock or a store: for the models that check
/// them.
#[doc(hidden)]
pub mod rules {
    pub use crate::denial::{Asked, Denial};
    pub use crate::deny_cache::{DenyCache, denied_cost};
    pub use crate::holding::{Flight, Holding, Renewal, Step, Turn};
    pub use crate::lot::{Lot, is_paid_by_credits, receipts_of};
}

pub use clock::BootClock;
pub use leased::{Leased, LeasedBuilder, LeasedCounters};
