//! Exact rate limiting: every strategy, several limits in one check, a memory store.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tollgate::Limiter;
//!
//! let limiter = Limiter::memory("10/s, 240/h".parse()?);
//! let decision = limiter.check("user:42").await?;
//! assert!(decision.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No runtime and no network: [`Limiter::check`] is async for the sake of other stores, and
//! [`Limiter::check_now`] is not. What every number means is in `docs/definitions.md`.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod ask;
mod clock;
mod decision;
pub mod engine;
mod error;
mod ipv4;
mod limit;
mod limiter;
mod memory;
mod notation;
mod notice;
mod receipt;
#[cfg(feature = "serde")]
mod serde;
mod store;
pub mod strategy;
mod subject;
mod time;

pub use ask::{Ask, MAX_PARTS, SubjectText};
pub use clock::{Clock, ManualClock, MonotonicClock, WallClock};
pub use decision::{Authority, Charges, Decision, Receipt, Refund, Report, Verdict};
pub use engine::Carried;
pub use error::{Error, ParseError, StoreError};
pub use ipv4::ipv4_text;
pub use limit::{
    Anchor, Limit, LimitSet, MAX_BARE_UNITS, MAX_COST, MAX_LIMITS, MAX_UNITS, Place, Quota, Refill,
    Rounding,
};
pub use limiter::{Limiter, Waiting};
pub use memory::{
    DEFAULT_BYTES, MemoryStore, MemoryStoreBuilder, Restored, Saved, SnapshotError, SnapshotFault,
};
pub use notice::{MAX_NOTICE_BYTES, MAX_NOTICE_NAME_BYTES, MAX_NOTICES, Notice, Notices};
pub use store::{Counted, Inspection, Question, Store};
pub use strategy::{Strategy, Traits};
pub use subject::{MAX_DIMENSIONS, MAX_SUBJECT_BYTES, Subject, SubjectPrefix, unescape_text};
pub use time::{MAX_PERIOD_US, Period, SKEW_US, Time};
