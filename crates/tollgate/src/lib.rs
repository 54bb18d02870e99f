//! Exact rate limiting: seven strategies, holds and bans, several limits in one check, and a store
//! in memory.
//!
//! ```
//! use tollgate::{Ask, Limiter};
//!
//! // Both limits count every check: all admit, or nothing is charged.
//! let limiter = Limiter::memory("10/s, 240/h".parse()?);
//!
//! let decision = limiter.check("user:42").now()?;
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining(), 9);
//!
//! // A request that costs more, and the answer when a caller has to wait.
//! let decision = limiter.check(Ask::new("user:42").cost(10)).now()?;
//! match decision.retry_after() {
//!     Some(wait) => println!("{} denies: retry in {wait:?}", decision.binding().limit()),
//!     None => println!("{} units were charged", decision.granted()),
//! }
//! assert!(!decision.is_allowed());
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! # The types to know
//!
//! - [`Limiter`] combines limits and a store. Share it, and call [`Limiter::check`]: await the
//!   answer, or take it with [`Pending::now`] if the store is in memory.
//! - [`LimitSet`] is the limits, parsed from a text such as `10/s burst 20 via token_bucket`.
//! - [`Decision`] is the result: allowed or not, the remaining units, and the wait. Its [`Receipt`]
//!   refunds what was charged.
//!
//! An [`Ask`] adds a cost, several subjects or other limits to a check. A [`Store`] keeps the
//! counts: [`MemoryStore`] in this crate, SQLite and Redis in separate crates.
//!
//! This crate needs no async runtime and no network: [`Limiter::check`] is async for other stores.
//! `docs/definitions.md` defines every number.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod adjustment;
mod around;
mod ask;
mod at_once;
mod clock;
mod cost;
mod decision;
pub mod engine;
mod error;
mod hold;
mod inspection;
mod ipv4;
mod limit;
mod limiter;
mod memory;
mod notation;
mod notice;
pub mod operation;
mod question;
mod receipt;
#[cfg(feature = "serde")]
mod serde;
mod store;
pub mod strategy;
mod subject;
mod time;
#[cfg(feature = "serde")]
pub mod wire;

pub use adjustment::Adjustment;
pub use around::Around;
pub use ask::{
    Ask, IntoSubject, MAX_PARTS, MAX_REMEMBERED, MAX_REQUEST_BYTES, RequestId, SubjectText,
};
pub use at_once::at_once;
#[cfg(feature = "tokio")]
pub use clock::TokioClock;
pub use clock::{Clock, ManualClock, MonotonicClock, WallClock};
pub use cost::{Amounts, Cost, MAX_COST_UNITS};
pub use decision::{
    Authority, Charges, Decision, PAID_BY_CREDITS, Receipt, ReceiptPart, Refund, Report, Verdict,
};
pub use engine::{Carried, Charged};
pub use error::{Error, ParseError, StoreError};
pub use hold::{
    ChargedLimit, Hold, HoldId, HoldKind, HoldName, HoldTerms, Holding, MAX_NAME_BYTES,
    MIN_NAME_BYTES, Patience, Reserve, Settled,
};
pub use inspection::{Inspection, MAX_SHOWN_HOLDS};
pub use ipv4::ipv4_text;
pub use limit::{
    Anchor, BanLength, Calendar, CalendarUnit, Lease, LeaseShare, LeaseSize, Limit, LimitKind,
    LimitSet, MAX_BARE_UNITS, MAX_COST, MAX_LIMITS, MAX_UNIT_BYTES, MAX_UNITS, MIN_LEASE_US,
    Meaning, Place, Quota, Refill, Rounding, Share, Unit,
};
pub use limiter::{Admin, Guard, Limiter, Pace, Pending, Waiting, call};
#[cfg(feature = "tokio")]
pub use limiter::{Line, Turn};
pub use memory::{
    DEFAULT_BYTES, MemoryStore, MemoryStoreBuilder, Restored, Saved, SnapshotError, SnapshotFault,
};
pub use notice::{MAX_NOTICE_BYTES, MAX_NOTICE_NAME_BYTES, MAX_NOTICES, Notice, Notices};
pub use question::{Counted, Question};
pub use store::{Facts, Keeps, Store};
pub use strategy::{Strategy, Traits};
pub use subject::{MAX_DIMENSIONS, MAX_SUBJECT_BYTES, Subject, SubjectPrefix, unescape_text};
pub use time::{MAX_PERIOD_US, Period, SKEW_US, Time};
