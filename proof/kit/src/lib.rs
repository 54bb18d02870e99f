//! Why Tollgate is believed: an oracle, test vectors, and a conformance kit for stores.
//!
//! ```
//! use tollgate::{ManualClock, MemoryStore};
//!
//! /// An empty store under the clock of the kit, for each case.
//! fn make(clock: ManualClock) -> MemoryStore {
//!     MemoryStore::builder().clock(clock).build()
//! }
//!
//! tollgate_proof::conformance_tests!(make);
//! ```
//!
//! # What to know
//!
//! - [`conformance`] is the kit for authors of a store: each case is a separate test.
//! - [`history`] decides which promises a recorded run kept, from its calls and faults alone.
//! - [`judge`] asks any limiter through a driver, and finds which promises it keeps.
//! - [`oracle`] is a slow and obvious implementation of every strategy, written from
//!   `docs/definitions.md` alone, with exact fractions.
//! - [`vectors`] has time lines as data: the questions with their times, and the expected answers.
//!   Those with holds are in [`vectors::holds`].

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod conformance;
pub mod history;
pub mod judge;
pub mod oracle;
mod random;
pub mod steps;
pub mod vectors;

pub use random::Random;
